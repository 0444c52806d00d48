//! The answers of a second reference that is written in Python.

use std::collections::BTreeMap;
use std::path::PathBuf;

use domain::digest::Digest;
use domain::evaluation::EVALUATOR_VERSION;
use domain::role::{Interpreter, PythonCall, PythonJob, PythonReply};
use domain::task::{Role as Direction, Task};

use super::error::{EvaluateError, storage};
use super::passes::Pass;
use super::roles::{Roles, read_answer};

/// A reference in Python with the interpreter that runs it.
#[derive(Debug)]
pub struct PythonReference<'a> {
    /// The task.
    pub task: &'a Task,
    /// The text of `reference.py`.
    pub source: &'a str,
    /// The interpreter.
    pub interpreter: Interpreter,
}

/// How often each answer is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    /// Once.
    One,
    /// Twice, and both must have the same bytes.
    Two,
}

/// The values of every output by name for each pass, or the defect of the reference with its remedy.
pub type PythonAnswers = Result<Vec<BTreeMap<String, Vec<f64>>>, String>;

impl Roles<'_> {
    /// Computes the answers to the inputs of each pass in a process of their own, where the cache does
    /// not hold them.
    ///
    /// # Errors
    /// An [`EvaluateError`] whose cause is not the reference.
    pub fn python_answers(
        &self,
        reference: &PythonReference<'_>,
        passes: &[Pass],
        calls: Calls,
    ) -> Result<PythonAnswers, EvaluateError> {
        let twice = calls == Calls::Two;
        let mut job = PythonJob {
            interpreter: reference.interpreter.clone(),
            source: reference.source.to_owned(),
            calls: Vec::new(),
            twice,
        };
        for pass in passes {
            let mut call = python_call(reference.task, pass)?;
            call.cache = self.python_cache(reference, &call, twice);
            std::fs::create_dir_all(&call.cache).map_err(storage(&call.cache))?;
            job.calls.push(call);
        }
        let limit = self.host.python_limit();
        let answer = self.host.answer_in_python(&job, limit, self.cancellation)?;
        match answer.reply {
            Ok(PythonReply::Answered) => {}
            Ok(PythonReply::Failed { reason }) => return Ok(Err(reason)),
            Err(exit) => {
                let said = answer.stderr.last_line().unwrap_or_default();
                return Ok(Err(format!(
                    "{exit} ({said}); a reference has {} s of processor time on each of the worker's threads for all inputs together: compute with whole arrays instead of loops over elements, or raise KERNELWRIGHT_PYTHON_SECONDS",
                    limit.as_secs()
                )));
            }
        }
        let values = job.calls.iter().map(|call| {
            let outputs = call.tensors.iter();
            let outputs = outputs.filter(|tensor| tensor.role != Direction::In);
            outputs
                .map(|tensor| {
                    let values = read_answer(&call.cache, &tensor.name, tensor.elements())?;
                    Ok((tensor.name.clone(), values))
                })
                .collect::<Result<BTreeMap<_, _>, EvaluateError>>()
        });
        Ok(Ok(values.collect::<Result<_, _>>()?))
    }

    /// The folder of the answers to these inputs, named by everything that they depend on.
    fn python_cache(
        &self,
        reference: &PythonReference<'_>,
        call: &PythonCall,
        twice: bool,
    ) -> PathBuf {
        let whole = (
            EVALUATOR_VERSION,
            reference.task.version,
            reference.source,
            &reference.interpreter.versions,
            call,
            twice,
        );
        let identity = Digest::of(serde_json::to_vec(&whole).expect("only text and numbers"));
        self.host.data().join(format!("references/{identity}"))
    }
}

/// The call for the inputs of a pass. Its cache is not named yet.
fn python_call(task: &Task, pass: &Pass) -> Result<PythonCall, EvaluateError> {
    let case = task.case(&pass.case);
    let case = case
        .ok_or_else(|| EvaluateError::Reference(format!("the task has no case {}", pass.case)))?;
    let scalars = task.scalars.iter().map(|scalar| {
        let value = scalar.value.scalar(&case.dims).map_err(|error| {
            EvaluateError::Reference(format!("{} of case {}: {error}", scalar.name, case.name))
        })?;
        Ok((scalar.name.clone(), value))
    });
    Ok(PythonCall {
        case: case.name.clone(),
        dims: case.dims.clone(),
        scalars: scalars.collect::<Result<_, EvaluateError>>()?,
        tensors: pass.tensors.clone(),
        cache: PathBuf::new(),
    })
}
