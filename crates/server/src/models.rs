//! The models file: its place, and reading it.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use engine::llm::Models;
use rand::TryRng as _;
use rand::rngs::SysRng;

use crate::cli::ModelsFile;
use crate::outcome::Failure;

/// The file's name wherever it is looked for.
const NAME: &str = "models.toml";

/// The file that names the models: the one that was asked for, else `models.toml` in the data
/// folder, else the one in the current folder; none where there is no such file.
pub fn find(asked: Option<&Path>, data: &Path) -> Option<PathBuf> {
    match asked {
        Some(path) => Some(path.to_owned()),
        None => places(data).into_iter().find(|path| path.is_file()),
    }
}

/// Paths at which the file is searched: in the data folder, then in the current folder.
fn places(data: &Path) -> [PathBuf; 2] {
    [data.join(NAME), PathBuf::from(NAME)]
}

/// The models that may be asked; none while no file names any. The file is read again when it
/// changes.
///
/// # Errors
/// The file has defects; a failure of the input.
pub fn open(file: &ModelsFile) -> Result<Models, Failure> {
    let seed = SysRng
        .try_next_u64()
        .context("draw random numbers")
        .map_err(Failure::infrastructure)?;
    let models = match &file.models {
        Some(path) => Models::read(path, seed),
        None => Models::find(places(&file.folder.data).to_vec(), seed),
    };
    models.map_err(|problems| {
        Failure::input(anyhow::Error::new(problems).context("read the file of models"))
    })
}
