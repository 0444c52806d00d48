//! Views of a task: its definition as a person reads it, and its leaderboards.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::TaskView;
use crate::admission::Admission;
use crate::candidate::KernelSource;
use crate::digest::Digest;
use crate::dtype::Dtype;
use crate::id::{CandidateId, RunId};
use crate::policy::{Feature, Rule};
use crate::search::Method;
use crate::task::{
    Bundle, Case, Enforce, Gate, GateSubject, Role, ScoredCache, Task, Tolerance, Values,
};

/// A task's definition: all that candidates are judged by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskDefinition {
    /// The task as the list shows it.
    #[serde(flatten)]
    pub view: TaskView,
    /// The dims, by name.
    pub dims: Vec<Dim>,
    /// Inputs and outputs.
    pub tensors: Vec<TensorView>,
    /// Scalar arguments.
    pub scalars: Vec<ScalarView>,
    /// Shapes that are checked, scored or held out.
    pub shapes: Vec<Case>,
    /// The tolerance of the outputs.
    pub tolerance: Tolerance,
    /// Outputs that may differ between executions within the tolerance.
    pub order_dependent: Vec<String>,
    /// The rule for each feature that a candidate may use besides computing.
    #[schema(value_type = BTreeMap<String, Rule>)]
    pub policy: BTreeMap<Feature, Rule>,
    /// Gates: those of the task, then those of its phases.
    pub gates: Vec<GateView>,
    /// Phases of the playbook in order.
    pub phases: Vec<PhaseView>,
    /// Steps of the playbook in order.
    pub steps: Vec<StepView>,
    /// The state of the cache in which the score cases are timed.
    pub scored_cache: ScoredCache,
    /// The speedup over the baseline that counts as the target.
    pub target_speedup: Option<f64>,
    /// The trusted definition of the right answer: CUDA source.
    pub reference: String,
    /// Advice for models, as written.
    pub context: String,
    /// Seeded insights, as written.
    pub insights: String,
    /// All files, by path.
    pub files: Vec<TaskFile>,
}

/// Files that were stored under a task's name, with the runs that use them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskVersion {
    /// Digest of what defines the right answer. Uploads that differ in other files share it.
    pub version: Digest,
    /// Digest of all files.
    pub content: Digest,
    /// The time of the last upload.
    pub stored_at: DateTime<Utc>,
    /// Runs that use these files.
    pub runs: u32,
    /// Those of them that are not over.
    pub open_runs: u32,
    /// The time at which the newest of them was created.
    pub last_run_at: Option<DateTime<Utc>>,
}

/// The admission of a task's files on one kind of device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskAdmission {
    /// Digest of the files that were admitted or refused.
    pub content: Digest,
    /// Name of the device.
    pub device: String,
    /// The compiler with its version.
    pub toolchain: String,
    /// The time of the report. A worker decides once, and reports it again with the baseline of each run.
    pub decided_at: DateTime<Utc>,
    /// True if every rule holds.
    pub admitted: bool,
    /// Every rule with its number.
    pub admission: Admission,
}

/// A dim: one value, or a range.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Dim {
    /// Name.
    pub name: String,
    /// The smallest value.
    pub least: i64,
    /// The largest value; the smallest where every case has the same.
    pub most: i64,
    /// All values are multiples of this.
    pub multiple: i64,
}

/// A tensor argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TensorView {
    /// Name in plans.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Extents in elements over the dims, outermost first.
    pub shape: Vec<String>,
    /// Direction: `in`, `out` or `inout`.
    #[schema(value_type = String)]
    pub role: Role,
    /// The weakest alignment of the base address, bytes.
    pub align: u64,
    /// Distribution of the values in ordinary use.
    #[schema(value_type = String)]
    pub values: Values,
}

/// A scalar argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScalarView {
    /// Name in plans.
    pub name: String,
    /// Type in the kernel's signature.
    pub dtype: Dtype,
    /// Value over the dims.
    pub value: String,
}

/// A gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GateView {
    /// The quantity that it limits.
    pub subject: GateSubject,
    /// The phase that it belongs to; none for the task's own.
    pub phase: Option<String>,
    /// Smallest allowed value.
    pub min: Option<f64>,
    /// Largest allowed value.
    pub max: Option<f64>,
    /// The consequence of breaking it.
    pub enforce: Enforce,
}

impl GateView {
    fn of(gate: &Gate, phase: Option<&str>) -> Self {
        Self {
            subject: gate.subject,
            phase: phase.map(str::to_owned),
            min: gate.min,
            max: gate.max,
            enforce: gate.enforce,
        }
    }
}

/// A phase of the playbook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PhaseView {
    /// Name.
    pub name: String,
    /// Speedups over the baseline worth reaching, by tier.
    pub targets: BTreeMap<String, f64>,
}

/// A step of the playbook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StepView {
    /// Its file.
    pub file: String,
    /// The phase that it belongs to.
    pub phase: Option<String>,
    /// A few words.
    pub title: String,
    /// The reason why it should be faster.
    pub hypothesis: String,
    /// Expected speedup over its parent, lowest and highest.
    pub gain: Option<[f64; 2]>,
    /// Tunables that are swept once the step is kept.
    pub sweep: Vec<String>,
}

impl StepView {
    fn of(file: &str, source: &KernelSource) -> Self {
        let idea = source.idea();
        let step = source.step();
        Self {
            file: file.to_owned(),
            phase: step.map(|step| step.phase.clone()),
            title: idea.map_or_else(|| file.to_owned(), |idea| idea.title.clone()),
            hypothesis: idea.map_or_else(String::new, |idea| idea.hypothesis.clone()),
            gain: idea.and_then(|idea| idea.gain),
            sweep: step.map(|step| step.sweep.clone()).unwrap_or_default(),
        }
    }
}

/// A file of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskFile {
    /// Path in the task's folder.
    pub path: String,
    /// Its length in bytes.
    pub bytes: u64,
}

impl TaskDefinition {
    /// The definition of a task that was read from these files.
    pub fn of(view: TaskView, task: &Task, bundle: &Bundle) -> Self {
        let fixed = task.fixed_dims.iter().map(|(name, value)| Dim {
            name: name.clone(),
            least: *value,
            most: *value,
            multiple: 1,
        });
        let free = task.free_dims.iter().map(|(name, range)| Dim {
            name: name.clone(),
            least: range.least,
            most: range.most,
            multiple: range.multiple,
        });
        let mut dims = fixed.chain(free).collect::<Vec<_>>();
        dims.sort_by(|one, other| one.name.cmp(&other.name));
        let own = task.gates.iter().map(|gate| GateView::of(gate, None));
        let of_phases = task.phases.iter().flat_map(|phase| {
            let gates = phase.gates.iter();
            gates.map(|gate| GateView::of(gate, Some(&phase.name)))
        });
        Self {
            view,
            dims,
            tensors: task
                .tensors
                .iter()
                .map(|tensor| TensorView {
                    name: tensor.name.clone(),
                    dtype: tensor.dtype,
                    shape: tensor.shape.iter().map(ToString::to_string).collect(),
                    role: tensor.role,
                    align: tensor.align,
                    values: tensor.values,
                })
                .collect(),
            scalars: task
                .scalars
                .iter()
                .map(|scalar| ScalarView {
                    name: scalar.name.clone(),
                    dtype: scalar.dtype,
                    value: scalar.value.to_string(),
                })
                .collect(),
            shapes: task.cases.clone(),
            tolerance: task.tolerance,
            order_dependent: task.contract.order_dependent.clone(),
            policy: Feature::ALL
                .map(|feature| (feature, task.policy.rule(feature)))
                .into(),
            gates: own.chain(of_phases).collect(),
            phases: task
                .phases
                .iter()
                .map(|phase| PhaseView {
                    name: phase.name.clone(),
                    targets: phase.targets.clone(),
                })
                .collect(),
            steps: task
                .playbook
                .iter()
                .map(|(file, source)| StepView::of(file, source))
                .collect(),
            scored_cache: task.objective.cache,
            target_speedup: task.objective.target_speedup,
            reference: task.reference.text().to_owned(),
            context: task.context.clone(),
            insights: task.insights.clone(),
            files: bundle
                .files
                .iter()
                .map(|(path, text)| TaskFile {
                    path: path.clone(),
                    bytes: text.len() as u64,
                })
                .collect(),
        }
    }
}

/// The best candidates of one task version on one device, one for each run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Leaderboard {
    /// The task's name.
    pub task: String,
    /// Its version: times of different versions do not compare.
    pub version: Digest,
    /// Name of the device.
    pub device: String,
    /// True if the times are modelled.
    pub modelled: bool,
    /// The candidates, the fastest first; at most the number that was asked for.
    pub entries: Vec<LeaderboardEntry>,
}

/// The best candidate of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LeaderboardEntry {
    /// The run.
    pub run: RunId,
    /// Its name.
    pub run_name: String,
    /// Its method.
    pub method: Method,
    /// The candidate.
    pub candidate: CandidateId,
    /// Its position in the run.
    pub ordinal: u32,
    /// A few words about it.
    pub title: String,
    /// Its proposer.
    pub proposer: String,
    /// Its time, geometric mean over the score cases, microseconds.
    pub time_us: f64,
    /// The time of its run's baseline over its own.
    pub speedup: f64,
    /// The time of the verdict.
    pub judged_at: DateTime<Utc>,
}

/// Leaderboards of several tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LeaderboardPage {
    /// The leaderboards by task, device and kind of time.
    pub boards: Vec<Leaderboard>,
    /// Pass as `cursor` for the next tasks; absent on the last page.
    pub next: Option<String>,
}
