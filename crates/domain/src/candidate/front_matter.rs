//! The front matter of a candidate: lenient reading of its TOML, and its launch plan.
//!
//! A departure from the documented form that has one meaning is accepted with a note. Everything else
//! is refused, all defects at once, each with its line and with words that need no document.

mod arguments;
mod idea;
mod keys;
mod mend;
mod tables;
mod values;

use toml::de::{DeTable, DeValue};

use super::{Expectation, Idea, PlaybookStep};
use crate::cleaning;
use crate::decode_message::{self, Syntax};
use crate::plan::LaunchPlan;
use crate::problem::{self, Problem, Problems};

/// The longest quotation of a line in a note or a remedy, characters.
const MAX_QUOTED: usize = 120;

/// The contents of a front matter.
pub(super) struct Front {
    pub(super) plan: LaunchPlan,
    pub(super) idea: Option<Idea>,
    pub(super) step: Option<PlaybookStep>,
    pub(super) expect: Option<Expectation>,
    /// One sentence per departure from the documented form that was accepted.
    pub(super) notes: Vec<String>,
}

/// Reads a front matter, whose first line is line 2 of the file.
pub(super) fn read(file: &str, text: &str) -> Result<Front, Problems> {
    if let Ok(table) = DeTable::parse(text) {
        let reader = FrontMatterReader::new(file, text, Vec::new());
        return reader.front(table.get_ref());
    }
    let mended = mend::mend(text);
    let (table, errors) = DeTable::parse_recoverable(&mended.text);
    let mut reader = FrontMatterReader::new(file, &mended.text, mended.notes);
    reader.mended = true;
    for stray in mended.stray {
        reader.refuse_line(
            stray,
            "this line is neither a table nor KEY = VALUE",
            "write KEY = VALUE, or begin the line with #",
        );
    }
    for error in errors {
        let message = decode_message::describe(error.message(), Syntax::Toml);
        let offset = error.span().map_or(0, |span| span.start);
        if reader.has_problem_at(offset) {
            continue;
        }
        reader.refuse(
            offset,
            message,
            "write KEY = VALUE: numbers as they are, names and expressions in double quotes, lists \
             in square brackets, such as grid = [\"cdiv(N, 256)\", 1]",
        );
    }
    reader.incomplete = !reader.problems.is_empty();
    reader.front(table.get_ref())
}

/// Reads the parsed tables, and collects problems and notes on the way.
struct FrontMatterReader<'a> {
    file: &'a str,
    /// The front matter that spans count in.
    text: &'a str,
    /// True if lines were mended before they were parsed, so that columns are not the author's.
    mended: bool,
    /// True if some lines could not be parsed, so that a missing key may stand in one of them.
    incomplete: bool,
    problems: Vec<Problem>,
    /// Keys that are not there. They are named last, because a misspelt key may be one of them.
    missing: Vec<Problem>,
    notes: Vec<String>,
}

impl<'a> FrontMatterReader<'a> {
    fn new(file: &'a str, text: &'a str, notes: Vec<String>) -> Self {
        Self {
            file,
            text,
            mended: false,
            incomplete: false,
            problems: Vec::new(),
            missing: Vec::new(),
            notes,
        }
    }

    fn front(mut self, root: &DeTable<'_>) -> Result<Front, Problems> {
        let mut front = self.tables(root);
        if self.problems.is_empty() && self.missing.is_empty() {
            front.notes = self.notes;
            return Ok(front);
        }
        self.problems
            .sort_by_key(|problem| (problem.line, problem.column));
        self.problems.extend(self.missing);
        Err(Problems(self.problems))
    }

    fn refuse(&mut self, offset: usize, message: impl Into<String>, fix: impl Into<String>) {
        let mut problem = Problem::at(self.file, self.text, offset, message, fix);
        problem.line += 1;
        if self.mended {
            problem.column = 0;
        }
        problem.fix = cleaning::clean_line(&problem.fix, cleaning::SENTENCE_CHARACTERS);
        self.problems.push(problem);
    }

    /// Reports a defect of a line of the file.
    fn refuse_line(&mut self, line: u32, message: &str, fix: &str) {
        let mut problem = Problem::whole(self.file, message, fix);
        problem.line = line;
        self.problems.push(problem);
    }

    /// Reports a key that is not there, unless it may stand in a line that could not be parsed.
    fn refuse_missing(
        &mut self,
        offset: usize,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        if !self.incomplete {
            self.refuse(offset, message, fix);
            self.missing.extend(self.problems.pop());
        }
    }

    /// Notes an accepted departure: the text that stands there and the form in which it was read.
    fn note(&mut self, offset: usize, written: &str, read_as: &str) {
        let note = format!(
            "line {}: `{}` was read as `{}`",
            self.line(offset),
            cleaning::clean_line(written, MAX_QUOTED),
            cleaning::clean_line(read_as, MAX_QUOTED)
        );
        self.notes.push(note);
    }

    fn note_ignored(&mut self, offset: usize, key: &str) {
        let note = format!(
            "line {}: `{}` has no effect and was ignored",
            self.line(offset),
            cleaning::clean_line(key, MAX_QUOTED)
        );
        self.notes.push(note);
    }

    fn line(&self, offset: usize) -> u32 {
        problem::line_and_column(self.text, offset).0 + 1
    }

    fn has_problem_at(&self, offset: usize) -> bool {
        let line = self.line(offset);
        self.problems.iter().any(|problem| problem.line == line)
    }

    /// The text of a value as written.
    fn written(&self, value: &toml::Spanned<DeValue<'_>>) -> &'a str {
        self.text.get(value.span()).unwrap_or_default()
    }
}
