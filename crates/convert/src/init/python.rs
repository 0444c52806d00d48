//! The right answer in Python as both references of a new task.

use std::collections::BTreeMap;

use domain::problem::Problem;

use super::answers::DimAnswer;
use super::cases::Sized;
use super::shape::Direction;
use super::{NewTask, PythonFile};
use crate::python::reference::{NoTranslation, Subject, SubjectTensor, Translation};

/// Translates the function into CUDA.
pub(super) fn translate(
    reference: PythonFile<'_>,
    sized: &Sized,
) -> Result<Translation, NoTranslation> {
    let buffers = sized.found.buffers.iter();
    let tensors = buffers.filter(|buffer| buffer.direction != Direction::Workspace);
    let scalars = sized.found.plan.scalars.iter().map(|scalar| {
        // The text of a value that depends on dims is no number; what uses it has the scalar's name.
        let value = scalar.value.parse::<f64>().unwrap_or(f64::NAN);
        (scalar.name.clone(), (value, scalar.double))
    });
    let dims = sized.dims.iter();
    let subject = Subject {
        tensors: tensors
            .map(|buffer| SubjectTensor {
                name: buffer.name.clone(),
                dtype: buffer.dtype,
                shape: buffer.shape.clone(),
                is_input: buffer.direction != Direction::Out,
                is_output: buffer.direction != Direction::In,
            })
            .collect(),
        dims: dims
            .map(|(name, range)| (name.clone(), range.scored))
            .collect(),
        scalars: scalars.collect(),
    };
    crate::python::reference::translate(reference.file, reference.text, &subject)
}

/// The dims that vary, and must not because the translation rests on their value.
pub(super) fn dims_to_fix(translation: &Translation, sized: &Sized) -> BTreeMap<String, DimAnswer> {
    let dims = sized.dims.iter();
    let rests = dims.filter(|(name, range)| !range.fixed && translation.fixed.contains(name));
    rests
        .map(|(name, range)| {
            let answer = DimAnswer {
                value: range.scored,
                fixed: true,
                ..DimAnswer::default()
            };
            (name.clone(), answer)
        })
        .collect()
}

/// Puts the translation and the Python file into the task, in which the latter takes the place of `check.cu`.
pub(super) fn put(
    mut task: NewTask,
    reference: PythonFile<'_>,
    translation: Result<Translation, Problem>,
) -> NewTask {
    task.files.remove("check.cu");
    task.files
        .insert("reference.py".to_owned(), reference.text.to_owned());
    let file = reference.file;
    match translation {
        Ok(translation) => {
            task.files
                .insert("reference.cu".to_owned(), translation.reference);
            task.next = format!(
                "read reference.cu, which is {file} in CUDA with the scale of its rounding errors, and call \
                 `kernelwright task check`, which compares the two"
            );
        }
        Err(problem) => {
            let line = task.files["reference.cu"]
                .lines()
                .position(|line| line.starts_with("#error"));
            task.next = format!(
                "write the right answer into reference.cu, line {}, in place of the #error, because {file} has no \
                 translation; then call `kernelwright task check`, which compares the two:\n{problem}",
                line.map_or(0, |at| at + 1)
            );
        }
    }
    task
}
