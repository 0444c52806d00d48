//! A new task folder from an existing `.cu` file.
//!
//! [`create_task`] parses the file, finds the kernel and its launches, guesses tensors, dims, dtypes
//! and cases, and writes every file of the folder. Each guess is a [`Guess`] with its line and its
//! reason. A fact that cannot be guessed is a problem whose remedy is the option that states it.

mod answers;
mod arithmetic;
mod baseline;
mod bounds;
mod cases;
mod expand;
mod headers;
mod launches;
mod python;
mod shape;
pub(crate) mod source;
mod stated;
mod task_file;

use std::collections::BTreeMap;

use domain::problem::{Problem, Problems};

use crate::python::reference::NoTranslation;

pub(crate) use stated::{Stated, StatedArgument, StatedTask, create, parameters_of};

pub use answers::{Answers, DimAnswer, TensorAnswer, parse_list};
pub use headers::included_header;

/// A `.cu` file to convert, with what its owner has said about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Request<'a> {
    /// Name of the file in messages.
    pub file: &'a str,
    /// Text of the file.
    pub text: &'a str,
    /// Name of the new task.
    pub name: &'a str,
    /// Facts that replace guesses.
    pub answers: &'a Answers,
    /// Texts of headers of the file's own project, by the names in the lines that include them.
    pub headers: &'a BTreeMap<String, String>,
    /// The right answer in Python, where its owner has it.
    pub reference: Option<PythonFile<'a>>,
}

/// A Python file with a function `reference` of the kernel's inputs, dims and scalars, by their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PythonFile<'a> {
    /// Name of the file in messages.
    pub file: &'a str,
    /// Text of the file.
    pub text: &'a str,
}

/// The files of a new task and the guesses in them.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    /// Texts by path in the task folder.
    pub files: BTreeMap<String, String>,
    /// Every guess, in the order of the lines.
    pub guesses: Vec<Guess>,
    /// The next thing to do, a sentence.
    pub next: String,
}

/// One decision that the file does not state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guess {
    /// Line of the `.cu` file that it rests on, from 1; 0 where it rests on no line.
    pub line: u32,
    /// The decision and its reason.
    pub text: String,
}

/// Writes a task folder from a `.cu` file.
///
/// # Errors
/// Each [`Problem`] names the line and the remedy: a file that does not parse, no kernel, several
/// kernels without a launch order, a launch or a shape that cannot be understood. Python
/// that has no translation is no problem: `next` says why, and `reference.cu` is left to be written.
pub fn create_task(request: &Request<'_>) -> Result<NewTask, Problems> {
    let original = source::Source::parse(request.file, request.text)?;
    let expanded_text = expand::expand_macros(request.text);
    let expanded = source::Source::parse(request.file, &expanded_text)?;
    let mut work = Work {
        request,
        guesses: Vec::new(),
    };
    let plan = launches::find_plan(&mut work, &expanded)?;
    let inputs = shape::find_buffers(&mut work, &expanded, plan)?;
    let baseline = baseline::write(&mut work, &original, &expanded, &inputs)?;
    let mut sized = cases::choose(&mut work, &expanded, inputs)?;
    let translated = match request.reference {
        None => None,
        Some(reference) => match python::translate(reference, &sized) {
            Ok(translation) => Some((reference, Ok(translation))),
            Err(NoTranslation::Unknown(problem)) => Some((reference, Err(problem))),
            Err(NoTranslation::Wrong(problems)) => return Err(problems),
        },
    };
    if let Some((reference, Ok(translation))) = &translated {
        let fixed = python::dims_to_fix(translation, &sized);
        if !fixed.is_empty() {
            let names = fixed.keys().cloned().collect::<Vec<_>>().join(", ");
            // Cases and bounds follow from what is fixed.
            let mut answers = request.answers.clone();
            answers.dims.extend(fixed);
            let mut task = create_task(&Request {
                answers: &answers,
                ..request.clone()
            })?;
            task.guesses.push(Guess {
                line: 0,
                text: format!(
                    "fixed: {names}, because {} rests on the value",
                    reference.file
                ),
            });
            return Ok(task);
        }
        sized.terms = Some(translation.terms.clone());
    }
    let mut files = BTreeMap::new();
    headers::put(&mut files, &mut work)?;
    let mut task = task_file::write(work, &sized, &baseline);
    task.files.extend(files);
    Ok(match translated {
        Some((reference, translation)) => python::put(task, reference, translation),
        None => task,
    })
}

/// State shared by the steps of one conversion: the request, and the guesses made so far.
struct Work<'a> {
    request: &'a Request<'a>,
    guesses: Vec<Guess>,
}

impl Work<'_> {
    fn guess(&mut self, line: u32, text: impl Into<String>) {
        let guess = Guess {
            line,
            text: text.into(),
        };
        if !self.guesses.contains(&guess) {
            self.guesses.push(guess);
        }
    }

    fn problem(&self, line: u32, message: impl Into<String>, fix: impl Into<String>) -> Problem {
        let mut problem = Problem::whole(self.request.file, message, fix);
        problem.line = line;
        problem
    }
}
