//! Libraries that a task wants beaten, timed by scripts of the task.
//!
//! A script is as trusted as the task's reference and, unlike that, runs as a program of this
//! machine: only somebody who evaluates by hand, with a task folder of his own, starts one, never a
//! worker for a service. It answers like a role, in frames over its standard input, and its times
//! are its own claim: nothing is promoted on them.

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

/// What scripts import: the frames, the tensors and the timing.
const LIBRARY: &str = include_str!("rivals/rival.py");
const LIBRARY_NAME: &str = "rival.py";
/// What all cases together may take: a framework alone needs seconds to load.
const DEADLINE: Duration = Duration::from_secs(180);
/// Variables a script sees as this process has them: where the system and a framework look for
/// programs and libraries.
const PASSED_ON: [&str; 6] = [
    "CUDA_VISIBLE_DEVICES",
    "HOME",
    "LD_LIBRARY_PATH",
    "PATH",
    "PYTHONPATH",
    "VIRTUAL_ENV",
];

/// The interpreter on this process's search path.
///
/// # Errors
/// One sentence for people: there is none.
pub fn python() -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join("python3"))
        .find(|program| program.is_file())
        .ok_or_else(|| "python3 is not on this machine: install Python 3".to_owned())
}

/// What a script is asked.
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

/// What came of asking a script.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Answer {
    /// It solved every case; its outputs lie where they were asked for.
    Timed {
        /// What it timed, with its version.
        what: String,
        /// Times of the executions of each case, in the order of the question, microseconds, by
        /// the script's own clock.
        microseconds: Vec<Vec<f64>>,
    },
    /// Something is missing.
    NotRun {
        /// What, and how to get it.
        reason: String,
    },
}

/// One case for a script.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The case.
    pub case: &'a Case,
    /// Its scalar arguments.
    pub scalars: &'a BTreeMap<String, f64>,
    /// Its tensors.
    pub tensors: &'a [TensorData],
    /// An existing folder for its outputs: `NAME.bin` each, as a runner leaves them.
    pub outputs: &'a Path,
}

/// How a script is to time.
#[derive(Clone, Copy)]
pub struct Manner<'a> {
    /// Timed executions of each case.
    pub executions: u32,
    /// Bytes to write between them, so that no cache keeps what the last one left.
    pub flush_bytes: u64,
    /// The bytes of an input.
    pub content: &'a dyn Fn(&TensorData) -> Vec<u8>,
}

/// Asks a script about cases, in one process that works in `folder`. How it fails is an answer,
/// too: a library that does not run is no number.
///
/// # Errors
/// The system does not let us start or watch a process, or the work was called off.
pub fn ask(
    python: &Path,
    script: &str,
    questions: &[Question<'_>],
    manner: Manner<'_>,
    folder: &Path,
    cancellation: &Cancellation,
) -> Result<Answer, supervise::SuperviseError> {
    let script = lay_out(script, folder).map_err(supervise::SuperviseError::Supervise)?;
    let cases = questions
        .iter()
        .zip(0..)
        .map(|(question, number)| case_job(question, number, manner, folder))
        .collect::<std::io::Result<_>>()
        .map_err(supervise::SuperviseError::Supervise)?;
    let job = Job {
        cases,
        executions: manner.executions,
        flush_bytes: manner.flush_bytes,
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
    let not_run = |reason: String| Ok(Answer::NotRun { reason });
    let answer = match supervise::ask::<_, Answer>(&program, &job, bounds, cancellation) {
        Ok(answer) => answer,
        Err(fault @ supervise::SuperviseError::Start { .. }) => return not_run(fault.to_string()),
        Err(supervise::SuperviseError::Surroundings { reason }) => return not_run(reason),
        Err(fault) => return Err(fault),
    };
    match answer.reply {
        Ok(Answer::Timed { microseconds, .. })
            if !are_times(&microseconds, questions.len(), manner.executions) =>
        {
            not_run(format!(
                "the script was asked for {} times of each of {} cases and gave {microseconds:?}",
                manner.executions,
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

/// Whether these are as many times as were asked for, each longer than nothing.
fn are_times(microseconds: &[Vec<f64>], cases: usize, executions: u32) -> bool {
    microseconds.len() == cases
        && microseconds.iter().all(|of_case| {
            of_case.len() == executions as usize
                && of_case.iter().all(|us| us.is_finite() && *us > 0.0)
        })
}

/// Writes the script beside what it imports.
fn lay_out(script: &str, folder: &Path) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join(LIBRARY_NAME), LIBRARY)?;
    // A name of ours: whatever the file is called must not become another import.
    let path = folder.join("script.py");
    std::fs::write(&path, script)?;
    Ok(path)
}

/// Writes a case's inputs and says where they are.
fn case_job<'a>(
    question: &Question<'a>,
    number: usize,
    manner: Manner<'_>,
    folder: &Path,
) -> std::io::Result<CaseJob<'a>> {
    let mut inputs = Vec::new();
    for tensor in question.tensors {
        if tensor.role == Direction::Out {
            continue;
        }
        let file = folder.join(format!("{number}-{}.in", tensor.name));
        std::fs::write(&file, (manner.content)(tensor))?;
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
