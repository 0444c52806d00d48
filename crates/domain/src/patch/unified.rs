//! Edits written as a unified diff. Line numbers may be wrong or missing: hunks are found by
//! their lines.

use super::{Hunk, HunkError, MAX_HUNKS, PatchError, Patched, apply};

/// Returns true if a text looks like a unified diff: a hunk's header with changed lines after it.
pub(crate) fn is_unified(text: &str) -> bool {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("@@"));
    lines.any(|line| line.starts_with(['+', '-']))
}

/// Applies the unified diff `diff` to `base`. Lines before the first hunk are skipped.
///
/// # Errors
/// The first hunk that is malformed or does not fit.
pub fn unified(base: &str, diff: &str) -> Result<Patched, PatchError> {
    apply(base, &hunks(diff)?)
}

fn hunks(diff: &str) -> Result<Vec<Hunk>, PatchError> {
    let mut hunks: Vec<Hunk> = Vec::new();
    let mut lines = diff.lines().peekable();
    while let Some(line) = lines.next() {
        let inside = hunks.last_mut();
        match (line.as_bytes().first(), inside) {
            (Some(b'@'), _) if line.starts_with("@@") => {
                hunks.push(Hunk {
                    at: stated_line(line),
                    ..Hunk::default()
                });
            }
            // The header of another file's diff ends a hunk; there is only one file.
            (Some(b'-'), _) if line.starts_with("--- ") && header_follows(lines.peek()) => {
                lines.next();
            }
            (_, Some(_)) if line.starts_with("diff --git ") || line.starts_with("index ") => {}
            (Some(b'\\'), _) | (_, None) => {}
            (Some(b'-'), Some(hunk)) => hunk.before.push(line[1..].to_owned()),
            (Some(b'+'), Some(hunk)) => hunk.after.push(line[1..].to_owned()),
            (_, Some(hunk)) => {
                // Models drop the blank that marks a line as context.
                let context = line.strip_prefix(' ').unwrap_or(line);
                hunk.before.push(context.to_owned());
                hunk.after.push(context.to_owned());
            }
        }
    }
    let wrong = |hunk: usize, what: &str| {
        Err(PatchError {
            hunk: u32::try_from(hunk).unwrap_or(u32::MAX),
            why: HunkError::Malformed {
                what: what.to_owned(),
            },
        })
    };
    if hunks.is_empty() {
        return wrong(1, "no @@ line opens it");
    }
    if hunks.len() > MAX_HUNKS {
        return wrong(
            MAX_HUNKS + 1,
            "a patch has at most 200 edits; send the whole file",
        );
    }
    for (number, hunk) in (1..).zip(&mut hunks) {
        if hunk.before == hunk.after {
            return wrong(number, "it changes nothing");
        }
        // A blank line between two hunks reads as context.
        while hunk.before.len() > 1 && ends_blank(&hunk.before) && ends_blank(&hunk.after) {
            hunk.before.pop();
            hunk.after.pop();
        }
    }
    Ok(hunks)
}

fn ends_blank(lines: &[String]) -> bool {
    lines.last().is_some_and(|line| line.trim().is_empty())
}

fn header_follows(next: Option<&&str>) -> bool {
    next.is_some_and(|line| line.starts_with("+++ "))
}

/// The first old line that a header such as `@@ -12,7 +12,9 @@` states, counted from 0. A hunk
/// without old lines names the line that it follows.
fn stated_line(header: &str) -> Option<usize> {
    let old = header
        .trim_start_matches('@')
        .trim_start()
        .strip_prefix('-')?;
    let old = old.split([' ', '@']).next()?;
    let (line, count) = old.split_once(',').unwrap_or((old, "1"));
    let line: usize = line.parse().ok()?;
    if count == "0" {
        Some(line)
    } else {
        line.checked_sub(1)
    }
}
