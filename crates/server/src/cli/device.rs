//! Commands about the machine and its device.

use std::path::PathBuf;

use clap::Args;

use super::DataFolder;
use super::number::whole;
use crate::gpu_check::Part;
use crate::score::kernel::Argument;

/// Arguments of `score-model`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ScoreModelArgs {
    /// Cache file of a Kernel Tuner session.
    #[arg(required_unless_present = "sessions")]
    pub cache: Option<PathBuf>,
    /// File that lists several sessions, each with its cache file, source and arguments. A table of all scores is
    /// printed at the end.
    #[arg(
        long,
        value_name = "FILE",
        requires = "sources",
        conflicts_with_all = [
            "cache", "source", "arguments", "problem", "block", "grid_div_x", "grid_div_y", "grid_div_z", "device",
        ]
    )]
    pub sessions: Option<PathBuf>,
    /// Folder of the sources and of the text files that `--sessions` names.
    #[arg(long, value_name = "DIR", requires = "sessions")]
    pub sources: Option<PathBuf>,
    /// Only the sessions of `--sessions` whose name or cache file contains this text. May be repeated.
    #[arg(long, value_name = "TEXT", requires = "sessions")]
    pub only: Vec<String>,
    /// Source of the kernel that was tuned.
    #[arg(long, value_name = "FILE", required_unless_present = "sessions")]
    pub source: Option<PathBuf>,
    /// One argument of the kernel: a buffer of random values such as `f32*4096*4096`, one with the
    /// numbers of a text file such as `f32@shifts.txt`, or a number such as `i32=4096`. Repeat the
    /// option for each argument, in order.
    #[arg(
        long = "arg",
        value_name = "SPEC",
        required_unless_present = "sessions"
    )]
    pub arguments: Vec<Argument>,
    /// Extents of the problem, where the cache file does not hold them.
    #[arg(long, value_name = "N,...", value_delimiter = ',', allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub problem: Vec<u64>,
    /// Names of the tunables that hold the extents of a block.
    #[arg(
        long,
        value_name = "X,Y,Z",
        value_delimiter = ',',
        default_value = "block_size_x,block_size_y,block_size_z"
    )]
    pub block: Vec<String>,
    /// Tunables whose product divides the problem's first extent. By default the block's first
    /// tunable.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub grid_div_x: Option<Vec<String>>,
    /// Tunables whose product divides the problem's second extent.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub grid_div_y: Option<Vec<String>>,
    /// Tunables whose product divides the problem's third extent.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub grid_div_z: Option<Vec<String>>,
    /// Device to model, such as `a4000`. By default the one that the cache file names.
    #[arg(long, value_name = "ID")]
    pub device: Option<String>,
    /// The fewest blocks of each launch that are emulated, in runs of three waves of neighbours. The others are counted
    /// as their average.
    #[arg(long, value_name = "N", default_value_t = 64, allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub blocks: u64,
    /// Number of configurations to try, the first that have a time. By default all.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<usize>)]
    pub limit: Option<usize>,
    /// Print JSON with every configuration.
    #[arg(long)]
    pub json: bool,
    /// The data folder, for builds. Where there is none, builds go to a temporary folder.
    #[command(flatten)]
    pub folder: DataFolder,
}

/// Arguments of `gpu-check`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct GpuCheckArgs {
    /// Folder for the reports, builds and scratch files.
    #[arg(long, value_name = "DIR", default_value = "gpu-check")]
    pub out: PathBuf,
    /// Folder of a pack: prebuilt images, tasks and the emulated driver. By default the pack that
    /// this program lies in.
    #[arg(long, value_name = "DIR")]
    pub pack: Option<PathBuf>,
    /// Make a pack in this folder instead: this program and all files that it needs on a machine
    /// without a compiler and a network.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["pack", "emulated", "parts"])]
    pub prepare: Option<PathBuf>,
    /// Use the emulated driver in the GPU's place, so that no GPU is needed.
    #[arg(long)]
    pub emulated: bool,
    /// Only cases, kernels and questions whose names contain this text. May be repeated.
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// Architecture that the pack gets machine code for, such as `sm_89`. May be repeated. By
    /// default those of Ampere, Ada and Hopper.
    #[arg(
        long = "architecture",
        value_name = "ARCHITECTURE",
        requires = "prepare"
    )]
    pub architectures: Vec<String>,
    /// Only this part. May be repeated. By default all parts.
    #[arg(long = "part", value_enum, value_name = "PART")]
    pub parts: Vec<Part>,
    /// Folder of the task folders, used where no pack has them.
    #[arg(long, value_name = "DIR", default_value = "kernels")]
    pub tasks: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `preflight`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct PreflightArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The data folder to check. Where there is none, a temporary folder is used.
    #[command(flatten)]
    pub folder: DataFolder,
}
