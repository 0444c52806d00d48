//! Runs of the experiment role: one case of the corpus, or one measurement, in a process of its
//! own.
//!
//! A crash, a hang or a broken driver is a result here, because the next experiment must run all
//! the same.

use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::decode_message::describe_json;
use domain::device::DeviceKind;
use domain::role::experiment::{CaseRecord, Experiment, ExperimentJob, ExperimentReply, Measure};

use crate::cancel::Cancellation;
use crate::host::{Host, Role};
use crate::supervise::{self, SuperviseError};

/// Wall time of one experiment on silicon, and the allowed work on the emulated device.
const DEADLINE: Duration = Duration::from_secs(60);
/// The number of executions of a case on silicon. The shortest time counts, and outputs that differ
/// between executions are detected.
const REPEATS: u32 = 5;
/// The file in which a case leaves the device's outputs.
const RECORD: &str = "record/record.json";
/// Makes NVIDIA's driver load kernels with their module instead of at their first launch, which is
/// timed.
const EAGER: (&str, &str) = ("CUDA_MODULE_LOADING", "EAGER");

/// The outcome of an experiment.
#[derive(Debug)]
pub enum ExperimentOutcome<T> {
    /// The role's reply.
    Reply(T),
    /// The process ended without a reply, in this manner.
    Failed(String),
}

/// Runs a case of the corpus, and returns the reply with the device's outputs.
///
/// # Errors
/// [`SuperviseError::Cancelled`], and faults in starting processes at all.
pub fn case(
    host: &Host,
    case: &str,
    image: PathBuf,
    cancellation: &Cancellation,
) -> Result<ExperimentOutcome<(ExperimentReply, CaseRecord)>, SuperviseError> {
    let scratch = scratch(host)?;
    let record = scratch.path().join(RECORD);
    let experiment = Experiment::Case {
        case: case.to_owned(),
        repeats: match host.device().kind {
            DeviceKind::Nvidia => REPEATS,
            DeviceKind::Emulated => 1,
        },
        record: record.clone(),
    };
    Ok(
        match ask(
            host,
            experiment,
            image,
            scratch.path(),
            DEADLINE,
            cancellation,
        )? {
            ExperimentOutcome::Failed(how) => ExperimentOutcome::Failed(how),
            ExperimentOutcome::Reply(reply) => match read(&record) {
                Ok(record) => ExperimentOutcome::Reply((reply, record)),
                Err(reason) => {
                    ExperimentOutcome::Failed(format!("its record does not read: {reason}"))
                }
            },
        },
    )
}

/// Takes one measurement of the device. `patience` is the wall time of a kernel that does not end.
///
/// # Errors
/// As of [`case`].
pub fn measure(
    host: &Host,
    what: Measure,
    image: PathBuf,
    patience: Option<Duration>,
    cancellation: &Cancellation,
) -> Result<ExperimentOutcome<ExperimentReply>, SuperviseError> {
    let scratch = scratch(host)?;
    let experiment = Experiment::Measure { what };
    let patience = patience.unwrap_or(DEADLINE);
    ask(
        host,
        experiment,
        image,
        scratch.path(),
        patience,
        cancellation,
    )
}

fn scratch(host: &Host) -> Result<tempfile::TempDir, SuperviseError> {
    tempfile::Builder::new()
        .prefix("experiment-")
        .tempdir_in(host.data())
        .map_err(SuperviseError::Supervise)
}

fn ask(
    host: &Host,
    experiment: Experiment,
    image: PathBuf,
    scratch: &Path,
    deadline: Duration,
    cancellation: &Cancellation,
) -> Result<ExperimentOutcome<ExperimentReply>, SuperviseError> {
    let mut program = host.program(Role::Experiment, scratch);
    program.environment.push((EAGER.0.into(), EAGER.1.into()));
    let job = ExperimentJob {
        image,
        threads: host.threads(),
        experiment,
    };
    let mut bounds = host.bounds(Role::Experiment, deadline);
    if deadline < DEADLINE {
        // A caller that gives less than the usual time wants the process killed at that moment.
        bounds.deadline = deadline;
    }
    host.end_spares_on_card();
    match supervise::ask(&program, &job, bounds, cancellation) {
        Ok(answer) => Ok(match answer.reply {
            Ok(reply) => ExperimentOutcome::Reply(reply),
            // The role's report of its confinement is not the cause of its end.
            Err(exit) => ExperimentOutcome::Failed(match answer.stderr.last_line() {
                Some(line) if !line.starts_with("confined") && !line.starts_with("walled") => {
                    format!("the process {exit}: {line}")
                }
                _ => format!("the process {exit}"),
            }),
        }),
        Err(SuperviseError::UnsupportedMachine { reason }) => {
            Ok(ExperimentOutcome::Failed(format!("failed to {reason}")))
        }
        Err(fault) => Err(fault),
    }
}

fn read(path: &Path) -> Result<CaseRecord, String> {
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    serde_json::from_slice(&text).map_err(|error| describe_json(&error.to_string()))
}
