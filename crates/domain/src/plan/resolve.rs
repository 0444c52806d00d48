//! Gives the expressions of a plan their values, and checks these against the task and the device.

use std::collections::BTreeMap;

use super::{
    Argument, Configuration, KernelStep, L2Window, LaunchPlan, Number, PlanError, ResolvedArgument,
    ResolvedL2Window, ResolvedLaunch, ResolvedPlan, ResolvedStep, ResolvedWorkspace, Step,
    Workspace,
};
use crate::device::Limits;
use crate::dtype::Dtype;
use crate::expr::{Bindings, Expr};
use crate::task::Task;

/// The most bytes one workspace may have: 8 GiB.
const MAX_WORKSPACE_BYTES: i64 = 8 << 30;
/// The device's multiprocessors, in expressions.
const SM_COUNT: &str = "SM_COUNT";

impl LaunchPlan {
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
        let mut bindings: Bindings = self.constants.clone();
        bindings.extend(dims.clone());
        bindings.extend(
            configuration
                .iter()
                .map(|(name, value)| (name.clone(), *value)),
        );
        bindings.insert(SM_COUNT.to_owned(), i64::from(limits.sm_count));
        let resolver = Resolver {
            plan: self,
            task,
            dims,
            bindings,
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
    bindings: Bindings,
    limits: &'a Limits,
}

impl Resolver<'_> {
    fn value(&self, place: &str, expr: &Expr) -> Result<i64, PlanError> {
        expr.integer(&self.bindings)
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
        let window = step.l2_persist.as_ref();
        let window = window.map(|window| self.l2_window(&place("l2_persist"), window));
        let l2_persist = window.and_then(|found| {
            found.unwrap_or_else(|error| {
                errors.push(error);
                None
            })
        });
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
            l2_persist,
            arguments,
        }
    }

    /// The window of a launch in bytes, at most up to the end of the buffer; none if it has no bytes, so that a tunable
    /// can turn it off.
    fn l2_window(
        &self,
        place: &str,
        window: &L2Window,
    ) -> Result<Option<ResolvedL2Window>, PlanError> {
        let mut tensors = self.task.tensors.iter();
        let whole = if let Some(workspace) = self.plan.workspaces.get(&window.buffer) {
            let resolved = self.workspace(&window.buffer, workspace)?;
            resolved.elements.saturating_mul(resolved.dtype.bytes())
        } else if let Some(tensor) = tensors.find(|tensor| tensor.name == window.buffer) {
            let mut bytes = tensor.dtype.bytes();
            for extent in &tensor.shape {
                let extent = self.value(place, extent)?;
                bytes = bytes.saturating_mul(extent.max(0).cast_unsigned());
            }
            bytes
        } else {
            return Err(self.unknown(place, &window.buffer));
        };
        let bytes = match &window.bytes {
            Some(bytes) => {
                let place = format!("{place}.bytes");
                let found = self.value(&place, bytes)?;
                in_range(&place, found, 0, i64::MAX, "a number of bytes")?;
                whole.min(found.cast_unsigned())
            }
            None => whole,
        };
        Ok((bytes > 0).then(|| ResolvedL2Window {
            buffer: window.buffer.clone(),
            bytes,
            hit_ratio: window.hit_ratio,
        }))
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
            if let Some(&value) = self.bindings.get(name)
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
