//! Launch plans: which kernels run, in which order, with which grid and arguments.
//!
//! A candidate declares a [`LaunchPlan`] of expressions; [`LaunchPlan::resolve`] turns it into
//! the numbers of one case on one device, checked against the device's limits, before
//! anything is compiled or run. The trusted host executes the [`ResolvedPlan`] as it stands.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::device::Limits;
use crate::dtype::Dtype;
use crate::expr::{Expr, ExprError, Scope};
use crate::task::Task;

/// The device's multiprocessors, in expressions.
const SM_COUNT: &str = "SM_COUNT";
/// The most steps one plan may have.
pub const MAX_STEPS: usize = 16;
/// The most bytes one workspace may have: 8 GiB.
const MAX_WORKSPACE_BYTES: i64 = 8 << 30;

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
#[derive(Debug, Clone, PartialEq)]
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
    /// Arguments in the entry's order.
    pub arguments: Vec<Argument>,
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
    /// Arguments in order.
    pub arguments: Vec<ResolvedArgument>,
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
    /// The tunables' values in the source as it stands.
    pub fn default_configuration(&self) -> Configuration {
        self.tunables
            .iter()
            .map(|(name, tunable)| (name.clone(), tunable.value))
            .collect()
    }

    /// Gives every expression its value for one case, and checks all of them against the device.
    ///
    /// # Errors
    /// The first of the defects that [`LaunchPlan::resolve_all`] finds.
    pub fn resolve(
        &self,
        task: &Task,
        dims: &BTreeMap<String, i64>,
        configuration: &Configuration,
        limits: &Limits,
    ) -> Result<ResolvedPlan, PlanError> {
        self.resolve_all(task, dims, configuration, limits)
            .map_err(|mut errors| errors.swap_remove(0))
    }

    /// Gives every expression its value for one case, and checks all of them against the device.
    ///
    /// # Errors
    /// Every defect, at least one; a [`PlanError`] names the entry: an expression without a value, a
    /// value outside the device's limits, a name that nothing declares.
    pub fn resolve_all(
        &self,
        task: &Task,
        dims: &BTreeMap<String, i64>,
        configuration: &Configuration,
        limits: &Limits,
    ) -> Result<ResolvedPlan, Vec<PlanError>> {
        self.distinct_names(task, dims)
            .map_err(|error| vec![error])?;
        let mut scope: Scope = self.constants.clone();
        scope.extend(dims.clone());
        scope.extend(
            configuration
                .iter()
                .map(|(name, value)| (name.clone(), *value)),
        );
        scope.insert(SM_COUNT.to_owned(), i64::from(limits.sm_count));
        let resolver = Resolver {
            plan: self,
            task,
            dims,
            scope,
            limits,
        };
        let mut errors = Vec::new();
        let workspaces = self
            .workspaces
            .iter()
            .filter_map(|(name, workspace)| {
                let resolved = resolver.workspace(name, workspace);
                resolved.map_err(|error| errors.push(error)).ok()
            })
            .collect();
        let steps = self
            .steps
            .iter()
            .enumerate()
            .map(|(index, step)| match step {
                Step::Kernel(kernel) => {
                    ResolvedStep::Kernel(resolver.launch(index, kernel, &mut errors))
                }
                Step::Memset { buffer, byte } => {
                    let place = format!("launch {} (memset)", index + 1);
                    errors.extend(resolver.require_buffer(&place, buffer).err());
                    ResolvedStep::Memset {
                        buffer: buffer.clone(),
                        byte: *byte,
                    }
                }
            })
            .collect();
        if errors.is_empty() {
            Ok(ResolvedPlan { workspaces, steps })
        } else {
            Err(errors)
        }
    }

    /// An argument names one thing: a workspace must not hide a tensor, nor a tunable a dim.
    fn distinct_names(&self, task: &Task, dims: &BTreeMap<String, i64>) -> Result<(), PlanError> {
        let taken = |name: &String| {
            name == SM_COUNT
                || dims.contains_key(name)
                || task.tensors.iter().any(|tensor| tensor.name == *name)
                || task.scalars.iter().any(|scalar| scalar.name == *name)
        };
        let clash = |kind: &str, name: &String| PlanError::NameTaken {
            place: format!("{kind} {name}"),
            name: name.clone(),
        };
        if let Some(name) = self.workspaces.keys().find(|name| taken(name)) {
            return Err(clash("workspace", name));
        }
        match self.tunables.keys().find(|name| taken(name)) {
            Some(name) => Err(clash("tunable", name)),
            None => Ok(()),
        }
    }
}

struct Resolver<'a> {
    plan: &'a LaunchPlan,
    task: &'a Task,
    dims: &'a BTreeMap<String, i64>,
    scope: Scope,
    limits: &'a Limits,
}

impl Resolver<'_> {
    fn value(&self, place: &str, expr: &Expr) -> Result<i64, PlanError> {
        expr.integer(&self.scope)
            .map_err(|source| PlanError::Expression {
                place: place.to_owned(),
                source,
            })
    }

    fn ranged(
        &self,
        place: &str,
        expr: &Expr,
        lowest: i64,
        highest: u32,
        limit: &str,
    ) -> Result<u32, PlanError> {
        let found = self.value(place, expr)?;
        in_range(place, found, lowest, i64::from(highest), limit)?;
        Ok(u32::try_from(found).expect("the range check keeps it within u32"))
    }

    fn workspace(&self, name: &str, workspace: &Workspace) -> Result<ResolvedWorkspace, PlanError> {
        let place = format!("workspace {name}");
        let mut elements = 1_i64;
        for axis in &workspace.shape {
            let extent = self.value(&place, axis)?;
            in_range(
                &place,
                extent,
                1,
                i64::from(u32::MAX),
                "the extent of an axis",
            )?;
            elements = elements.checked_mul(extent).unwrap_or(i64::MAX);
        }
        let bytes = elements.saturating_mul(workspace.dtype.bytes().cast_signed());
        in_range(
            &format!("{place} in bytes"),
            bytes,
            1,
            MAX_WORKSPACE_BYTES,
            "the host's limit",
        )?;
        Ok(ResolvedWorkspace {
            name: name.to_owned(),
            dtype: workspace.dtype,
            elements: elements.cast_unsigned(),
        })
    }

    /// The numbers of a launch. A defect is added to `errors`, and 1 or nothing stands in its place.
    fn launch(
        &self,
        index: usize,
        step: &KernelStep,
        errors: &mut Vec<PlanError>,
    ) -> ResolvedLaunch {
        let before = errors.len();
        let place = |what: &str| format!("launch {} ({}) {what}", index + 1, step.kernel);
        let mut checked = |found: Result<u32, PlanError>| {
            found.unwrap_or_else(|error| {
                errors.push(error);
                1
            })
        };
        let mut grid = [0; 3];
        let mut block = [0; 3];
        for (axis, name) in ["x", "y", "z"].into_iter().enumerate() {
            let limit = "the device's grid limit";
            let place_of_grid = place(&format!("grid.{name}"));
            let highest = self.limits.grid[axis];
            grid[axis] = checked(self.ranged(&place_of_grid, &step.grid[axis], 1, highest, limit));
            let limit = "the device's block limit";
            let place_of_block = place(&format!("block.{name}"));
            let highest = self.limits.block[axis];
            block[axis] =
                checked(self.ranged(&place_of_block, &step.block[axis], 1, highest, limit));
        }
        let shared_bytes = checked(self.ranged(
            &place("shared"),
            &step.shared,
            0,
            self.limits.shared_per_block_optin,
            "the device's opt-in shared memory per block, bytes",
        ));
        if errors.len() == before {
            let threads = block.iter().map(|&n| i64::from(n)).product();
            let most = i64::from(self.limits.threads_per_block);
            let place = place("threads per block");
            errors.extend(in_range(&place, threads, 1, most, "the device's limit").err());
        }
        let arguments = step
            .arguments
            .iter()
            .filter_map(|argument| {
                let resolved = self.argument(&place("args"), argument);
                resolved.map_err(|error| errors.push(error)).ok()
            })
            .collect();
        ResolvedLaunch {
            kernel: step.kernel.clone(),
            grid,
            block,
            shared_bytes,
            cooperative: step.cooperative,
            arguments,
        }
    }

    fn argument(&self, place: &str, argument: &Argument) -> Result<ResolvedArgument, PlanError> {
        let (name, dtype) = match argument {
            Argument::Named(name) => (name, Dtype::I32),
            Argument::Dim { dim, dtype } => (dim, *dtype),
            Argument::Number(Number::Whole { value, dtype }) => {
                let found = self.value(place, value)?;
                return integer_argument(&format!("{place}: {value}"), found, *dtype);
            }
            Argument::Number(Number::Real { value, dtype }) => {
                return Ok(real_argument(*value, *dtype));
            }
        };
        if let Some(&value) = self.dims.get(name) {
            return integer_argument(&format!("{place}: dim {name}"), value, dtype);
        }
        if let Argument::Named(name) = argument {
            if let Some(scalar) = self.task.scalars.iter().find(|scalar| scalar.name == *name) {
                let value =
                    scalar
                        .value
                        .scalar(self.dims)
                        .map_err(|source| PlanError::Expression {
                            place: format!("scalar {name}"),
                            source,
                        })?;
                return Ok(scalar.argument(value));
            }
            if let Some(&value) = self.scope.get(name)
                && !self.plan.workspaces.contains_key(name)
            {
                return integer_argument(&format!("{place}: {name}"), value, Dtype::I32);
            }
            self.require_buffer(place, name)?;
            return Ok(ResolvedArgument::Buffer(name.clone()));
        }
        Err(self.unknown(place, name))
    }

    fn require_buffer(&self, place: &str, name: &str) -> Result<(), PlanError> {
        let known = self.plan.workspaces.contains_key(name)
            || self.task.tensors.iter().any(|tensor| tensor.name == name);
        if known {
            Ok(())
        } else {
            Err(self.unknown(place, name))
        }
    }

    fn unknown(&self, place: &str, name: &str) -> PlanError {
        let tensors = self.task.tensors.iter().map(|tensor| tensor.name.as_str());
        let scalars = self.task.scalars.iter().map(|scalar| scalar.name.as_str());
        let known = tensors
            .chain(self.plan.workspaces.keys().map(String::as_str))
            .chain(self.dims.keys().map(String::as_str))
            .chain(scalars)
            .collect::<Vec<_>>();
        PlanError::UnknownArgument {
            place: place.to_owned(),
            name: name.to_owned(),
            known: known.join(", "),
        }
    }
}

/// An integer as an argument of type i32 or i64.
fn integer_argument(place: &str, value: i64, dtype: Dtype) -> Result<ResolvedArgument, PlanError> {
    if dtype == Dtype::I64 {
        return Ok(ResolvedArgument::I64(value));
    }
    let (lowest, highest) = (i64::from(i32::MIN), i64::from(i32::MAX));
    in_range(place, value, lowest, highest, "an i32 argument")?;
    let value = i32::try_from(value).expect("the range check keeps it within i32");
    Ok(ResolvedArgument::I32(value))
}

fn real_argument(value: f64, dtype: Dtype) -> ResolvedArgument {
    if dtype == Dtype::F64 {
        return ResolvedArgument::F64(value);
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the kernel's parameter is a float"
    )]
    let single = value as f32;
    ResolvedArgument::F32(single)
}

fn in_range(
    place: &str,
    found: i64,
    lowest: i64,
    highest: i64,
    limit: &str,
) -> Result<(), PlanError> {
    if (lowest..=highest).contains(&found) {
        return Ok(());
    }
    Err(PlanError::OutOfRange {
        place: place.to_owned(),
        found,
        lowest,
        highest,
        limit: limit.to_owned(),
    })
}
