//! The role behind `gpu-check`: a case of the corpus, or a measurement, on the loaded driver.
//!
//! Only kernels of ours run here, and nothing is judged: what came back is compared with what
//! came back from another driver, elsewhere.

mod case;
mod measure;

use std::collections::BTreeMap;
use std::fs;

use domain::role::experiment::{End, Experiment, ExperimentJob, ExperimentReply, Measure};
use domain::timing::CacheState;

use crate::driver::emulator::{Checks, Configuration, Fragments};
use crate::driver::{DriverError, Gpu};
use crate::role_error::RoleError;

/// Thread instructions after which a launch hangs, on the emulated device.
const BUDGET: u64 = 2_000_000_000;

/// Does one experiment.
///
/// # Errors
/// A [`RoleError`] where the surroundings fail; a refusal of the driver is in the reply.
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

/// What is to be killed must not end by itself.
fn budget(experiment: &Experiment) -> Option<u64> {
    match experiment {
        Experiment::Measure {
            what: Measure::Endless,
        } => None,
        _ => Some(BUDGET),
    }
}

/// A reply that says no more than how it ended.
fn ended(gpu: &Gpu, end: End, message: Option<String>) -> Result<ExperimentReply, RoleError> {
    Ok(ExperimentReply {
        device: gpu.describe()?,
        end,
        message,
        launches: Vec::new(),
        varies: false,
        series: BTreeMap::new(),
    })
}

fn words(refusal: &DriverError) -> String {
    format!(
        "{} answered {} ({})",
        refusal.call, refusal.code, refusal.name
    )
}
