//! The kernels that the simulated author can write: for each of three tasks every combination of six
//! choices, as text.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context as _, Error, Result};
use serde::{Deserialize, Serialize};

mod gemm;
mod histogram;
mod softmax;

/// Number of choices of each library.
pub const AXES: usize = 6;
/// The mark in front of the choices in code and thoughts.
pub const MARK: &str = "simulated kernel ";

/// The library of each task.
pub static LIBRARIES: [Library; 3] = [softmax::LIBRARY, gemm::LIBRARY, histogram::LIBRARY];

/// The choices that kernels of one task differ in.
#[derive(Debug)]
pub struct Library {
    /// Name of the task.
    pub task: &'static str,
    /// Number of values of each choice.
    pub values: [u8; AXES],
    /// The choices that are nearest to the task's baseline.
    pub baseline: Choices,
    /// The choice that a request for other parameters changes.
    pub parameter: usize,
    /// The choices that a term of the time model depends on, as a reader of the advice would guess.
    pub relevant: fn(term: &str) -> &'static [usize],
    /// True if threads of the kernel wait for each other in a block.
    pub has_barrier: fn(&Choices) -> bool,
    /// The same kernel with the first value of each choice that has no effect in it.
    effective: fn(Choices) -> Choices,
    compose: fn(&Choices, Option<Defect>, note: &str) -> String,
}

impl Library {
    /// The library of a task.
    ///
    /// # Errors
    /// If there is none.
    pub fn of(task: &str) -> Result<&'static Self> {
        let names = LIBRARIES.each_ref().map(|library| library.task);
        let found = LIBRARIES.iter().find(|library| library.task == task);
        found.with_context(|| {
            format!("the simulated author writes kernels for {names:?}, not for {task:?}")
        })
    }

    /// Every kernel, once.
    pub fn all(&self) -> impl Iterator<Item = Choices> {
        let count: usize = self
            .values
            .iter()
            .map(|values| usize::from(*values))
            .product();
        let each = (0..count).map(|mut index| {
            let mut choices = [0; AXES];
            for (choice, values) in choices.iter_mut().zip(self.values) {
                *choice = u8::try_from(index % usize::from(values)).expect("below a u8");
                index /= usize::from(values);
            }
            Choices(choices)
        });
        each.filter(|choices| self.effective(*choices) == *choices)
    }

    /// The same kernel with the first value of each choice that has no effect in it.
    #[must_use]
    pub fn effective(&self, choices: Choices) -> Choices {
        (self.effective)(choices)
    }

    /// Text of the kernel. `note` makes the texts of otherwise equal kernels differ.
    #[must_use]
    pub fn compose(&self, choices: &Choices, defect: Option<Defect>, note: &str) -> String {
        (self.compose)(
            choices,
            defect.map(|defect| self.possible(choices, defect)),
            note,
        )
    }

    /// The defect, or one that every kernel can have.
    #[must_use]
    pub fn possible(&self, choices: &Choices, defect: Defect) -> Defect {
        match defect {
            Defect::Race if !(self.has_barrier)(choices) => Defect::Compile,
            other => other,
        }
    }
}

/// The value of each choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Choices(pub [u8; AXES]);

impl Choices {
    /// Number of choices that differ.
    #[must_use]
    pub fn distance(&self, other: &Self) -> usize {
        let pairs = self.0.iter().zip(other.0);
        pairs.filter(|(one, other)| **one != *other).count()
    }
}

impl fmt::Display for Choices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(u8::to_string).collect();
        f.write_str(&words.join("."))
    }
}

impl From<Choices> for String {
    fn from(choices: Choices) -> Self {
        choices.to_string()
    }
}

impl TryFrom<String> for Choices {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl FromStr for Choices {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let values: Vec<u8> = text
            .split('.')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .with_context(|| format!("read the choices {text:?}"))?;
        let choices: [u8; AXES] = values
            .try_into()
            .map_err(|_| Error::msg(format!("{text:?} has not {AXES} choices")))?;
        Ok(Self(choices))
    }
}

/// A defect that the author put into a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Defect {
    /// A missing semicolon.
    Compile,
    /// A missing barrier.
    Race,
    /// A result that is too large.
    Wrong,
}

/// Fills in a template of a kernel.
fn render(template: &str, values: minijinja::Value) -> String {
    let mut environment = minijinja::Environment::new();
    environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    let syntax = minijinja::syntax::SyntaxConfig::builder()
        .trim_blocks(true)
        .keep_trailing_newline(true)
        .build()
        .expect("these settings suit each other");
    environment.set_syntax(syntax);
    environment
        .render_str(template, values)
        .expect("templates of this program are rendered")
}
