//! New task folders from problems of other projects.
//!
//! The Python of a problem is read and not run: its operations on tensors become a graph, and the graph becomes a
//! reference in `f64` with the scale of its errors, a second one that sums in the opposite order, and a plain
//! baseline in `f32`. What the graph cannot express is refused with its line. A script of Kernel Tuner brings its own
//! kernel, which becomes the baseline.

mod arguments;
mod call;
mod contract;
mod definition;
mod emit;
mod expression;
mod functions;
mod gpu_mode;
mod graph;
mod interpret;
mod kernel_tuner;
mod kernelbench;
mod layers;
mod number;
mod numpy;
mod operations;
mod rearrange;
mod reduce;
mod storage;
mod task;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};

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

/// Returns true if a name means something else in the kernels that an import writes.
fn is_reserved(name: &str) -> bool {
    let numbered = name.len() > 1
        && name.starts_with(['i', 'j', 'k', 'v', 'e'])
        && name[1..].chars().all(|c| c.is_ascii_digit());
    let word = [
        "element", "real_t", "SM_COUNT", "double", "float", "int", "long", "const", "if", "for",
    ];
    numbered || word.contains(&name) || name.starts_with("step")
}

/// A name that nothing else has.
fn unused_name(name: &str, taken: &BTreeSet<String>) -> String {
    let mut name = name.to_owned();
    while taken.contains(&name) || is_reserved(&name) {
        name.push('_');
    }
    name
}
