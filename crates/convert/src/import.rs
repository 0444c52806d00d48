//! New task folders from problems of other projects.
//!
//! The Python of a problem is read and not run (`crate::python`): its graph becomes a reference in `f64`, a second one
//! that sums in the opposite order, and a plain baseline in `f32`. What the graph cannot express is refused with its
//! line. A script of Kernel Tuner brings its own kernel, which becomes the baseline.

mod definition;
mod gpu_mode;
mod kernel_tuner;
mod kernelbench;
mod task;
mod yaml;

use std::collections::BTreeMap;

pub use definition::{definition_name, import_definition};
pub use gpu_mode::{gpu_mode_reference, import_gpu_mode};
pub use kernel_tuner::import_kernel_tuner;
pub use kernelbench::import_kernelbench;

/// The files of an imported task.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// Its name.
    pub name: String,
    /// Texts by path in the task folder.
    pub files: BTreeMap<String, String>,
    /// Differences from the source, a sentence each.
    pub notes: Vec<String>,
}
