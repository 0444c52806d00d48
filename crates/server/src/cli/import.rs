//! Arguments of `task import`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Arguments of `task import`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ImportArgs {
    /// The format of the problems.
    #[arg(value_enum)]
    pub format: ImportFormat,
    /// File of a problem, or folder in which all are looked for.
    pub path: PathBuf,
    /// Folder in which each problem gets a task folder.
    #[arg(long, value_name = "DIR", default_value = "imported")]
    pub to: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// A format of other projects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ImportFormat {
    /// Python files with Model, `get_inputs` and `get_init_inputs`.
    Kernelbench,
    /// JSON files of Definitions, with workloads beside them in JSON lines, as in FlashInfer-Bench.
    FlashinferBench,
    /// Folders with task.yml and reference.py, as in GPU MODE.
    GpuMode,
    /// Python scripts that call `tune_kernel` of Kernel Tuner, with their kernels in CUDA.
    KernelTuner,
}
