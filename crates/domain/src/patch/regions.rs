//! Editable regions: what a task fences with `// region: NAME` and `// endregion` may change, the
//! rest may not.
//!
//! The fence keeps honest edits where the task wants them and changes reviewable. It says nothing
//! about meaning: a macro defined inside a region still reaches outside. What a kernel computes is
//! decided by running it.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::candidate::KernelSource;
use crate::plan::LaunchPlan;

/// A change outside the editable regions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Breach)]
pub struct RegionViolation {
    /// The line of the new text, from 1.
    pub line: u32,
    /// The region before it; none at the file's beginning.
    pub after: Option<String>,
    /// The line of the fixed text at this position; none if it has no more lines.
    pub expected: Option<String>,
}

impl fmt::Display for RegionViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} is outside the editable regions", self.line)?;
        if let Some(region) = &self.after {
            write!(f, " (after region {region})")?;
        }
        match &self.expected {
            Some(line) => write!(f, "; it must read {line:?}"),
            None => f.write_str("; nothing more may stand there"),
        }
    }
}

/// The names of a text's regions, in order; empty if it fences nothing.
pub fn regions(text: &str) -> Vec<String> {
    let names = text.lines().filter_map(|line| match mark(line) {
        Some(Mark::Opens(name)) => Some(name.to_owned()),
        _ => None,
    });
    names.collect()
}

/// The first line of `new` that differs from `base` outside the regions of `base`; none if `base`
/// has no regions or `new` keeps to them.
///
/// White space at line ends is overlooked. In the front matter, `[idea]` is always open, and a
/// plan that means the same may be written differently, each tunable with any of its choices; a plan
/// that means something else needs a region there (`# region: NAME`).
pub fn outside_regions(base: &KernelSource, new: &KernelSource) -> Option<RegionViolation> {
    if regions(base.text()).is_empty() {
        return None;
    }
    let same_plan = same_search_space(base.plan(), new.plan())
        && base.step() == new.step()
        && base.expectation() == new.expectation();
    let front = if same_plan {
        None
    } else {
        let fixed = without_idea(base.front_matter());
        let found = without_idea(new.front_matter());
        breach(&fixed, &found)
    };
    front.or_else(|| {
        let fixed: Vec<_> = numbered(base.body(), 1).collect();
        let line = new.text().lines().count() - new.body().lines().count() + 1;
        let found: Vec<_> = numbered(new.body(), line).collect();
        breach(&fixed, &found)
    })
}

/// Returns true if two plans differ at most in the values of their tunables, which a sweep chooses.
fn same_search_space(one: &LaunchPlan, other: &LaunchPlan) -> bool {
    let choices = |plan: &LaunchPlan| -> Vec<(String, Vec<i64>)> {
        let tunables = plan.tunables.iter();
        tunables
            .map(|(name, tunable)| (name.clone(), tunable.choices.clone()))
            .collect()
    };
    one.steps == other.steps && one.workspaces == other.workspaces && choices(one) == choices(other)
}

/// The reasons why a text has no region of a name that can be replaced. Messages read after the name
/// of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RegionDefect {
    /// No line opens it.
    #[error("has no line `// region: NAME`")]
    Missing,
    /// Several lines open it.
    #[error("has several lines `// region: NAME`")]
    Repeated,
    /// No line closes it before the next region or the end.
    #[error("has no line `// endregion` after `// region: NAME`")]
    Open,
}

/// The lines of a region of any text, without its marks.
///
/// # Errors
/// A [`RegionDefect`].
pub fn region<'a>(text: &'a str, name: &str) -> Result<&'a str, RegionDefect> {
    find(text, name).map(|inside| &text[inside])
}

/// The text with other lines in a region. Everything else stays as it is, the marks included. The new
/// lines get the line ends of the text.
///
/// # Errors
/// A [`RegionDefect`].
pub fn replace_region(text: &str, name: &str, lines: &str) -> Result<String, RegionDefect> {
    let inside = find(text, name)?;
    let end = if text[..inside.start].ends_with("\r\n") {
        "\r\n"
    } else {
        "\n"
    };
    let lines = lines.lines().flat_map(|line| [line, end]);
    let parts = [&text[..inside.start]].into_iter().chain(lines);
    Ok(parts.chain([&text[inside.end..]]).collect())
}

/// The bytes between the line that opens a region and the line that closes it.
fn find(text: &str, name: &str) -> Result<Range<usize>, RegionDefect> {
    let mut at = 0;
    let mut starts = Vec::new();
    let mut found: Option<Result<Range<usize>, RegionDefect>> = None;
    for line in text.split_inclusive('\n') {
        let open = starts.last().copied();
        match mark(line) {
            Some(Mark::Opens(other)) => {
                if open.is_some() && found.is_none() {
                    found = Some(Err(RegionDefect::Open));
                }
                if other == name {
                    starts.push(at + line.len());
                }
            }
            Some(Mark::Closes) if found.is_none() => {
                found = open.map(|start| Ok(start..at));
            }
            _ => {}
        }
        at += line.len();
    }
    match starts.len() {
        0 => Err(RegionDefect::Missing),
        1 => found.unwrap_or(Err(RegionDefect::Open)),
        _ => Err(RegionDefect::Repeated),
    }
}

enum Mark<'a> {
    Opens(&'a str),
    Closes,
}

/// Reads `// region: NAME`, `// endregion` and their forms with `#`.
fn mark(line: &str) -> Option<Mark<'_>> {
    let line = line.trim();
    let rest = line.strip_prefix("//").or_else(|| line.strip_prefix('#'))?;
    let rest = rest.trim();
    if rest == "endregion" {
        return Some(Mark::Closes);
    }
    rest.strip_prefix("region:")
        .map(|name| Mark::Opens(name.trim()))
}

/// Returns true for a line that opens or closes a region.
pub fn is_region_mark(line: &str) -> bool {
    mark(line).is_some()
}

fn numbered(text: &str, first: usize) -> impl Iterator<Item = (usize, &str)> {
    (first..).zip(text.lines().map(str::trim_end))
}

/// The lines of a front matter without its `[idea]` table, numbered as in the file.
fn without_idea(front: &str) -> Vec<(usize, &str)> {
    let mut inside = false;
    numbered(front, 2)
        .filter(|(_, line)| {
            if line.starts_with('[') {
                inside = *line == "[idea]";
            }
            !inside && !line.is_empty()
        })
        .collect()
}

/// The first of `found` that differs from `fixed` outside the regions of `fixed`.
fn breach(fixed: &[(usize, &str)], found: &[(usize, &str)]) -> Option<RegionViolation> {
    let mut found_lines = found.iter().copied().peekable();
    let mut region: Option<&str> = None;
    let mut after: Option<&str> = None;
    let last = found.last().map_or(1, |(number, _)| *number);
    for &(_, line) in fixed {
        let mut closed = None;
        match mark(line) {
            Some(Mark::Opens(name)) => region = Some(name),
            Some(Mark::Closes) if region.is_some() => {
                // Skip the new text's lines inside the region, up to its closing mark.
                while found_lines
                    .next_if(|(_, line)| mark(line).is_none())
                    .is_some()
                {}
                closed = region.take();
            }
            _ if region.is_some() => continue,
            _ => {}
        }
        let next = found_lines.next();
        if next.is_none_or(|(_, found)| found != line) {
            return Some(RegionViolation {
                line: line_number(next.map_or(last, |(number, _)| number)),
                after: after.map(str::to_owned),
                expected: Some(line.to_owned()),
            });
        }
        after = closed.or(after);
    }
    if region.is_some() {
        // The last region is open to the end.
        return None;
    }
    found_lines.next().map(|(number, _)| RegionViolation {
        line: line_number(number),
        after: after.map(str::to_owned),
        expected: None,
    })
}

fn line_number(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
