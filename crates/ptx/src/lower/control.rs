//! Branches, calls, barriers and fences.

use super::operands::Modifiers;
use super::subroutine::Passed;
use super::{
    Detail, Lowering, ReturnTarget, Storage, UnsupportedForm, UnsupportedInstruction, VReg,
};
use crate::code::{Class, File, Op, Reach, ReduceKind};
use crate::ir::{Instruction, Operand, Symbol, Ty};

impl Lowering<'_> {
    pub(super) fn control(&mut self, i: &Instruction) -> Result<(), UnsupportedForm> {
        let mut modifiers = Modifiers::new(&i.modifiers);
        match i.base.as_str() {
            "bra" => {
                let _ = modifiers.take("uni");
                modifiers.done()?;
                let [Operand::Label(label)] = i.operands[..] else {
                    return Err(UnsupportedForm);
                };
                let label = self.label(label);
                self.emit_x(Op::Branch, &[], &[], Class::Branch, label as u32);
                Ok(())
            }
            "brx" => {
                if !modifiers.take("idx") {
                    return Err(UnsupportedForm);
                }
                let _ = modifiers.take("uni");
                modifiers.done()?;
                let [index, Operand::Label(table)] = &i.operands[..] else {
                    return Err(UnsupportedForm);
                };
                let index = self.source(index, Ty::U32)?;
                let targets = self
                    .scope()
                    .function
                    .tables
                    .get(table)
                    .cloned()
                    .ok_or(UnsupportedForm)?;
                let targets = targets.into_iter().map(|label| self.label(label)).collect();
                self.emit_detail(
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
                let _ = modifiers.take("uni");
                modifiers.done()?;
                match self.scope().leave {
                    ReturnTarget::Label(label) => {
                        self.emit_x(Op::Branch, &[], &[], Class::Branch, label as u32);
                    }
                    ReturnTarget::Return => self.emit(Op::Return, &[], &[], Class::Branch),
                    ReturnTarget::Exit => self.emit(Op::Exit, &[], &[], Class::Branch),
                }
                Ok(())
            }
            "exit" => {
                modifiers.done()?;
                self.emit(Op::Exit, &[], &[], Class::Branch);
                Ok(())
            }
            "trap" | "brkpt" => {
                modifiers.done()?;
                self.emit(Op::Trap, &[], &[], Class::Other);
                Ok(())
            }
            "nanosleep" => {
                let _ = modifiers.take("u32");
                modifiers.done()?;
                let duration = self.source(Self::operand(&i.operands, 0)?, Ty::U32)?;
                self.emit(Op::Sleep, &[], &[duration], Class::Other);
                Ok(())
            }
            // All accesses of the machine use one proxy, so a fence between proxies has nothing to order.
            "fence" if modifiers.take("proxy") => {
                let _ = modifiers.take("async") || modifiers.take("alias");
                let _ = modifiers.take("global") || modifiers.take("shared::cta");
                modifiers.done()?;
                self.emit_x(Op::Fence, &[], &[], Class::Other, Reach::Block as u32);
                Ok(())
            }
            "fence" if modifiers.take("mbarrier_init") => {
                let _ = modifiers.take("release");
                let _ = modifiers.take("cluster");
                modifiers.done()?;
                self.emit_x(Op::Fence, &[], &[], Class::Other, Reach::Block as u32);
                Ok(())
            }
            "membar" | "fence" => {
                let _ = modifiers.take("sc") | modifiers.take("acq_rel");
                let reach = if modifiers.take("cta") {
                    Reach::Block
                } else {
                    let _ = modifiers.take("gl")
                        | modifiers.take("gpu")
                        | modifiers.take("sys")
                        | modifiers.take("cluster");
                    Reach::Device
                };
                modifiers.done()?;
                self.emit_x(Op::Fence, &[], &[], Class::Other, reach as u32);
                Ok(())
            }
            "bar" | "barrier" => self.barrier(i, modifiers),
            _ => Err(UnsupportedForm),
        }
    }

    /// `bar{.cta}.{sync,arrive,red}`, `barrier...{.aligned}`, `bar.warp.sync`.
    fn barrier(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        // `bar` is `barrier.aligned`.
        let mut aligned = i.base == "bar";
        if modifiers.take("warp") {
            if !modifiers.take("sync") {
                return Err(UnsupportedForm);
            }
            modifiers.done()?;
            let [mask] = &i.operands[..] else {
                return Err(UnsupportedForm);
            };
            let mask = self.source(mask, Ty::B32)?;
            self.emit(Op::WarpBarrier, &[], &[mask], Class::Warp);
            return Ok(());
        }
        let _ = modifiers.take("cta");
        // `aligned` promises that all lanes of a warp execute the barrier together; the machine detects a violation by
        // the lanes' program counters.
        aligned |= modifiers.take("aligned");
        let arrive = modifiers.take("arrive");
        let sync = modifiers.take("sync");
        let red = modifiers.take("red");
        aligned |= modifiers.take("aligned");
        if u32::from(arrive) + u32::from(sync) + u32::from(red) != 1 {
            return Err(UnsupportedForm);
        }
        let mut reduce = None;
        let mut d = Vec::new();
        let mut operands = &i.operands[..];
        let mut predicate = (VReg::NONE, false);
        if red {
            let _ = modifiers.take("popc") && {
                reduce = Some(ReduceKind::Count);
                true
            };
            if modifiers.take("and") {
                reduce = Some(ReduceKind::And);
            }
            if modifiers.take("or") {
                reduce = Some(ReduceKind::Or);
            }
            let kind = reduce.ok_or(UnsupportedForm)?;
            let _ = modifiers.take("pred") | modifiers.take("u32");
            let file = if kind == ReduceKind::Count {
                File::R32
            } else {
                File::Predicate
            };
            let [first, middle @ .., last] = operands else {
                return Err(UnsupportedForm);
            };
            d.push(self.destination(first, file)?);
            predicate = self.predicate(last)?;
            operands = middle;
        }
        modifiers.done()?;
        let (id, count) = match operands {
            [id] if !arrive => (self.source(id, Ty::U32)?, VReg::NONE),
            [id, count] => (self.source(id, Ty::U32)?, self.source(count, Ty::U32)?),
            _ => return Err(UnsupportedForm),
        };
        let detail = Detail::Barrier {
            arrive,
            aligned,
            reduce,
            negated: predicate.1,
        };
        self.emit_detail(
            Op::Barrier,
            &d,
            &[id, count, predicate.0],
            Class::Barrier,
            0,
            detail,
        );
        Ok(())
    }

    /// `call[.uni] [(results),] name[, (arguments)]`, or a register and a prototype instead of the name.
    pub(super) fn call(&mut self, i: &Instruction) -> Result<(), UnsupportedInstruction> {
        let unknown = self.unsupported(i.opcode());
        if i.modifiers.iter().any(|word| word != "uni") {
            return Err(unknown);
        }
        let (results, rest) = match &i.operands[..] {
            [Operand::Tuple(results), rest @ ..] => (&results[..], rest),
            rest => (&[][..], rest),
        };
        let (target, arguments) = match rest {
            [target] => (target, &[][..]),
            [target, Operand::Tuple(arguments)]
            | [target, Operand::Tuple(arguments), Operand::Label(_)] => (target, &arguments[..]),
            [target, Operand::Label(_)] => (target, &[][..]),
            _ => return Err(unknown),
        };
        let results = self.stack_variables(i, results)?;
        let arguments = self.stack_variables(i, arguments)?;
        let name = match target {
            Operand::Function(name) => name,
            pointer => {
                let pointer = self
                    .source(pointer, Ty::B64)
                    .map_err(|UnsupportedForm| unknown.clone())?;
                return self.guarded(|lowering| {
                    lowering
                        .call_subroutine(Err(pointer), &results, &arguments)
                        .map_err(|UnsupportedForm| unknown)
                });
            }
        };
        let builtin = match name.as_str() {
            "vprintf" => Some(Op::Print),
            "__assertfail" => Some(Op::AssertFail),
            _ => None,
        };
        if let Some(op) = builtin {
            return self
                .builtin(op, &results, &arguments)
                .map_err(|UnsupportedForm| unknown);
        }
        let tree = self.tree;
        let Some(index) = tree
            .functions
            .iter()
            .position(|function| function.name == *name)
        else {
            return Err(self.unsupported(format!("call {name} (not defined)")));
        };
        let function = &tree.functions[index];
        let slots: Vec<(u32, u32)> = results
            .iter()
            .chain(&arguments)
            .map(|(_, slot)| *slot)
            .collect();
        if function.params.len() != arguments.len()
            || Self::signature(function).map_err(|UnsupportedForm| unknown.clone())? != slots
        {
            return Err(self.unsupported(format!(
                "call {name} (its arguments do not fit its parameters)"
            )));
        }
        self.guarded(|lowering| {
            if lowering.graph.is_recursive(index) {
                return lowering
                    .call_subroutine(Ok(index), &results, &arguments)
                    .map_err(|UnsupportedForm| unknown);
            }
            let mut storage = vec![None; function.variables.len()];
            for (variable, (home, _)) in function
                .returns
                .iter()
                .zip(results)
                .chain(function.params.iter().zip(arguments))
            {
                storage[*variable] = Some(home);
            }
            let after = lowering.new_label();
            lowering.body(function, storage, ReturnTarget::Label(after))?;
            lowering.bind_label(after);
            Ok(())
        })
    }

    /// Resolves arguments or results of a call: variables of the caller, which are on its stack.
    fn stack_variables(
        &mut self,
        i: &Instruction,
        operands: &[Operand],
    ) -> Result<Vec<Passed>, UnsupportedInstruction> {
        let mut list = Vec::new();
        for operand in operands {
            let Operand::Variable(Symbol::Function(index), 0) = operand else {
                return Err(
                    self.unsupported(format!("{} (with registers as arguments)", i.opcode()))
                );
            };
            let found = self
                .home(*index)
                .and_then(|home| Ok((home, self.slot_of_variable(*index)?)))
                .map_err(|UnsupportedForm| {
                    self.unsupported(format!(
                        "{} (its arguments do not fit the stack)",
                        i.opcode()
                    ))
                })?;
            list.push(found);
        }
        Ok(list)
    }

    /// Lowers a call for the lanes whose guard is true; the others jump over it.
    fn guarded(
        &mut self,
        call: impl FnOnce(&mut Self) -> Result<(), UnsupportedInstruction>,
    ) -> Result<(), UnsupportedInstruction> {
        let outer = self.origin;
        let over = self.new_label();
        if let Some((guard, negated)) = self.guard.take() {
            self.guard = Some((guard, !negated));
            self.emit_x(Op::Branch, &[], &[], Class::Branch, over as u32);
            self.guard = None;
        }
        call(self)?;
        self.origin = outer;
        self.bind_label(over);
        Ok(())
    }

    /// Lowers a call of a function that the machine implements.
    fn builtin(
        &mut self,
        op: Op,
        results: &[Passed],
        arguments: &[Passed],
    ) -> Result<(), UnsupportedForm> {
        let offsets = |list: &[Passed]| -> Result<Vec<u32>, UnsupportedForm> {
            list.iter()
                .map(|(home, _)| match home {
                    Storage::Local(at) | Storage::Frame(at) => Ok(*at),
                    _ => Err(UnsupportedForm),
                })
                .collect()
        };
        let detail = Detail::Call {
            arguments: offsets(arguments)?,
            result: offsets(results)?.first().copied(),
        };
        let frame = match self.region {
            Some(_) => self.frame_pointer(),
            None => self.constant(File::R64, 0),
        };
        self.emit_detail(op, &[], &[frame], Class::Other, 0, detail);
        Ok(())
    }
}
