//! `export`: an accepted kernel in a form that another program builds or loads.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use convert::export::Export;
use domain::evaluation::{Evaluation, EvaluationRequest, EvaluationStage};
use worker::evaluate::Depth;

use super::follow::{print, print_json};
use super::local::Subject;
use crate::cli::{ExportArgs, ExportForm};
use crate::outcome::{Ending, Failure, Outcome};

pub(super) async fn export(args: ExportArgs) -> Ending {
    if args.to.exists() {
        let message = format!(
            "write the folder {}: it exists; remove it, or name another with --to",
            args.to.display()
        );
        return Err(Failure::input(anyhow!(message)));
    }
    let subject = Subject::open(&args.kernel).await?;
    let name = args
        .name
        .clone()
        .unwrap_or_else(|| identifier(&subject.task.name));
    if identifier(&name) != name {
        let message = format!("name the export {name:?}: use letters, digits and underscores");
        return Err(Failure::input(anyhow!(message)));
    }
    let mut request = subject.request(&subject.configuration)?;
    request.stage = EvaluationStage::Confirmation;
    eprintln!("evaluating as before a promotion");
    let evaluation = subject.evaluator.evaluate(request.clone()).await?;
    if evaluation.verdict.acceptance().is_none() {
        print(&format!(
            "verdict    {}\nnothing was written, because the kernel was not accepted\n",
            evaluation.verdict
        ))?;
        return Ok(Outcome::NotAccepted);
    }
    let image = image(&subject, request).await?;
    let (Some(kernel), Some(preconditions)) = (subject.kernel(), &evaluation.preconditions) else {
        let message = "read the accepted kernel: its confirmation names no shape";
        return Err(Failure::infrastructure(anyhow!(message)));
    };
    let configuration = kernel
        .configure(&subject.configuration)
        .map_err(|problem| Failure::input(anyhow!("{problem}")))?;
    let device = subject.device();
    let (major, minor) = device.compute_capability;
    let export = Export {
        name: &name,
        task: &subject.task,
        source: &kernel,
        configuration: &configuration,
        preconditions,
        ptx: &image.ptx,
        machine_code: Some((10 * major + minor, image.machine_code.as_slice())),
        sm_count: device.limits.sm_count,
        verdict: &describe(&subject, &evaluation),
    };
    let files = match args.form {
        ExportForm::Cpp => export.write_cpp(),
        ExportForm::Plan => export.write_plan(),
    };
    super::init::write_folder(&args.to, &files).map_err(Failure::input)?;
    let paths = files
        .keys()
        .map(|file| args.to.join(file).display().to_string());
    let paths = paths.collect::<Vec<_>>();
    if args.kernel.json {
        print_json(&serde_json::json!({
            "verdict": evaluation.verdict.to_string(),
            "preconditions": preconditions,
            "files": paths,
        }))?;
    } else {
        let lines = paths.iter().map(|path| format!("wrote      {path}\n"));
        print(&format!(
            "verdict    {}\nproved for {preconditions}\n{}",
            evaluation.verdict,
            lines.collect::<String>()
        ))?;
    }
    Ok(Outcome::Accepted)
}

/// The image that the confirmation executed.
struct Image {
    ptx: String,
    machine_code: Vec<u8>,
}

/// Reads the image of the request from the build that the confirmation left.
async fn image(subject: &Subject, request: EvaluationRequest) -> Result<Image, Failure> {
    let evaluator = subject.evaluator.evaluator().clone();
    let built = subject
        .evaluator
        .blocking(move |cancellation| {
            evaluator.evaluate_partially(&request, Depth::Build, |_: &str| {}, cancellation)
        })
        .await?;
    let image = built
        .image
        .context("compile the accepted kernel again: it has no image")
        .map_err(Failure::infrastructure)?;
    let read = |path: &Path| {
        let bytes = fs::read(path).with_context(|| format!("read {}", path.display()));
        bytes.map_err(Failure::infrastructure)
    };
    Ok(Image {
        ptx: String::from_utf8_lossy(&read(&image.ptx)?).into_owned(),
        machine_code: read(&image.cubin)?,
    })
}

/// The verdict in one line, with its device, the task's version and the evaluator's.
fn describe(subject: &Subject, evaluation: &Evaluation) -> String {
    let device = evaluation.device.as_ref();
    let place = device.map_or_else(String::new, |device| format!(" on {device}"));
    format!(
        "{}{place}; task version {}, confirmed with evaluator version {}",
        evaluation.verdict, subject.task.version, evaluation.evaluator
    )
}

/// A name as a C identifier.
fn identifier(name: &str) -> String {
    let kept = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    let kept = kept.collect::<String>();
    if kept.starts_with(|c: char| c.is_ascii_digit()) {
        return format!("_{kept}");
    }
    kept
}
