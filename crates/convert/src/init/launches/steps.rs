//! The steps of a plan: one for each launch, or one from the answers alone.

use std::collections::BTreeSet;

use domain::expr::Expr;
use domain::problem::Problem;

use super::template::tunable_of;
use super::{Finder, FoundStep, Value};
use crate::init::Work;
use crate::init::arithmetic::Arith;
use crate::init::source::{Kernel, Launch, line_of};

impl<'s> Finder<'s, '_> {
    /// Adds the step of one launch to the plan.
    pub(super) fn add_launch(
        &mut self,
        work: &mut Work<'_>,
        launch: &Launch<'s>,
        kernel: &Kernel<'_>,
    ) -> Result<(), Problem> {
        let template = self.instantiate(work, launch, kernel)?;
        let arguments = self.launch_arguments(work, launch, kernel)?;
        let answers = work.request.answers;
        let grid = self.launch_extents(work, launch, "--grid", answers.grid.as_deref(), 0)?;
        let mut block =
            self.launch_extents(work, launch, "--block", answers.block.as_deref(), 1)?;
        let shared = self.shared_bytes(work, launch)?;
        self.tie_block(work, launch.line, &template, &mut block);
        self.add_launch_dims(work, launch, &grid, &block, &shared);
        self.plan.steps.push(FoundStep {
            kernel: kernel.name.clone(),
            grid,
            block,
            shared,
            cooperative: launch.cooperative,
            arguments,
        });
        Ok(())
    }

    /// The meaning of every argument of a launch.
    fn launch_arguments(
        &mut self,
        work: &mut Work<'_>,
        launch: &Launch<'s>,
        kernel: &Kernel<'_>,
    ) -> Result<Vec<Value>, Problem> {
        if launch.arguments.len() != kernel.parameters.len() {
            let message = format!(
                "the launch of {} has {} arguments and the kernel has {} parameters",
                kernel.name,
                launch.arguments.len(),
                kernel.parameters.len()
            );
            let fix = "list every argument in the launch, or name the kernel with --kernel and say \
                       how it is launched with --grid and --block after removing the launch";
            return Err(work.problem(launch.line, message, fix));
        }
        let mut arguments = Vec::new();
        for (parameter, node) in kernel.parameters.iter().zip(&launch.arguments) {
            let value = if parameter.is_pointer {
                let root = self.root_name(*node);
                Value::Buffer(self.buffer_name(&root, &parameter.name))
            } else {
                self.argument(
                    work,
                    parameter.node,
                    &parameter.name,
                    &parameter.type_name,
                    *node,
                )?
            };
            arguments.push(value);
        }
        Ok(arguments)
    }

    /// The grid or the block of a launch: as the option says, else from the launch's argument `at`.
    fn launch_extents(
        &self,
        work: &Work<'_>,
        launch: &Launch<'_>,
        option: &str,
        answered: Option<&[Expr]>,
        at: usize,
    ) -> Result<[Arith; 3], Problem> {
        if let Some(answered) = answered {
            return Ok(answered_extents(answered));
        }
        let place = format!("the launch of {}", launch.kernel);
        let Some(node) = launch.configuration.get(at) else {
            let message = format!("{place} has no extents");
            return Err(work.problem(launch.line, message, format!("state {option}")));
        };
        let mut resolved = [Arith::Number(1), Arith::Number(1), Arith::Number(1)];
        for (slot, extent) in resolved.iter_mut().zip(&self.host.extents_of(*node)) {
            let extent = self.renamed(extent);
            if let Some(text) = extent.opaque() {
                let message = format!("{place}: the extent {text:?} has no form in a plan");
                let fix = format!("state the extents, such as {option} 'cdiv(N, 256)'");
                return Err(work.problem(launch.line, message, fix));
            }
            *slot = extent;
        }
        Ok(resolved)
    }

    /// The dynamic shared memory of a launch in bytes.
    fn shared_bytes(&self, work: &Work<'_>, launch: &Launch<'_>) -> Result<Arith, Problem> {
        if let Some(answer) = &work.request.answers.shared {
            return Ok(Arith::from_plan(answer));
        }
        let shared = launch
            .configuration
            .get(2)
            .map_or(Arith::Number(0), |node| {
                self.renamed(&Arith::read(*node, self.source.text))
            });
        if shared.opaque().is_some() {
            let kernel = &launch.kernel;
            let message =
                format!("the launch of {kernel}: the shared memory has no form in a plan");
            let fix = "state the bytes, such as --shared '4 * C'";
            return Err(work.problem(launch.line, message, fix));
        }
        Ok(shared)
    }

    /// Adds a dim for each name that the extents or the shared memory of a launch depend on.
    fn add_launch_dims(
        &mut self,
        work: &mut Work<'_>,
        launch: &Launch<'_>,
        grid: &[Arith; 3],
        block: &[Arith; 3],
        shared: &Arith,
    ) {
        let known = self
            .plan
            .dims
            .iter()
            .map(|dim| dim.name.clone())
            .collect::<BTreeSet<_>>();
        let step_names = grid
            .iter()
            .chain(block)
            .chain([shared])
            .flat_map(Arith::names);
        for name in step_names.collect::<BTreeSet<_>>() {
            if !known.contains(&name) && !self.plan.tunables.contains_key(&tunable_of(&name)) {
                self.add_dim(&name, launch.line, None);
                work.guess(
                    launch.line,
                    format!(
                        "{name} is a dim, because the launch of {} depends on it",
                        launch.kernel
                    ),
                );
            }
        }
    }

    /// Adds the plan of a kernel that no host code launches, from the answers alone.
    pub(super) fn add_unlaunched(
        &mut self,
        work: &mut Work<'_>,
        kernel: &Kernel<'_>,
    ) -> Result<(), Problem> {
        let line = line_of(kernel.node);
        let answers = work.request.answers;
        let (Some(grid), Some(block)) = (&answers.grid, &answers.block) else {
            let message = format!("no host code launches {}", kernel.name);
            let fix = "say how it is launched, such as --grid 'cdiv(N, 256)' --block 256";
            return Err(work.problem(line, message, fix));
        };
        if let Some(parameter) = kernel.template.first() {
            let message = format!(
                "nothing gives the template parameter {} a value",
                parameter.name
            );
            let fix = "write a host function that launches the kernel with its template arguments";
            return Err(work.problem(line, message, fix));
        }
        let mut arguments = Vec::new();
        for parameter in &kernel.parameters {
            let name = parameter.name.clone();
            arguments.push(if parameter.is_pointer {
                Value::Buffer(name)
            } else if matches!(parameter.type_name.as_str(), "float" | "double") {
                self.add_scalar(work, &name, parameter.type_name == "double", "", line);
                Value::Scalar(name)
            } else {
                self.argument(
                    work,
                    parameter.node,
                    &name,
                    &parameter.type_name,
                    parameter.node,
                )?
            });
        }
        let (grid, block) = (answered_extents(grid), answered_extents(block));
        for name in grid.iter().chain(&block).flat_map(Arith::names) {
            self.add_dim(&name, line, None);
        }
        let shared = answers.shared.as_ref();
        self.plan.steps.push(FoundStep {
            kernel: kernel.name.clone(),
            grid,
            block,
            shared: shared.map_or(Arith::Number(0), Arith::from_plan),
            cooperative: false,
            arguments,
        });
        Ok(())
    }

    /// An extent with definitions in place of the host's variables, in the names of dims.
    pub(super) fn renamed(&self, extent: &Arith) -> Arith {
        let resolved = self.host.resolve(extent);
        let renamed = resolved.resolve(&|name| {
            let dim = self.dim_names.get(name)?;
            (dim != name).then(|| Arith::Name(dim.clone()))
        });
        renamed.with_ceilings()
    }
}

/// Extents as stated, each kept as one name: its text is in the plan's grammar already.
fn answered_extents(extents: &[Expr]) -> [Arith; 3] {
    let mut found = [Arith::Number(1), Arith::Number(1), Arith::Number(1)];
    for (slot, extent) in found.iter_mut().zip(extents) {
        *slot = Arith::from_plan(extent);
    }
    found
}
