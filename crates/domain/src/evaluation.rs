//! The request for an evaluation, and its result with the evidence.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::cleaning;
use crate::device::Device;
use crate::digest::Digest;
use crate::finding::Finding;
use crate::hottest_lines::HottestLines;
use crate::measurement::Measurement;
use crate::plan::Configuration;
use crate::preconditions::Preconditions;
use crate::problem::Problem;
use crate::role::{Distribution, KernelCode, KernelResources, Key, LaunchFacts};
use crate::seeds::SeedFamily;
use crate::statistics::Floor;
use crate::task::{Bundle, Enforce, GateSubject};
use crate::timing::Timing;
use crate::tools::sanitize::Sanitizers;
use crate::verdict::{Acceptance, Diagnostic, Outcome, Verdict};

/// Version of the evaluation protocol; part of every evaluation's identity.
pub const EVALUATOR_VERSION: u32 = 22;

/// One candidate to evaluate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EvaluationRequest {
    /// The task's files.
    pub task: Bundle,
    /// The name of the candidate's file in messages.
    pub file: String,
    /// The candidate's text.
    pub source: String,
    /// Tunables that differ from the source's own values.
    #[schema(value_type = std::collections::BTreeMap<String, i64>)]
    pub configuration: Configuration,
    /// The stage.
    pub stage: EvaluationStage,
    /// Root of all inputs of this evaluation: one for the search of a run, one for each of its
    /// confirmations. [`SeedFamily`] keeps apart what is drawn below it.
    pub key: Key,
    /// The incumbent to compare with; none stands for the task's baseline, where times are
    /// measured.
    pub incumbent: Option<Incumbent>,
}

/// A candidate that another one has to beat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Incumbent {
    /// The name of its file in messages.
    pub file: String,
    /// Its text: where times are measured it runs beside the candidate.
    pub source: String,
    /// Tunables that differ from the source's own values.
    #[schema(value_type = std::collections::BTreeMap<String, i64>)]
    pub configuration: Configuration,
    /// The times it was accepted with: modelled ones are compared as they are.
    pub timing: Timing,
}

/// The stage of an evaluation, which decides how much is executed. Baseline and search share one
/// family of seeds, so that the reference's answers are computed once; every confirmation has a
/// root of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvaluationStage {
    /// The baseline of a run: soft gates never reject it.
    Baseline,
    /// During the search.
    Search,
    /// Before promotion: fresh seeds, held-out cases, a second schedule.
    Confirmation,
    /// The re-check of a winner: a confirmation with as many repeats and draws as a night has room
    /// for, on every device that there is. The command `eval` asks for it.
    Champion,
}

impl EvaluationStage {
    /// Returns true if the verdict of this stage makes a candidate a winner, or keeps it one.
    pub fn decides_promotion(self) -> bool {
        matches!(self, Self::Confirmation | Self::Champion)
    }
}

/// A verdict with its evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Evaluation {
    /// The verdict.
    pub verdict: Verdict,
    /// The evaluation protocol's version.
    pub evaluator: u32,
    /// The stage.
    pub stage: EvaluationStage,
    /// The family of the inputs that the verdict was found on; none where nothing ran.
    #[serde(default)]
    pub found_on: Option<SeedFamily>,
    /// The parts of the protocol that belong to this stage and were not run.
    #[serde(default)]
    pub not_run: Vec<NotRun>,
    /// The task's version.
    pub task_version: Digest,
    /// Identity of what ran; none if the source did not parse.
    pub candidate_digest: Option<Digest>,
    /// Digest of what executes, once compiled: the same wherever a source was compiled, and for
    /// sources that differ only in layout.
    pub image_digest: Option<Digest>,
    /// The device; none if nothing ran on it.
    pub device: Option<Device>,
    /// The executions on the emulated device before the device was used; none where there were
    /// none.
    #[serde(default)]
    pub prescreen: Option<Prescreen>,
    /// The compiler with its version; none if nothing was compiled.
    pub toolchain: Option<String>,
    /// Each kernel's resources.
    pub kernels: Vec<KernelResources>,
    /// Every soft gate with its measured value.
    pub gates: Vec<GateOutcome>,
    /// Every output compared.
    pub checks: Vec<CheckOutcome>,
    /// The drawn shapes on which every output was right; none of a search, and none where one was wrong.
    #[serde(default)]
    pub drawn_shapes: Option<DrawnShapes>,
    /// The shapes and alignments that an acceptance before a promotion covers; none otherwise.
    #[serde(default)]
    pub preconditions: Option<Preconditions>,
    /// The launches of each score case as they ran.
    pub launches: Vec<CaseLaunches>,
    /// The source lines with the most of the work that bounds the time; none where nothing was timed, and on
    /// silicon, which counts no lines.
    #[serde(default)]
    pub hottest_lines: Option<HottestLines>,
    /// The times of the score cases beside their floors; empty where the device's rates were not
    /// measured.
    #[serde(default)]
    pub floors: Vec<Floor>,
    /// The comparison with the incumbent; none where nothing was timed.
    #[serde(default)]
    pub measurement: Option<Measurement>,
    /// The emulated device's account of measured times; none where times are modelled, for a candidate that is neither
    /// the baseline nor faster than the incumbent, and where the emulated device could not execute it in time.
    #[serde(default)]
    pub explanation: Option<Explanation>,
    /// Warnings of the compiler.
    pub diagnostics: Vec<Diagnostic>,
    /// Features that the task's policy allows and points out.
    #[serde(default)]
    pub flags: Vec<Problem>,
    /// The contents of the machine code; none where it was not read, as during the search.
    #[serde(default)]
    pub machine_code: Option<MachineCode>,
    /// The results of the sanitizers; none where they were not run, as during the search.
    #[serde(default)]
    pub sanitizers: Option<Sanitizers>,
    /// Digest of the bundle with everything that the verdict rests on, kept where it was made.
    #[serde(default)]
    pub evidence: Option<Digest>,
    /// Findings, the deciding one first.
    pub findings: Vec<Finding>,
    /// Wall time of each stage.
    pub stages: Vec<StageTime>,
}

/// The pre-screen of a candidate: executions on the emulated device, made before the device itself,
/// which proves less, is used. It can only reject, by what it proves of an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Prescreen {
    /// The emulated device.
    pub device: Device,
    /// The number of executions that are made if time suffices and nothing prevents them.
    pub planned: u32,
    /// Those that were, in their order.
    pub executions: Vec<Prescreened>,
}

/// One execution of a pre-screen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Prescreened {
    /// The case.
    pub case: String,
    /// The input distribution.
    pub distribution: Distribution,
    /// True if warps and blocks ran in another order than the usual one.
    pub rescheduled: bool,
}

/// The result of reading an image's machine code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MachineCode {
    /// The machine code was read, and the task's policy applied to it.
    Read {
        /// The disassembler with its release.
        tool: String,
        /// Every function of the image.
        kernels: Vec<KernelCode>,
    },
    /// The machine code was not read.
    NotRun {
        /// The reason and its remedy.
        reason: String,
    },
}

/// A part of the protocol that was left out: neither good news nor bad.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotRun {
    /// The part.
    pub part: ProtocolPart,
    /// The reason and its remedy.
    pub reason: String,
}

/// A part of the protocol that not every machine can do.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ProtocolPart {
    /// Small cases on the emulated device, before the device itself is touched.
    Prescreen,
    /// Garbage left in shared memory and registers, and blocks that run beside the candidate.
    Disturbance,
    /// The same inputs again and again.
    Repeats,
    /// Further draws of the inputs of score cases.
    Draws,
    /// Inputs that the hardware itself keeps a candidate from writing to.
    ReadOnlyInputs,
    /// A tensor of more than 2^31 elements.
    ManyElements,
    /// The same on a second device.
    SecondDevice,
}

impl ProtocolPart {
    /// Its name in messages.
    pub fn display_name(self) -> &'static str {
        match self {
            Self::Prescreen => "pre-screen",
            Self::Disturbance => "disturbance",
            Self::Repeats => "repeats",
            Self::Draws => "further draws",
            Self::ReadOnlyInputs => "inputs mapped for reading only",
            Self::ManyElements => "more than 2^31 elements",
            Self::SecondDevice => "second device",
        }
    }
}

/// A soft gate with the value found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GateOutcome {
    /// The quantity that the gate limits.
    pub subject: GateSubject,
    /// The phase the gate belongs to; none for the task's own.
    pub phase: Option<String>,
    /// The score case it was judged on; none where it does not depend on a case.
    pub case: Option<String>,
    /// Smallest allowed value.
    pub min: Option<f64>,
    /// Largest allowed value.
    pub max: Option<f64>,
    /// The value found.
    pub found: f64,
    /// True if the gate holds.
    pub met: bool,
    /// The consequence of breaking it.
    pub enforce: Enforce,
}

impl GateOutcome {
    /// Returns true if the gate is broken and keeps the kernel from being promoted.
    pub fn stands_before_promotion(&self) -> bool {
        !self.met && self.enforce != Enforce::Advise
    }

    /// Says what a broken gate found and what it asks for.
    pub fn shortfall(&self) -> String {
        let mut words = self.subject.as_str().to_owned();
        if let Some(case) = &self.case {
            words.push_str(&format!(" on {}", cleaning::clean_line(case, 60)));
        }
        words.push_str(&format!(" is {}", short_number(self.found)));
        if self.subject.is_modelled() {
            words.push_str(" modelled");
        }
        if let Some(min) = self.min.filter(|min| self.found < *min) {
            words.push_str(&format!(", at least {} is asked for", short_number(min)));
        }
        if let Some(max) = self.max.filter(|max| self.found > *max) {
            words.push_str(&format!(", at most {} is allowed", short_number(max)));
        }
        if let Some(phase) = &self.phase {
            words.push_str(&format!(" (phase {})", cleaning::clean_line(phase, 60)));
        }
        words
    }
}

/// A number with at most three decimals, without trailing zeros.
pub(crate) fn short_number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value:.0}")
    } else {
        let text = format!("{value:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
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
    /// True if the output passed.
    pub passed: bool,
}

/// The drawn shapes on which every output was right, and the share of wrong shapes that they leave
/// possible.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DrawnShapes {
    /// The number of different shapes.
    pub shapes: u32,
    /// The largest share of the drawn law's shapes on which the candidate can be wrong, at 95%
    /// confidence: a candidate that is wrong on more is right on all of these with a probability
    /// below 5%.
    pub wrong_at_most: f64,
}

impl DrawnShapes {
    /// One minus the confidence of [`Self::wrong_at_most`].
    const DOUBT: f64 = 0.05;

    /// A candidate that was right on so many drawn shapes; none without shapes.
    pub fn right_on(shapes: usize) -> Option<Self> {
        let shapes = u32::try_from(shapes).ok().filter(|shapes| *shapes > 0)?;
        Some(Self {
            shapes,
            wrong_at_most: 1.0 - Self::DOUBT.powf(1.0 / f64::from(shapes)),
        })
    }
}

impl std::fmt::Display for DrawnShapes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "right on {} drawn shapes: wrong on at most {:.1}% of this law at 95%",
            self.shapes,
            100.0 * self.wrong_at_most
        )
    }
}

/// The emulated device's account of a kernel that another device has timed. It decides nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// The modelled times of the score cases, with what bounds them.
    pub timing: Timing,
    /// The launches of each score case, with counters.
    pub launches: Vec<CaseLaunches>,
    /// The source lines with the most of the work that bounds the modelled time.
    pub hottest_lines: Option<HottestLines>,
}

/// The launches of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CaseLaunches {
    /// The case.
    pub case: String,
    /// In order.
    pub launches: Vec<LaunchFacts>,
}

/// The wall time of one stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StageTime {
    /// The stage, such as "compile".
    pub stage: String,
    /// Wall time in milliseconds.
    pub milliseconds: f64,
}

/// The kind of resource that bounds the time of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundingResource {
    /// Arithmetic units or issue slots.
    Compute,
    /// Device memory, caches or shared memory.
    Memory,
    /// Latency that nothing hides: dependent chains, contention, launches.
    Latency,
}

impl BoundingResource {
    /// The kind of a term of the time model.
    pub fn of_term(term: &str) -> Self {
        match term {
            "load_store" | "shared_wavefronts" | "l1_sectors" | "l2_bytes" | "dram_bytes" => {
                Self::Memory
            }
            "critical_path" | "atomic_contention" | "launch" => Self::Latency,
            _ => Self::Compute,
        }
    }
}

impl Evaluation {
    /// Returns true if the evaluation's findings may be shown to the author of the next candidate,
    /// and false if only the verdict's class may.
    pub fn may_be_shown(&self) -> bool {
        let family = self.found_on.unwrap_or(SeedFamily::Feedback);
        !self.stage.decides_promotion() && family.may_be_shown()
    }

    /// The kind of resource that bounds the time; none where times are measured or nothing was accepted.
    pub fn bounding_resource(&self) -> Option<BoundingResource> {
        let timing = &self.verdict.acceptance()?.timing;
        let (_, launch) = timing.largest_bottleneck()?;
        Some(BoundingResource::of_term(&launch.bottleneck))
    }

    /// The floor over the time found, geometric mean over the score cases; none where no floor is known.
    pub fn floor_share(&self) -> Option<f64> {
        let logs = self
            .floors
            .iter()
            .map(|floor| (floor.us / floor.found_us).ln());
        let share = (logs.sum::<f64>() / self.floors.len() as f64).exp();
        Some(share).filter(|share| share.is_finite() && !self.floors.is_empty())
    }

    /// Returns true if the candidate may be promoted: it is accepted, every gate that stands before
    /// promotion holds, and its times were compared. A measured time counts only as the outcome
    /// [`Outcome::Faster`] of a comparison beside the incumbent; a modelled one has no noise, so
    /// that its ratio decides.
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
            && !self.gates.iter().any(GateOutcome::stands_before_promotion)
    }
}
