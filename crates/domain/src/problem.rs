//! Defects of a text that a person, a model or an agent wrote, each with its position and its
//! remedy.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::cleaning;

/// The most characters of a remedy.
const MAX_REMEDY_CHARACTERS: usize = 2000;
/// The most characters of a file's name.
const MAX_FILE_CHARACTERS: usize = 400;

/// One defect of an input text. Lines and columns count from 1; columns count characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The file the text came from, relative to its task folder, or what the user called it.
    pub file: String,
    /// Line of the defect, counted from 1; 0 where the whole file is meant.
    pub line: u32,
    /// Column of the defect, counted from 1; 0 where the whole line is meant.
    pub column: u32,
    /// The defect.
    pub message: String,
    /// The remedy.
    pub fix: String,
}

impl Problem {
    /// A defect at a byte offset of `text`.
    pub fn at(
        file: &str,
        text: &str,
        offset: usize,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        let (line, column) = line_and_column(text, offset);
        Self {
            file: cleaning::clean_line(file, MAX_FILE_CHARACTERS),
            line,
            column,
            message: clean_message(message),
            fix: remedy(fix),
        }
    }

    /// A defect of the file as a whole.
    pub fn whole(file: &str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            file: cleaning::clean_line(file, MAX_FILE_CHARACTERS),
            line: 0,
            column: 0,
            message: clean_message(message),
            fix: remedy(fix),
        }
    }
}

/// Cleans a message, because it may quote text that an untrusted author wrote.
fn clean_message(message: impl Into<String>) -> String {
    cleaning::clean_line(&message.into(), cleaning::SENTENCE_CHARACTERS)
}

/// A remedy, cleaned. It may be long, because it may list the allowed values.
fn remedy(fix: impl Into<String>) -> String {
    cleaning::clean_line(&fix.into(), MAX_REMEDY_CHARACTERS)
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
            if self.column > 0 {
                write!(f, ":{}", self.column)?;
            }
        }
        write!(f, ": {}", self.message)?;
        if !self.fix.is_empty() {
            write!(f, " ({})", self.fix)?;
        }
        Ok(())
    }
}

/// Every defect found in one input; never empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

/// Turns a byte offset into a line and a column, both from 1.
pub(crate) fn line_and_column(text: &str, offset: usize) -> (u32, u32) {
    let offset = (0..=offset.min(text.len()))
        .rev()
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or(0);
    let before = &text[..offset];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    (
        u32::try_from(line).unwrap_or(u32::MAX),
        u32::try_from(column).unwrap_or(u32::MAX),
    )
}
