//! The record of the tasks that this machine has admitted, so that a run of a known task begins at
//! once.

use std::path::PathBuf;

use domain::admission::Admission;
use domain::digest::Digest;
use domain::evaluation::{EVALUATOR_VERSION, EvaluationRequest};
use domain::task::{Bundle, Task};

use crate::cancel::Cancellation;
use crate::evaluate::Evaluator;
use crate::evaluate::error::{EvaluateError, storage};

/// Checks that the task of a request is admitted, and returns the numbers. A refusal is not recorded,
/// because the task may be corrected and a baseline's noise may decrease.
///
/// # Errors
/// [`EvaluateError::NotAdmitted`], or another [`EvaluateError`] whose cause is not the task.
pub fn ensure_admitted(
    evaluator: &Evaluator,
    request: &EvaluationRequest,
    progress: &dyn Fn(&str),
    cancellation: &Cancellation,
) -> Result<Admission, EvaluateError> {
    let place = record_path(evaluator, &request.task)?;
    let known = std::fs::read(&place)
        .ok()
        .and_then(|text| serde_json::from_slice::<Admission>(&text).ok());
    if let Some(known) = known.filter(Admission::admitted) {
        return Ok(known);
    }
    progress("admission");
    let admission = evaluator.admit(&request.task, |_| {}, cancellation)?;
    if !admission.admitted() {
        return Err(EvaluateError::NotAdmitted(Box::new(admission)));
    }
    let text = serde_json::to_vec(&admission).expect("an admission is text and numbers");
    let folder = place.parent().unwrap_or(evaluator.host.data());
    std::fs::create_dir_all(folder).map_err(storage(folder))?;
    std::fs::write(&place, text).map_err(storage(&place))?;
    Ok(admission)
}

/// The file of a task's admission, named by everything that it depends on, except for the draws.
fn record_path(evaluator: &Evaluator, bundle: &Bundle) -> Result<PathBuf, EvaluateError> {
    let task = Task::load(bundle).map_err(EvaluateError::Task)?;
    let host = evaluator.host();
    let whole = (
        EVALUATOR_VERSION,
        task.version,
        task.baseline.text(),
        &host.device().uuid,
        host.toolchain(),
    );
    let identity = Digest::of(serde_json::to_vec(&whole).expect("only text and numbers"));
    Ok(host.data().join(format!("admissions/{identity}.json")))
}
