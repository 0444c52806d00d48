//! Edits of a text: SEARCH/REPLACE blocks and unified diffs, both reduced to hunks that replace
//! lines found in the text by other lines.
//!
//! Language models write these from memory, so line numbers are only hints and white space may
//! differ. The position is never guessed: lines that occur nowhere, or several times, are an error.
//! [`outside_regions`] restricts edits to the regions that a task leaves open.

mod regions;
mod search_replace;
mod unified;

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use regions::{
    RegionDefect, RegionViolation, is_region_mark, outside_regions, region, regions, replace_region,
};
pub use search_replace::search_replace;
pub use unified::unified;

pub(crate) use search_replace::is_search_replace;
pub(crate) use unified::is_unified;

/// The most hunks one patch may have.
pub const MAX_HUNKS: usize = 200;
/// The longest line of the text that an error quotes, characters.
const MAX_QUOTE: usize = 160;

/// The error of a patch that does not apply. No part of it was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema, thiserror::Error)]
#[error("edit {hunk} {why}")]
pub struct PatchError {
    /// The hunk's number, from 1.
    pub hunk: u32,
    /// The reason.
    pub why: HunkError,
}

/// The defects of a hunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schema(as = Misfit)]
pub enum HunkError {
    /// The hunk itself is not well-formed.
    Malformed {
        /// The part that is missing or superfluous.
        what: String,
    },
    /// It does not name the lines that it replaces.
    Unplaced,
    /// The lines it replaces stand nowhere.
    NotFound {
        /// The first of them that is not blank.
        line: String,
        /// The lines of the text that match best.
        nearest: Option<Nearest>,
    },
    /// The lines it replaces stand in several places.
    Ambiguous {
        /// The lines at which they begin, from 1; the first of them.
        lines: Vec<u32>,
    },
}

/// The place of a text that resembles a hunk most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Nearest {
    /// The first line that differs, from 1.
    pub line: u32,
    /// The line in the text.
    pub text: String,
    /// The line that the hunk expects.
    pub expected: String,
}

impl fmt::Display for HunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { what } => write!(f, "is malformed: {what}"),
            Self::Unplaced => {
                f.write_str("does not say which lines it replaces: quote some lines of the file")
            }
            Self::NotFound { line, nearest } => {
                write!(
                    f,
                    "replaces lines that are not in the file, from {line:?} on"
                )?;
                match nearest {
                    Some(Nearest {
                        line,
                        text,
                        expected,
                    }) => {
                        write!(
                            f,
                            "; the closest place has {text:?} in line {line} where {expected:?} was expected"
                        )
                    }
                    None => f.write_str("; quote lines exactly as they stand there"),
                }
            }
            Self::Ambiguous { lines } => {
                let lines: Vec<_> = lines.iter().map(u32::to_string).collect();
                write!(
                    f,
                    "replaces lines that stand in several places (from lines {}): quote more lines around them",
                    lines.join(", ")
                )
            }
        }
    }
}

/// A patched text, with the differences that were ignored to apply the patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patched {
    /// The new text.
    pub text: String,
    /// One sentence per liberty taken.
    pub notes: Vec<String>,
}

/// A replacement of consecutive lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Hunk {
    /// Lines to find; all of them together.
    before: Vec<String>,
    /// Lines to put there.
    after: Vec<String>,
    /// The line of the old text where they should stand, counted from 0: a hint.
    at: Option<usize>,
}

/// Applies hunks in order, each to the result of those before it.
fn apply(base: &str, hunks: &[Hunk]) -> Result<Patched, PatchError> {
    let mut lines: Vec<String> = base.lines().map(str::to_owned).collect();
    let mut notes = Vec::new();
    // Lines that earlier hunks added, less the lines that they removed.
    let mut shift = 0_isize;
    for (number, hunk) in (1..).zip(hunks) {
        let hint = hunk.at.and_then(|at| at.checked_add_signed(shift));
        let place = place(&lines, hunk, hint).map_err(|why| PatchError { hunk: number, why })?;
        notes.extend(place.note.map(|note| format!("edit {number} {note}")));
        shift += hunk.after.len().cast_signed() - place.length.cast_signed();
        lines.splice(
            place.start..place.start + place.length,
            hunk.after.iter().cloned(),
        );
    }
    let mut text = lines.join("\n");
    if !lines.is_empty() {
        text.push('\n');
    }
    Ok(Patched { text, notes })
}

struct HunkPlace {
    start: usize,
    length: usize,
    note: Option<&'static str>,
}

/// Brings a line into a form in which two lines count as the same.
type LineForm = fn(&str) -> Cow<'_, str>;

fn place(lines: &[String], hunk: &Hunk, hint: Option<usize>) -> Result<HunkPlace, HunkError> {
    let exact: LineForm = |line| Cow::Borrowed(line);
    let trimmed: LineForm = |line| Cow::Borrowed(line.trim_end());
    let spaced: LineForm = |line| Cow::Owned(line.split_whitespace().collect::<Vec<_>>().join(" "));
    let length = hunk.before.len();
    if hunk.before.iter().all(is_blank) {
        let there = |start: usize| lines.get(start..start + length);
        return match hint {
            Some(start) if there(start).is_some_and(|lines| lines.iter().all(is_blank)) => {
                Ok(HunkPlace {
                    start,
                    length,
                    note: Some("was placed by its line number alone"),
                })
            }
            _ => Err(HunkError::Unplaced),
        };
    }
    let bare = without_blank_ends(&hunk.before);
    let attempts: [(&[String], LineForm, Option<&'static str>); 3] = [
        (&hunk.before, exact, None),
        (&hunk.before, trimmed, None),
        (
            bare,
            spaced,
            Some("was found only with white space overlooked"),
        ),
    ];
    let mut agreements = Vec::new();
    for (before, form, note) in attempts {
        agreements = agreeing(lines, before, form);
        let length = before.len();
        let fits = |start: &usize| agreements[*start] == length;
        let starts: Vec<usize> = (0..agreements.len()).filter(fits).collect();
        let start = match starts.as_slice() {
            [] => continue,
            [start] => *start,
            several => match hint.filter(|hint| several.contains(hint)) {
                Some(start) => start,
                None => {
                    let lines = several.iter().take(5).map(|&start| line_number(start));
                    return Err(HunkError::Ambiguous {
                        lines: lines.collect(),
                    });
                }
            },
        };
        return Ok(HunkPlace {
            start,
            length,
            note,
        });
    }
    Err(HunkError::NotFound {
        line: quote(bare.first()),
        nearest: nearest(lines, bare, &agreements),
    })
}

/// For each line of `lines`, the number of lines of `before`, from its first on, that stand there.
/// This is the Z-function of both together: linear, so that no patch can keep a processor busy.
fn agreeing(lines: &[String], before: &[String], form: LineForm) -> Vec<usize> {
    let all: Vec<Cow<'_, str>> = before.iter().chain(lines).map(|line| form(line)).collect();
    let mut agreeing = vec![0_usize; all.len()];
    let (mut left, mut right) = (0, 0);
    for at in 1..all.len() {
        let mut length = if at < right {
            agreeing[at - left].min(right - at)
        } else {
            0
        };
        while at + length < all.len() && all[length] == all[at + length] {
            length += 1;
        }
        if at + length > right {
            (left, right) = (at, at + length);
        }
        agreeing[at] = length;
    }
    let agreeing = agreeing[before.len()..].iter();
    agreeing.map(|&length| length.min(before.len())).collect()
}

/// The place where most lines agree from the first on; none if the first line stands nowhere.
fn nearest(lines: &[String], before: &[String], agreeing: &[usize]) -> Option<Nearest> {
    let best = agreeing.iter().copied().max().filter(|&best| best > 0)?;
    let start = agreeing.iter().position(|&length| length == best)?;
    Some(Nearest {
        line: line_number(start + best),
        text: quote(lines.get(start + best)),
        expected: quote(before.get(best)),
    })
}

fn without_blank_ends(lines: &[String]) -> &[String] {
    let start = lines.iter().take_while(|line| is_blank(line)).count();
    let end = lines.len() - lines.iter().rev().take_while(|line| is_blank(line)).count();
    lines.get(start..end).unwrap_or_default()
}

#[expect(clippy::ptr_arg, reason = "a predicate over a slice of strings")]
fn is_blank(line: &String) -> bool {
    line.trim().is_empty()
}

fn line_number(index: usize) -> u32 {
    u32::try_from(index + 1).unwrap_or(u32::MAX)
}

fn quote(line: Option<&String>) -> String {
    let line = line.map_or("", |line| line.trim());
    line.chars()
        .filter(|c| !c.is_control())
        .take(MAX_QUOTE)
        .collect()
}
