//! Runs one of NVIDIA's programs around the role `trace`, and reads the log that it writes.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;
use std::time::Duration;

use domain::judge::Exit;
use domain::plan::ResolvedStep;
use domain::role::{RunJob, RunReply};
use domain::tools::ncu::Choice;

use super::error::{EvaluateError, storage};
use super::roles::Roles;
use super::stages::parse::Candidate;
use crate::host::Role;
use crate::supervise::{self, Bounds, Limits, Program};

/// The most of a tool's log that is read, bytes.
const LOG_BYTES: u64 = 4 << 20;
/// The largest file that a tool may write, bytes.
const TOOL_FILE_BYTES: u64 = 1 << 30;
/// The search path with which a tool finds its own helper programs.
const PATH: &str =
    "/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The arguments of Nsight Compute: only our metrics, only the plan's kernels, without the launches
/// of the execution that warms up. Clocks are left as they are: a GPU may be shared.
pub(super) fn profiler_words(
    choice: &Choice,
    candidate: &Candidate,
    case: &str,
    log: &Path,
) -> Vec<OsString> {
    let steps = candidate.plans[case].steps.iter();
    let kernels = steps.filter_map(|step| match step {
        ResolvedStep::Kernel(launch) => Some(launch.kernel.as_str()),
        ResolvedStep::Memset { .. } => None,
    });
    let mut names = kernels.collect::<Vec<_>>();
    let launches = names.len().to_string();
    names.sort_unstable();
    names.dedup();
    let metrics = choice.names.values().copied().collect::<Vec<_>>();
    vec![
        "--csv".into(),
        "--page".into(),
        "raw".into(),
        "--print-units".into(),
        "base".into(),
        "--clock-control".into(),
        "none".into(),
        "--metrics".into(),
        metrics.join(",").into(),
        "--kernel-name".into(),
        format!("regex:^({})$", names.join("|")).into(),
        "--launch-skip".into(),
        launches.clone().into(),
        "--launch-count".into(),
        launches.into(),
        "--log-file".into(),
        log.as_os_str().to_owned(),
    ]
}

/// The way in which a traced process ended, as far as it matters for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Traced {
    InTime,
    OutOfTime,
}

impl Roles<'_> {
    /// A tool around the role that runs a job without confinement.
    pub(super) fn around(&self, tool: &Path, words: &[OsString]) -> Program {
        let mut program = self.host.program(Role::Trace, self.scratch);
        let role = std::mem::take(&mut program.arguments);
        let executable = std::mem::replace(&mut program.executable, tool.to_owned());
        program.arguments = words.to_vec();
        program.arguments.push(executable.into_os_string());
        program.arguments.extend(role);
        program.environment.push(("PATH".into(), PATH.into()));
        program
    }

    /// Runs a tool. Neither the reply nor the end of its process counts as a verdict.
    pub(super) fn trace(
        &self,
        program: &Program,
        job: &RunJob,
        deadline: Duration,
    ) -> Result<Traced, EvaluateError> {
        let bounds = Bounds {
            limits: Limits {
                file_bytes: Some(TOOL_FILE_BYTES),
                ..Limits::default()
            },
            readiness: None,
            deadline,
        };
        self.host.end_spares_on_card();
        match supervise::ask::<_, RunReply>(program, job, bounds, self.cancellation) {
            Ok(answer) if answer.reply == Err(Exit::TimedOut) => Ok(Traced::OutOfTime),
            // A tool may exit with the status by which a role reports a fault.
            Ok(_) | Err(supervise::SuperviseError::UnsupportedMachine { .. }) => Ok(Traced::InTime),
            Err(fault) => Err(fault.into()),
        }
    }
}

/// The beginning of a log; none if it was never written.
pub(super) fn read_log(path: &Path) -> Result<Option<String>, EvaluateError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LOG_BYTES).read_to_end(&mut bytes));
    match read {
        Ok(_) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(storage(path)(error)),
    }
}
