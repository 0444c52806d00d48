//! Verbs about the machine and its device.

use std::path::PathBuf;

use clap::Args;

use super::DataFolder;
use super::number::whole;
use crate::gpu_check::Part;
use crate::score::kernel::Argument;

/// Arguments of `score-model`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ScoreModelArgs {
    /// The cache file of a tuning session.
    pub cache: PathBuf,
    /// The kernel's source, as it was tuned.
    #[arg(long, value_name = "FILE")]
    pub source: PathBuf,
    /// The kernel's arguments in order: a buffer of random values such as `f32*4096*4096`, or a
    /// number such as `i32=4096`.
    #[arg(long = "arg", value_name = "SPEC", required = true)]
    pub arguments: Vec<Argument>,
    /// The problem's extents, where the cache does not say.
    #[arg(long, value_name = "N,...", value_delimiter = ',', allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub problem: Vec<u64>,
    /// The tunables of the block's extents.
    #[arg(
        long,
        value_name = "X,Y,Z",
        value_delimiter = ',',
        num_args = 3,
        default_value = "block_size_x,block_size_y,block_size_z"
    )]
    pub block: Vec<String>,
    /// Tunables whose product divides the problem's first extent; the block's by default.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub grid_div_x: Option<Vec<String>>,
    /// The same for the second extent.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub grid_div_y: Option<Vec<String>>,
    /// The same for the third extent.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub grid_div_z: Option<Vec<String>>,
    /// The device to model, such as `a4000`; by default the one that the cache names.
    #[arg(long, value_name = "ID")]
    pub device: Option<String>,
    /// Blocks of each launch that run, the rest being taken to count the same.
    #[arg(long, value_name = "N", default_value_t = 64, allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub blocks: u64,
    /// Try only the first configurations that have a time.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<usize>)]
    pub limit: Option<usize>,
    /// Print JSON with every configuration instead of text.
    #[arg(long)]
    pub json: bool,
    /// Where builds are kept.
    #[command(flatten)]
    pub folder: DataFolder,
}

/// Arguments of `gpu-check`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct GpuCheckArgs {
    /// Folder for the reports and everything made in passing.
    #[arg(long, value_name = "DIR", default_value = "gpu-check")]
    pub out: PathBuf,
    /// Prebuilt images, tasks and the emulated driver; by default the pack this program lies in.
    #[arg(long, value_name = "DIR")]
    pub pack: Option<PathBuf>,
    /// Make a pack instead: this program and everything it needs, for a machine without compiler
    /// and network.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["pack", "emulated", "parts"])]
    pub prepare: Option<PathBuf>,
    /// Compare the emulated driver with itself; no GPU is needed.
    #[arg(long)]
    pub emulated: bool,
    /// Only cases, kernels and questions whose names contain this; may be given several times.
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// A device that the pack gets machine code for, such as `sm_89`; by default those of Ampere,
    /// Ada and Hopper.
    #[arg(
        long = "architecture",
        value_name = "ARCHITECTURE",
        requires = "prepare"
    )]
    pub architectures: Vec<String>,
    /// Only these parts; all by default.
    #[arg(long = "part", value_enum, value_name = "PART")]
    pub parts: Vec<Part>,
    /// The folder of the task folders, where no pack has them.
    #[arg(long, value_name = "DIR", default_value = "kernels")]
    pub tasks: PathBuf,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `preflight`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct PreflightArgs {
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
    /// Where builds and reference answers are kept.
    #[command(flatten)]
    pub folder: DataFolder,
}
