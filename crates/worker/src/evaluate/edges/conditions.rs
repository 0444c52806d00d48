//! Conditions in a candidate's PTX that depend on the shape alone: comparisons of values that are computed from dims,
//! the grid and constants. Evaluating them needs no execution.

mod arithmetic;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use domain::candidate::KernelSource;
use domain::dtype::Dtype;
use domain::expr::Expr;
use domain::plan::{Argument, Configuration, KernelStep, Step};

use arithmetic::Operation;
use text::{PtxKernel, Statement};

/// A source operand of an instruction.
#[derive(Debug, Clone, Copy)]
enum Operand {
    Slot(usize),
    /// A predicate that is used negated.
    Negated(usize),
    Number(u64),
}

/// An instruction whose operands all depend on the shape alone.
#[derive(Debug)]
struct Instruction {
    operation: Operation,
    results: Vec<usize>,
    operands: Vec<Operand>,
}

/// The source of a value that a kernel starts with.
#[derive(Debug)]
enum Source {
    Dim(String),
    Launch(Expr),
}

/// The part of one launched kernel that depends on the shape alone.
#[derive(Debug, Default)]
struct Kernel {
    slots: usize,
    inputs: Vec<(usize, Source)>,
    /// In an order in which every operand is computed before its use.
    instructions: Vec<Instruction>,
    /// Slots that hold the outcome of a condition.
    conditions: Vec<usize>,
    other_constants: BTreeSet<i64>,
}

/// The conditions of all launches of a candidate's plan.
#[derive(Debug)]
pub struct Conditions {
    kernels: Vec<Kernel>,
    /// Names other than dims in the plan's expressions, with their values.
    scope: BTreeMap<String, i64>,
    /// Constants with which values are compared that do not depend on the shape alone.
    other_constants: BTreeSet<i64>,
}

impl Conditions {
    /// Finds the conditions of the kernels that a plan launches. Text that is not PTX has none.
    pub fn of(source: &KernelSource, configuration: &Configuration, ptx: &str) -> Self {
        let entries = text::entries(ptx);
        let kernels = source.plan().steps.iter().filter_map(|step| match step {
            Step::Kernel(launch) => {
                let entry = entries.iter().find(|entry| entry.name == launch.kernel)?;
                Some(Kernel::of(launch, entry))
            }
            Step::Memset { .. } => None,
        });
        let kernels = kernels.collect::<Vec<_>>();
        let constants = source.plan().constants.clone().into_iter();
        let others = kernels.iter().flat_map(|kernel| &kernel.other_constants);
        Self {
            scope: constants.chain(configuration.clone()).collect(),
            other_constants: others.copied().collect(),
            kernels,
        }
    }

    /// The outcome of each condition on a shape, launch by launch; none where it cannot be computed.
    pub fn outcomes(&self, dims: &BTreeMap<String, i64>) -> Vec<Option<bool>> {
        let mut scope = None;
        let mut outcomes = Vec::new();
        for kernel in &self.kernels {
            let mut values = vec![None; kernel.slots];
            for (slot, source) in &kernel.inputs {
                values[*slot] = match source {
                    Source::Dim(dim) => dims.get(dim).copied(),
                    Source::Launch(expression) => {
                        let scope = scope.get_or_insert_with(|| {
                            let mut scope = dims.clone();
                            scope.extend(self.scope.clone());
                            scope
                        });
                        expression.integer(scope).ok()
                    }
                }
                .map(i64::cast_unsigned);
            }
            for instruction in &kernel.instructions {
                instruction.execute(&mut values);
            }
            let outcome = |slot: &usize| values[*slot].map(|value| value & 1 == 1);
            outcomes.extend(kernel.conditions.iter().map(outcome));
        }
        outcomes
    }

    /// Constants with which values are compared that do not depend on the shape alone, such as indices.
    pub fn other_constants(&self) -> &BTreeSet<i64> {
        &self.other_constants
    }

    /// The constants that the values are computed from and compared with.
    pub fn constants(&self) -> BTreeSet<i64> {
        let instructions = self.kernels.iter().flat_map(|kernel| &kernel.instructions);
        let operands = instructions.flat_map(|instruction| &instruction.operands);
        operands
            .filter_map(|operand| match operand {
                Operand::Number(number) => Some(number.cast_signed()),
                Operand::Slot(_) | Operand::Negated(_) => None,
            })
            .collect()
    }
}

impl Kernel {
    fn of(launch: &KernelStep, entry: &PtxKernel<'_>) -> Self {
        let mut kernel = Self::default();
        // A register that is written twice depends on the path, which is not followed.
        let mut definitions: BTreeMap<&str, usize> = BTreeMap::new();
        for statement in &entry.statements {
            for result in &statement.results {
                *definitions.entry(result).or_default() += 1;
            }
        }
        let mut slots: BTreeMap<&str, usize> = BTreeMap::new();
        let mut pending = entry.statements.iter().collect::<Vec<_>>();
        loop {
            let before = pending.len();
            pending.retain(|statement| {
                let single = |result: &String| definitions[result.as_str()] == 1;
                !(statement.results.iter().all(single) && kernel.add(launch, statement, &mut slots))
            });
            if pending.len() == before {
                break;
            }
        }
        kernel.remove_unused();
        let comparisons = pending
            .iter()
            .filter(|statement| statement.opcode.starts_with("setp."));
        let operands = comparisons.flat_map(|statement| &statement.operands);
        kernel.other_constants = operands
            .filter_map(|operand| Some(text::number(operand)?.cast_signed()))
            .collect();
        kernel
    }

    /// Adds an instruction if its operands are known. Returns true if it was added.
    fn add<'t>(
        &mut self,
        launch: &KernelStep,
        statement: &'t Statement,
        slots: &mut BTreeMap<&'t str, usize>,
    ) -> bool {
        let [first, ..] = statement.operands.as_slice() else {
            return false;
        };
        let Some(result) = statement.results.first() else {
            return false;
        };
        if let Some(source) = source_of(launch, &statement.opcode, first) {
            let slot = self.new_slot();
            slots.insert(result, slot);
            self.inputs.push((slot, source));
            return true;
        }
        let Some(operation) = Operation::of(&statement.opcode) else {
            return false;
        };
        let known = |text: &String| match text.strip_prefix('!') {
            Some(name) => slots.get(name).copied().map(Operand::Negated),
            None => slots
                .get(text.as_str())
                .copied()
                .map(Operand::Slot)
                .or_else(|| text::number(text).map(Operand::Number)),
        };
        let Some(operands) = statement
            .operands
            .iter()
            .map(known)
            .collect::<Option<Vec<_>>>()
        else {
            return false;
        };
        let mut results = Vec::new();
        for name in &statement.results {
            let slot = self.new_slot();
            slots.insert(name, slot);
            results.push(slot);
        }
        if operation.is_condition() {
            self.conditions.push(results[0]);
        }
        if let Some(comparison) = operation.comparison_of_operands() {
            let slot = self.new_slot();
            self.conditions.push(slot);
            self.instructions.push(Instruction {
                operation: comparison,
                results: vec![slot],
                operands: operands.clone(),
            });
        }
        self.instructions.push(Instruction {
            operation,
            results,
            operands,
        });
        true
    }

    fn new_slot(&mut self) -> usize {
        self.slots += 1;
        self.slots - 1
    }

    /// Removes the instructions on which no condition depends.
    fn remove_unused(&mut self) {
        let mut used = self.conditions.iter().copied().collect::<BTreeSet<_>>();
        let mut kept = Vec::new();
        while let Some(instruction) = self.instructions.pop() {
            if instruction.results.iter().any(|slot| used.contains(slot)) {
                for operand in &instruction.operands {
                    if let Operand::Slot(slot) | Operand::Negated(slot) = operand {
                        used.insert(*slot);
                    }
                }
                kept.push(instruction);
            }
        }
        kept.reverse();
        self.instructions = kept;
        self.inputs.retain(|(slot, _)| used.contains(slot));
    }
}

impl Instruction {
    fn execute(&self, values: &mut [Option<u64>]) {
        let mut operands = [0; 4];
        for (value, operand) in operands.iter_mut().zip(&self.operands) {
            let found = match operand {
                Operand::Slot(slot) => values[*slot],
                Operand::Negated(slot) => values[*slot].map(|value| value ^ 1),
                Operand::Number(number) => Some(*number),
            };
            let Some(found) = found else { return };
            *value = found;
        }
        let Some(result) = self.operation.evaluate(operands, self.operands.len()) else {
            return;
        };
        for (index, slot) in self.results.iter().enumerate() {
            // The second result of a comparison is the opposite of the first.
            values[*slot] = Some(if index == 0 { result } else { result ^ 1 });
        }
    }
}

/// The source of the value that an instruction reads, if it is a dim or a dimension of the launch.
fn source_of(launch: &KernelStep, opcode: &str, operand: &str) -> Option<Source> {
    if opcode.starts_with("ld.param") {
        let name = operand.strip_prefix('[')?.strip_suffix(']')?;
        let index = name
            .strip_prefix(launch.kernel.as_str())?
            .strip_prefix("_param_")?;
        let dim = match launch.arguments.get(index.parse::<usize>().ok()?)? {
            Argument::Named(name) => name,
            Argument::Dim {
                dim,
                dtype: Dtype::I32 | Dtype::I64,
            } => dim,
            Argument::Dim { .. } | Argument::Number(_) => return None,
        };
        return Some(Source::Dim(dim.clone()));
    }
    let (extents, axis) = operand
        .strip_prefix("%nctaid.")
        .map(|axis| (&launch.grid, axis))
        .or_else(|| {
            operand
                .strip_prefix("%ntid.")
                .map(|axis| (&launch.block, axis))
        })?;
    let axis = ["x", "y", "z"].iter().position(|name| *name == axis)?;
    Some(Source::Launch(extents[axis].clone()))
}

#[cfg(test)]
mod tests;
