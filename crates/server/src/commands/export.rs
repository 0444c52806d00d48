//! `export`: an accepted kernel in a form that another program builds or loads.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use convert::export::{Choice, Export, write_dispatch};
use domain::candidate::KernelSource;
use domain::evaluation::{Evaluation, EvaluationRequest, EvaluationStage};
use domain::expr::Expr;
use domain::plan::Configuration;
use domain::preconditions::Preconditions;
use domain::verdict::Verdict;
use worker::evaluate::Depth;

use super::follow::{print, print_json};
use super::local::Subject;
use crate::cli::{ExportArgs, ExportForm, KernelArgs};
use crate::outcome::{Ending, Failure, Outcome};

pub(super) async fn export(args: ExportArgs) -> Ending {
    if args.to.exists() {
        let message = format!(
            "write the folder {}: it exists; remove it, or name another with --to",
            args.to.display()
        );
        return Err(Failure::input(anyhow!(message)));
    }
    let several = !args.also.is_empty();
    if several && args.forms != [ExportForm::Cpp] {
        let message =
            "export several kernels: only the form cpp chooses between them; leave --also out";
        return Err(Failure::input(anyhow!(message)));
    }
    let mut kernels = Vec::new();
    for other in &args.also {
        let file = other.file.clone();
        let settings = Vec::new();
        let args = KernelArgs {
            file,
            settings,
            ..args.kernel.clone()
        };
        kernels.push((args, Some(other.shapes.clone())));
    }
    kernels.push((args.kernel.clone(), None));
    if several {
        let baseline = KernelArgs {
            file: args.kernel.task.join("baseline.cu"),
            settings: Vec::new(),
            ..args.kernel.clone()
        };
        kernels.push((baseline, None));
    }
    let mut confirmed = Vec::new();
    for (kernel, shapes) in kernels {
        match confirm(&kernel, shapes.as_ref()).await? {
            Confirmation::Accepted(one) => confirmed.push((*one, shapes)),
            Confirmation::Rejected(verdict) => {
                print(&format!(
                    "verdict    {verdict}\nnothing was written, because the kernel was not accepted\n"
                ))?;
                return Ok(Outcome::NotAccepted);
            }
        }
    }
    let main = &confirmed[args.also.len()].0;
    let name = args
        .name
        .clone()
        .unwrap_or_else(|| identifier(&main.subject.task.name));
    if identifier(&name) != name {
        let message = format!("name the export {name:?}: use letters, digits and underscores");
        return Err(Failure::input(anyhow!(message)));
    }
    let files = if several {
        let names = (1..=confirmed.len()).map(|number| format!("{name}_{number}"));
        let names = names.collect::<Vec<_>>();
        let choices = confirmed
            .iter()
            .zip(&names)
            .map(|((one, shapes), name)| Choice {
                export: one.export(name),
                shapes: shapes.clone(),
            });
        write_dispatch(&name, &choices.collect::<Vec<_>>())
    } else {
        write_forms(&main.export(&name), &args.forms)
    };
    let (evaluation, preconditions) = (&main.evaluation, &main.preconditions);
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

/// The files of one form, or of several in a folder each.
fn write_forms(export: &Export<'_>, forms: &[ExportForm]) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for form in forms {
        let (folder, own) = match form {
            ExportForm::Cpp => ("cpp", export.write_cpp()),
            ExportForm::Plan => ("plan", export.write_plan()),
            ExportForm::Torch => ("torch", export.write_torch()),
            ExportForm::Jax => ("jax", export.write_jax()),
            ExportForm::Hub => ("hub", export.write_hub()),
            ExportForm::Solution => ("solution", export.write_solution()),
        };
        files.extend(own.into_iter().map(|(path, content)| match forms {
            [_] => (path, content),
            _ => (format!("{folder}/{path}"), content),
        }));
    }
    files
}

/// A kernel that was evaluated as before a promotion and accepted.
struct Confirmed {
    subject: Subject,
    evaluation: Evaluation,
    kernel: KernelSource,
    configuration: Configuration,
    preconditions: Preconditions,
    image: Image,
    verdict: String,
}

impl Confirmed {
    fn export<'a>(&'a self, name: &'a str) -> Export<'a> {
        let device = self.subject.device();
        let (major, minor) = device.compute_capability;
        Export {
            name,
            task: &self.subject.task,
            source: &self.kernel,
            configuration: &self.configuration,
            preconditions: &self.preconditions,
            ptx: &self.image.ptx,
            machine_code: Some((10 * major + minor, self.image.machine_code.as_slice())),
            sm_count: device.limits.sm_count,
            verdict: &self.verdict,
        }
    }
}

/// The outcome of an evaluation as before a promotion.
enum Confirmation {
    Accepted(Box<Confirmed>),
    Rejected(Box<Verdict>),
}

/// Evaluates a kernel as before a promotion.
async fn confirm(args: &KernelArgs, shapes: Option<&Expr>) -> Result<Confirmation, Failure> {
    let subject = Subject::open(args).await?;
    if let Some(shapes) = shapes {
        check_shapes(shapes, &subject)?;
    }
    let mut request = subject.request(&subject.configuration)?;
    request.stage = EvaluationStage::Confirmation;
    eprintln!("evaluating {} as before a promotion", args.file.display());
    let evaluation = subject.evaluator.evaluate(request.clone()).await?;
    if evaluation.verdict.acceptance().is_none() {
        return Ok(Confirmation::Rejected(Box::new(evaluation.verdict)));
    }
    let image = image(&subject, request).await?;
    let (Some(kernel), Some(preconditions)) = (subject.kernel(), evaluation.preconditions.clone())
    else {
        let message = "read the accepted kernel: its confirmation names no shape";
        return Err(Failure::infrastructure(anyhow!(message)));
    };
    let configuration = kernel
        .configure(&subject.configuration)
        .map_err(|problem| Failure::input(anyhow!("{problem}")))?;
    Ok(Confirmation::Accepted(Box::new(Confirmed {
        verdict: describe(&subject, &evaluation),
        subject,
        evaluation,
        kernel,
        configuration,
        preconditions,
        image,
    })))
}

/// Checks that an expression over shapes names dims of the task only.
fn check_shapes(shapes: &Expr, subject: &Subject) -> Result<(), Failure> {
    let task = &subject.task;
    let known =
        |name: &&str| task.fixed_dims.contains_key(*name) || task.free_dims.contains_key(*name);
    match shapes.names().into_iter().find(|name| !known(name)) {
        Some(name) => {
            let message = format!(
                "read the shapes {:?}: {name} is no dim of {}",
                shapes.text(),
                task.name
            );
            Err(Failure::input(anyhow!(message)))
        }
        None => Ok(()),
    }
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
