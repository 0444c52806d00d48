//! Four sanitizers, each with a result of its own. A tool that did not look has not passed.

use serde::{Deserialize, Serialize};

use crate::finding::{Finding, FindingKind};
use crate::plain;

/// Findings kept of one tool.
const MAX_FINDINGS: usize = 20;
/// What begins every line of compute-sanitizer.
const MARK: &str = "=========";

/// A sanitizer, named as `compute-sanitizer --tool` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tool {
    /// Accesses outside of buffers, misaligned ones, traps.
    Memcheck,
    /// Accesses that nothing orders.
    Racecheck,
    /// Memory that is read and was never written.
    Initcheck,
    /// Barriers that not all threads reach.
    Synccheck,
}

impl Tool {
    /// All four, in the order in which they are run.
    pub const ALL: [Self; 4] = [
        Self::Memcheck,
        Self::Racecheck,
        Self::Initcheck,
        Self::Synccheck,
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memcheck => "memcheck",
            Self::Racecheck => "racecheck",
            Self::Initcheck => "initcheck",
            Self::Synccheck => "synccheck",
        }
    }

    /// The tool whose subject a finding of the emulated device is; none for a kernel that was
    /// stopped because it did not come to an end, and for what no such tool looks for.
    pub fn of(kind: FindingKind) -> Option<Self> {
        Some(match kind {
            FindingKind::OutOfBoundsRead
            | FindingKind::OutOfBoundsWrite
            | FindingKind::Misaligned
            | FindingKind::IllegalAddress
            | FindingKind::Trap
            | FindingKind::Assert => Self::Memcheck,
            FindingKind::SharedRace | FindingKind::GlobalRace | FindingKind::ScheduleDependent => {
                Self::Racecheck
            }
            FindingKind::Uninitialised => Self::Initcheck,
            FindingKind::DivergentBarrier | FindingKind::Deadlock => Self::Synccheck,
            FindingKind::Hang | FindingKind::LayoutDependent => return None,
        })
    }
}

/// What one tool found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The tool.
    pub tool: Tool,
    /// What became of it.
    #[serde(flatten)]
    pub status: Status,
}

/// What became of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Status {
    /// It looked at all that it was to look at and has nothing to say.
    Clean,
    /// It has something to say.
    Found {
        /// At most twenty, in the tool's order.
        findings: Vec<Said>,
    },
    /// It did not look, or not at everything.
    NotRun {
        /// Why, and how to change that.
        reason: String,
    },
}

/// One finding in a tool's words, capped and stripped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// Line in the candidate's file, where known.
    pub line: Option<u32>,
    /// What it says.
    pub message: String,
}

/// The four results of the emulated device's checks. `unfinished` says why not every execution
/// came to its end, if one did not: then only the tools that found something have looked.
pub fn emulated(findings: &[Finding], unfinished: Option<&str>) -> Vec<ToolResult> {
    let results = Tool::ALL.into_iter().map(|tool| {
        let own = findings
            .iter()
            .filter(|finding| Tool::of(finding.kind) == Some(tool));
        let mut said: Vec<Said> = Vec::new();
        for finding in own {
            let one = Said {
                line: finding.line,
                message: plain::line(&finding.message, plain::SENTENCE_CHARACTERS),
            };
            if said.len() < MAX_FINDINGS && !said.contains(&one) {
                said.push(one);
            }
        }
        let status = match (said.is_empty(), unfinished) {
            (false, _) => Status::Found { findings: said },
            (true, Some(reason)) => Status::NotRun {
                reason: reason.to_owned(),
            },
            (true, None) => Status::Clean,
        };
        ToolResult { tool, status }
    });
    results.collect()
}

/// Reads the log of compute-sanitizer. Without its closing summary nothing is believed.
pub fn read(tool: Tool, log: &str) -> Status {
    let not_run = |reason: String| Status::NotRun { reason };
    let lines = log
        .lines()
        .filter_map(|line| line.trim_end().strip_prefix(MARK))
        .collect::<Vec<_>>();
    let mut findings: Vec<Said> = Vec::new();
    let mut errors = None;
    for line in lines {
        let heading = line
            .strip_prefix(' ')
            .filter(|text| !text.starts_with(' ') && !text.is_empty());
        let Some(heading) = heading else {
            // A detail: the first source line below a heading is the finding's.
            if let Some(last) = findings.last_mut().filter(|said| said.line.is_none()) {
                last.line = source_line(line);
            }
            continue;
        };
        if let Some((_, count)) = heading.split_once(" SUMMARY: ") {
            let count = count.split_whitespace().next();
            errors = count.and_then(|count| count.parse::<u64>().ok());
        } else if heading.starts_with("Internal Sanitizer Error")
            || heading.contains("No attachable process found")
            || heading.starts_with("Target application terminated before")
        {
            return not_run(format!(
                "compute-sanitizer could not look: {}",
                plain::line(heading, plain::MESSAGE_CHARACTERS)
            ));
        } else if heading != "COMPUTE-SANITIZER" && findings.len() < MAX_FINDINGS {
            findings.push(Said {
                line: source_line(heading),
                message: plain::line(heading, plain::MESSAGE_CHARACTERS),
            });
        }
    }
    match errors {
        None => not_run(format!(
            "compute-sanitizer printed no summary for {}",
            tool.as_str()
        )),
        Some(0) => Status::Clean,
        Some(errors) => {
            if findings.is_empty() {
                findings.push(Said {
                    line: None,
                    message: format!("{errors} errors without a description"),
                });
            }
            Status::Found { findings }
        }
    }
}

/// The number after the name of a CUDA source file, as in `candidate.cu:12`.
fn source_line(text: &str) -> Option<u32> {
    let (_, after) = text.split_once(".cu:")?;
    let digits = after
        .split(|c: char| !c.is_ascii_digit())
        .next()
        .unwrap_or_default();
    digits.parse().ok().filter(|&line| line > 0)
}
