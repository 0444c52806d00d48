//! Four sanitizers, each with a result of its own. A tool that did not look has not passed.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::cleaning;
use crate::finding::{Finding, FindingKind, names_line};
use crate::verdict::{Access, Verdict};

/// Findings kept of one tool.
const MAX_FINDINGS: usize = 20;
/// The beginning of every line of compute-sanitizer's log.
const MARK: &str = "=========";

/// A sanitizer, named as `compute-sanitizer --tool` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SanitizerTool)]
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

/// The results of all tools on a candidate before its promotion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Sanitizers {
    /// The tool, or the device, that checked.
    pub by: String,
    /// A row for each tool.
    pub tools: Vec<ToolResult>,
}

impl Sanitizers {
    /// The results if no tool ran, all for one reason.
    pub fn not_run(by: &str, reason: &str) -> Self {
        let tools = Tool::ALL.map(|tool| ToolResult {
            tool,
            status: Status::NotRun {
                reason: reason.to_owned(),
            },
        });
        Self {
            by: by.to_owned(),
            tools: tools.to_vec(),
        }
    }
}

/// The result of one tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SanitizerResult)]
pub struct ToolResult {
    /// The tool.
    pub tool: Tool,
    /// The status.
    #[serde(flatten)]
    pub status: Status,
}

/// The status of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
#[schema(as = SanitizerStatus)]
pub enum Status {
    /// The tool checked everything and found nothing.
    Clean,
    /// The tool found something.
    Found {
        /// At most twenty, in the tool's order.
        findings: Vec<SanitizerFinding>,
    },
    /// The tool did not run, or did not check everything.
    NotRun {
        /// The reason and its remedy.
        reason: String,
    },
}

/// One finding in a tool's words, capped and stripped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SanitizerFinding)]
pub struct SanitizerFinding {
    /// Line in the candidate's file, where known.
    pub line: Option<u32>,
    /// The message.
    pub message: String,
    /// The kernel, where it is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Block and thread, where they are named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<[[u32; 3]; 2]>,
}

/// The four results of the emulated device's checks. `unfinished` says why not every execution
/// came to its end, if one did not: then only the tools that found something have looked.
pub fn emulated(findings: &[Finding], unfinished: Option<&str>) -> Vec<ToolResult> {
    let results = Tool::ALL.into_iter().map(|tool| {
        let own = findings
            .iter()
            .filter(|finding| Tool::of(finding.kind) == Some(tool));
        let mut said: Vec<SanitizerFinding> = Vec::new();
        for finding in own {
            let one = SanitizerFinding {
                line: finding.line,
                message: cleaning::clean_line(&finding.message, cleaning::SENTENCE_CHARACTERS),
                ..SanitizerFinding::default()
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

/// Reads the log of compute-sanitizer. A log without its closing summary counts as not run.
pub fn read(tool: Tool, log: &str) -> Status {
    let not_run = |reason: String| Status::NotRun { reason };
    let lines = log
        .lines()
        .filter_map(|line| line.trim_end().strip_prefix(MARK))
        .collect::<Vec<_>>();
    let mut findings: Vec<SanitizerFinding> = Vec::new();
    let (mut errors, mut over) = (None, false);
    for line in lines {
        let heading = line
            .strip_prefix(' ')
            .filter(|text| !text.starts_with(' ') && !text.is_empty());
        let Some(heading) = heading else {
            if let Some(last) = findings.last_mut().filter(|_| !over) {
                last.add_detail(line.trim());
            }
            continue;
        };
        if let Some((_, count)) = heading.split_once(" SUMMARY: ") {
            // A second summary only says how many errors were not printed.
            let count = count.split_whitespace().next();
            errors = errors.or_else(|| count.and_then(|count| count.parse::<u64>().ok()));
        } else if heading.starts_with("Internal Sanitizer Error")
            || heading.contains("No attachable process found")
            || heading.starts_with("Target application terminated before")
        {
            return not_run(format!(
                "compute-sanitizer could not look: {}",
                cleaning::clean_line(heading, cleaning::MESSAGE_CHARACTERS)
            ));
        } else if heading != "COMPUTE-SANITIZER" && !is_about_the_process(heading) {
            over = findings.len() == MAX_FINDINGS;
            if !over {
                findings.push(SanitizerFinding::from_heading(heading));
            }
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
                findings.push(SanitizerFinding {
                    message: match errors {
                        1 => "an error without a description".to_owned(),
                        _ => format!("{errors} errors without a description"),
                    },
                    ..SanitizerFinding::default()
                });
            }
            Status::Found { findings }
        }
    }
}

/// Returns true if a heading describes the process and not a kernel.
fn is_about_the_process(heading: &str) -> bool {
    heading.starts_with("Target application returned an error")
}

impl fmt::Display for SanitizerFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line
            && !names_line(&self.message, line)
        {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl SanitizerFinding {
    /// A finding that begins. Where it is said behind ` at ` may hold paths of this machine.
    fn from_heading(heading: &str) -> Self {
        let (what, place) = match heading.split_once(" at ") {
            Some((what, place)) => (what, Some(place)),
            None => (heading, None),
        };
        let mut said = Self {
            message: cleaning::clean_line(what, cleaning::MESSAGE_CHARACTERS),
            ..Self::default()
        };
        if let Some(place) = place {
            said.add_position(place);
        }
        said
    }

    /// Takes in one detail below the heading: the first place is the finding's.
    fn add_detail(&mut self, detail: &str) {
        let frame = detail.strip_prefix("Device Frame:").map(str::trim);
        if let Some(place) = detail.strip_prefix("at ").or(frame) {
            self.add_position(place);
        } else if let Some(rest) = detail.strip_prefix("in ") {
            self.line = self.line.or_else(|| source_line(rest));
        } else if let Some(rest) = detail.strip_prefix("by thread ") {
            let thread = triple(rest);
            let block = rest.split_once("in block ").and_then(|(_, at)| triple(at));
            self.place = self.place.or_else(|| Some([block?, thread?]));
        } else if let Some(rest) = detail.strip_prefix("and ") {
            let other = rest.split_once(" access").map(|(kind, _)| kind);
            if let Some(kind) = other.filter(|kind| matches!(*kind, "Read" | "Write")) {
                self.message.push_str(&format!(" and {kind} access"));
            }
        } else if detail.ends_with(MISALIGNED) && !self.message.ends_with(MISALIGNED) {
            self.message.push_str(&format!(", which {MISALIGNED}"));
        }
        self.message = cleaning::clean_line(&self.message, cleaning::MESSAGE_CHARACTERS);
    }

    /// `kernel(parameters)+0x90 in file.cu:41`, or `0x90 in file.cu:41:kernel(parameters)`.
    fn add_position(&mut self, place: &str) {
        self.line = self.line.or_else(|| source_line(place));
        let function = match place.split_once(" in ") {
            Some((address, file)) if address.starts_with("0x") => file
                .split_once(".cu:")
                .and_then(|(_, rest)| rest.split_once(':'))
                .map(|(_, function)| function),
            Some((function, _)) => Some(function),
            None => Some(place).filter(|place| !place.starts_with("0x")),
        };
        let name = function
            .and_then(|function| function.split(['(', '+', '<']).next())
            .and_then(|name| name.split_whitespace().next_back())
            .filter(|name| !name.is_empty());
        self.kernel = self
            .kernel
            .take()
            .or_else(|| name.map(cleaning::clean_name));
    }
}

/// The words of a detail about an access whose address is no multiple of its width.
const MISALIGNED: &str = "is misaligned";

/// The verdict on a tool's finding; none for findings without a known meaning, such as errors of
/// calls to the driver, which are ours, and warnings.
pub fn verdict(tool: Tool, said: &SanitizerFinding) -> Option<Verdict> {
    let message = said.message.as_str();
    let finding = |kind| Finding {
        kind,
        kernel: said.kernel.clone().unwrap_or_default(),
        line: said.line,
        block: said.place.map_or([0; 3], |[block, _]| block),
        thread: said.place.map_or([0; 3], |[_, thread]| thread),
        buffer: None,
        offset: None,
        other: None,
        occurrences: 1,
        message: format!("{} of compute-sanitizer: {message}", tool.as_str()),
    };
    match tool {
        Tool::Memcheck if message.starts_with("Invalid __") => {
            if message.ends_with(MISALIGNED) {
                return Some(Verdict::RuntimeFault {
                    code: 716,
                    name: "CUDA_ERROR_MISALIGNED_ADDRESS".to_owned(),
                    finding: Some(finding(FindingKind::Misaligned)),
                });
            }
            let (access, kind) = if message.contains(" read of ") {
                (Access::Read, FindingKind::OutOfBoundsRead)
            } else {
                (Access::Write, FindingKind::OutOfBoundsWrite)
            };
            let finding = finding(kind);
            Some(Verdict::OutOfBounds {
                access,
                reason: finding.message.clone(),
                finding: Some(finding),
            })
        }
        Tool::Initcheck if message.starts_with("Uninitialized __") => {
            let finding = finding(FindingKind::Uninitialised);
            Some(Verdict::UninitDependent {
                reason: finding.message.clone(),
                finding: Some(finding),
            })
        }
        Tool::Racecheck if message.starts_with("Error: ") && message.contains("Race reported") => {
            Some(Verdict::DataRace {
                finding: finding(FindingKind::SharedRace),
            })
        }
        Tool::Synccheck if message.starts_with("Barrier error") => Some(Verdict::BarrierError {
            finding: finding(FindingKind::DivergentBarrier),
        }),
        _ => None,
    }
}

/// The numbers of `(31,0,0)`.
fn triple(text: &str) -> Option<[u32; 3]> {
    let inside = text.strip_prefix('(')?.split_once(')')?.0;
    let mut numbers = inside.split(',').map(|number| number.trim().parse().ok());
    let mut next = || numbers.next().flatten();
    Some([next()?, next()?, next()?])
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
