//! The public interface of a PTX module: its kernels with their parameters, its variables, and the errors of loading.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::code::Program;
use crate::config::LaunchError;
use crate::ir::{Init, StateSpace, Variable};
use crate::lower::{self, UnsupportedInstruction};
use crate::memory::window;
use crate::parse;

/// The position of a kernel in its module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KernelId(pub(crate) usize);

/// A line of the user's source.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SourceLine {
    /// The file as the compiler was told its name.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The error of loading a module.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The text is not PTX that the machine can parse.
    #[error("parse PTX at {line}:{column}: {message}")]
    Syntax {
        /// Line in the PTX text, from 1.
        line: u32,
        /// Column, from 1.
        column: u32,
        /// The expected and the found token.
        message: String,
    },
    /// The text is for 32-bit addresses, or needs a feature without which no kernel of it can run.
    #[error("load PTX (line {ptx_line}): `{feature}` is not supported by the emulated GPU")]
    Unsupported {
        /// The directive or feature.
        feature: String,
        /// Line in the PTX text.
        ptx_line: u32,
    },
}

/// The resources and parameters of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelInfo {
    /// Its name as written in the module (mangled for C++ names).
    pub name: String,
    /// Its parameters in order.
    pub params: Vec<ParamInfo>,
    /// Bytes of the parameter block.
    pub param_bytes: u32,
    /// Static shared memory in bytes.
    pub static_shared: u32,
    /// Stack bytes per thread.
    pub local_bytes: u32,
    /// Most threads per block the kernel allows, from `.maxntid`; 1024 otherwise.
    pub max_threads: u32,
    /// `.reqntid`, if the kernel demands one block shape.
    pub required_threads: Option<[u32; 3]>,
    /// 32-bit registers per thread, estimated from live values and capped by `.maxnreg`; 0 if the kernel cannot run here.
    pub registers_estimate: u32,
}

/// One kernel parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamInfo {
    /// Its name in the PTX text.
    pub name: String,
    /// Byte offset in the parameter block.
    pub offset: u32,
    /// Its size in bytes.
    pub bytes: u32,
    /// Its alignment in bytes.
    pub align: u32,
}

/// A module-scope variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariableInfo {
    /// Its name in the PTX text.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// True if kernels may only read it.
    pub constant: bool,
}

/// A module-scope variable with its initial value.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) info: VariableInfo,
    /// True if it lives in device memory (shared variables do not).
    pub(crate) in_memory: bool,
    /// The first bytes; zeros follow.
    pub(crate) image: Vec<u8>,
    /// Addresses in the image: byte offset, variable, addend.
    pub(crate) pointers: Vec<(usize, usize, i64)>,
}

#[derive(Debug)]
struct Inner {
    kernels: Vec<KernelInfo>,
    programs: Vec<Result<Program, UnsupportedInstruction>>,
    variables: Vec<Placed>,
    in_memory: Vec<VariableInfo>,
    files: Arc<HashMap<u32, String>>,
}

/// A parsed, validated and lowered module: immutable, cheap to clone, shareable between threads and machines.
#[derive(Debug, Clone)]
pub struct Module {
    inner: Arc<Inner>,
}

impl Module {
    /// Parses PTX text and lowers its kernels. A kernel with an unsupported instruction still loads; its launch fails.
    ///
    /// # Errors
    /// When the text is not PTX, or is for 32-bit addresses.
    pub fn parse(text: &str) -> Result<Self, LoadError> {
        let tree = parse::parse(text)?;
        let files = Arc::new(tree.files.clone());
        let mut kernels = Vec::new();
        let mut programs = Vec::new();
        for (index, function) in tree.functions.iter().enumerate() {
            if !function.kernel || function.body.is_none() {
                continue;
            }
            let (offsets, param_bytes) = lower::parameter_offsets(function);
            let program = lower::lower(&tree, index, &files);
            let lowered = program.as_ref().ok();
            kernels.push(KernelInfo {
                name: function.name.clone(),
                params: function
                    .params
                    .iter()
                    .zip(offsets)
                    .map(|(param, offset)| {
                        let variable = &function.variables[*param];
                        ParamInfo {
                            name: variable.name.clone(),
                            offset,
                            bytes: variable.bytes as u32,
                            align: variable.align,
                        }
                    })
                    .collect(),
                param_bytes,
                static_shared: lowered.map_or(0, |program| program.static_shared),
                local_bytes: lowered.map_or(0, |program| program.local_bytes),
                max_threads: function.max_threads.unwrap_or(1024).min(1024),
                required_threads: function.required_threads,
                registers_estimate: lowered
                    .map_or(0, |program| program.registers_estimate)
                    .min(function.max_registers.unwrap_or(u32::MAX)),
            });
            programs.push(program);
        }
        let variables: Vec<Placed> = tree.variables.iter().map(placed).collect();
        let in_memory = variables
            .iter()
            .filter(|v| v.in_memory)
            .map(|v| v.info.clone())
            .collect();
        Ok(Self {
            inner: Arc::new(Inner {
                kernels,
                programs,
                variables,
                in_memory,
                files,
            }),
        })
    }

    /// The kernels in the order of the text.
    #[must_use]
    pub fn kernels(&self) -> &[KernelInfo] {
        &self.inner.kernels
    }

    /// The kernel of this name.
    #[must_use]
    pub fn kernel(&self, name: &str) -> Option<KernelId> {
        self.kernels()
            .iter()
            .position(|kernel| kernel.name == name)
            .map(KernelId)
    }

    /// The resources and parameters of a kernel.
    #[must_use]
    pub fn info(&self, kernel: KernelId) -> Option<&KernelInfo> {
        self.inner.kernels.get(kernel.0)
    }

    /// Checks without a launch that the machine supports every instruction of a kernel.
    ///
    /// # Errors
    /// The first instruction it lacks, or that there is no kernel of this name.
    pub fn runnable(&self, name: &str) -> Result<(), LaunchError> {
        let kernel = self.kernel(name).ok_or(LaunchError::UnknownKernel)?;
        self.program(kernel).map(|_| ())
    }

    /// The module-scope variables in device memory.
    #[must_use]
    pub fn variables(&self) -> &[VariableInfo] {
        &self.inner.in_memory
    }

    pub(crate) fn placed(&self) -> &[Placed] {
        &self.inner.variables
    }

    /// The code of a kernel, or the first unsupported instruction.
    pub(crate) fn program(&self, kernel: KernelId) -> Result<&Program, LaunchError> {
        match self.inner.programs.get(kernel.0) {
            None => Err(LaunchError::UnknownKernel),
            Some(Ok(program)) => Ok(program),
            Some(Err(refusal)) => Err(LaunchError::Unsupported {
                opcode: refusal.opcode.clone(),
                ptx_line: refusal.line,
                source_line: refusal.place.and_then(|place| {
                    Some(SourceLine {
                        file: self.inner.files.get(&place.file)?.clone(),
                        line: place.line,
                    })
                }),
            }),
        }
    }
}

/// The initial bytes of a variable.
fn placed(variable: &Variable) -> Placed {
    let width = variable.element.bytes() as usize;
    let in_memory = matches!(variable.space, StateSpace::Global | StateSpace::Const);
    // Zeros behind the last initial value are not stored, because a text may declare gigabytes of them.
    let mut image = vec![
        0;
        if in_memory {
            (variable.init.len() * width).min(variable.bytes as usize)
        } else {
            0
        }
    ];
    let mut pointers = Vec::new();
    for (index, init) in variable.init.iter().enumerate() {
        match init {
            Init::Bits(bits) => {
                if let Some(bytes) = image.get_mut(index * width..(index + 1) * width) {
                    bytes.copy_from_slice(&bits.to_le_bytes()[..width.min(8)]);
                }
            }
            Init::Address { variable, offset } => {
                pointers.push((index * width, *variable, *offset));
            }
            Init::Function(function) => {
                let address = window::FUNCTION + *function as u64 * window::FUNCTION_STEP;
                if let Some(bytes) = image.get_mut(index * width..index * width + 8) {
                    bytes.copy_from_slice(&address.to_le_bytes());
                }
            }
            Init::Named { .. } => {}
        }
    }
    Placed {
        info: VariableInfo {
            name: variable.name.clone(),
            bytes: variable.bytes,
            constant: variable.space == StateSpace::Const,
        },
        in_memory,
        image,
        pointers,
    }
}
