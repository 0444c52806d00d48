//! Commands for one kernel file on this machine.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use domain::expr::Expr;

use super::number::{decimal, whole};
use super::{DataFolder, ServiceAddress};

/// Arguments of `eval`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct EvalArgs {
    /// The kernel and its task.
    #[command(flatten)]
    pub kernel: KernelArgs,
    /// Evaluate as before a promotion: also with held-out cases and a second schedule.
    #[arg(long, group = "asked")]
    pub confirm: bool,
    /// Evaluate as a committed champion is checked: as with --confirm, and on a GPU also 1000
    /// repeats and 512 further draws of each score case.
    #[arg(long, group = "asked")]
    pub champion: bool,
    /// Number of evaluations, each with fresh inputs and shapes. They end early with the first
    /// verdict that is not accepted.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "asked", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
}

/// Commands for evidence bundles.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum EvidenceCommand {
    /// Verify the digests of a bundle and show it.
    Show(EvidenceArgs),
    /// Evaluate a bundle's kernel again on the same inputs and compare the verdicts.
    Replay(EvidenceArgs),
    /// Download a bundle from a service into the data folder.
    Fetch(FetchArgs),
}

/// Arguments of `evidence fetch`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct FetchArgs {
    /// Digest of the bundle, 64 hexadecimal digits, as the evaluation names it.
    pub digest: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The service that has the bundle, and the data folder that it goes to.
    #[command(flatten)]
    pub service: ServiceAddress,
}

/// Arguments of `evidence show` and `evidence replay`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct EvidenceArgs {
    /// Digest of the bundle, or at least its first 6 digits.
    pub digest: String,
    /// Print one line of JSON instead of text (docs/reference/local-commands.md).
    #[arg(long)]
    pub json: bool,
    /// The data folder of the evaluation.
    #[command(flatten)]
    pub folder: DataFolder,
}

/// A kernel file and its task, as the commands for one kernel take them.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct KernelArgs {
    /// Kernel file: one .cu file with its launch plan in the head comment.
    pub file: PathBuf,
    /// Folder of the task.
    #[arg(long, value_name = "DIR")]
    pub task: PathBuf,
    /// Value of a tunable, such as `KV_SPLITS=16`. May be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_setting)]
    pub settings: Vec<(String, i64)>,
    /// Seed of the inputs: the same seed gives the same inputs. By default each call draws fresh
    /// inputs.
    #[arg(long, allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub seed: Option<u64>,
    /// Print one line of JSON instead of text (docs/reference/local-commands.md).
    #[arg(long)]
    pub json: bool,
    /// The data folder, for builds, reference answers and evidence.
    #[command(flatten)]
    pub folder: DataFolder,
}

/// Arguments of `build`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct BuildArgs {
    /// The kernel and its task.
    #[command(flatten)]
    pub kernel: KernelArgs,
    /// Also build with each choice of each tunable, one change at a time, and name the tunables
    /// that change nothing.
    #[arg(long)]
    pub variants: bool,
}

/// Arguments of `bench`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct BenchArgs {
    /// The kernel and its task.
    #[command(flatten)]
    pub kernel: KernelArgs,
    /// Also time the solutions in the task's folder `baselines`. Scripts there run as programs of
    /// the calling user.
    #[arg(long)]
    pub rivals: bool,
}

/// Arguments of `evaluate`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct EvaluateArgs {
    /// The kernel, in a git checkout, and its task.
    #[command(flatten)]
    pub kernel: KernelArgs,
    /// The reason why the kernel should be faster; it is recorded.
    #[arg(long)]
    pub hypothesis: Option<String>,
    /// Expected speedup over the best step kept so far, as a factor such as 1.2.
    #[arg(long, value_name = "FACTOR", allow_negative_numbers = true, value_parser = decimal)]
    pub expect: Option<f64>,
}

/// Arguments of `summary`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct SummaryArgs {
    /// Kernel file in a git checkout.
    pub file: PathBuf,
    /// Print one line of JSON instead of text (docs/reference/local-commands.md).
    #[arg(long)]
    pub json: bool,
    /// The data folder that holds the record.
    #[command(flatten)]
    pub folder: DataFolder,
}

/// Arguments of `iterate`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct IterateArgs {
    /// The kernel, its task and the expectation.
    #[command(flatten)]
    pub evaluate: EvaluateArgs,
    /// Run the sanitizers in every Nth step.
    #[arg(long, value_name = "N", default_value_t = 5, allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub sanitize_every: u32,
}

/// The forms of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportForm {
    /// C++ header and source with a launcher, and `CMakeLists.txt`.
    Cpp,
    /// Machine code and PTX with a plan in JSON, and loaders for Python and Rust.
    Plan,
    /// A Python module with an operator of PyTorch, and the C++ that it compiles and calls.
    Torch,
    /// A Python module with a foreign function of JAX, and the C++ of its handler.
    Jax,
    /// The operator of PyTorch in the layout of Hugging Face's kernels.
    Hub,
    /// A Solution of FlashInfer-Bench, one JSON file.
    Solution,
}

/// Arguments of `export`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ExportArgs {
    /// The kernel and its task.
    #[command(flatten)]
    pub kernel: KernelArgs,
    /// Form of the export. May be repeated: the kernel is evaluated once, and each form gets a folder of its name.
    #[arg(long = "form", value_enum, default_value = "cpp")]
    pub forms: Vec<ExportForm>,
    /// Folder to write, which must not exist.
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// Prefix of files and name of the C++ namespace. By default the task's name.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Another kernel of the task for some shapes, such as `narrow.cu@C <= 128`. It is asked before the
    /// kernel, and the baseline serves the shapes that none covers. May be repeated; form `cpp` only.
    #[arg(long, value_name = "FILE@SHAPES", value_parser = parse_other)]
    pub also: Vec<OtherKernel>,
}

/// A kernel for some shapes.
#[derive(Debug, Clone, PartialEq)]
pub struct OtherKernel {
    /// Its file.
    pub file: PathBuf,
    /// The shapes, an expression over the dims.
    pub shapes: Expr,
}

fn parse_other(text: &str) -> Result<OtherKernel, String> {
    let (file, shapes) = text
        .rsplit_once('@')
        .ok_or_else(|| format!("{text:?} is not FILE@SHAPES, such as narrow.cu@C <= 128"))?;
    let shapes =
        Expr::parse(shapes).map_err(|error| format!("read the shapes {shapes:?}: {error}"))?;
    Ok(OtherKernel {
        file: PathBuf::from(file),
        shapes,
    })
}

fn parse_setting(text: &str) -> Result<(String, i64), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("{text:?} is not NAME=VALUE, such as KV_SPLITS=16"))?;
    let value = value
        .parse()
        .map_err(|_| format!("{value:?} is not a whole number"))?;
    Ok((name.to_owned(), value))
}
