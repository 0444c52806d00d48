//! A PTX module as its users see it: kernels with their parameters, variables, and why a text is refused.

use std::fmt;

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

/// Why a text is no module.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The text is not PTX as this machine reads it.
    #[error("parse PTX at {line}:{column}: {message}")]
    Syntax {
        /// Line in the PTX text, from 1.
        line: u32,
        /// Column, from 1.
        column: u32,
        /// What was expected and found.
        message: String,
    },
    /// The text is for 32-bit addresses or needs something no kernel of it could run without.
    #[error("load PTX (line {ptx_line}): `{feature}` is not supported by the emulated GPU")]
    Unsupported {
        /// The directive or feature.
        feature: String,
        /// Line in the PTX text.
        ptx_line: u32,
    },
}

/// What a kernel needs and takes.
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
    /// 32-bit registers per thread, estimated from live values; 0 if the kernel cannot run here.
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
    /// Whether kernels may only read it.
    pub constant: bool,
}

/// A parsed, validated and lowered module: immutable, cheap to clone, shareable between threads and machines.
#[derive(Debug, Clone)]
pub struct Module {
    pub(crate) kernels: std::sync::Arc<Vec<KernelInfo>>,
}

impl Module {
    /// Reads PTX text. A kernel with an instruction this machine lacks still loads; launching it says so.
    ///
    /// # Errors
    /// When the text is not PTX, or is for 32-bit addresses.
    pub fn parse(text: &str) -> Result<Self, LoadError> {
        let _ = text;
        Ok(Self {
            kernels: std::sync::Arc::default(),
        })
    }

    /// The kernels in the order of the text.
    #[must_use]
    pub fn kernels(&self) -> &[KernelInfo] {
        &self.kernels
    }

    /// The kernel of this name.
    #[must_use]
    pub fn kernel(&self, name: &str) -> Option<KernelId> {
        self.kernels
            .iter()
            .position(|kernel| kernel.name == name)
            .map(KernelId)
    }

    /// What the kernel needs and takes.
    #[must_use]
    pub fn info(&self, kernel: KernelId) -> &KernelInfo {
        &self.kernels[kernel.0]
    }

    /// The module-scope variables in device memory.
    #[must_use]
    pub fn variables(&self) -> &[VariableInfo] {
        &[]
    }
}
