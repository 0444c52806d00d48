//! The role `python`: computes the answers of a reference that is written in Python.
//!
//! The interpreter is a child of the role. It may read its own files and compute, and writes nothing; it gets inputs
//! and returns answers through pipes. The role writes the answers into the cache. No candidate code runs in either.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use domain::dtype::Dtype;
use domain::role::{Interpreter, PythonCall, PythonJob, PythonReply, TensorData};
use domain::task::Role;
use serde::{Deserialize, Serialize};

use tensors::inputs;

use crate::answer_cache::{answer_file, read_cached, write_cached};
use crate::confine::{self, Permissions, SystemCalls};
use crate::role_error::RoleError;

/// The program that the interpreter runs: it reads the reference and calls it.
const HARNESS: &str = include_str!("python/harness.py");
/// The longest message of the interpreter, bytes.
const MAX_MESSAGE_BYTES: u32 = 1 << 20;

/// An interpreter that was confined before it started.
pub(crate) struct Confined {
    child: Child,
    requests: ChildStdin,
    answers: ChildStdout,
}

/// The first message to the interpreter.
#[derive(Serialize)]
struct Begin<'a> {
    source: &'a str,
    calls: usize,
    twice: bool,
}

/// One call, followed by the inputs' values.
#[derive(Serialize)]
struct CallMessage<'a> {
    dims: &'a BTreeMap<String, i64>,
    scalars: &'a BTreeMap<String, f64>,
    inputs: Vec<Shape<'a>>,
    outputs: Vec<Shape<'a>>,
}

#[derive(Serialize)]
struct Shape<'a> {
    name: &'a str,
    extents: &'a [u64],
    elements: u64,
}

impl<'a> Shape<'a> {
    fn of(name: &'a str, tensor: &'a TensorData) -> Self {
        Self {
            name,
            extents: &tensor.extents,
            elements: tensor.elements(),
        }
    }
}

/// The answer to a call, followed by the outputs' values unless it failed.
#[derive(Deserialize)]
struct AnswerMessage {
    failed: Option<String>,
}

/// Starts the interpreter under restrictions of its own: it can write no file, not even those that the role writes.
/// They are applied in a thread that ends, because restrictions of a thread hold for the processes that it starts.
pub(crate) fn start(interpreter: &Interpreter) -> Result<Confined, RoleError> {
    let permissions = Permissions {
        read: interpreter.readable.clone(),
        write: Vec::new(),
        control: Vec::new(),
        calls: SystemCalls::Tool,
        restrict_files: true,
        memory_bytes: None,
        cpu_seconds: None,
    };
    let spawned = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let level = confine::apply(&permissions)?;
            eprintln!("Python confined ({level})");
            spawn(interpreter)
        });
        thread.join()
    });
    let mut child = spawned.map_err(|_| {
        RoleError::Confinement("the thread that starts Python panicked".to_owned())
    })??;
    let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(RoleError::Job("Python has no pipes".to_owned()));
    };
    Ok(Confined {
        child,
        requests,
        answers,
    })
}

fn spawn(interpreter: &Interpreter) -> Result<Child, RoleError> {
    let search_path = std::env::join_paths(&interpreter.module_folders).unwrap_or_default();
    let inherited = ["HOME", "TMPDIR", "LANG"];
    let inherited = inherited
        .into_iter()
        .filter_map(|name| Some((name, std::env::var_os(name)?)));
    #[expect(
        clippy::disallowed_methods,
        reason = "it inherits this role's process group and limits, and its thread's confinement"
    )]
    Command::new(&interpreter.executable)
        .args(["-B", "-s", "-c", HARNESS])
        .env_clear()
        .envs(inherited)
        .env("PYTHONPATH", search_path)
        .env("PYTHONHASHSEED", "0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(RoleError::file("start", &interpreter.executable))
}

/// Computes and caches the answers that the cache does not hold.
///
/// # Errors
/// A [`RoleError`] if the environment fails. A defect of the reference is a [`PythonReply::Failed`].
pub(crate) fn answer(mut python: Confined, job: &PythonJob) -> Result<PythonReply, RoleError> {
    let open = job.calls.iter().filter(|call| !is_cached(call));
    let open = open.collect::<Vec<_>>();
    let begin = Begin {
        source: &job.source,
        calls: open.len(),
        twice: job.twice,
    };
    let mut outcome = python.send(&begin, &[]);
    for call in open {
        if outcome.is_err() {
            break;
        }
        outcome = python.call(call);
    }
    let failure = match outcome {
        Ok(()) => return Ok(PythonReply::Answered),
        Err(CallError::Fault(error)) => return Err(error),
        Err(CallError::Defect(reason)) => reason,
        Err(CallError::Ended) => python.describe_end(),
    };
    Ok(PythonReply::Failed { reason: failure })
}

/// The folders that the role writes.
pub(crate) fn caches(job: &PythonJob) -> impl Iterator<Item = PathBuf> {
    job.calls.iter().map(|call| call.cache.clone())
}

enum CallError {
    /// The reference is defective.
    Defect(String),
    /// The interpreter ended without an answer.
    Ended,
    Fault(RoleError),
}

impl Confined {
    fn send(&mut self, message: &impl Serialize, contents: &[Vec<u8>]) -> Result<(), CallError> {
        let text = serde_json::to_vec(message)
            .map_err(|error| CallError::Fault(RoleError::Job(format!("encode a call: {error}"))))?;
        let length = u32::try_from(text.len()).map_err(|_| {
            CallError::Defect("reference.py is longer than 4 GiB; shorten it".to_owned())
        })?;
        let mut write = || {
            self.requests.write_all(&length.to_le_bytes())?;
            self.requests.write_all(&text)?;
            contents
                .iter()
                .try_for_each(|content| self.requests.write_all(content))
        };
        match write() {
            Ok(()) => Ok(()),
            // The reason may lie in the pipe already.
            Err(_) => match self.receive() {
                Err(error) => Err(error),
                Ok(()) => Err(CallError::Ended),
            },
        }
    }

    fn call(&mut self, call: &PythonCall) -> Result<(), CallError> {
        let inputs = call
            .tensors
            .iter()
            .filter(|tensor| tensor.role != Role::Out);
        let inputs = inputs.collect::<Vec<_>>();
        let contents = inputs
            .iter()
            .map(|tensor| inputs::widened_bytes(tensor))
            .collect::<Vec<_>>();
        let message = CallMessage {
            dims: &call.dims,
            scalars: &call.scalars,
            inputs: inputs
                .iter()
                .map(|tensor| Shape::of(&tensor.name, tensor))
                .collect(),
            outputs: outputs(call)
                .map(|tensor| Shape::of(&tensor.name, tensor))
                .collect(),
        };
        let place = |error| match error {
            CallError::Defect(reason) => CallError::Defect(format!("case {}: {reason}", call.case)),
            other => other,
        };
        self.send(&message, &contents).map_err(place)?;
        self.receive().map_err(place)?;
        for tensor in outputs(call) {
            let bytes = tensor.elements() * Dtype::F64.bytes();
            let mut content = Vec::new();
            let read = (&mut self.answers).take(bytes).read_to_end(&mut content);
            if !read.is_ok_and(|read| read as u64 == bytes) {
                return Err(CallError::Ended);
            }
            write_cached(&call.cache, &answer_file(&tensor.name), &content)
                .map_err(CallError::Fault)?;
        }
        Ok(())
    }

    /// Reads the head of an answer.
    fn receive(&mut self) -> Result<(), CallError> {
        let mut length = [0; 4];
        let ended = |_| CallError::Ended;
        self.answers.read_exact(&mut length).map_err(ended)?;
        let length = u32::from_le_bytes(length);
        if length > MAX_MESSAGE_BYTES {
            return Err(CallError::Ended);
        }
        let mut text = vec![0; length as usize];
        self.answers.read_exact(&mut text).map_err(ended)?;
        let answer: AnswerMessage = serde_json::from_slice(&text).map_err(|_| CallError::Ended)?;
        match answer.failed {
            None => Ok(()),
            Some(reason) => Err(CallError::Defect(reason)),
        }
    }

    /// The reason why the interpreter ended without an answer.
    fn describe_end(mut self) -> String {
        drop(self.requests);
        let how = match self.child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        format!(
            "Python ended before it answered ({how}): it crashed, was stopped by a limit, or the reference ended it"
        )
    }
}

/// The tensors that a candidate writes.
fn outputs(call: &PythonCall) -> impl Iterator<Item = &TensorData> {
    call.tensors.iter().filter(|tensor| tensor.role != Role::In)
}

fn is_cached(call: &PythonCall) -> bool {
    outputs(call).all(|tensor| {
        read_cached(&call.cache, &answer_file(&tensor.name), tensor.elements()).is_some()
    })
}
