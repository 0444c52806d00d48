//! A parsed module, with names resolved and scopes removed. Instructions are kept as written.

use std::collections::{HashMap, HashSet};

/// A whole module.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) files: HashMap<u32, String>,
    pub(crate) variables: Vec<Variable>,
    pub(crate) functions: Vec<Function>,
    /// Names of module variables whose kind the machine does not support.
    pub(crate) foreign: HashSet<String>,
}

/// PTX types, as written after a dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Ty {
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    Tf32,
    E4m3x2,
    E5m2x2,
    F32,
    F64,
    Pred,
}

impl Ty {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "b8" => Self::B8,
            "b16" => Self::B16,
            "b32" => Self::B32,
            "b64" => Self::B64,
            "b128" => Self::B128,
            "u8" => Self::U8,
            "u16" => Self::U16,
            "u32" => Self::U32,
            "u64" => Self::U64,
            "s8" => Self::S8,
            "s16" => Self::S16,
            "s32" => Self::S32,
            "s64" => Self::S64,
            "f16" => Self::F16,
            "f16x2" => Self::F16x2,
            "bf16" => Self::Bf16,
            "bf16x2" => Self::Bf16x2,
            "tf32" => Self::Tf32,
            "e4m3x2" => Self::E4m3x2,
            "e5m2x2" => Self::E5m2x2,
            "f32" => Self::F32,
            "f64" => Self::F64,
            "pred" => Self::Pred,
            _ => return None,
        })
    }

    /// Bits of one value; a predicate counts as 1.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Self::Pred => 1,
            Self::B8 | Self::U8 | Self::S8 => 8,
            Self::B16
            | Self::U16
            | Self::S16
            | Self::F16
            | Self::Bf16
            | Self::E4m3x2
            | Self::E5m2x2 => 16,
            Self::B32
            | Self::U32
            | Self::S32
            | Self::F32
            | Self::F16x2
            | Self::Bf16x2
            | Self::Tf32 => 32,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 64,
            Self::B128 => 128,
        }
    }

    pub(crate) fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    pub(crate) fn signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }
}

/// The state space of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum StateSpace {
    Global,
    Const,
    Shared,
    Local,
    /// A parameter of the function itself, or of a call it makes.
    Param,
}

/// A declared variable.
#[derive(Debug, Clone)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) space: StateSpace,
    pub(crate) align: u32,
    pub(crate) bytes: u64,
    /// `extern .shared x[]`: its size is the launch's dynamic shared memory.
    pub(crate) unsized_array: bool,
    pub(crate) element: Ty,
    pub(crate) init: Vec<Init>,
    pub(crate) line: u32,
}

/// One element of an initialiser.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Init {
    /// The element's bits.
    Bits(u64),
    /// The address of another variable of the module.
    Address { variable: usize, offset: i64 },
    /// The address of a function.
    Function(usize),
    /// A name whose declaration may follow later; none is left after parsing.
    Named { name: String, offset: i64 },
}

/// A kernel or a device function.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) kernel: bool,
    pub(crate) returns: Vec<usize>,
    pub(crate) params: Vec<usize>,
    pub(crate) max_threads: Option<u32>,
    pub(crate) required_threads: Option<[u32; 3]>,
    /// Most 32-bit registers per thread, from `.maxnreg`.
    pub(crate) max_registers: Option<u32>,
    /// Absent for declarations.
    pub(crate) body: Option<Vec<Statement>>,
    /// An unsupported directive of the function, and its line.
    pub(crate) refused: Option<(String, u32)>,
    /// Parameters, returns and everything the body declares.
    pub(crate) variables: Vec<Variable>,
    pub(crate) registers: Vec<Ty>,
    /// Names of labels by id, and the index in `body` at which each is defined.
    pub(crate) labels: Vec<(String, Option<usize>)>,
    /// Jump tables by the label that names them.
    pub(crate) tables: HashMap<usize, Vec<usize>>,
}

/// A step of a body.
#[derive(Debug)]
pub(crate) enum Statement {
    Instruction(Instruction),
    /// A jump target; the id says which.
    Label,
}

/// An instruction as written, with its names resolved.
#[derive(Debug, Clone)]
pub(crate) struct Instruction {
    /// The predicate register and whether it is negated.
    pub(crate) guard: Option<(usize, bool)>,
    /// The first word of the opcode.
    pub(crate) base: String,
    /// The modifiers.
    pub(crate) modifiers: Vec<String>,
    pub(crate) operands: Vec<Operand>,
    pub(crate) line: u32,
    pub(crate) place: Option<SourcePosition>,
}

impl Instruction {
    /// The opcode as written.
    pub(crate) fn opcode(&self) -> String {
        let mut text = self.base.clone();
        for word in &self.modifiers {
            text.push('.');
            text.push_str(word);
        }
        text
    }
}

/// The user's source position: a file number and a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SourcePosition {
    pub(crate) file: u32,
    pub(crate) line: u32,
}

/// A named variable: of the module, or of the function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Symbol {
    Module(usize),
    Function(usize),
}

/// An operand.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operand {
    Register(usize),
    /// `!p`.
    Not(usize),
    Integer(u64),
    Single(u32),
    Double(u64),
    /// A special register such as `tid.x`.
    Special(String),
    /// The address of a variable.
    Variable(Symbol, i64),
    /// `[base+offset]`.
    Memory(Base, i64),
    Vector(Vec<Operand>),
    Tuple(Vec<Operand>),
    /// `p|q`.
    Pair(Box<Operand>, Box<Operand>),
    /// `_`.
    Sink,
    Label(usize),
    /// A function's name.
    Function(String),
}

/// The base of an address.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Base {
    Register(usize),
    Variable(Symbol),
    Absolute,
}
