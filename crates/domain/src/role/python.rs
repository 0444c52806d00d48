//! Answers of a reference that is written in Python.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::TensorData;

/// Computes a Python reference's answers to some inputs. Runs no candidate code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PythonJob {
    /// The interpreter.
    pub interpreter: Interpreter,
    /// The text of `reference.py`.
    pub source: String,
    /// One entry for each set of inputs.
    pub calls: Vec<PythonCall>,
    /// True if every answer is computed twice and must have the same bytes both times.
    pub twice: bool,
}

/// A Python interpreter of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interpreter {
    /// The program. In a virtual environment it is a link, from which Python finds its modules.
    pub executable: PathBuf,
    /// The files and folders that it reads while it starts and imports modules.
    pub readable: Vec<PathBuf>,
    /// The folders of its modules, in the order in which it searches them.
    pub module_folders: Vec<PathBuf>,
    /// Its version and the versions of `NumPy` and PyTorch, where they are installed. Answers of
    /// different versions are kept apart.
    pub versions: BTreeMap<String, String>,
}

/// One set of inputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PythonCall {
    /// The case, for messages.
    pub case: String,
    /// The value of every dim of the task.
    pub dims: BTreeMap<String, i64>,
    /// The value of every scalar of the task.
    pub scalars: BTreeMap<String, f64>,
    /// The tensors, with the same keys as in the execution.
    pub tensors: Vec<TensorData>,
    /// Folder where the answers are kept and looked for.
    pub cache: PathBuf,
}

/// The outcome of a [`PythonJob`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PythonReply {
    /// Every answer is in the folder that its call names.
    Answered,
    /// The reference gives no answer.
    Failed {
        /// The defect, its place and its remedy.
        reason: String,
    },
}
