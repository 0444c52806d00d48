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
        None => [data.join(NAME), PathBuf::from(NAME)]
            .into_iter()
            .find(|path| path.is_file()),
    }
}

/// The models that may be asked; none where no file names any.
///
/// # Errors
/// The file has defects, which are the caller's to mend.
pub fn open(file: &ModelsFile) -> Result<Models, Failure> {
    let Some(path) = find(file.models.as_deref(), &file.folder.data) else {
        return Ok(Models::none());
    };
    let seed = SysRng
        .try_next_u64()
        .context("draw random numbers")
        .map_err(Failure::infrastructure)?;
    Models::read(&path, seed).map_err(|problems| {
        Failure::input(anyhow::Error::new(problems).context("read the file of models"))
    })
}
