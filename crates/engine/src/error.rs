//! Errors of the engine: wrong input, a wrong moment, and internal failures.

use domain::problem::Problems;
use store::StoreError;

use crate::prompt::PromptError;

/// An error of the engine. Messages read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The records.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The input is wrong.
    #[error("accept the input: {0}")]
    Invalid(Problems),
    /// A stored task no longer reads.
    #[error("read a stored task: {0}")]
    Task(Problems),
    /// A git operation did not come to its end; it is tried again.
    #[error("finish a git operation")]
    Interrupted(#[source] tokio::task::JoinError),
    /// A prompt cannot be written.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// Not now.
    #[error("{why}")]
    Refused {
        /// The request, and the reason why it is refused.
        why: String,
    },
}
