//! `profile`: where a kernel's time goes, by the emulated device's counters or by Nsight Compute.

use domain::device::DeviceKind;
use worker::evaluate::Instrument;
use worker::tools::{self, Tool};

use super::Subject;
use crate::cli::KernelArgs;
use crate::outcome::{Ending, Failure};
use crate::report::profile::{Profile, text};

pub(crate) async fn profile(args: KernelArgs) -> Ending {
    let subject = Subject::open(&args).await?;
    let profile = run_profiler(&subject).await?;
    let ok = profile.against.is_none() && profile.not_profiled().is_none();
    let source = subject.source.clone();
    let outcome = subject.print_result(args.json, "profile", ok, &profile, |profile, device| {
        text(profile, &source, device)
    })?;
    match profile.not_profiled() {
        // A profiler that fails is no news about the kernel.
        Some(reason) if subject.device().kind == DeviceKind::Nvidia => Err(
            Failure::infrastructure(anyhow::anyhow!("profile: {reason}")),
        ),
        _ => Ok(outcome),
    }
}

/// The profile.
pub(super) async fn run_profiler(subject: &Subject) -> Result<Profile, Failure> {
    let emulated = subject.device().kind == DeviceKind::Emulated;
    let profiled = subject
        .ask(move |evaluator, request, progress, cancellation| {
            if emulated {
                let instrument = Instrument::Emulated;
                return evaluator.profile(request, instrument, progress, cancellation);
            }
            match tools::find(Tool::Profiler) {
                Ok(program) => {
                    let instrument = Instrument::Program(&program);
                    evaluator.profile(request, instrument, progress, cancellation)
                }
                Err(reason) => {
                    let instrument = Instrument::Missing(&reason);
                    evaluator.profile(request, instrument, progress, cancellation)
                }
            }
        })
        .await?;
    Ok(Profile::new(profiled))
}
