//! Reading of a language model's reply: the kernel in it, or the reason why there is none.
//!
//! A reply is one whole file, SEARCH/REPLACE edits or a unified diff. The parser accepts a defective
//! form where only one meaning is possible, and notes each such assumption. It never chooses between
//! two meanings. A reply without a kernel is a typed [`Unusable`], whose sentence tells the model what
//! to send instead. Nothing here knows models, prompts or runs, and no text makes it panic.

mod adopt;
mod blocks;
mod labels;

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::candidate::{KernelSource, MAX_SOURCE_BYTES};
use crate::model::ReplyEnd;
use crate::patch::{self, PatchError, RegionViolation};
use crate::problem::Problem;
use blocks::{CodeBlock, Document, document};
use labels::{MAX_THOUGHT, MAX_TITLE, Stated, stated, tidy};

/// The longest reply that is read, bytes: several times the longest source.
pub const MAX_REPLY_BYTES: usize = 4 * MAX_SOURCE_BYTES;
const OPENING: &str = "/*---";

/// The sources that a reply is read against.
#[derive(Debug, Clone, Copy)]
pub struct ReplyBases<'a> {
    /// The name of the reply's file in problems.
    pub file: &'a str,
    /// The source that edits apply to, and whose plan a kernel without one may adopt.
    pub primary: &'a KernelSource,
    /// The task's baseline: where it has regions, only they may change.
    pub baseline: &'a KernelSource,
    /// The reason why the reply ended.
    pub end: ReplyEnd,
}

/// The kernel of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// The whole file; [`KernelSource::parse`] accepts it.
    pub source: String,
    /// The form in which it was written.
    pub form: ReplyForm,
    /// A few words for it, if it has them.
    pub title: Option<String>,
    /// The reason why it should be faster, if the reply states one.
    pub thought: Option<String>,
    /// One sentence per liberty that reading took.
    pub notes: Vec<String>,
}

/// The forms in which a reply writes its kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplyForm {
    /// The whole file.
    Whole,
    /// SEARCH/REPLACE blocks.
    SearchReplace,
    /// A unified diff.
    UnifiedDiff,
}

/// The reasons why a reply has no kernel that could be evaluated. The text is a sentence to its
/// author.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Unusable {
    /// The reply is empty or white space.
    Empty,
    /// Longer than any source.
    TooLong {
        /// Its bytes.
        bytes: u64,
        /// The most that are read.
        limit: u64,
    },
    /// The reply stops before its end.
    Truncated {
        /// Line of the block that is never closed, from 1; none if the token limit ended it.
        line: Option<u32>,
    },
    /// No kernel in it.
    ProseOnly,
    /// Several kernels, and none of them is clearly meant.
    SeveralBlocks {
        /// The number found.
        found: u32,
    },
    /// A kernel without a launch plan that does not fit its parent's.
    MissingPlan,
    /// A plan or text that does not parse.
    Defective {
        /// Every defect.
        problems: Vec<Problem>,
    },
    /// An edit that does not apply.
    PatchFailed(PatchError),
    /// A change outside the regions that the task leaves open.
    FenceBroken(RegionViolation),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the reply is empty: send one whole .cu file"),
            Self::TooLong { bytes, limit } => write!(
                f,
                "the reply has {bytes} bytes, at most {limit} are read: send the file alone"
            ),
            Self::Truncated { line: Some(line) } => write!(
                f,
                "the code block that opens in line {line} of the reply is never closed: send the \
                 file again, whole, with less around it"
            ),
            Self::Truncated { line: None } => f.write_str(
                "the reply ran into its token limit: send the file again with less around it, or \
                 send edits",
            ),
            Self::ProseOnly => f.write_str(
                "the reply has no kernel: send one whole .cu file in one fenced code block",
            ),
            Self::SeveralBlocks { found } => write!(
                f,
                "the reply has {found} different whole kernels: send exactly one"
            ),
            Self::MissingPlan => f.write_str(
                "the kernel has no launch plan, and its parent's does not fit its entries: begin \
                 the file with the front matter between /*--- and ---*/",
            ),
            Self::Defective { problems } => match problems.as_slice() {
                [] => f.write_str("the file does not parse"),
                [problem] => write!(f, "the file does not parse: {problem}"),
                [problem, others @ ..] => write!(
                    f,
                    "the file does not parse: {problem}; and {} more",
                    others.len()
                ),
            },
            Self::PatchFailed(error) => error.fmt(f),
            Self::FenceBroken(breach) => breach.fmt(f),
        }
    }
}

impl std::error::Error for Unusable {}

/// Reads a reply.
///
/// # Errors
/// [`Unusable`], for any text that does not hold exactly one kernel inside the rules.
pub fn read(text: &str, bases: &ReplyBases<'_>) -> Result<Kernel, Unusable> {
    if text.len() > MAX_REPLY_BYTES {
        return Err(Unusable::TooLong {
            bytes: text.len() as u64,
            limit: MAX_REPLY_BYTES as u64,
        });
    }
    if text.trim().is_empty() {
        return Err(Unusable::Empty);
    }
    if bases.end == ReplyEnd::Length {
        return Err(Unusable::Truncated { line: None });
    }
    let text = text.replace("\r\n", "\n");
    let mut notes = Vec::new();
    let text = without_reasoning(text.trim_start_matches('\u{feff}'), &mut notes)?;
    let text = without_closing_fence(text, &mut notes);
    let document = document(text);
    if let Some(line) = document.open {
        return Err(Unusable::Truncated { line: Some(line) });
    }
    let found = find(text, &document, bases, &mut notes)?;
    let source =
        KernelSource::parse(bases.file, found.text).map_err(|problems| Unusable::Defective {
            problems: problems.0,
        })?;
    notes.extend(source.notes().iter().cloned());
    if let Some(breach) = patch::outside_regions(bases.baseline, &source) {
        return Err(Unusable::FenceBroken(breach));
    }
    let prose = if !document.blocks.is_empty() {
        stated(&document.prose)
    } else if found.form == ReplyForm::SearchReplace {
        let lines = document.prose.iter().copied();
        let before = lines.take_while(|line| !patch::is_search_replace(line));
        stated(&before.collect::<Vec<_>>())
    } else {
        Stated::default()
    };
    // An edit leaves the parent's idea in place where it says nothing of its own.
    let own = source
        .idea()
        .filter(|idea| found.form == ReplyForm::Whole || bases.primary.idea() != Some(*idea));
    Ok(Kernel {
        title: own
            .and_then(|idea| tidy(&idea.title, MAX_TITLE))
            .or(prose.title),
        thought: own
            .and_then(|idea| tidy(&idea.hypothesis, MAX_THOUGHT))
            .or(prose.thought),
        source: source.text().to_owned(),
        form: found.form,
        notes,
    })
}

/// The text of a kernel in a reply, with the form in which it was written.
struct KernelText {
    text: String,
    form: ReplyForm,
}

/// Removes the reasoning that some models write first, between tags.
fn without_reasoning<'a>(text: &'a str, notes: &mut Vec<String>) -> Result<&'a str, Unusable> {
    for (opens, closes) in [("<think>", "</think>"), ("<thinking>", "</thinking>")] {
        let opened = text.trim_start().starts_with(opens);
        // Some servers cut the opening tag off.
        match text.find(closes) {
            Some(end) if opened || !text[..end].contains(OPENING) => {
                notes.push("the reasoning before the answer was skipped".to_owned());
                return Ok(&text[end + closes.len()..]);
            }
            None if opened => return Err(Unusable::Truncated { line: Some(1) }),
            _ => {}
        }
    }
    Ok(text)
}

/// Cuts a closing fence, and the prose after it, from a file that begins without a fence.
fn without_closing_fence<'a>(text: &'a str, notes: &mut Vec<String>) -> &'a str {
    if !text.trim_start().starts_with(OPENING) {
        return text;
    }
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        if blocks::is_fence(line) {
            notes.push("what follows the unfenced file was skipped".to_owned());
            return &text[..end];
        }
        end += line.len();
    }
    text
}

fn find(
    text: &str,
    document: &Document<'_>,
    bases: &ReplyBases<'_>,
    notes: &mut Vec<String>,
) -> Result<KernelText, Unusable> {
    if patch::is_search_replace(text) {
        return edited(
            ReplyForm::SearchReplace,
            patch::search_replace,
            text,
            bases,
            notes,
        );
    }
    if document.blocks.is_empty() {
        return unfenced(text, bases, notes);
    }
    let is_whole = |block: &&CodeBlock<'_>| {
        let within = || block.lines.iter().any(|line| line.starts_with(OPENING));
        block.first_line().starts_with(OPENING) || (within() && !patch::is_unified(&block.text()))
    };
    let whole: Vec<&CodeBlock<'_>> = document.blocks.iter().filter(is_whole).collect();
    if !whole.is_empty() {
        let text = one_of(&whole, bases)?;
        if !whole.iter().any(|block| block.text().trim_start() == text) {
            notes.push("lines before the front matter were moved behind it".to_owned());
        }
        if document.blocks.len() > 1 {
            notes.push("code blocks beside the whole file were skipped".to_owned());
        }
        return Ok(KernelText {
            text,
            form: ReplyForm::Whole,
        });
    }
    let is_diff = |block: &&CodeBlock<'_>| patch::is_unified(&block.text());
    let diffs: String = document
        .blocks
        .iter()
        .filter(is_diff)
        .map(CodeBlock::text)
        .collect();
    if !diffs.is_empty() {
        return edited(ReplyForm::UnifiedDiff, patch::unified, &diffs, bases, notes);
    }
    planless(&document.blocks, bases, notes)
}

/// Moves the text before the front matter behind it, because some models put a comment or an include
/// there.
fn front_matter_first(text: &str) -> String {
    const CLOSING: &str = "\n---*/\n";
    let behind = || {
        let start = text.find(&format!("\n{OPENING}"))? + 1;
        let end = start + text[start..].find(CLOSING)? + CLOSING.len();
        let (before, front, after) = (&text[..start], &text[start..end], &text[end..]);
        Some(format!("{front}{before}{after}"))
    };
    if text.starts_with(OPENING) {
        return text.to_owned();
    }
    behind().unwrap_or_else(|| text.to_owned())
}

/// The one of several whole files that is meant: the only one that parses and is not a quotation
/// of the parent.
fn one_of(blocks: &[&CodeBlock<'_>], bases: &ReplyBases<'_>) -> Result<String, Unusable> {
    let mut texts: Vec<String> = Vec::new();
    for block in blocks {
        let text = front_matter_first(block.text().trim_start());
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    if let [text] = texts.as_mut_slice() {
        return Ok(std::mem::take(text));
    }
    let quotes = |text: &str| text.trim_end() == bases.primary.text().trim_end();
    let parses = |text: &&String| KernelSource::parse(bases.file, text.as_str()).is_ok();
    let parsed: Vec<&String> = texts.iter().filter(parses).collect();
    let meant: Vec<&String> = parsed
        .iter()
        .copied()
        .filter(|text| !quotes(text))
        .collect();
    match (meant.as_slice(), parsed.as_slice(), texts.last()) {
        ([text], _, _) | ([], [text], _) => Ok((*text).clone()),
        // None parses: report the defects of the last one.
        ([], [], Some(last)) => Ok(last.clone()),
        (meant, ..) => Err(Unusable::SeveralBlocks {
            found: u32::try_from(meant.len()).unwrap_or(u32::MAX),
        }),
    }
}

/// A reply without a fenced block: the file itself, or a diff, or neither.
fn unfenced(
    text: &str,
    bases: &ReplyBases<'_>,
    notes: &mut Vec<String>,
) -> Result<KernelText, Unusable> {
    let starts: Vec<usize> = text
        .match_indices(OPENING)
        .map(|(at, _)| at)
        .filter(|&at| text[..at].ends_with('\n') || text[..at].trim().is_empty())
        .collect();
    match starts.as_slice() {
        [] if patch::is_unified(text) => {
            edited(ReplyForm::UnifiedDiff, patch::unified, text, bases, notes)
        }
        [] => Err(Unusable::ProseOnly),
        [start] => {
            if !text[..*start].trim().is_empty() {
                notes.push("the prose before the unfenced file was skipped".to_owned());
            }
            Ok(KernelText {
                text: text[*start..].to_owned(),
                form: ReplyForm::Whole,
            })
        }
        several => Err(Unusable::SeveralBlocks {
            found: u32::try_from(several.len()).unwrap_or(u32::MAX),
        }),
    }
}

fn edited(
    form: ReplyForm,
    apply: fn(&str, &str) -> Result<patch::Patched, PatchError>,
    edits: &str,
    bases: &ReplyBases<'_>,
    notes: &mut Vec<String>,
) -> Result<KernelText, Unusable> {
    let patched = apply(bases.primary.text(), edits).map_err(Unusable::PatchFailed)?;
    notes.extend(patched.notes);
    Ok(KernelText {
        text: patched.text,
        form,
    })
}

/// Blocks none of which begins with a front matter: a kernel with its plan in a block of its own,
/// or a kernel that fits its parent's plan.
fn planless(
    blocks: &[CodeBlock<'_>],
    bases: &ReplyBases<'_>,
    notes: &mut Vec<String>,
) -> Result<KernelText, Unusable> {
    let kernels: Vec<String> = blocks
        .iter()
        .map(CodeBlock::text)
        .filter(|text| adopt::has_kernel(text))
        .collect();
    let kernel = match kernels.as_slice() {
        [] => return Err(Unusable::ProseOnly),
        [kernel] => kernel,
        several => {
            return Err(Unusable::SeveralBlocks {
                found: u32::try_from(several.len()).unwrap_or(u32::MAX),
            });
        }
    };
    let is_plan = |text: &String| {
        text.lines()
            .any(|line| matches!(line.trim(), "[[launch]]" | "[launch]"))
    };
    let mut plans = blocks.iter().map(CodeBlock::text).filter(is_plan);
    if let (Some(plan), None) = (plans.next(), plans.next()) {
        notes.push("the launch plan was taken from a block of its own".to_owned());
        let text = format!("{OPENING}\n{}\n---*/\n{kernel}", plan.trim());
        return Ok(KernelText {
            text,
            form: ReplyForm::Whole,
        });
    }
    let text = adopt::adopted(bases.primary, kernel).ok_or(Unusable::MissingPlan)?;
    notes.push(
        "the file came without a launch plan and was given its parent's, which fits its entries"
            .to_owned(),
    );
    Ok(KernelText {
        text,
        form: ReplyForm::Whole,
    })
}
