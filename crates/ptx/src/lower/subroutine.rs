//! Functions that cannot be inlined: recursive ones, and those called through a pointer.
//!
//! Such a function is lowered once, behind the kernel's own code. Every activation has a frame on the thread's stack:
//! results first, then parameters, then the function's variables. The caller copies arguments into the new frame and
//! results out of it. The machine saves the caller's registers until the lanes return.

use std::collections::HashSet;

use super::storage::MAX_LOCAL;
use super::{
    Detail, FunctionScope, Lowering, ReturnTarget, Storage, UnsupportedForm,
    UnsupportedInstruction, VReg,
};
use crate::code::{Class, File, Op};
use crate::ir::{Function, Init, Instruction, Operand, Statement, Tree, Variable};
use crate::memory::window;

/// A function that is called at run time, with stack frames of its own.
#[derive(Debug)]
pub(crate) struct Subroutine {
    /// Index in the tree.
    pub(crate) function: usize,
    /// Label of its first instruction.
    pub(crate) entry: usize,
    /// Bytes of a frame so far.
    pub(super) bytes: u32,
}

/// A variable of the caller that is passed or gets a result: where it lives, its bytes and its alignment.
pub(super) type Passed = (Storage, (u32, u32));

/// Bytes and alignments of results and parameters: what caller and callee must agree on.
pub(crate) type Signature = Vec<(u32, u32)>;

/// Properties of functions that the lowering of calls needs.
#[derive(Debug, Default)]
pub(super) struct CallGraph {
    /// Functions that may call themselves, directly or through others.
    recursive: HashSet<usize>,
    /// Functions whose address is taken.
    taken: Vec<usize>,
}

fn instructions(function: &Function) -> impl Iterator<Item = &Instruction> {
    function
        .body
        .iter()
        .flatten()
        .filter_map(|statement| match statement {
            Statement::Instruction(instruction) => Some(instruction),
            Statement::Label => None,
        })
}

impl CallGraph {
    pub(super) fn new(tree: &Tree) -> Self {
        let index = |name: &str| tree.functions.iter().position(|f| f.name == name);
        let named = |i: &Instruction| -> Vec<usize> {
            i.operands
                .iter()
                .filter_map(|operand| match operand {
                    Operand::Function(name) => index(name),
                    _ => None,
                })
                .collect()
        };
        let mut taken: Vec<usize> = tree
            .variables
            .iter()
            .flat_map(|variable| &variable.init)
            .filter_map(|init| match init {
                Init::Function(function) => Some(*function),
                _ => None,
            })
            .collect();
        let mut calls: Vec<Vec<usize>> = Vec::new();
        for function in &tree.functions {
            let mut called = Vec::new();
            for i in instructions(function) {
                if i.base == "call" {
                    called.extend(named(i));
                } else {
                    taken.extend(named(i));
                }
            }
            called.sort_unstable();
            called.dedup();
            calls.push(called);
        }
        taken.sort_unstable();
        taken.dedup();
        let recursive = (0..tree.functions.len())
            .filter(|start| {
                let mut seen = HashSet::new();
                let mut left = calls[*start].clone();
                while let Some(next) = left.pop() {
                    if next == *start {
                        return true;
                    }
                    if seen.insert(next) {
                        left.extend(&calls[next]);
                    }
                }
                false
            })
            .collect();
        Self { recursive, taken }
    }

    pub(super) fn is_recursive(&self, function: usize) -> bool {
        self.recursive.contains(&function)
    }
}

/// The address of a function of the module.
pub(super) fn address(tree: &Tree, name: &str) -> Option<u64> {
    let index = tree.functions.iter().position(|f| f.name == name)?;
    Some(window::FUNCTION + index as u64 * window::FUNCTION_STEP)
}

fn slot_of(variable: &Variable) -> Result<(u32, u32), UnsupportedForm> {
    let bytes = u32::try_from(variable.bytes).map_err(|_| UnsupportedForm)?;
    Ok((bytes, variable.align.max(4)))
}

/// Offsets of a signature's values in a frame, and the end of the last one.
fn layout(signature: &[(u32, u32)]) -> Result<(Vec<u32>, u32), UnsupportedForm> {
    let mut at = 0u32;
    let mut offsets = Vec::new();
    for (bytes, align) in signature {
        at = at.next_multiple_of(*align);
        offsets.push(at);
        at = at
            .checked_add(*bytes)
            .filter(|end| *end <= MAX_LOCAL)
            .ok_or(UnsupportedForm)?;
    }
    Ok((offsets, at))
}

impl<'t> Lowering<'t> {
    /// The signature of a function of the tree.
    pub(super) fn signature(function: &Function) -> Result<Signature, UnsupportedForm> {
        function
            .returns
            .iter()
            .chain(&function.params)
            .map(|index| slot_of(&function.variables[*index]))
            .collect()
    }

    /// The subroutine of a function; lowered when the code before it is complete.
    fn subroutine(&mut self, function: usize) -> Result<usize, UnsupportedForm> {
        if let Some(known) = self
            .subroutines
            .iter()
            .position(|subroutine| subroutine.function == function)
        {
            return Ok(known);
        }
        let (_, bytes) = layout(&Self::signature(&self.tree.functions[function])?)?;
        let entry = self.new_label();
        self.subroutines.push(Subroutine {
            function,
            entry,
            bytes: bytes.max(16),
        });
        Ok(self.subroutines.len() - 1)
    }

    /// The stack offset of the running frame; kernels have none.
    pub(super) fn frame_pointer(&mut self) -> VReg {
        if let Some(v) = self.frame_pointer {
            return v;
        }
        let v = self.new_register(File::R64);
        self.frame_pointer = Some(v);
        v
    }

    /// The stack offset of the next frame, behind the running one. The running frame's size is known only when its
    /// function is completely lowered.
    fn next_frame(&mut self) -> VReg {
        let size = self.new_register(File::R64);
        self.frame_sizes.push((size, self.region));
        if self.region.is_none() {
            return size;
        }
        let (pointer, next) = (self.frame_pointer(), self.new_register(File::R64));
        self.emit(Op::Add64, &[next], &[pointer, size], Class::Move);
        next
    }

    /// Base register and offset of a variable on the stack.
    fn stack_place(&mut self, home: Storage) -> Result<(VReg, u32), UnsupportedForm> {
        match home {
            Storage::Local(at) => Ok((self.constant(File::R64, 0), at)),
            Storage::Frame(at) => Ok((self.frame_pointer(), at)),
            _ => Err(UnsupportedForm),
        }
    }

    fn copy_stack(&mut self, from: (VReg, u32), to: (VReg, u32), bytes: u32) {
        if bytes == 0 {
            return;
        }
        let detail = Detail::StackCopy {
            from: from.1,
            to: to.1,
            bytes,
        };
        self.emit_detail(Op::StackCopy, &[], &[from.0, to.0], Class::Move, 0, detail);
    }

    /// Lowers a call of a function by name, or through a register.
    pub(super) fn call_subroutine(
        &mut self,
        target: Result<usize, VReg>,
        results: &[Passed],
        arguments: &[Passed],
    ) -> Result<(), UnsupportedForm> {
        let signature: Signature = results
            .iter()
            .chain(arguments)
            .map(|(_, slot)| *slot)
            .collect();
        let (offsets, _) = layout(&signature)?;
        let frame = self.next_frame();
        let (results_at, arguments_at) = offsets.split_at(results.len());
        for ((home, (bytes, _)), at) in arguments.iter().zip(arguments_at) {
            let from = self.stack_place(*home)?;
            self.copy_stack(from, (frame, *at), *bytes);
        }
        match target {
            Ok(function) => {
                let subroutine = self.subroutine(function)?;
                let entry = self.subroutines[subroutine].entry;
                self.frame_pointer();
                self.emit_detail(
                    Op::Call,
                    &[],
                    &[frame],
                    Class::Branch,
                    entry as u32,
                    Detail::None,
                );
            }
            Err(pointer) => {
                for function in self.graph.taken.clone() {
                    self.subroutine(function)?;
                }
                self.frame_pointer();
                self.emit_detail(
                    Op::CallPointer,
                    &[],
                    &[frame, pointer],
                    Class::Branch,
                    0,
                    Detail::Pointer(signature),
                );
            }
        }
        for ((home, (bytes, _)), at) in results.iter().zip(results_at) {
            let to = self.stack_place(*home)?;
            self.copy_stack((frame, *at), to, *bytes);
        }
        Ok(())
    }

    /// Lowers every subroutine that is called, and those that they call.
    pub(super) fn subroutine_bodies(&mut self) -> Result<(), UnsupportedInstruction> {
        let mut next = 0;
        while next < self.subroutines.len() {
            let (index, entry) = (
                self.subroutines[next].function,
                self.subroutines[next].entry,
            );
            let tree = self.tree;
            let function = &tree.functions[index];
            self.region = Some(next);
            self.bind_label(entry);
            let mut storage = vec![None; function.variables.len()];
            let unknown = |UnsupportedForm| UnsupportedInstruction {
                opcode: format!(
                    "call {} (its parameters do not fit the stack)",
                    function.name
                ),
                line: 0,
                place: None,
            };
            let (offsets, _) = Self::signature(function)
                .and_then(|signature| layout(&signature))
                .map_err(unknown)?;
            for (variable, at) in function.returns.iter().chain(&function.params).zip(offsets) {
                storage[*variable] = Some(Storage::Frame(at));
            }
            self.body(function, storage, ReturnTarget::Return)?;
            self.emit(Op::Return, &[], &[], Class::Branch);
            next += 1;
        }
        self.region = None;
        Ok(())
    }

    /// Bytes and alignment of a variable of the running function.
    pub(super) fn slot_of_variable(&self, index: usize) -> Result<(u32, u32), UnsupportedForm> {
        let frame: &FunctionScope<'_> = self.scope();
        slot_of(&frame.function.variables[index])
    }
}
