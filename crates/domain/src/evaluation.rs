//! What is asked of an evaluator, and what it answers with its evidence.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::device::Device;
use crate::digest::Digest;
use crate::finding::Finding;
use crate::measurement::Measurement;
use crate::plan::Configuration;
use crate::problem::Problem;
use crate::role::{Distribution, KernelCode, KernelResources, Key, LaunchFacts};
use crate::statistics::Floor;
use crate::task::{Bundle, Enforce, GateSubject};
use crate::timing::Timing;
use crate::verdict::{Acceptance, Diagnostic, Outcome, Verdict};

/// Version of the evaluation protocol; part of every evaluation's identity.
pub const EVALUATOR_VERSION: u32 = 4;

/// One candidate to evaluate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EvaluationRequest {
    /// The task's files.
    pub task: Bundle,
    /// What the candidate's file is called in messages.
    pub file: String,
    /// The candidate's text.
    pub source: String,
    /// Tunables that differ from the source's own values.
    #[schema(value_type = std::collections::BTreeMap<String, i64>)]
    pub configuration: Configuration,
    /// How much is asked.
    pub stage: EvaluationStage,
    /// Root of all inputs of this evaluation: one per run, seed family and epoch.
    pub key: Key,
    /// What to compare with; nothing is the task's baseline, where times are measured.
    pub incumbent: Option<Incumbent>,
}

/// A candidate that another one has to beat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Incumbent {
    /// What its file is called in messages.
    pub file: String,
    /// Its text: where times are measured it runs beside the candidate.
    pub source: String,
    /// Tunables that differ from the source's own values.
    #[schema(value_type = std::collections::BTreeMap<String, i64>)]
    pub configuration: Configuration,
    /// The times it was accepted with: modelled ones are compared as they are.
    pub timing: Timing,
}

/// How much an evaluation asks of a candidate. Baseline and search share one family of seeds, so
/// that the reference's answers are computed once; every confirmation has a family of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvaluationStage {
    /// The baseline of a run: soft gates never reject it.
    Baseline,
    /// During the search.
    Search,
    /// Before promotion: fresh seeds, held-out cases, a second schedule.
    Confirmation,
}

/// A verdict with its evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Evaluation {
    /// The verdict.
    pub verdict: Verdict,
    /// The evaluation protocol's version.
    pub evaluator: u32,
    /// How much was asked.
    pub stage: EvaluationStage,
    /// The task's version.
    pub task_version: Digest,
    /// Identity of what ran; none if the source did not parse.
    pub candidate_digest: Option<Digest>,
    /// Digest of what executes, once compiled: the same wherever a source was compiled, and for
    /// sources that differ only in layout.
    pub image_digest: Option<Digest>,
    /// The device; none if nothing ran.
    pub device: Option<Device>,
    /// The compiler with its version; none if nothing was compiled.
    pub toolchain: Option<String>,
    /// Each kernel's resources.
    pub kernels: Vec<KernelResources>,
    /// Every soft gate with what was found.
    pub gates: Vec<GateOutcome>,
    /// Every output compared.
    pub checks: Vec<CheckOutcome>,
    /// The launches of each score case as they ran.
    pub launches: Vec<CaseLaunches>,
    /// The times of the score cases beside the least that the device can do them in; empty where
    /// nobody measured what it can.
    #[serde(default)]
    pub floors: Vec<Floor>,
    /// How it was timed beside the incumbent; none where nothing was.
    #[serde(default)]
    pub measurement: Option<Measurement>,
    /// Warnings of the compiler.
    pub diagnostics: Vec<Diagnostic>,
    /// What the task's policy allows and points out.
    #[serde(default)]
    pub flags: Vec<Problem>,
    /// What the machine code holds; none where nobody looked, as during the search.
    #[serde(default)]
    pub machine_code: Option<MachineCode>,
    /// Digest of the bundle with everything that the verdict rests on, kept where it was made.
    #[serde(default)]
    pub evidence: Option<Digest>,
    /// Findings, the deciding one first.
    pub findings: Vec<Finding>,
    /// Wall time of each stage.
    pub stages: Vec<StageTime>,
}

/// What came of reading an image's machine code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MachineCode {
    /// It was read, and the task's policy applied to it.
    Read {
        /// The disassembler with its release.
        tool: String,
        /// Every function of the image.
        kernels: Vec<KernelCode>,
    },
    /// It was not.
    NotRun {
        /// Why, and what to do about it.
        reason: String,
    },
}

/// A soft gate with what was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GateOutcome {
    /// What was looked at.
    pub subject: GateSubject,
    /// The phase the gate belongs to; none for the task's own.
    pub phase: Option<String>,
    /// The score case it was judged on; none where it does not depend on a case.
    pub case: Option<String>,
    /// Smallest allowed value.
    pub min: Option<f64>,
    /// Largest allowed value.
    pub max: Option<f64>,
    /// What was found.
    pub found: f64,
    /// Whether the gate holds.
    pub met: bool,
    /// What breaking it means.
    pub enforce: Enforce,
}

/// One output of one execution, compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CheckOutcome {
    /// The case.
    pub case: String,
    /// The input distribution.
    pub distribution: Distribution,
    /// The output.
    pub tensor: String,
    /// Relative L2 error, where it has a value.
    pub relative_l2: Option<f64>,
    /// Largest element error over its bound, where it has a value.
    pub worst_ratio: Option<f64>,
    /// Whether it passed.
    pub passed: bool,
}

/// The launches of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CaseLaunches {
    /// The case.
    pub case: String,
    /// In order.
    pub launches: Vec<LaunchFacts>,
}

/// How long one stage took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StageTime {
    /// Such as "compile".
    pub stage: String,
    /// Wall time in milliseconds.
    pub milliseconds: f64,
}

impl Evaluation {
    /// Whether it may be promoted: accepted, inside every gate that stands before promotion, and
    /// not on the strength of times that nobody compared. A measured time counts only as the
    /// outcome [`Outcome::Faster`] of a comparison beside the incumbent; a modelled one has no
    /// noise, and its ratio speaks for itself.
    pub fn promotable(&self) -> bool {
        let settled = |acceptance: &Acceptance| {
            let outcome = acceptance
                .comparison
                .as_ref()
                .map(|comparison| comparison.outcome);
            outcome != Some(Outcome::Unresolved)
                && (acceptance.timing.is_modelled() || outcome == Some(Outcome::Faster))
        };
        self.verdict.acceptance().is_some_and(settled)
            && self
                .gates
                .iter()
                .all(|gate| gate.met || gate.enforce == Enforce::Advise)
    }
}
