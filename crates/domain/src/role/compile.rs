//! The roles that make an image of a source and read it back: neither needs a GPU.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::digest::Digest;
use crate::policy::Feature;
use crate::verdict::Diagnostic;

/// The version of C++ in which candidates are compiled.
pub const CPP_STANDARD: &str = "c++17";

/// Compiles one source for one architecture. Needs no GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompileJob {
    /// The source file; diagnostics count its lines.
    pub source: PathBuf,
    /// The architecture, such as `sm_89`.
    pub architecture: String,
    /// Tunables as macros.
    pub defines: BTreeMap<String, i64>,
    /// The task's own headers; absent when it has none.
    pub headers: Option<PathBuf>,
    /// The folder of the toolchain's bundled headers, to which they are unpacked on first use.
    pub toolchain_headers: PathBuf,
    /// The folder for `image.cubin` and `image.ptx`.
    pub output: PathBuf,
}

/// The result of a compilation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CompileReply {
    /// An image for the architecture, and the PTX it was assembled from.
    Compiled(Box<Compiled>),
    /// Errors in the source.
    Rejected {
        /// At most 20, errors first.
        diagnostics: Vec<Diagnostic>,
    },
    /// The assembler refused the kernel's resource use.
    OverResource {
        /// The resource.
        resource: String,
        /// The limit.
        limit: u64,
        /// The amount required, where it is known.
        found: Option<u64>,
        /// One sentence.
        message: String,
    },
}

/// A successful compilation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compiled {
    /// The image files.
    pub image: Image,
    /// One entry per `extern "C"` kernel.
    pub kernels: Vec<KernelResources>,
    /// The other contents of the image, for the policy.
    pub contents: Contents,
    /// Warnings.
    pub diagnostics: Vec<Diagnostic>,
    /// The compiler with its version, such as "NVRTC 13.5".
    pub toolchain: String,
}

/// A compiled module as files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Machine code for the architecture.
    pub cubin: PathBuf,
    /// The PTX of the same compilation.
    pub ptx: PathBuf,
    /// Digest of the file with the machine code.
    pub cubin_digest: Digest,
    /// Digest of what executes: code, constants and resources without the names of files and the
    /// lines. It is the same wherever a source was compiled.
    pub code_digest: Digest,
}

/// The contents of an image besides the code of its kernels.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Contents {
    /// Variables of the module, those that kernels write first.
    pub variables: Vec<Variable>,
    /// Bytes of variables with a first value that no kernel changes: tables.
    pub constant_bytes: u64,
    /// Symbols that the driver would have to supply.
    pub externals: Vec<String>,
    /// Instructions and special registers of note.
    pub uses: Vec<FeatureUse>,
    /// Kernels of the image.
    pub entries: Vec<String>,
}

/// A variable of a module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Its name as the compiler spells it.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The memory space.
    pub space: VariableSpace,
    /// True if the source initialises it.
    pub initialised: bool,
    /// True if a kernel may write it, so that it can carry something from launch to launch.
    pub written: bool,
    /// True if the host shares it.
    pub managed: bool,
}

/// The memory space of a module's variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VariableSpace {
    /// Global memory.
    Global,
    /// Constant memory.
    Constant,
}

/// One use of a feature that the policy has an opinion on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureUse {
    /// The feature.
    pub feature: Feature,
    /// The instruction or register.
    pub what: String,
    /// Line in the candidate's file, where known.
    pub line: Option<u32>,
}

/// Reads the machine code of an image back into instructions. Needs no GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisassembleJob {
    /// NVIDIA's disassembler.
    pub program: PathBuf,
    /// The machine code.
    pub cubin: PathBuf,
    /// Name of the file whose lines are counted.
    pub source: String,
}

/// The contents of the machine code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disassembly {
    /// The disassembler with its release.
    pub tool: String,
    /// Every function of the image.
    pub kernels: Vec<KernelCode>,
    /// Instructions and registers of note.
    pub uses: Vec<FeatureUse>,
    /// The instructions as text: a line `NAME:` for each function; then for each instruction the line of
    /// the source that it comes from, if known, a tab, and the instruction.
    pub sass: String,
}

/// The machine code of one kernel, counted. These are instructions in the image, not executed
/// ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KernelCode {
    /// The kernel.
    pub kernel: String,
    /// Instructions, padding not counted.
    pub instructions: u32,
    /// The number of these that multiply matrices on tensor cores.
    pub tensor: u32,
    /// Instructions by name, without modifiers.
    pub mix: BTreeMap<String, u32>,
}

/// Bytes of stack that a thread may have. Whatever lies there has to be overwritten before a time is
/// taken, on every multiprocessor: an H100 has room for 270,000 threads at once.
pub const MOST_STACK_BYTES: u32 = 64 << 10;

/// The resources of one kernel, as the assembler reports them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KernelResources {
    /// The entry.
    pub kernel: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes stored and loaded by spills.
    pub spill_bytes: u32,
    /// Stack of a thread in bytes.
    pub stack_bytes: u32,
    /// Static shared memory of a block in bytes.
    pub static_shared_bytes: u32,
    /// Constant memory in bytes.
    pub constant_bytes: u32,
    /// Sizes in bytes of the entry's parameters, in order.
    pub parameters: Vec<u32>,
}
