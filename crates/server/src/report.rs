//! Reports of the commands for one kernel: versioned JSON for programs, text for people.
//!
//! The JSON is described in docs/reference/local-commands.md, and a test compares the two. Nothing is decided here, and a
//! report holds only facts of the evaluator.

pub mod bench;
pub mod build;
pub mod profile;
pub mod sanitize;
pub mod step;
pub mod test;

use domain::device::{Device, DeviceKind};
use domain::digest::Digest;
use domain::evaluation::{EVALUATOR_VERSION, StageTime};
use domain::verdict::Verdict;
use serde::Serialize;

use crate::evaluation_text;
use crate::terminal::{line, plain};

/// Name and version of the form. A field may be added without a new version; one that changes its
/// meaning or goes away may not.
pub const SCHEMA: &str = "kernelwright.verb/1";

/// The JSON report of every command.
#[derive(Debug, Serialize)]
pub struct Report<T> {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The command.
    pub verb: &'static str,
    /// True if the command ends with exit code 0.
    pub ok: bool,
    /// The kernel's file, where the command is about one.
    pub file: Option<String>,
    /// The task, where the command is about one.
    pub task: Option<TaskIdentity>,
    /// The evaluation protocol's version.
    pub evaluator: u32,
    /// The device of the evaluation.
    pub device: Option<Device>,
    /// The result of the command.
    pub result: T,
}

/// Name and version of a task.
#[derive(Debug, Clone, Serialize)]
pub struct TaskIdentity {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: Digest,
}

impl<T> Report<T> {
    /// A report about a kernel of a task.
    pub fn about(
        verb: &'static str,
        file: &str,
        task: &TaskIdentity,
        device: &Device,
        ok: bool,
        result: T,
    ) -> Self {
        Self {
            schema: SCHEMA,
            verb,
            ok,
            file: Some(file.to_owned()),
            task: Some(task.clone()),
            evaluator: EVALUATOR_VERSION,
            device: Some(device.clone()),
            result,
        }
    }
}

/// The verdict's line, or that there is none, and what belongs to it.
fn against(text: &mut String, against: Option<&Verdict>, nothing: &str) {
    match against {
        Some(verdict) => {
            text.push_str(&format!("against    {}\n", line(&verdict.to_string(), 400)));
            evaluation_text::problems(text, verdict);
        }
        None => text.push_str(&format!("against    {nothing}\n")),
    }
}

/// The line with the device, and the kind of its times.
fn device(text: &mut String, device: &Device) {
    let kind = match device.kind {
        DeviceKind::Nvidia => "",
        DeviceKind::Emulated => ", emulated",
    };
    text.push_str(&format!(
        "device     {}{kind}\n",
        plain(&device.to_string())
    ));
}

/// Renders the duration of each stage.
fn took(text: &mut String, stages: &[StageTime]) {
    let stages = stages
        .iter()
        .map(|stage| format!("{} {:.0} ms", plain(&stage.stage), stage.milliseconds))
        .collect::<Vec<_>>();
    if !stages.is_empty() {
        text.push_str(&format!("took       {}\n", stages.join(", ")));
    }
}
