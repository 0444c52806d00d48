//! The context of a prompt, which is all that it may show, as plain values: briefs of the task, the
//! device and candidates with their outcomes, insights and repetitions.
//!
//! The method decides which of them a prompt shows, and the templates hold the wording. These types
//! have no field for data that must stay secret: seeds, held-out cases, the slack of tolerances, and
//! paths.

mod device;
mod feedback;
mod profile;
mod requirements;

use serde::{Deserialize, Serialize};

use crate::candidate::KernelSource;
use crate::cleaning;
use crate::device::Device;
use crate::evaluation::Evaluation;
use crate::patch::regions;
use crate::policy::{Feature, Rule};
use crate::task::{Case, CasePurpose, Enforce, Gate, GateSubject, Role, ScoredCache, Task};
use crate::timing::Timing;

pub use device::DeviceBrief;
pub use feedback::{Feedback, Untrusted, describe_verdict, feedback};

/// The longest title, characters.
const MAX_TITLE: usize = 120;
/// The longest thought, characters.
const MAX_THOUGHT: usize = 2_000;

/// The facts that a prompt can show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Context {
    /// The task.
    pub task: TaskBrief,
    /// The device, once it is known.
    pub device: Option<DeviceBrief>,
    /// The compiler that evaluates candidates, once it is known.
    #[serde(default)]
    pub toolchain: Option<String>,
    /// The lessons that came with the task and with the run, as written; empty where the method shows none.
    pub seeds: String,
    /// The fastest candidate so far.
    pub best: Option<CandidateBrief>,
    /// The candidates that the next one is made from, the primary parent first: edits apply to it.
    /// Empty where that is the best.
    pub parents: Vec<CandidateBrief>,
    /// Lessons of the run, the most telling first.
    pub insights: Vec<Lesson>,
    /// Candidates that repeated what was there already.
    pub duplicates: Vec<Repetition>,
    /// The candidates tried before, the oldest first.
    pub history: Vec<Attempt>,
    /// Texts of the people who steer the run.
    #[serde(default)]
    pub hints: Vec<String>,
    /// Ideas to avoid, as these people asked.
    #[serde(default)]
    pub avoided: Vec<String>,
    /// Trials that the run has left.
    pub trials_left: Option<u32>,
    /// True if wording and answer follow the published method to the letter.
    pub faithful: bool,
}

/// A task as a prompt shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskBrief {
    /// Name.
    pub name: String,
    /// A few words.
    pub title: String,
    /// The task author's advice to proposers.
    pub text: String,
    /// The arguments that a plan may pass to a kernel.
    pub arguments: Vec<ArgumentBrief>,
    /// The cases that every candidate is checked on.
    pub cases: Vec<CaseBrief>,
    /// Headers of the task that a candidate may include.
    pub headers: Vec<String>,
    /// The code of the reference, which computes the right answer in f64; empty where it is too long.
    #[serde(default)]
    pub reference: String,
    /// The limits of an output's error, a sentence each.
    #[serde(default)]
    pub tolerance: Vec<String>,
    /// The kinds of values that the checks give to inputs, a line each.
    #[serde(default)]
    pub inputs: Vec<String>,
    /// The features that the policy denies, with what to use in their place, a line each.
    #[serde(default)]
    pub denied: Vec<String>,
    /// True if tensor cores may be used.
    #[serde(default)]
    pub tensor_cores: bool,
    /// Speedups over the baseline worth reaching, the smallest first.
    #[serde(default)]
    pub targets: Vec<Target>,
    /// The states of the cache whose times are the score.
    #[serde(default)]
    pub cache: ScoredCache,
    /// Gates that hold always, a line each.
    pub gates: Vec<String>,
    /// Phases in order.
    pub phases: Vec<PhaseBrief>,
    /// Parts of the baseline that may change; empty if all of it may.
    pub regions: Vec<String>,
}

/// A tensor, scalar or dim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArgumentBrief {
    /// Name in plans.
    pub name: String,
    /// The parameter's type in the kernel's signature.
    pub parameter: String,
    /// The argument's meaning.
    pub what: String,
}

/// A case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseBrief {
    /// Name.
    pub name: String,
    /// Its dims, such as `B = 1, S = 128`.
    pub dims: String,
    /// True if its time counts.
    pub scored: bool,
}

/// A phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseBrief {
    /// Name.
    pub name: String,
    /// Gates that must hold before the next phase opens, a line each.
    pub gates: Vec<String>,
}

/// A speedup over the baseline worth reaching.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The speedup.
    pub speedup: f64,
    /// The name of the target.
    pub name: String,
}

/// A candidate that is shown with its code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CandidateBrief {
    /// The prompt's name for the candidate; the same candidate has the same name everywhere.
    pub name: String,
    /// A few words for it.
    pub title: String,
    /// The reason why its author expected it to be faster.
    pub thought: Option<String>,
    /// The whole file.
    pub source: String,
    /// Geometric mean of its times over the score cases, microseconds, if it was accepted.
    pub time_us: Option<f64>,
    /// True if that time is modelled.
    pub modelled: bool,
    /// Baseline's time over its time.
    pub speedup: Option<f64>,
    /// The feedback of its evaluation; none before the first.
    pub outcome: Option<Feedback>,
    /// Places where its plan departs from the documented form, a sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The thought of an earlier candidate, with its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lesson {
    /// The thought.
    pub thought: String,
    /// The outcome; none by the published method, which shows thoughts alone.
    pub outcome: Option<String>,
}

/// A candidate that was the same as another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repetition {
    /// Its title.
    pub title: String,
    /// The candidate it repeated, by its name in the prompt or in the run.
    pub of: String,
    /// The outcome of that candidate.
    pub outcome: Option<String>,
}

/// One earlier candidate, without its code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Its title.
    pub title: String,
    /// The outcome.
    pub outcome: String,
}

impl Context {
    /// The context of a task on a device before any candidate.
    pub fn new(task: &Task, device: Option<&Device>) -> Self {
        let task_brief = TaskBrief::new(task);
        let mut device = device.map(DeviceBrief::new);
        if let Some(device) = device.as_mut().filter(|_| !task_brief.tensor_cores) {
            device.forget_tensor_cores();
        }
        Self {
            task: task_brief,
            device,
            toolchain: None,
            seeds: requirements::without_files(&cleaning::clean_text(&task.insights)),
            best: None,
            parents: Vec::new(),
            insights: Vec::new(),
            duplicates: Vec::new(),
            history: Vec::new(),
            hints: Vec::new(),
            avoided: Vec::new(),
            trials_left: None,
            faithful: false,
        }
    }

    /// Adds the lessons of earlier runs to those that came with the task.
    pub fn add_lessons(&mut self, text: &str) {
        let text = requirements::without_files(&cleaning::clean_text(text));
        if text.trim().is_empty() {
            return;
        }
        if !self.seeds.trim().is_empty() {
            self.seeds.push_str("\n\n");
        }
        self.seeds.push_str(text.trim());
    }

    /// The candidate that edits apply to.
    pub fn primary(&self) -> Option<&CandidateBrief> {
        self.parents.first().or(self.best.as_ref())
    }
}

impl CandidateBrief {
    /// A candidate with its evaluation, if there is one; `anchor` is the baseline's timing.
    pub fn new(
        name: &str,
        title: &str,
        thought: Option<&str>,
        source: &str,
        evaluation: Option<&Evaluation>,
        anchor: Option<&Timing>,
    ) -> Self {
        let acceptance = evaluation.and_then(|evaluation| evaluation.verdict.acceptance());
        let timing = acceptance.map(|acceptance| &acceptance.timing);
        let speedup = timing.zip(anchor);
        Self {
            name: cleaning::clean_line(name, MAX_TITLE),
            title: cleaning::clean_line(title, MAX_TITLE),
            thought: thought
                .map(|thought| cleaning::clean_line(thought, MAX_THOUGHT))
                .filter(|thought| !thought.is_empty()),
            source: source.to_owned(),
            time_us: timing.map(Timing::geomean_us),
            modelled: timing.is_some_and(Timing::is_modelled),
            speedup: speedup.and_then(|(timing, anchor)| timing.speedup_over(anchor)),
            outcome: evaluation.map(|evaluation| feedback(evaluation, source)),
            notes: KernelSource::parse("candidate.cu", source)
                .map(|parsed| parsed.notes().to_vec())
                .unwrap_or_default(),
        }
    }
}

impl Lesson {
    /// A thought with its outcome.
    pub fn new(thought: &str, outcome: Option<&str>) -> Self {
        Self {
            thought: cleaning::clean_line(thought, MAX_THOUGHT),
            outcome: outcome.map(|outcome| cleaning::clean_sentence(outcome, MAX_TITLE)),
        }
    }
}

impl Repetition {
    /// A candidate that repeated another.
    pub fn new(title: &str, of: &str, outcome: Option<&str>) -> Self {
        Self {
            title: cleaning::clean_line(title, MAX_TITLE),
            of: cleaning::clean_line(of, MAX_TITLE),
            outcome: outcome.map(|outcome| cleaning::clean_sentence(outcome, MAX_TITLE)),
        }
    }
}

impl Attempt {
    /// An earlier candidate.
    pub fn new(title: &str, outcome: &str) -> Self {
        Self {
            title: cleaning::clean_line(title, MAX_TITLE),
            outcome: cleaning::clean_sentence(outcome, 2 * MAX_TITLE),
        }
    }
}

/// The outcome of a candidate in a few words: its speed over the baseline's, or its verdict.
pub fn outcome(evaluation: &Evaluation, speedup: Option<f64>) -> String {
    match (evaluation.verdict.acceptance(), speedup) {
        (Some(acceptance), Some(speedup)) => {
            let kind = if acceptance.timing.is_modelled() {
                "modelled"
            } else {
                "measured"
            };
            format!("{speedup:.2} times the baseline's speed ({kind})")
        }
        (Some(_), None) => "accepted".to_owned(),
        (None, _) => feedback(evaluation, "").summary,
    }
}

impl TaskBrief {
    fn new(task: &Task) -> Self {
        let gates = |gates: &[Gate]| gates.iter().map(gate).collect();
        Self {
            name: task.name.clone(),
            title: task.title.clone(),
            text: requirements::without_files(&cleaning::clean_text(&task.context)),
            arguments: arguments(task),
            cases: task
                .cases
                .iter()
                .filter(|case| case.is_for(CasePurpose::Check) || case.is_for(CasePurpose::Score))
                .map(CaseBrief::new)
                .collect(),
            headers: task.headers.keys().cloned().collect(),
            reference: requirements::reference(task),
            tolerance: requirements::tolerance(task),
            inputs: requirements::inputs(task),
            denied: requirements::denied(&task.policy),
            tensor_cores: task.policy.rule(Feature::TensorOperations) != Rule::Deny,
            targets: requirements::targets(task),
            cache: task.objective.cache,
            gates: gates(&task.gates),
            phases: task
                .phases
                .iter()
                .map(|phase| PhaseBrief {
                    name: phase.name.clone(),
                    gates: gates(&phase.gates),
                })
                .collect(),
            regions: regions(task.baseline.text()),
        }
    }
}

impl CaseBrief {
    fn new(case: &Case) -> Self {
        let dims = case
            .dims
            .iter()
            .map(|(name, value)| format!("{name} = {value}"));
        Self {
            name: case.name.clone(),
            dims: dims.collect::<Vec<_>>().join(", "),
            scored: case.is_for(CasePurpose::Score),
        }
    }
}

fn arguments(task: &Task) -> Vec<ArgumentBrief> {
    let tensors = task.tensors.iter().map(|tensor| {
        let shape: Vec<_> = tensor.shape.iter().map(ToString::to_string).collect();
        let (qualifier, role) = match tensor.role {
            Role::In => ("const ", "input, must not change"),
            Role::Out => ("", "output, every element must be written"),
            Role::Inout => ("", "input and output"),
        };
        let repeats = if tensor.role == Role::In {
            ""
        } else if task.contract.order_dependent.contains(&tensor.name) {
            "; may be summed in any order: executions may differ within the tolerance"
        } else {
            "; the same bytes in every execution on the same inputs"
        };
        ArgumentBrief {
            name: tensor.name.clone(),
            parameter: format!("{qualifier}{}*", tensor.dtype.c_type()),
            what: format!(
                "{} [{}], contiguous, aligned to {} bytes; {role}{repeats}",
                tensor.dtype,
                shape.join(", "),
                tensor.align
            ),
        }
    });
    let scalars = task.scalars.iter().map(|scalar| ArgumentBrief {
        name: scalar.name.clone(),
        parameter: scalar.dtype.c_type().to_owned(),
        what: format!("the number {}", scalar.value),
    });
    let names = task.cases.first().map(|case| case.dims.keys());
    let dims = names.into_iter().flatten().map(|name| ArgumentBrief {
        name: name.clone(),
        parameter: "int".to_owned(),
        what: match (task.fixed_dims.get(name), task.free_dims.get(name)) {
            (Some(value), _) => format!("dim, always {value}"),
            (None, Some(range)) => requirements::range(range),
            (None, None) => "dim".to_owned(),
        },
    });
    tensors.chain(scalars).chain(dims).collect()
}

fn gate(gate: &Gate) -> String {
    let mut words = format!("{} ({})", gate.subject.as_str(), meaning(gate.subject));
    if let Some(min) = gate.min {
        words.push_str(&format!(" at least {min}"));
    }
    if let Some(max) = gate.max {
        words.push_str(&format!(" at most {max}"));
    }
    words.push_str(match gate.enforce {
        Enforce::Reject => ", or it is rejected",
        Enforce::Phase => ", or it is not promoted",
        Enforce::Advise => ", as advice",
    });
    words
}

fn meaning(subject: GateSubject) -> &'static str {
    match subject {
        GateSubject::CtasPerSm => {
            "blocks of the launches that do most of the work, over the multiprocessors"
        }
        GateSubject::Registers => "per thread",
        GateSubject::SpillBytes => "registers spilled to memory",
        GateSubject::StaticSharedBytes => "static shared memory of a block",
        GateSubject::TensorPercent => "time that the tensor cores work, percent of the launches'",
        GateSubject::SmPercent => {
            "time that the multiprocessors' busiest unit works, percent of the launches'"
        }
        GateSubject::L2Percent => {
            "time that the second level cache moves bytes, percent of the launches'"
        }
        GateSubject::DramPercent => "time that device memory moves bytes, percent of the launches'",
        GateSubject::BankConflictPercent => {
            "passes of shared memory that bank conflicts add, percent of all"
        }
    }
}
