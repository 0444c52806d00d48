//! Arguments of `task init`.

use std::path::PathBuf;

use clap::Args;
use convert::init::{DimAnswer, TensorAnswer, parse_list};
use domain::expr::Expr;

/// Arguments of `task init`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct InitArgs {
    /// File with the kernel, its launch and any host code around them.
    pub file: PathBuf,
    /// Folder to write, which must not exist. By default the file's name without its ending.
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
    /// Name of the task. By default the folder's name.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Python file with the right answer: a function `reference` of arrays of `NumPy` or tensors of PyTorch, whose
    /// parameters have the names of the kernel's. It is written as `reference.cu` and kept as the second
    /// reference.
    #[arg(long, value_name = "FILE")]
    pub reference: Option<PathBuf>,
    /// Folder in which headers of the project are looked for, besides that of the file that includes them. May be
    /// repeated. They are copied into the task.
    #[arg(long = "include", value_name = "DIR")]
    pub include: Vec<PathBuf>,
    /// Type and shape of a tensor, such as `x=f16[R, C]`, or its type alone. May be repeated.
    #[arg(long = "tensor", value_name = "NAME=DTYPE[SHAPE]", value_parser = TensorAnswer::parse)]
    pub tensors: Vec<(String, TensorAnswer)>,
    /// Value of a dim in the scored case, such as `C=1024`, and after it `:fixed`, or `:min=N`,
    /// `:max=N` and `:multiple=N`. May be repeated.
    #[arg(long = "dim", value_name = "NAME=VALUE", value_parser = DimAnswer::parse)]
    pub dims: Vec<(String, DimAnswer)>,
    /// The kernel that becomes the baseline, where the file has several.
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,
    /// Blocks in x, y and z, such as `cdiv(N, 256), B`. By default as in the file's launch.
    #[arg(long, value_name = "EXPRESSIONS", value_parser = extents)]
    pub grid: Option<Extents>,
    /// Threads of a block in x, y and z. By default as in the file's launch.
    #[arg(long, value_name = "EXPRESSIONS", value_parser = extents)]
    pub block: Option<Extents>,
    /// Dynamic shared memory of a block, bytes. By default as in the file's launch.
    #[arg(long, value_name = "EXPRESSION", value_parser = expression)]
    pub shared: Option<Expr>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// One to three extents of a grid or a block.
#[derive(Debug, Clone, PartialEq)]
pub struct Extents(pub Vec<Expr>);

fn extents(text: &str) -> Result<Extents, String> {
    let extents = parse_list(text)?;
    if extents.len() > 3 {
        return Err("give at most three extents: x, y and z".to_owned());
    }
    Ok(Extents(extents))
}

fn expression(text: &str) -> Result<Expr, String> {
    Expr::parse(text).map_err(|error| error.to_string())
}
