//! The role `experiment` for `gpu-check`: a case of the corpus, or a measurement, on the loaded driver.
//!
//! Only kernels of this project run here, and nothing is judged here. Results are compared with those of another
//! driver elsewhere.

mod case;
mod measure;

use std::collections::BTreeMap;
use std::fs;

use domain::role::experiment::{End, Experiment, ExperimentJob, ExperimentReply, Measure};
use domain::timing::CacheState;

use crate::driver::emulator::{Checks, Configuration, Fragments};
use crate::driver::{DriverError, Gpu};
use crate::role_error::RoleError;

/// Number of thread instructions after which a launch counts as hanging, on the emulated device.
const BUDGET: u64 = 2_000_000_000;

/// Performs one experiment.
///
/// # Errors
/// A [`RoleError`] where the environment fails; a refusal of the driver is part of the reply.
pub(crate) fn experiment_on(gpu: &Gpu, job: &ExperimentJob) -> Result<ExperimentReply, RoleError> {
    let image = fs::read(&job.image).map_err(RoleError::file("read", &job.image))?;
    if let Some(emulator) = gpu.emulator() {
        emulator.configure(&Configuration {
            schedule: None,
            fragments: Fragments::Usual,
            checks: Checks::Full,
            budget: budget(&job.experiment),
            threads: Some(job.threads),
            counters: true,
            registers: BTreeMap::new(),
            spills: BTreeMap::new(),
            sample: None,
            read_before: None,
            clock: CacheState::Cold,
        })?;
    }
    match &job.experiment {
        Experiment::Case {
            case,
            repeats,
            record,
        } => case::run(gpu, &image, case, *repeats, record),
        Experiment::Measure { what } => measure::measure(gpu, &image, *what),
    }
}

/// The instruction budget; none for the measurement that must be killed from outside.
fn budget(experiment: &Experiment) -> Option<u64> {
    match experiment {
        Experiment::Measure {
            what: Measure::Endless,
        } => None,
        _ => Some(BUDGET),
    }
}

/// A reply with the outcome only.
fn reply_with_end(
    gpu: &Gpu,
    end: End,
    message: Option<String>,
) -> Result<ExperimentReply, RoleError> {
    Ok(ExperimentReply {
        device: gpu.describe()?,
        end,
        message,
        launches: Vec::new(),
        varies: false,
        series: BTreeMap::new(),
    })
}

fn describe_error(refusal: &DriverError) -> String {
    format!(
        "{} answered {} ({})",
        refusal.call, refusal.code, refusal.name
    )
}
