//! The part of a task that an outside proposer may read.
//!
//! `task.toml` is left out because it has the cases that only a confirmation uses, and the playbook
//! because its steps are answers: a proposer's record would count them as its own.

use domain::api::{RunView, TaskDefinition};

use crate::client::{Client, ClientError};

/// Files that proposers may read, besides the headers in `include/`.
const SHOWN: [&str; 4] = ["reference.cu", "baseline.cu", "context.md", "insights.md"];

/// The defects of a request for a task's files.
#[derive(Debug, thiserror::Error)]
pub enum TaskFileError {
    /// The request failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A newer version was uploaded since the run began.
    #[error(
        "read the task {0:?} of the run: another version was uploaded after the run began, and only the newest is served; use the run's brief, which has all that a candidate depends on"
    )]
    OtherVersion(String),
    /// No such file is shown.
    #[error("read {path:?} of the task {task:?}: proposers may read {shown}")]
    NotShown {
        /// The task.
        task: String,
        /// The file.
        path: String,
        /// The files that are shown.
        shown: String,
    },
}

/// The task of a run, as far as a proposer may read it.
#[derive(Debug)]
pub struct ShownTask {
    definition: TaskDefinition,
}

impl ShownTask {
    /// Reads the definition of a run's task.
    ///
    /// # Errors
    /// [`TaskFileError::Client`] or [`TaskFileError::OtherVersion`].
    pub async fn of(client: &Client, run: &RunView) -> Result<Self, TaskFileError> {
        let definition = client.definition(&run.task).await?;
        if definition.view.version != run.task_version {
            return Err(TaskFileError::OtherVersion(run.task.clone()));
        }
        Ok(Self { definition })
    }

    /// Paths of the files that are shown, with their lengths in bytes.
    pub fn files(&self) -> Vec<(&str, u64)> {
        let files = self.definition.files.iter();
        files
            .filter(|file| SHOWN.contains(&file.path.as_str()) || file.path.starts_with("include/"))
            .map(|file| (file.path.as_str(), file.bytes))
            .collect()
    }

    /// The text of one of these files.
    ///
    /// # Errors
    /// [`TaskFileError::NotShown`] or [`TaskFileError::Client`].
    pub async fn text(&self, client: &Client, path: &str) -> Result<String, TaskFileError> {
        let files = self.files();
        if !files.iter().any(|(name, _)| *name == path) {
            let names: Vec<_> = files.iter().map(|(name, _)| *name).collect();
            return Err(TaskFileError::NotShown {
                task: self.definition.view.name.clone(),
                path: path.to_owned(),
                shown: names.join(", "),
            });
        }
        Ok(client.task_file(&self.definition.view.name, path).await?)
    }
}
