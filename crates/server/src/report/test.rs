//! The result of testing a kernel's correctness without timing it.

use domain::device::Device;
use domain::evaluation::{CheckOutcome, NotRun, Prescreen, StageTime};
use domain::finding::Finding;
use domain::verdict::Verdict;
use serde::Serialize;
use worker::evaluate::PartialEvaluation;

use super::{against, took};
use crate::evaluation_text;

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
    /// The executions of the pre-screen; null where there were none.
    pub prescreen: Option<Prescreen>,
    /// Parts that were left out or cut short, with the reason.
    pub not_run: Vec<NotRun>,
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
            prescreen: looked.prescreen,
            not_run: looked.not_run,
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
    evaluation_text::findings(&mut text, &tested.findings, tested.against.as_ref());
    evaluation_text::checks(&mut text, &tested.checks);
    evaluation_text::prescreen(&mut text, tested.prescreen.as_ref());
    evaluation_text::not_run(&mut text, &tested.not_run);
    super::device(&mut text, device);
    took(&mut text, &tested.stages);
    text
}
