//! The emulated GPU: parses PTX text, executes it on the CPU, detects errors and counts work while it executes.
//!
//! The modules in the order of a launch: `lex` and `parse` turn text into an `ir` tree with source positions. `lower`
//! turns each kernel into flat code over 32-lane register slots. [`machine`] executes that code warp by warp, with
//! [`memory`], `sync` and `numeric`. `check` records errors, and [`report`] defines the types in which the results
//! leave the crate. [`device`] holds the data of real GPUs, and [`model`] turns counters into a modelled time; no other
//! module knows either.
//!
//! The crate does not know the CUDA driver API, files, clocks and processes; the `driver` crate implements the API on
//! top of it.
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

/// Every opcode that the machine supports in at least one form, without modifiers. [`Module::runnable`] tells whether
/// it supports every instruction of a kernel.
pub fn opcodes() -> impl Iterator<Item = &'static str> {
    lower::opcodes()
}
