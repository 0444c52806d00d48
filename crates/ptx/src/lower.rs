//! Lowers one kernel's tree to flat code. Calls are inlined, except recursive ones and those through a pointer (see
//! [`subroutine`]), and every operand becomes a virtual register of a file. Every modifier must be known to a handler:
//! an instruction that is not fully understood is unsupported, never guessed.

mod access;
mod allocate;
mod arithmetic;
mod control;
mod convert;
mod data_reads;
mod load_groups;
mod logic;
mod mbarrier;
mod operands;
mod polls;
pub(crate) mod schedule;
mod shared_bounds;
mod spread;
mod storage;
pub(crate) mod subroutine;
mod tensor;
mod virtual_inst;
mod warp;
mod written_buffers;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::LazyLock;

use crate::code::{Class, File, LaneFn, Op, Origin, Program, Special, Spread};
use crate::ir::{Function, Instruction, SourcePosition, StateSpace, Statement, Tree};
use storage::Storage;
pub(crate) use virtual_inst::{Detail, MemoryDetail, VReg, VirtualInst};

use subroutine::{CallGraph, Subroutine};

/// Maximum depth of inlined calls.
const MAX_DEPTH: usize = 24;
/// Maximum number of instructions of one kernel after inlining.
const MAX_CODE: usize = 1 << 20;

/// An instruction that the machine does not support, by opcode, PTX line and source position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnsupportedInstruction {
    pub(crate) opcode: String,
    pub(crate) line: u32,
    pub(crate) place: Option<SourcePosition>,
}

/// The handler does not support the instruction in this form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnsupportedForm;

/// The target of `ret`.
#[derive(Debug, Clone, Copy)]
enum ReturnTarget {
    /// The thread ends.
    Exit,
    /// Jumps to the label behind an inlined call.
    Label(usize),
    /// Returns to the caller of the subroutine.
    Return,
}

/// The scope of one function body while it is lowered.
struct FunctionScope<'t> {
    function: &'t Function,
    registers: Vec<Option<VReg>>,
    storage: Vec<Option<Storage>>,
    /// The label of the lowered code for each label of the function.
    labels: Vec<Option<usize>>,
    leave: ReturnTarget,
}

pub(crate) struct Lowering<'t> {
    tree: &'t Tree,
    files: Vec<File>,
    code: Vec<VirtualInst>,
    /// Positions of labels in `code`.
    labels: Vec<Option<usize>>,
    constants: HashMap<(File, u64), VReg>,
    specials: HashMap<(File, Special), VReg>,
    addresses: HashMap<(usize, i64), VReg>,
    /// Addresses in static shared memory by file, the beginning of their variable, and their own offset.
    shared_addresses: HashMap<(File, u32, u64), VReg>,
    dynamic: HashMap<(File, i64), VReg>,
    shared_homes: HashMap<usize, Storage>,
    shared_names: Vec<(u32, u32, String)>,
    shared_bytes: u32,
    dynamic_align: u32,
    local_bytes: u32,
    scopes: Vec<FunctionScope<'t>>,
    call_chain: Vec<String>,
    guard: Option<(VReg, bool)>,
    origin: Origin,
    /// The carry flag; created at its first use.
    carry: Option<VReg>,
    graph: CallGraph,
    subroutines: Vec<Subroutine>,
    /// The subroutine being lowered; none for the kernel itself.
    region: Option<usize>,
    frame_pointer: Option<VReg>,
    /// Constants that hold the size of a region's frame.
    frame_sizes: Vec<(VReg, Option<usize>)>,
}

/// Offsets of a kernel's parameters and the size of their block.
pub(crate) fn parameter_offsets(function: &Function) -> (Vec<u32>, u32) {
    let mut offsets = Vec::new();
    let mut at = 0u32;
    for &index in &function.params {
        let variable = &function.variables[index];
        at = at.next_multiple_of(variable.align);
        offsets.push(at);
        at += variable.bytes as u32;
    }
    (offsets, at)
}

/// Lowers one kernel.
pub(crate) fn lower(
    tree: &Tree,
    kernel: usize,
    files: &Arc<HashMap<u32, String>>,
) -> Result<Program, UnsupportedInstruction> {
    let function = &tree.functions[kernel];
    let mut lowering = Lowering::new(tree);
    let mut storage = vec![None; function.variables.len()];
    let (offsets, _) = parameter_offsets(function);
    for (&index, &offset) in function.params.iter().zip(&offsets) {
        storage[index] = Some(Storage::KernelParam(offset));
    }
    lowering.body(function, storage, ReturnTarget::Exit)?;
    lowering.emit(Op::Exit, &[], &[], Class::Branch);
    lowering.subroutine_bodies()?;
    let mut program = allocate::finish(lowering)?;
    program.files = Arc::clone(files);
    Ok(program)
}

impl<'t> Lowering<'t> {
    fn new(tree: &'t Tree) -> Self {
        Self {
            tree,
            files: Vec::new(),
            code: Vec::new(),
            labels: Vec::new(),
            constants: HashMap::new(),
            specials: HashMap::new(),
            addresses: HashMap::new(),
            shared_addresses: HashMap::new(),
            dynamic: HashMap::new(),
            shared_homes: HashMap::new(),
            shared_names: Vec::new(),
            shared_bytes: 0,
            dynamic_align: 16,
            local_bytes: 0,
            scopes: Vec::new(),
            call_chain: Vec::new(),
            guard: None,
            origin: Origin {
                ptx_line: 0,
                place: None,
            },
            carry: None,
            graph: CallGraph::new(tree),
            subroutines: Vec::new(),
            region: None,
            frame_pointer: None,
            frame_sizes: Vec::new(),
        }
    }

    fn unsupported(&self, opcode: impl Into<String>) -> UnsupportedInstruction {
        UnsupportedInstruction {
            opcode: opcode.into(),
            line: self.origin.ptx_line,
            place: self.origin.place,
        }
    }

    fn scope(&self) -> &FunctionScope<'t> {
        self.scopes.last().expect("a body is being lowered")
    }

    fn scope_mut(&mut self) -> &mut FunctionScope<'t> {
        self.scopes.last_mut().expect("a body is being lowered")
    }

    fn new_register(&mut self, file: File) -> VReg {
        self.files.push(file);
        VReg(self.files.len() as u32 - 1)
    }

    fn file(&self, v: VReg) -> File {
        self.files[v.0 as usize]
    }

    fn new_label(&mut self) -> usize {
        self.labels.push(None);
        self.labels.len() - 1
    }

    fn emit_detail(
        &mut self,
        op: Op,
        d: &[VReg],
        s: &[VReg],
        class: Class,
        x: u32,
        detail: Detail,
    ) {
        self.code.push(VirtualInst {
            op,
            guard: self.guard,
            d: d.to_vec(),
            s: s.to_vec(),
            x,
            class,
            detail,
            origin: self.origin,
        });
    }

    fn emit(&mut self, op: Op, d: &[VReg], s: &[VReg], class: Class) {
        self.emit_detail(op, d, s, class, 0, Detail::None);
    }

    fn emit_x(&mut self, op: Op, d: &[VReg], s: &[VReg], class: Class, x: u32) {
        self.emit_detail(op, d, s, class, x, Detail::None);
    }

    fn emit_lane_fn(&mut self, f: LaneFn, d: VReg, s: &[VReg], class: Class) {
        self.lane_with(Spread::All, f, d, s, class);
    }

    /// The same for a function through which poison passes in a way of its own.
    fn lane_with(&mut self, spread: Spread, f: LaneFn, d: VReg, s: &[VReg], class: Class) {
        self.emit_detail(Op::Lane, &[d], s, class, 0, Detail::Lane(f, spread));
    }

    fn label(&mut self, label: usize) -> usize {
        if let Some(known) = self.scope().labels[label] {
            return known;
        }
        let new = self.new_label();
        self.scope_mut().labels[label] = Some(new);
        new
    }

    fn bind_label(&mut self, label: usize) {
        self.labels[label] = Some(self.code.len());
    }

    fn enter_scope(
        &mut self,
        function: &'t Function,
        storage: Vec<Option<Storage>>,
        leave: ReturnTarget,
    ) {
        self.scopes.push(FunctionScope {
            function,
            registers: vec![None; function.registers.len()],
            storage,
            labels: vec![None; function.labels.len()],
            leave,
        });
    }

    /// Lowers a function body in a scope of its own.
    fn body(
        &mut self,
        function: &'t Function,
        storage: Vec<Option<Storage>>,
        leave: ReturnTarget,
    ) -> Result<(), UnsupportedInstruction> {
        if let Some((feature, line)) = &function.refused {
            return Err(UnsupportedInstruction {
                opcode: feature.clone(),
                line: *line,
                place: None,
            });
        }
        let Some(body) = &function.body else {
            return Err(self.unsupported(format!("call {} (declared, not defined)", function.name)));
        };
        if self.call_chain.len() >= MAX_DEPTH {
            return Err(self.unsupported(format!("call {} (nested too deeply)", function.name)));
        }
        self.call_chain.push(function.name.clone());
        self.enter_scope(function, storage, leave);
        // Declared shared variables take space even if unused.
        for (index, variable) in function.variables.iter().enumerate() {
            if variable.space == StateSpace::Shared {
                self.home(index).map_err(|UnsupportedForm| {
                    self.unsupported(format!(".shared {}", variable.name))
                })?;
            }
        }
        let mut at: HashMap<usize, Vec<usize>> = HashMap::new();
        for (label, (_, position)) in function.labels.iter().enumerate() {
            if let Some(position) = position {
                at.entry(*position).or_default().push(label);
            }
        }
        for (position, statement) in body.iter().enumerate() {
            for &label in at.get(&position).map_or(&[][..], Vec::as_slice) {
                let label = self.label(label);
                self.bind_label(label);
            }
            if let Statement::Instruction(instruction) = statement {
                self.instruction(instruction)?;
            }
            if self.code.len() > MAX_CODE {
                return Err(self.unsupported("a kernel this long"));
            }
        }
        for &label in at.get(&body.len()).map_or(&[][..], Vec::as_slice) {
            let label = self.label(label);
            self.bind_label(label);
        }
        self.scopes.pop();
        self.call_chain.pop();
        Ok(())
    }

    fn instruction(&mut self, instruction: &'t Instruction) -> Result<(), UnsupportedInstruction> {
        let outer = self.origin;
        // Instructions of an inlined function without a source position take the caller's.
        self.origin = Origin {
            ptx_line: instruction.line,
            place: instruction.place.or(outer.place),
        };
        self.guard = instruction
            .guard
            .map(|(register, negated)| (self.register(register), negated));
        let result = if instruction.base == "call" {
            self.call(instruction)
        } else {
            self.dispatch(instruction)
                .map_err(|UnsupportedForm| self.unsupported(instruction.opcode()))
        };
        self.guard = None;
        result
    }

    fn dispatch(&mut self, i: &Instruction) -> Result<(), UnsupportedForm> {
        let family = BY_OPCODE.get(i.base.as_str()).ok_or(UnsupportedForm)?;
        self.lower_as(*family, i)
    }

    /// Lowers an instruction with the handler of a family. Each handler names the opcodes that it lowers and refuses
    /// every other one, so an opcode that [`FAMILIES`] lists but no handler lowers is unsupported, never ignored.
    fn lower_as(&mut self, family: Family, i: &Instruction) -> Result<(), UnsupportedForm> {
        match family {
            Family::Arithmetic => self.arithmetic(i),
            Family::Logic => self.logic(i),
            Family::Convert => self.convert(i),
            Family::Access => self.access(i),
            Family::CacheHint => self.cache_hint(i),
            Family::Control => self.control(i),
            Family::MBarrier => self.mbarrier(i),
            Family::Warp => self.warp(i),
            Family::Tensor => self.tensor(i),
            // `instruction` lowers calls itself, because their errors differ.
            Family::Call => Err(UnsupportedForm),
        }
    }
}

/// Families of opcodes, each with a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Arithmetic,
    Logic,
    Convert,
    Access,
    CacheHint,
    Control,
    MBarrier,
    Warp,
    Tensor,
    Call,
}

/// The opcodes of each family. An opcode that is not listed is unsupported.
///
/// To add an instruction, add its opcode to a family here and an arm for it to the family's handler, which
/// [`Lowering::lower_as`] calls.
const FAMILIES: &[(Family, &str)] = &[
    (
        Family::Arithmetic,
        "add sub mul mad fma div rem min max abs neg sqrt rcp rsqrt ex2 lg2 sin cos tanh mul24 mad24 sad dp4a dp2a \
         vabsdiff2 vabsdiff4 copysign testp addc subc madc",
    ),
    (
        Family::Logic,
        "and or xor not cnot shl shr shf bfe bfi bfind brev popc clz prmt lop3 bmsk szext selp slct set setp",
    ),
    (Family::Convert, "mov cvt cvta isspacep"),
    (Family::Access, "ld ldu st atom red cp"),
    (
        Family::CacheHint,
        "prefetch prefetchu applypriority createpolicy",
    ),
    (
        Family::Control,
        "bra brx ret exit trap brkpt bar barrier membar fence nanosleep",
    ),
    (Family::MBarrier, "mbarrier"),
    (
        Family::Warp,
        "shfl vote match redux activemask elect movmatrix",
    ),
    (Family::Tensor, "ldmatrix stmatrix mma wmma"),
    (Family::Call, "call"),
];

static BY_OPCODE: LazyLock<HashMap<&str, Family>> = LazyLock::new(|| {
    FAMILIES
        .iter()
        .flat_map(|(family, opcodes)| {
            opcodes
                .split_whitespace()
                .map(move |opcode| (opcode, *family))
        })
        .collect()
});

/// Every opcode that the machine supports in at least one form.
pub(crate) fn opcodes() -> impl Iterator<Item = &'static str> {
    FAMILIES
        .iter()
        .flat_map(|(_, opcodes)| opcodes.split_whitespace())
}

#[cfg(test)]
mod tests;
