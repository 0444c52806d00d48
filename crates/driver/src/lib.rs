//! `libcuda.so.1` over the emulated GPU: CUDA's driver API, without a GPU, for programs that load PTX.
//!
//! The crate has two layers. [`state`] implements the API in safe Rust: contexts, memory, modules, streams, events
//! and launches, each with the documented errors. `ffi` is a thin layer of exported C functions over it. [`image`]
//! reads the images that callers load, [`link`] links PTX texts, [`fault`] injects faults into chosen calls for
//! tests, and [`emulator`] answers requests through the one exported symbol that CUDA's API does not have. `unsafe`
//! code stands only in `ffi` and [`host_memory`].
//!
//! The crate does not know how kernels are executed (`ptx` does that), what is done with findings, or how a kernel is
//! judged.
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
