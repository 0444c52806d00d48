//! The results of the four sanitizer tools. A tool that did not run is never shown as passed.

use domain::device::Device;
use domain::evaluation::StageTime;
use domain::tools::sanitize::{Status, ToolResult};
use domain::verdict::Verdict;
use serde::Serialize;
use worker::evaluate::Sanitized;

use super::{against, took};
use crate::terminal::{line, plain};

/// The sanitizers' results.
#[derive(Debug, Serialize)]
pub struct SanitizerReport {
    /// The verdict that kept the kernel from running, if one did.
    pub against: Option<Verdict>,
    /// Name and version of the tools.
    pub by: String,
    /// Number of executions that were checked.
    pub executions: usize,
    /// One result for each tool.
    pub tools: Vec<ToolResult>,
    /// Duration of each stage.
    pub stages: Vec<StageTime>,
}

impl SanitizerReport {
    /// Makes the report from the evaluator's result.
    pub fn new(sanitized: Sanitized) -> Self {
        Self {
            against: sanitized.partial.against,
            by: sanitized.by,
            executions: sanitized.executions,
            tools: sanitized.results,
            stages: sanitized.partial.stages,
        }
    }

    /// Returns true if every tool ran and found nothing.
    pub fn clean(&self) -> bool {
        self.against.is_none()
            && self
                .tools
                .iter()
                .all(|result| result.status == Status::Clean)
    }

    /// Returns true if a tool found an error, or the kernel was rejected before.
    pub fn found(&self) -> bool {
        let found = |result: &ToolResult| matches!(result.status, Status::Found { .. });
        self.against.is_some() || self.tools.iter().any(found)
    }
}

/// Renders the results for a terminal.
pub fn text(checked: &SanitizerReport, device: &Device) -> String {
    let mut text = String::new();
    if checked.against.is_some() {
        against(&mut text, checked.against.as_ref(), "");
    }
    for result in &checked.tools {
        let tool = result.tool.as_str();
        match &result.status {
            Status::Clean => text.push_str(&format!("{tool:10} clean\n")),
            Status::NotRun { reason } => {
                text.push_str(&format!("{tool:10} NOT RUN: {}\n", line(reason, 400)));
            }
            Status::Found { findings } => {
                text.push_str(&format!("{tool:10} {} found\n", findings.len()));
                for finding in findings {
                    text.push_str(&format!("           {}\n", line(&finding.to_string(), 300)));
                }
            }
        }
    }
    text.push_str(&format!(
        "by         {} (executions: {})\n",
        plain(&checked.by),
        checked.executions
    ));
    super::device(&mut text, device);
    took(&mut text, &checked.stages);
    text
}
