//! `sanitize`: the four sanitizers, by the emulated device or by NVIDIA's program.

use domain::device::DeviceKind;
use domain::tools::sanitize::Status;
use worker::evaluate::Instrument;
use worker::tools::{self, Tool};

use super::Subject;
use crate::cli::KernelArgs;
use crate::outcome::{Ending, Failure};
use crate::report::sanitize::{SanitizerReport, text};

pub(crate) async fn sanitize(args: KernelArgs) -> Ending {
    let subject = Subject::open(&args).await?;
    let checked = run_sanitizers(&subject).await?;
    let ok = checked.clean();
    let outcome = subject.print_result(args.json, "sanitize", ok, &checked, text)?;
    if !ok && !checked.found() && subject.device().kind == DeviceKind::Nvidia {
        return Err(Failure::infrastructure(anyhow::anyhow!(
            "sanitize: {}",
            not_run(&checked)
        )));
    }
    Ok(outcome)
}

/// Runs the four sanitizers, or records why they cannot run.
pub(super) async fn run_sanitizers(subject: &Subject) -> Result<SanitizerReport, Failure> {
    let emulated = subject.device().kind == DeviceKind::Emulated;
    let sanitized = subject
        .ask(move |evaluator, request, progress, cancellation| {
            if emulated {
                let instrument = Instrument::Emulated;
                return evaluator.sanitize(request, instrument, progress, cancellation);
            }
            match tools::find(Tool::Sanitizer) {
                Ok(program) => {
                    let instrument = Instrument::Program(&program);
                    evaluator.sanitize(request, instrument, progress, cancellation)
                }
                Err(reason) => {
                    let instrument = Instrument::Missing(&reason);
                    evaluator.sanitize(request, instrument, progress, cancellation)
                }
            }
        })
        .await?;
    Ok(SanitizerReport::new(sanitized))
}

/// The reasons why tools did not run, in one sentence.
fn not_run(checked: &SanitizerReport) -> String {
    let reasons = checked
        .tools
        .iter()
        .filter_map(|result| match &result.status {
            Status::NotRun { reason } => {
                Some(format!("{} did not run: {reason}", result.tool.as_str()))
            }
            Status::Clean | Status::Found { .. } => None,
        });
    reasons.collect::<Vec<_>>().join("; ")
}
