//! A task's definition and files, for people who read them.

use domain::api::TaskDefinition;
use domain::task::Task;

use crate::{Engine, EngineError};

impl Engine {
    /// The definition of the newest task of a name; none if there is no such task.
    ///
    /// # Errors
    /// The stored files are no task any more, or the database fails.
    pub async fn task_definition(&self, name: &str) -> Result<Option<TaskDefinition>, EngineError> {
        let Some(stored) = self.store.task(name).await? else {
            return Ok(None);
        };
        let task = Task::load(&stored.bundle).map_err(EngineError::Task)?;
        Ok(Some(TaskDefinition::of(stored.view, &task, &stored.bundle)))
    }
}
