//! The emulated GPU's machine: reads PTX text, runs it on the CPU, and proves or counts what happens on the way.
//!
//! One launch goes through the rooms in this order: `lex` and `parse` turn text into an `ir` tree with spans,
//! `lower` turns each kernel into flat code over 32-lane register slots, [`machine`] runs that code warp by warp
//! against [`memory`], `sync` and `numeric`, `check` writes down what was wrong and [`report`] gives it a shape.
//! [`device`] and [`model`] know real GPUs as data and turn counters into a modelled time; nothing else here does.
//!
//! The crate refuses to know the CUDA driver API, files, clocks and processes: the `driver` crate puts the API on top.
#![deny(unsafe_code)]

mod check;
mod code;
pub mod config;
pub mod device;
mod ir;
mod lex;
mod lower;
pub mod machine;
pub mod memory;
pub mod model;
pub mod module;
mod numeric;
mod parse;
pub mod report;
mod simd;
mod sync;
mod tensor;

pub use config::{Checks, Fragments, Latencies, LaunchConfig, LaunchError, Limits, Schedule};
pub use machine::{Machine, ModuleHandle};
pub use memory::{HostAccessError, LendError, OutOfMemory, Unwritten};
pub use module::{KernelId, KernelInfo, LoadError, Module, ParamInfo, SourceLine, VariableInfo};
pub use simd::Isa;

/// Every opcode the machine knows, without modifiers; which of its forms is another question, and
/// [`Module::runnable`] answers it for a kernel.
pub fn opcodes() -> impl Iterator<Item = &'static str> {
    lower::opcodes()
}
