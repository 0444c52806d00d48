//! Correct kernels in many styles, each with inputs, launches and the expected results.
//!
//! A [`Case`] uses a [`Device`] without knowing which one. The tests of the emulated machine run every case and require
//! that no finding is recorded; `gpu-check` runs it on two CUDA drivers and compares the results. The references are
//! plain Rust, in `f64` where the kernel rounds. The sources are in `kernels/`, each with the PTX that
//! `kernels/compile` generated.

#![forbid(unsafe_code)]

mod attention;
mod basics;
mod cases;
mod failure;
mod faults;
mod groups;
mod images;
mod irregular;
mod language;
mod noise;
mod numbers;
mod ordering;
mod products;
mod session;

pub use cases::{CASES, Case};
pub use failure::{Failure, Kind};
pub use noise::Noise;
pub use session::{Arg, Compared, Device, Launch, Plain, Read, Record, Session};

use failure::{ensure, ensure_eq};

/// A file of kernels.
#[derive(Debug, Clone, Copy)]
pub struct Source {
    /// Name of the file without its extension.
    pub name: &'static str,
    /// The CUDA source text.
    pub cuda: &'static str,
    /// The PTX that it compiles to for `sm_89`, with source lines.
    pub ptx: &'static str,
}

/// Kernels that measure properties of a device. They belong to no case.
pub const QUESTIONS: Source = Source {
    name: "questions",
    cuda: include_str!("../questions/questions.cu"),
    ptx: include_str!("../questions/questions.ptx"),
};

impl Source {
    /// The lowest architecture that supports all instructions of the source, such as 80 for `sm_80`.
    pub fn least_architecture(&self) -> u32 {
        match self.name {
            // 8-bit floating-point formats need compute capability 8.9 (Ada).
            "gemm_fp8" => 89,
            _ => 80,
        }
    }
}

/// The source with a name.
pub fn source(name: &str) -> Option<&'static Source> {
    SOURCES.iter().find(|source| source.name == name)
}

macro_rules! sources {
    ($($name:literal),* $(,)?) => {
        /// Every source, by name.
        pub const SOURCES: &[Source] = &[$(Source {
            name: $name,
            cuda: include_str!(concat!("../kernels/", $name, ".cu")),
            ptx: include_str!(concat!("../kernels/", $name, ".ptx")),
        }),*];
    };
}

sources![
    "atomics",
    "attention_mma",
    "attention_online",
    "attention_wmma",
    "barriers",
    "bits",
    "calls",
    "convolution",
    "cub_block",
    "cub_merge",
    "faults",
    "gemm_bf16",
    "gemm_blocked",
    "gemm_f64",
    "gemm_fp8",
    "gemm_int8",
    "gemm_split_k",
    "gemm_tf32",
    "gemv_int4",
    "grid_sync",
    "groups",
    "halves",
    "hand_over",
    "handshake",
    "histogram",
    "integers",
    "mathematics",
    "normalise",
    "physics",
    "pipeline",
    "queues",
    "reduce",
    "rope",
    "scan",
    "softmax",
    "sort",
    "sparse",
    "stencil",
    "topk",
    "training",
    "wmma",
    "wmma_shapes",
];
