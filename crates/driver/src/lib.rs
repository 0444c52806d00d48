//! `libcuda.so.1` over the emulated GPU: CUDA's driver API for programs that hand over PTX, without a GPU.
//!
//! Two strata. [`state`] is the API in safe Rust: contexts, memory, modules, streams, events, launches, each with
//! the documented errors. `ffi` is a thin skin of C functions around it, and the only place with `unsafe`. Beside
//! them stand [`image`], which reads what callers want loaded, [`fault`], which makes calls go wrong on purpose, and
//! [`emulator`], the one symbol that CUDA's API does not have.
//!
//! The crate refuses to know how kernels are executed (that is `ptx`), what is done with findings, and whether a
//! kernel is any good.
#![deny(unsafe_code)]

pub mod code;
pub mod emulator;
pub mod fault;
mod ffi;
pub mod handle;
pub mod host_memory;
pub mod image;
pub mod link;
mod peaks;
pub mod state;

pub use code::Code;
pub use state::Driver;
