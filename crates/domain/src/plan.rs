//! Launch plans: which kernels run, in which order, with which grid and arguments.
//!
//! A candidate declares a [`LaunchPlan`] of expressions; [`LaunchPlan::resolve`] turns it into
//! the numbers of one case on one device, checked against the device's limits, before
//! anything is compiled or run. The trusted host executes the [`ResolvedPlan`] as it stands.

mod resolve;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::dtype::Dtype;
use crate::expr::{Expr, ExprError};

/// The most steps one plan may have.
pub const MAX_STEPS: usize = 16;

/// The plan as its author wrote it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LaunchPlan {
    /// Kernels and memsets in execution order.
    pub steps: Vec<Step>,
    /// Scratch buffers by name.
    pub workspaces: BTreeMap<String, Workspace>,
    /// Declared search space by macro name.
    pub tunables: BTreeMap<String, Tunable>,
    /// Constants of the code that expressions mention, where the task has no dim of the name.
    pub constants: BTreeMap<String, i64>,
}

/// One step of an execution.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "a plan has few steps, nearly all of them kernels"
)]
pub enum Step {
    /// Launches a kernel.
    Kernel(KernelStep),
    /// Fills a workspace or an output with one byte value.
    Memset {
        /// The buffer.
        buffer: String,
        /// The byte.
        byte: u8,
    },
}

/// One kernel launch, before its expressions have values.
#[derive(Clone, PartialEq)]
pub struct KernelStep {
    /// Name of the `extern "C"` entry.
    pub kernel: String,
    /// Blocks in x, y, z.
    pub grid: [Expr; 3],
    /// Threads of a block in x, y, z.
    pub block: [Expr; 3],
    /// Dynamic shared memory, bytes.
    pub shared: Expr,
    /// True if the grid synchronises as a whole.
    pub cooperative: bool,
    /// The buffer of which accesses persist in the L2 cache.
    pub l2_persist: Option<L2Window>,
    /// Arguments in the entry's order.
    pub arguments: Vec<Argument>,
}

/// Candidates' digests are taken over this text. A window shows only where there is one, so that plans without one keep
/// the digests that databases have of them.
impl fmt::Debug for KernelStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("KernelStep");
        fields
            .field("kernel", &self.kernel)
            .field("grid", &self.grid)
            .field("block", &self.block)
            .field("shared", &self.shared)
            .field("cooperative", &self.cooperative)
            .field("arguments", &self.arguments);
        if let Some(window) = &self.l2_persist {
            fields.field("l2_persist", window);
        }
        fields.finish()
    }
}

/// The beginning of a buffer, whose accesses by a launch persist in the L2 cache. The device's launch takes one such
/// window, and tensors lie apart from each other, so that a launch can name one buffer.
#[derive(Debug, Clone, PartialEq)]
pub struct L2Window {
    /// Tensor or workspace.
    pub buffer: String,
    /// Bytes from its first one on; none for the whole buffer.
    pub bytes: Option<Expr>,
    /// The share of these bytes that is to persist, above 0 to 1.
    pub hit_ratio: f64,
}

/// One argument as written.
#[derive(Debug, Clone, PartialEq)]
pub enum Argument {
    /// A tensor, workspace, dim (as i32) or scalar, by name.
    Named(String),
    /// A dim passed in another integer type.
    Dim {
        /// The dim.
        dim: String,
        /// Its type in the kernel's signature.
        dtype: Dtype,
    },
    /// A number of the plan's own.
    Number(Number),
}

/// A number that a plan passes to a kernel.
#[derive(Debug, Clone, PartialEq)]
pub enum Number {
    /// An integer expression, passed as i32 or i64.
    Whole {
        /// The expression.
        value: Expr,
        /// Its type in the kernel's signature.
        dtype: Dtype,
    },
    /// A literal, passed as f32 or f64.
    Real {
        /// The literal.
        value: f64,
        /// Its type in the kernel's signature.
        dtype: Dtype,
    },
}

/// A scratch buffer of the plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Workspace {
    /// Element type.
    pub dtype: Dtype,
    /// Elements along each axis.
    pub shape: Vec<Expr>,
}

/// A macro whose value may be searched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tunable {
    /// The value in the source as it stands.
    pub value: i64,
    /// The values a sweep may choose from; contains `value`.
    pub choices: Vec<i64>,
}

/// Values of a candidate's tunables, by macro name.
pub type Configuration = BTreeMap<String, i64>;

/// The numbers of one case on one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResolvedPlan {
    /// Scratch buffers, sorted by name.
    pub workspaces: Vec<ResolvedWorkspace>,
    /// Steps in order.
    pub steps: Vec<ResolvedStep>,
}

impl ResolvedPlan {
    /// The size of all scratch buffers together, bytes.
    pub fn workspace_bytes(&self) -> u64 {
        let sizes = self.workspaces.iter();
        let sizes =
            sizes.map(|workspace| workspace.elements.saturating_mul(workspace.dtype.bytes()));
        sizes.fold(0, u64::saturating_add)
    }

    /// Bytes of the L2 cache that the launch with the largest window lets persist; 0 if none has a window.
    pub fn persisting_bytes(&self) -> u64 {
        let windows = self.steps.iter().filter_map(|step| match step {
            ResolvedStep::Kernel(launch) => launch.l2_persist.as_ref(),
            ResolvedStep::Memset { .. } => None,
        });
        let sizes = windows.map(|window| (window.bytes as f64 * window.hit_ratio).ceil() as u64);
        sizes.max().unwrap_or(0)
    }
}

/// A scratch buffer with its size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedWorkspace {
    /// Name in the plan.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Number of elements.
    pub elements: u64,
}

/// One step with its numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ResolvedStep {
    /// Launch a kernel.
    Kernel(ResolvedLaunch),
    /// Fill a buffer.
    Memset {
        /// The buffer.
        buffer: String,
        /// The byte.
        byte: u8,
    },
}

/// A kernel launch with its numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResolvedLaunch {
    /// Name of the entry.
    pub kernel: String,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory, bytes.
    pub shared_bytes: u32,
    /// True if the grid synchronises as a whole.
    pub cooperative: bool,
    /// The buffer of which accesses persist in the L2 cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2_persist: Option<ResolvedL2Window>,
    /// Arguments in order.
    pub arguments: Vec<ResolvedArgument>,
}

/// The beginning of a buffer, whose accesses by a launch persist in the L2 cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResolvedL2Window {
    /// Tensor or workspace.
    pub buffer: String,
    /// Bytes from its first one on, at least 1.
    pub bytes: u64,
    /// The share of these bytes that is to persist, above 0 to 1.
    pub hit_ratio: f64,
}

impl ResolvedLaunch {
    /// Blocks of the whole grid.
    pub fn blocks(&self) -> u64 {
        self.grid.iter().map(|&n| u64::from(n)).product()
    }

    /// Threads of one block.
    pub fn threads(&self) -> u32 {
        self.block.iter().product()
    }
}

/// One argument with its value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "value", rename_all = "snake_case")]
pub enum ResolvedArgument {
    /// The address of a tensor or workspace.
    Buffer(String),
    /// A 32-bit integer.
    I32(i32),
    /// A 64-bit integer.
    I64(i64),
    /// A binary32 scalar.
    F32(f32),
    /// A binary64 scalar.
    F64(f64),
}

impl ResolvedArgument {
    /// Bytes the argument takes in the parameter list.
    pub fn bytes(&self) -> usize {
        match self {
            Self::I32(_) | Self::F32(_) => 4,
            Self::Buffer(_) | Self::I64(_) | Self::F64(_) => 8,
        }
    }
}

/// The reasons why a plan cannot run for a case on a device. The message names the entry, the value
/// and the limit.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// An expression of the plan has no value.
    #[error("{place}: {source}")]
    Expression {
        /// The entry of the plan.
        place: String,
        /// The reason.
        source: ExprError,
    },
    /// A value that is not allowed there.
    #[error("{place} is {found}, outside {lowest}..={highest} ({limit})")]
    OutOfRange {
        /// The entry of the plan.
        place: String,
        /// Its value.
        found: i64,
        /// The smallest allowed value.
        lowest: i64,
        /// The largest allowed value.
        highest: i64,
        /// The owner of that limit.
        limit: String,
    },
    /// An argument or buffer that neither the task nor the plan declares.
    #[error("{place}: {name:?} is no tensor, workspace, dim or scalar; known here: {known}")]
    UnknownArgument {
        /// The entry of the plan.
        place: String,
        /// The name.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A workspace or tunable with a name that the task or the device's facts already use.
    #[error("{place}: the name {name:?} is in use already; choose another")]
    NameTaken {
        /// The entry of the plan.
        place: String,
        /// The name.
        name: String,
    },
}

impl LaunchPlan {
    /// Returns true if a launch or a workspace changes with the value of a name.
    pub fn depends_on(&self, name: &str) -> bool {
        let mentions = |expr: &Expr| expr.names().contains(&name);
        let launches = self.steps.iter().any(|step| match step {
            Step::Memset { .. } => false,
            Step::Kernel(kernel) => {
                let own = kernel.grid.iter().chain(&kernel.block);
                let passes = |argument: &Argument| match argument {
                    Argument::Named(given) => given == name,
                    Argument::Dim { dim, .. } => dim == name,
                    Argument::Number(Number::Whole { value, .. }) => mentions(value),
                    Argument::Number(Number::Real { .. }) => false,
                };
                let window = kernel.l2_persist.iter().flat_map(|window| &window.bytes);
                let mut own = own.chain([&kernel.shared]).chain(window);
                own.any(mentions) || kernel.arguments.iter().any(passes)
            }
        });
        let mut workspaces = self.workspaces.values();
        launches || workspaces.any(|workspace| workspace.shape.iter().any(mentions))
    }

    /// The tunables' values in the source as it stands.
    pub fn default_configuration(&self) -> Configuration {
        self.tunables
            .iter()
            .map(|(name, tunable)| (name.clone(), tunable.value))
            .collect()
    }
}
