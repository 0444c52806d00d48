//! A task: what to optimise, and the definition of the right answer.
//!
//! A [`Bundle`] is the folder's files as texts, the form in which a task travels and is stored;
//! [`Task::load`] checks all of it and is the only way to a [`Task`].

mod depends;
mod read;
mod rivals;
mod tolerance;
mod work;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::candidate::KernelSource;
use crate::digest::Digest;
use crate::dtype::Dtype;
use crate::expr::Expr;
use crate::plan::ResolvedArgument;
use crate::policy::Policy;
use crate::problem::{Problem, Problems};
use crate::timing::CacheState;

pub use depends::{Dependence, TensorPart};
pub use rivals::MACHINE_CODE;
pub use tolerance::{Allclose, Tolerance, ToleranceClass};
pub use work::Essential;

/// The most bytes of all files of a task together: 4 MiB.
pub const MAX_BUNDLE_BYTES: usize = 4 << 20;

/// A task folder's files by path relative to the folder, with `/` between parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Bundle {
    /// Text of each file.
    pub files: BTreeMap<String, String>,
}

/// True for a name of a task or of an operator family: words that can be part of a path and of a command line.
#[must_use]
pub fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(['.', '-'])
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// A checked task.
#[derive(Debug, Clone)]
pub struct Task {
    /// Name, unique in a service; the folder's name by custom.
    pub name: String,
    /// A few words for people.
    pub title: String,
    /// The operator family, such as attention, whose tasks share lessons; none where the task has no kin.
    pub family: Option<String>,
    /// Identity: hash of task.toml, the references and what they include. Results of different
    /// versions are never mixed.
    pub version: Digest,
    /// Dims that are the same in every case.
    pub fixed_dims: BTreeMap<String, i64>,
    /// The values that the other dims may have.
    pub free_dims: BTreeMap<String, Range>,
    /// Inputs and outputs.
    pub tensors: Vec<Tensor>,
    /// Scalar arguments.
    pub scalars: Vec<Scalar>,
    /// Shapes to check, score or hold out.
    pub cases: Vec<Case>,
    /// The tolerance of outputs.
    pub tolerance: Tolerance,
    /// The features that a candidate may use besides computing.
    pub policy: Policy,
    /// Further promises about the function.
    pub contract: Contract,
    /// The operations that no candidate avoids; none where algebra might.
    pub essential: Option<Essential>,
    /// Soft gates that apply always.
    pub gates: Vec<Gate>,
    /// Phases in order, with their own gates.
    pub phases: Vec<Phase>,
    /// The file that winners replace, as far as the author states it.
    pub promotion: Option<Destination>,
    /// The objective of a run.
    pub objective: Objective,
    /// The trusted definition of the right answer.
    pub reference: KernelSource,
    /// A second reference by another algorithm.
    pub check: SecondReference,
    /// Generation 0.
    pub baseline: KernelSource,
    /// Headers candidates may include, by name relative to `include/`.
    pub headers: BTreeMap<String, String>,
    /// The ordered playbook: file name and step.
    pub playbook: Vec<(String, KernelSource)>,
    /// Deliberately wrong variants: file name and source.
    pub broken: Vec<(String, KernelSource)>,
    /// Other solutions to be timed beside candidates, such as a library's: file name and rival.
    pub rivals: Vec<(String, Rival)>,
    /// Advice for models.
    pub context: String,
    /// Seeded insights, as written.
    pub insights: String,
}

/// A file in a git repository that a task's winners replace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// Path of the repository, relative to the task's folder or absolute.
    pub repository: String,
    /// The branch that a promotion branch starts from; the repository's `HEAD` if absent.
    pub base: Option<String>,
    /// Path of the file in the repository.
    pub path: String,
    /// The region of the file; all of it if absent.
    pub region: Option<String>,
}

/// A second definition of the right answer, which admission compares with the first.
#[derive(Debug, Clone)]
pub enum SecondReference {
    /// `check.cu`.
    Kernel(Box<KernelSource>),
    /// The text of `reference.py`: a function `reference` of `NumPy` arrays.
    Python(String),
}

impl SecondReference {
    /// Its file in the task's folder.
    pub fn file(&self) -> &'static str {
        match self {
            Self::Kernel(_) => CHECK_FILE,
            Self::Python(_) => PYTHON_FILE,
        }
    }
}

const CHECK_FILE: &str = "check.cu";
const PYTHON_FILE: &str = "reference.py";

/// The largest value of a dim whose task states none.
pub const UNSTATED_MAXIMUM: i64 = i32::MAX as i64;

/// The values that a dim may have: every candidate must be right on all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The smallest.
    pub least: i64,
    /// The largest.
    pub most: i64,
    /// All are multiples of this.
    pub multiple: i64,
}

impl Range {
    /// Returns true if a value is one of them.
    pub fn contains(&self, value: i64) -> bool {
        (self.least..=self.most).contains(&value) && value % self.multiple == 0
    }

    /// The largest value, where the task states a maximum below that of a 32-bit integer.
    pub fn stated_maximum(&self) -> Option<i64> {
        (self.most < UNSTATED_MAXIMUM).then(|| self.most - self.most % self.multiple)
    }
}

/// Somebody else's solution of a task.
#[derive(Debug, Clone, PartialEq)]
pub enum Rival {
    /// A kernel with its plan, as a candidate would be.
    Kernel(Box<KernelSource>),
    /// A Python script that times a library, in a process of its own.
    Script(String),
    /// Machine code without source.
    Image(Box<ImageRival>),
}

/// Machine code without source, and how it is launched.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageRival {
    /// The plan: front matter with nothing below it.
    pub plan: KernelSource,
    /// The machine code, for one architecture.
    pub machine_code: Vec<u8>,
    /// The kernels as PTX, which the emulated device executes.
    pub ptx: Option<String>,
}

/// A tensor argument.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tensor {
    /// Name in plans.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Extents in elements, outermost first; contiguous.
    pub shape: Vec<Expr>,
    /// Direction.
    pub role: Role,
    /// The weakest alignment of the base address that a candidate must accept, bytes.
    pub align: u64,
    /// The distribution of values the tensor has in ordinary use.
    pub values: Values,
}

/// Direction of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Read only: a change is a verdict.
    In,
    /// Written only: poisoned before every execution.
    Out,
    /// Both.
    Inout,
}

/// Ordinary values of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Values {
    /// Normal, mean 0, deviation 1.
    Normal,
    /// Uniform in -1..1.
    Uniform,
}

/// A scalar argument.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scalar {
    /// Name in plans.
    pub name: String,
    /// Type in the kernel's signature: f32 or f64.
    pub dtype: Dtype,
    /// Value, over the dims.
    pub value: Expr,
}

impl Scalar {
    /// The argument a kernel receives for `value`.
    pub fn argument(&self, value: f64) -> ResolvedArgument {
        if self.dtype == Dtype::F64 {
            return ResolvedArgument::F64(value);
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the signature asks for binary32"
        )]
        ResolvedArgument::F32(value as f32)
    }
}

/// One shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Case {
    /// Name, unique in the task.
    pub name: String,
    /// Every dim with its value, the fixed ones included.
    pub dims: BTreeMap<String, i64>,
    /// The uses of the case; none for a case that no task file lists.
    pub uses: Vec<CasePurpose>,
}

impl Case {
    /// Returns true if the case has a use.
    pub fn is_for(&self, wanted: CasePurpose) -> bool {
        self.uses.contains(&wanted)
    }
}

/// The uses of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Use)]
pub enum CasePurpose {
    /// Correctness, for every candidate.
    Check,
    /// Correctness and time, for every candidate.
    Score,
    /// Correctness, at promotion only.
    Holdout,
    /// Correctness of a shape that one promotion draws. No task file lists it.
    #[serde(skip)]
    Drawn,
    /// Correctness of a drawn shape in which one dim lies between its largest listed value and its
    /// maximum.
    #[serde(skip)]
    TowardsMaximum,
}

/// Promises beyond the tolerance.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Contract {
    /// Inputs in which the function is linear: exact integers there give exact outputs.
    pub linear_in: Vec<String>,
    /// Outputs that may be summed in any order, as by atomic additions: executions on the same inputs
    /// may differ there within the tolerance. All others must have the same bytes every time.
    pub order_dependent: Vec<String>,
    /// Inputs whose NaN and infinities reach the outputs as IEEE 754 and the reference have it.
    pub specials_in: Vec<String>,
    /// The inputs that each output depends on; nothing is known of an output that is not here.
    pub depends: BTreeMap<String, Vec<Dependence>>,
    /// The reference's workspace that receives the forward-error scale of each output.
    pub error_scale: BTreeMap<String, String>,
    /// The number of terms that are summed for one element of each output.
    pub error_terms: BTreeMap<String, Expr>,
}

/// A soft gate.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// The quantity that the gate limits.
    pub subject: GateSubject,
    /// Smallest allowed value.
    pub min: Option<f64>,
    /// Largest allowed value.
    pub max: Option<f64>,
    /// The consequence of breaking it.
    pub enforce: Enforce,
}

/// The quantities that gates limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateSubject {
    /// Blocks of the launches that do most of the work over the device's multiprocessors.
    CtasPerSm,
    /// Registers of a thread, largest over the plan's kernels.
    Registers,
    /// Bytes spilled to local memory, summed over the plan's kernels.
    SpillBytes,
    /// Static shared memory of a block in bytes, largest over the plan's kernels.
    StaticSharedBytes,
    /// The time that the tensor cores work, percent of the launches' time.
    TensorPercent,
    /// The time that the busiest unit of the multiprocessors works, percent of the launches' time.
    SmPercent,
    /// The time that the second level cache moves bytes, percent of the launches' time.
    L2Percent,
    /// The time that device memory moves bytes, percent of the launches' time.
    DramPercent,
    /// Passes of shared memory that bank conflicts add, percent of all passes.
    BankConflictPercent,
}

impl GateSubject {
    /// The name in task files and verdicts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CtasPerSm => "ctas_per_sm",
            Self::Registers => "registers",
            Self::SpillBytes => "spill_bytes",
            Self::StaticSharedBytes => "static_shared_bytes",
            Self::TensorPercent => "tensor_percent",
            Self::SmPercent => "sm_percent",
            Self::L2Percent => "l2_percent",
            Self::DramPercent => "dram_percent",
            Self::BankConflictPercent => "bank_conflict_percent",
        }
    }

    /// Reports whether its value comes from the emulated device's counters and time model; of the others the compiler
    /// and the launches tell it.
    pub fn is_modelled(self) -> bool {
        match self {
            Self::CtasPerSm | Self::Registers | Self::SpillBytes | Self::StaticSharedBytes => false,
            Self::TensorPercent
            | Self::SmPercent
            | Self::L2Percent
            | Self::DramPercent
            | Self::BankConflictPercent => true,
        }
    }
}

/// The consequence of breaking a soft gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Enforce {
    /// A verdict of its own.
    Reject,
    /// May breed, but opens no later phase and is not promoted.
    Phase,
    /// Shown.
    Advise,
}

/// A phase of the playbook.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// Name.
    pub name: String,
    /// Gates that must hold before the next phase opens.
    pub gates: Vec<Gate>,
    /// Speedups over the baseline worth reaching, by tier name.
    pub targets: BTreeMap<String, f64>,
}

/// The objective of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Objective {
    /// In which states of the cache the score cases are timed for the score.
    pub cache: ScoredCache,
    /// The speedup over the baseline that counts as the target.
    pub target_speedup: Option<f64>,
    /// True if a run ends when the target is reached.
    pub stop_at_target: bool,
}

/// The states of the second level cache whose times are a task's score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScoredCache {
    /// Every score case counts with a cold cache.
    #[default]
    Cold,
    /// Every score case counts with a warm cache.
    Warm,
    /// Every score case counts twice.
    Both,
}

impl ScoredCache {
    /// The choice of a name in a task file.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "cold" => Some(Self::Cold),
            "warm" => Some(Self::Warm),
            "both" => Some(Self::Both),
            _ => None,
        }
    }

    /// The states that are scored, in the order in which each case has them.
    pub fn scored(self) -> &'static [CacheState] {
        match self {
            Self::Cold => &[CacheState::Cold],
            Self::Warm => &[CacheState::Warm],
            Self::Both => &CacheState::ALL,
        }
    }

    /// The state that is not.
    pub fn unscored(self) -> Option<CacheState> {
        match self {
            Self::Cold => Some(CacheState::Warm),
            Self::Warm => Some(CacheState::Cold),
            Self::Both => None,
        }
    }

    /// A description for people and prompts.
    pub fn description(self) -> &'static str {
        match self {
            Self::Cold => "cold: nothing of the inputs is in the L2 when an execution begins",
            Self::Warm => {
                "warm: the inputs are in the L2 when an execution begins, as far as they fit"
            }
            Self::Both => {
                "both: every case counts with a cold L2 and with its inputs in the L2, as far as they fit"
            }
        }
    }
}

impl Task {
    /// Reads a task from its files.
    ///
    /// # Errors
    /// Every defect of every file, each with file, line and column.
    pub fn load(bundle: &Bundle) -> Result<Self, Problems> {
        read::task(bundle)
    }

    /// The case of a name.
    pub fn case(&self, name: &str) -> Option<&Case> {
        self.cases.iter().find(|case| case.name == name)
    }

    /// Cases whose times make up the score, in order.
    pub fn score_cases(&self) -> impl Iterator<Item = &Case> {
        self.cases
            .iter()
            .filter(|case| case.is_for(CasePurpose::Score))
    }

    /// A tensor's extents in one case.
    ///
    /// # Errors
    /// A [`Problem`] for an extent without a positive value.
    pub fn extents(&self, tensor: &Tensor, case: &Case) -> Result<Vec<u64>, Problem> {
        tensor
            .shape
            .iter()
            .map(|extent| match extent.integer(&case.dims) {
                Ok(value) if value > 0 => Ok(value.cast_unsigned()),
                Ok(value) => Err(format!("has the extent {value}")),
                Err(error) => Err(error.to_string()),
            })
            .collect::<Result<_, _>>()
            .map_err(|why| {
                let message = format!("tensor {} in case {}: {why}", tensor.name, case.name);
                Problem::whole(
                    "task.toml",
                    message,
                    "give the case dims that make every extent positive",
                )
            })
    }
}
