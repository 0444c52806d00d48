//! Branches, calls, barriers and fences.

use super::operands::Words;
use super::{Detail, Home, Lowering, Refusal, Unknown, V};
use crate::code::{Class, File, Op, ReduceKind};
use crate::ir::{Instruction, Operand, Symbol, Ty};

impl Lowering<'_> {
    pub(super) fn control(&mut self, i: &Instruction) -> Result<(), Unknown> {
        let mut words = Words::new(&i.modifiers);
        match i.base.as_str() {
            "bra" => {
                let _ = words.take("uni");
                words.done()?;
                let [Operand::Label(label)] = i.operands[..] else {
                    return Err(Unknown);
                };
                let label = self.label(label);
                self.emit_x(Op::Branch, &[], &[], Class::Branch, label as u32);
                Ok(())
            }
            "brx" => {
                if !words.take("idx") {
                    return Err(Unknown);
                }
                let _ = words.take("uni");
                words.done()?;
                let [index, Operand::Label(table)] = &i.operands[..] else {
                    return Err(Unknown);
                };
                let index = self.source(index, Ty::U32)?;
                let targets = self
                    .frame()
                    .function
                    .tables
                    .get(table)
                    .cloned()
                    .ok_or(Unknown)?;
                let targets = targets.into_iter().map(|label| self.label(label)).collect();
                self.draft(
                    Op::BranchTable,
                    &[],
                    &[index],
                    Class::Branch,
                    0,
                    Detail::Targets(targets),
                );
                Ok(())
            }
            "ret" => {
                let _ = words.take("uni");
                words.done()?;
                match self.frame().leave {
                    Some(label) => self.emit_x(Op::Branch, &[], &[], Class::Branch, label as u32),
                    None => self.emit(Op::Exit, &[], &[], Class::Branch),
                }
                Ok(())
            }
            "exit" => {
                words.done()?;
                self.emit(Op::Exit, &[], &[], Class::Branch);
                Ok(())
            }
            "trap" | "brkpt" => {
                words.done()?;
                self.emit(Op::Trap, &[], &[], Class::Other);
                Ok(())
            }
            "nanosleep" => {
                let _ = words.take("u32");
                words.done()?;
                self.emit(Op::Sleep, &[], &[], Class::Other);
                Ok(())
            }
            "membar" | "fence" => {
                // One instruction at a time is already sequentially consistent.
                for word in ["sc", "acq_rel", "gl", "cta", "sys", "gpu", "cluster"] {
                    let _ = words.take(word);
                }
                words.done()?;
                self.emit(Op::Fence, &[], &[], Class::Other);
                Ok(())
            }
            _ => self.barrier(i, words),
        }
    }

    /// `bar{.cta}.{sync,arrive,red}`, `barrier...{.aligned}`, `bar.warp.sync`.
    fn barrier(&mut self, i: &Instruction, mut words: Words<'_>) -> Result<(), Unknown> {
        if words.take("warp") {
            if !words.take("sync") {
                return Err(Unknown);
            }
            words.done()?;
            let [mask] = &i.operands[..] else {
                return Err(Unknown);
            };
            let mask = self.source(mask, Ty::B32)?;
            self.emit(Op::WarpBarrier, &[], &[mask], Class::Warp);
            return Ok(());
        }
        let _ = words.take("cta");
        // `aligned` promises that warps come whole; a warp that does not is found by where its lanes meet.
        let _ = words.take("aligned");
        let arrive = words.take("arrive");
        let sync = words.take("sync");
        let red = words.take("red");
        if u32::from(arrive) + u32::from(sync) + u32::from(red) != 1 {
            return Err(Unknown);
        }
        let mut reduce = None;
        let mut d = Vec::new();
        let mut operands = &i.operands[..];
        let mut predicate = (V::NONE, false);
        if red {
            let _ = words.take("popc") && {
                reduce = Some(ReduceKind::Count);
                true
            };
            if words.take("and") {
                reduce = Some(ReduceKind::And);
            }
            if words.take("or") {
                reduce = Some(ReduceKind::Or);
            }
            let kind = reduce.ok_or(Unknown)?;
            let _ = words.take("pred") | words.take("u32");
            let file = if kind == ReduceKind::Count {
                File::R32
            } else {
                File::Predicate
            };
            let [first, middle @ .., last] = operands else {
                return Err(Unknown);
            };
            d.push(self.destination(first, file)?);
            predicate = self.predicate(last)?;
            operands = middle;
        }
        words.done()?;
        let (id, count) = match operands {
            [id] if !arrive => (self.source(id, Ty::U32)?, V::NONE),
            [id, count] => (self.source(id, Ty::U32)?, self.source(count, Ty::U32)?),
            _ => return Err(Unknown),
        };
        let detail = Detail::Barrier {
            arrive,
            reduce,
            negated: predicate.1,
        };
        self.draft(
            Op::Barrier,
            &d,
            &[id, count, predicate.0],
            Class::Barrier,
            0,
            detail,
        );
        Ok(())
    }

    /// `call[.uni] [(results),] name[, (arguments)]`
    pub(super) fn call(&mut self, i: &Instruction) -> Result<(), Refusal> {
        let unknown = self.refusal(i.opcode());
        if i.modifiers.iter().any(|word| word != "uni") {
            return Err(unknown);
        }
        let (results, rest) = match &i.operands[..] {
            [Operand::Tuple(results), rest @ ..] => (&results[..], rest),
            rest => (&[][..], rest),
        };
        let (name, arguments) = match rest {
            [Operand::Function(name)] => (name, &[][..]),
            [Operand::Function(name), Operand::Tuple(arguments)] => (name, &arguments[..]),
            _ => return Err(self.refusal("call (through a function pointer)")),
        };
        let variables = |operands: &[Operand]| -> Option<Vec<usize>> {
            operands
                .iter()
                .map(|operand| match operand {
                    Operand::Variable(Symbol::Function(index), 0) => Some(*index),
                    _ => None,
                })
                .collect()
        };
        let (Some(results), Some(arguments)) = (variables(results), variables(arguments)) else {
            return Err(self.refusal(format!("call {name} (with registers as arguments)")));
        };
        let too_big = self.refusal(format!("call {name} (its parameters do not fit the stack)"));
        let mut result_homes = Vec::new();
        for index in results {
            result_homes.push(self.home(index).map_err(|Unknown| too_big.clone())?);
        }
        let mut argument_homes = Vec::new();
        for index in arguments {
            argument_homes.push(self.home(index).map_err(|Unknown| too_big.clone())?);
        }
        let offsets = |homes: &[Home]| -> Option<Vec<u32>> {
            homes
                .iter()
                .map(|home| {
                    if let Home::Local(at) = home {
                        Some(*at)
                    } else {
                        None
                    }
                })
                .collect()
        };
        let builtin = match name.as_str() {
            "vprintf" => Some(Op::Print),
            "__assertfail" => Some(Op::AssertFail),
            _ => None,
        };
        if let Some(op) = builtin {
            let (Some(arguments), Some(results)) =
                (offsets(&argument_homes), offsets(&result_homes))
            else {
                return Err(unknown);
            };
            let detail = Detail::Call {
                arguments,
                result: results.first().copied(),
            };
            self.draft(op, &[], &[], Class::Other, 0, detail);
            return Ok(());
        }
        let tree = self.tree;
        let Some(function) = tree
            .functions
            .iter()
            .find(|function| function.name == *name)
        else {
            return Err(self.refusal(format!("call {name} (not defined)")));
        };
        if function.params.len() != argument_homes.len()
            || function.returns.len() != result_homes.len()
        {
            return Err(self.refusal(format!("call {name} (argument count)")));
        }
        let mut homes = vec![None; function.variables.len()];
        for (index, home) in function
            .params
            .iter()
            .zip(argument_homes)
            .chain(function.returns.iter().zip(result_homes))
        {
            homes[*index] = Some(home);
        }
        let after = self.new_label();
        let outer = self.origin;
        if let Some((guard, negated)) = self.guard {
            // Lanes that do not call jump over the body.
            self.guard = Some((guard, !negated));
            self.emit_x(Op::Branch, &[], &[], Class::Branch, after as u32);
        }
        self.guard = None;
        self.body(function, homes, Some(after))?;
        self.origin = outer;
        self.place_label(after);
        Ok(())
    }
}
