//! Scripts of a task that time a library which candidates should beat.
//!
//! A script is as trusted as the task's reference, but runs as an unconfined program of this
//! machine. So only somebody who evaluates by hand, with his own task folder, starts one; a worker
//! of a service never does. It answers like a role, in frames over its standard input. Its times
//! are its own claim, and no promotion rests on them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::dtype::Dtype;
use domain::role::TensorData;
use domain::task::{Case, Role as Direction};
use serde::{Deserialize, Serialize};

use crate::cancel::Cancellation;
use crate::supervise::{self, Bounds, Limits, Program};

/// The Python module that scripts import: frames, tensors and timing.
const LIBRARY: &str = include_str!("rivals/rival.py");
const LIBRARY_NAME: &str = "rival.py";
/// Wall time of all cases together; a framework alone takes seconds to load.
const DEADLINE: Duration = Duration::from_secs(180);
/// Variables that a script inherits from this process if they are set: the search paths of the
/// system and of a framework.
const PASSED_ON: [&str; 6] = [
    "CUDA_VISIBLE_DEVICES",
    "HOME",
    "LD_LIBRARY_PATH",
    "PATH",
    "PYTHONPATH",
    "VIRTUAL_ENV",
];

/// Finds the Python interpreter on this process's search path.
///
/// # Errors
/// One sentence that says how to install it.
pub fn python() -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join("python3"))
        .find(|program| program.is_file())
        .ok_or_else(|| "python3 is not on this machine: install Python 3".to_owned())
}

/// The job of a script.
#[derive(Debug, Serialize)]
struct Job<'a> {
    cases: Vec<CaseJob<'a>>,
    executions: u32,
    flush_bytes: u64,
}

#[derive(Debug, Serialize)]
struct CaseJob<'a> {
    case: &'a str,
    dims: &'a BTreeMap<String, i64>,
    scalars: &'a BTreeMap<String, f64>,
    inputs: Vec<Input<'a>>,
    outputs: PathBuf,
}

#[derive(Debug, Serialize)]
struct Input<'a> {
    name: &'a str,
    dtype: Dtype,
    extents: &'a [u64],
    file: PathBuf,
}

/// The reply of a script.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ScriptReply {
    /// The script computed every case; its outputs are in the folders that were named.
    Timed {
        /// The name and version of the timed library.
        what: String,
        /// The time of each execution by the script's own clock, microseconds, for each case in the
        /// order of the job.
        microseconds: Vec<Vec<f64>>,
    },
    /// A requirement is missing.
    NotRun {
        /// The requirement, and how to install it.
        reason: String,
    },
}

/// One case for a script to compute.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The case.
    pub case: &'a Case,
    /// Its scalar arguments.
    pub scalars: &'a BTreeMap<String, f64>,
    /// Its tensors.
    pub tensors: &'a [TensorData],
    /// An existing folder for its outputs: a file `NAME.bin` for each, as the run role leaves them.
    pub outputs: &'a Path,
}

/// The options of a script's timing.
#[derive(Clone, Copy)]
pub struct TimingOptions<'a> {
    /// Timed executions of each case.
    pub executions: u32,
    /// Bytes to write between executions, so that no cache keeps data of the last one.
    pub flush_bytes: u64,
    /// Returns the bytes of an input.
    pub content: &'a dyn Fn(&TensorData) -> Vec<u8>,
}

/// Runs a script on some cases, in one process that works in `folder`. A script that fails gives
/// [`ScriptReply::NotRun`], because a library that does not run has no time.
///
/// # Errors
/// A process cannot be started or watched, or the work was cancelled.
pub fn ask(
    python: &Path,
    script: &str,
    questions: &[Question<'_>],
    options: TimingOptions<'_>,
    folder: &Path,
    cancellation: &Cancellation,
) -> Result<ScriptReply, supervise::SuperviseError> {
    let script = lay_out(script, folder).map_err(supervise::SuperviseError::Supervise)?;
    let cases = questions
        .iter()
        .zip(0..)
        .map(|(question, number)| case_job(question, number, options, folder))
        .collect::<std::io::Result<_>>()
        .map_err(supervise::SuperviseError::Supervise)?;
    let job = Job {
        cases,
        executions: options.executions,
        flush_bytes: options.flush_bytes,
    };
    let environment = PASSED_ON
        .iter()
        .filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)))
        .chain([(OsString::from("PYTHONDONTWRITEBYTECODE"), "1".into())]);
    let program = Program {
        executable: python.to_owned(),
        arguments: vec![script.into_os_string()],
        environment: environment.collect(),
        directory: folder.to_owned(),
        walls: None,
    };
    let bounds = Bounds {
        limits: Limits::default(),
        readiness: None,
        deadline: DEADLINE,
    };
    let not_run = |reason: String| Ok(ScriptReply::NotRun { reason });
    let answer = match supervise::ask::<_, ScriptReply>(&program, &job, bounds, cancellation) {
        Ok(answer) => answer,
        Err(fault @ supervise::SuperviseError::Start { .. }) => return not_run(fault.to_string()),
        Err(supervise::SuperviseError::UnsupportedMachine { reason }) => return not_run(reason),
        Err(fault) => return Err(fault),
    };
    match answer.reply {
        Ok(ScriptReply::Timed { microseconds, .. })
            if !are_times(&microseconds, questions.len(), options.executions) =>
        {
            not_run(format!(
                "the script was asked for {} times of each of {} cases and gave {microseconds:?}",
                options.executions,
                questions.len()
            ))
        }
        Ok(answer) => Ok(answer),
        Err(exit) => {
            let said = answer.stderr.last_line();
            let said = said.map(|line| format!(": {line}")).unwrap_or_default();
            not_run(format!("the script {exit}{said}"))
        }
    }
}

/// Returns true if the numbers are as many positive, finite times as were asked for.
fn are_times(microseconds: &[Vec<f64>], cases: usize, executions: u32) -> bool {
    microseconds.len() == cases
        && microseconds.iter().all(|of_case| {
            of_case.len() == executions as usize
                && of_case.iter().all(|us| us.is_finite() && *us > 0.0)
        })
}

/// Writes the script and the module that it imports.
fn lay_out(script: &str, folder: &Path) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join(LIBRARY_NAME), LIBRARY)?;
    // A fixed name, because the file's own name must not shadow another module.
    let path = folder.join("script.py");
    std::fs::write(&path, script)?;
    Ok(path)
}

/// Writes a case's inputs and returns its part of the job.
fn case_job<'a>(
    question: &Question<'a>,
    number: usize,
    options: TimingOptions<'_>,
    folder: &Path,
) -> std::io::Result<CaseJob<'a>> {
    let mut inputs = Vec::new();
    for tensor in question.tensors {
        if tensor.role == Direction::Out {
            continue;
        }
        let file = folder.join(format!("{number}-{}.in", tensor.name));
        std::fs::write(&file, (options.content)(tensor))?;
        inputs.push(Input {
            name: &tensor.name,
            dtype: tensor.dtype,
            extents: &tensor.extents,
            file,
        });
    }
    Ok(CaseJob {
        case: &question.case.name,
        dims: &question.case.dims,
        scalars: question.scalars,
        inputs,
        outputs: question.outputs.to_owned(),
    })
}
