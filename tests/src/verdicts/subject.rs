//! The tasks of `tests/verdict-rates` with the accepted kernels that are changed.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use domain::task::{Bundle, Task};

use super::oracle::Questions;

/// Folders of tasks, each with the folder that has its references.
const TASKS: [(&str, &str); 7] = [
    ("mean-f32", "tests/honest/mean-f32"),
    ("softmax-f32", "kernels/softmax-f32"),
    ("layernorm-f32", "tests/verdict-rates/layernorm-f32"),
    ("transpose-f32", "tests/verdict-rates/transpose-f32"),
    ("gemm-f32", "tests/verdict-rates/gemm-f32"),
    ("scan-i8", "tests/verdict-rates/scan-i8"),
    ("histogram-i32", "tests/verdict-rates/histogram-i32"),
];

/// One task and its accepted kernels.
#[derive(Debug)]
pub struct Subject {
    /// Name of its folder.
    pub name: &'static str,
    /// Its files, for the evaluator.
    pub bundle: Bundle,
    /// The same, parsed.
    pub task: Task,
    /// Accepted kernels with the markers of sites, by file name.
    pub kernels: BTreeMap<String, String>,
    /// The inputs and answers that the oracle drew so far.
    pub questions: Questions,
}

impl Subject {
    /// Reads one task.
    fn read(name: &'static str, references: &str) -> Result<Self> {
        let root = crate::repository();
        let folder = root.join("tests/verdict-rates").join(name);
        let read = |path: &Path| {
            std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
        };
        let mut files = BTreeMap::new();
        for (file, folder) in [
            ("task.toml", folder.clone()),
            ("baseline.cu", folder.clone()),
            ("reference.cu", root.join(references)),
            ("check.cu", root.join(references)),
        ] {
            files.insert(file.to_owned(), read(&folder.join(file))?);
        }
        let bundle = Bundle { files };
        let task =
            Task::load(&bundle).map_err(|problems| anyhow!("read the task {name}: {problems}"))?;
        let mut kernels = BTreeMap::new();
        for entry in std::fs::read_dir(folder.join("kernels"))? {
            let path = entry?.path();
            let file = path
                .file_name()
                .and_then(|file| file.to_str())
                .context("a UTF-8 name")?;
            kernels.insert(file.to_owned(), read(&path)?);
        }
        Ok(Self {
            name,
            bundle,
            task,
            kernels,
            questions: Questions::default(),
        })
    }
}

/// Reads all tasks.
///
/// # Errors
/// If a file is missing or a task is refused.
pub fn subjects() -> Result<Vec<Subject>> {
    TASKS
        .into_iter()
        .map(|(name, references)| Subject::read(name, references))
        .collect()
}
