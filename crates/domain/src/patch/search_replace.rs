//! Edits written as SEARCH/REPLACE blocks.

use super::{Hunk, HunkError, MAX_HUNKS, PatchError, Patched, apply};

/// The part of a block that a line belongs to.
enum BlockPart {
    Outside,
    Search(Hunk),
    Replace(Hunk),
}

/// Returns true if a text has a line that opens a SEARCH/REPLACE block.
pub(crate) fn is_search_replace(text: &str) -> bool {
    text.lines().any(opens)
}

/// Applies the SEARCH/REPLACE blocks of `edits` to `base`. Lines outside the blocks are skipped.
///
/// # Errors
/// The first block that is malformed or does not fit.
pub fn search_replace(base: &str, edits: &str) -> Result<Patched, PatchError> {
    apply(base, &hunks(edits)?)
}

fn hunks(edits: &str) -> Result<Vec<Hunk>, PatchError> {
    let mut hunks = Vec::new();
    let mut part = BlockPart::Outside;
    for line in edits.lines() {
        let malformed = |what: &str| {
            let number = u32::try_from(hunks.len() + 1).unwrap_or(u32::MAX);
            Err(PatchError {
                hunk: number,
                why: HunkError::Malformed {
                    what: what.to_owned(),
                },
            })
        };
        part = match part {
            BlockPart::Outside if opens(line) => BlockPart::Search(Hunk::default()),
            BlockPart::Outside => BlockPart::Outside,
            BlockPart::Search(_) | BlockPart::Replace(_) if opens(line) => {
                return malformed("another block opens before its >>>>>>> REPLACE line");
            }
            BlockPart::Search(_) if closes(line) => {
                return malformed("its ======= line is missing");
            }
            BlockPart::Search(hunk) if divides(line) => BlockPart::Replace(hunk),
            BlockPart::Search(mut hunk) => {
                hunk.before.push(line.to_owned());
                BlockPart::Search(hunk)
            }
            BlockPart::Replace(_) if hunks.len() == MAX_HUNKS => {
                return malformed("a patch has at most 200 edits; send the whole file");
            }
            BlockPart::Replace(hunk) if closes(line) => {
                hunks.push(hunk);
                BlockPart::Outside
            }
            BlockPart::Replace(mut hunk) => {
                hunk.after.push(line.to_owned());
                BlockPart::Replace(hunk)
            }
        };
    }
    let missing = match part {
        BlockPart::Outside if !hunks.is_empty() => return Ok(hunks),
        BlockPart::Outside => "no <<<<<<< SEARCH line opens it",
        BlockPart::Search(_) => "its ======= line is missing",
        BlockPart::Replace(_) => "its >>>>>>> REPLACE line is missing",
    };
    Err(PatchError {
        hunk: u32::try_from(hunks.len() + 1).unwrap_or(u32::MAX),
        why: HunkError::Malformed {
            what: missing.to_owned(),
        },
    })
}

fn opens(line: &str) -> bool {
    marker(line, '<').is_some_and(|rest| rest.starts_with("SEARCH"))
}

fn divides(line: &str) -> bool {
    marker(line, '=') == Some("")
}

fn closes(line: &str) -> bool {
    marker(line, '>').is_some_and(|rest| rest.starts_with("REPLACE"))
}

/// The rest of a line that begins with five to nine of `mark`.
fn marker(line: &str, mark: char) -> Option<&str> {
    let rest = line.trim_start_matches(mark);
    let length = line.len() - rest.len();
    (5..=9).contains(&length).then(|| rest.trim())
}
