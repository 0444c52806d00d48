//! The result of testing a kernel's correctness without timing it.

use domain::device::Device;
use domain::evaluation::{CheckOutcome, StageTime};
use domain::finding::Finding;
use domain::verdict::Verdict;
use serde::Serialize;
use worker::evaluate::PartialEvaluation;

use super::{against, took};
use crate::evaluation_text;
use crate::terminal::line;

/// The outputs compared.
#[derive(Debug, Serialize)]
pub struct Tested {
    /// The verdict that rejects the kernel, if one does.
    pub against: Option<Verdict>,
    /// Outputs that agree with the reference.
    pub passed: usize,
    /// Every output compared.
    pub checks: Vec<CheckOutcome>,
    /// Errors that the emulated device proved.
    pub findings: Vec<Finding>,
    /// Duration of each stage.
    pub stages: Vec<StageTime>,
}

impl Tested {
    /// The report of a partial evaluation.
    pub fn new(looked: PartialEvaluation) -> Self {
        Self {
            against: looked.against,
            passed: looked.checks.iter().filter(|check| check.passed).count(),
            checks: looked.checks,
            findings: looked.findings,
            stages: looked.stages,
        }
    }
}

/// For a terminal.
pub fn text(tested: &Tested, device: &Device) -> String {
    let mut text = String::new();
    against(
        &mut text,
        tested.against.as_ref(),
        "nothing: every output is right",
    );
    for finding in tested.findings.iter().take(5) {
        text.push_str(&format!("finding    {}\n", line(&finding.to_string(), 400)));
    }
    evaluation_text::checks(&mut text, &tested.checks);
    super::device(&mut text, device);
    took(&mut text, &tested.stages);
    text
}
