//! PTX that the real compiler emitted for our own kernels (`*.cu`, compiled by `../compile`), each against a reference
//! in Rust. Nothing here may get a finding: these kernels are honest, however unusual.

#[path = "../support/mod.rs"]
mod support;

mod attention;
mod basics;
mod groups;
mod images;
mod irregular;
mod language;
mod numbers;
mod ordering;
mod products;

use std::collections::BTreeSet;

use ptx::{LaunchError, Module};

macro_rules! sources {
    ($($name:literal),* $(,)?) => {
        /// Every source with its PTX.
        const SOURCES: &[(&str, &str, &str)] =
            &[$(($name, include_str!(concat!($name, ".cu")), include_str!(concat!($name, ".ptx")))),*];
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

/// The PTX of a source.
pub fn ptx(name: &str) -> &'static str {
    SOURCES
        .iter()
        .find(|(known, ..)| *known == name)
        .unwrap_or_else(|| panic!("{name} is not in the list of sources"))
        .2
}

#[test]
fn every_kernel_of_the_corpus_is_supported() {
    let mut kernels = 0;
    let mut missing = Vec::new();
    for (source, _, text) in SOURCES {
        let module =
            Module::parse(text).unwrap_or_else(|error| panic!("{source}: failed to {error}"));
        for kernel in module.kernels() {
            kernels += 1;
            if let Err(LaunchError::Unsupported {
                opcode, ptx_line, ..
            }) = module.runnable(&kernel.name)
            {
                missing.push(format!(
                    "{source}, {}: {opcode} (PTX line {ptx_line})",
                    kernel.name
                ));
            }
        }
    }
    println!(
        "{} of {kernels} kernels of the corpus are supported",
        kernels - missing.len()
    );
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(kernels >= 40, "only {kernels} kernels");
}

#[test]
fn the_list_is_the_folder_and_no_ptx_is_stale() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus");
    let there: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".cu").map(str::to_owned))
        .collect();
    let listed: BTreeSet<String> = SOURCES
        .iter()
        .map(|(name, ..)| (*name).to_owned())
        .collect();
    assert_eq!(there, listed);
    for (name, source, text) in SOURCES {
        assert_eq!(
            support::source_of(text),
            Some(format!("{name}.cu {:016x}", support::digest(source))),
            "{name}.ptx does not come from this {name}.cu: run crates/ptx/tests/compile"
        );
    }
}
