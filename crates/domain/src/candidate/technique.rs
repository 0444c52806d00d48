//! The technique of a kernel, found by the words of its code.

use serde::{Deserialize, Serialize};

use super::normalized::normalized;

/// The most specialised hardware feature that a kernel's code names. A kernel that names several has the
/// first of this list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Technique {
    /// Matrix instructions.
    TensorCores,
    /// Copies into shared memory that go on while the kernel computes.
    AsyncCopies,
    /// Memory that the threads of a block share.
    SharedMemory,
    /// Exchange of registers within a warp.
    WarpExchange,
    /// None of these: each thread works alone.
    Threads,
}

/// Words with which an identifier or an instruction begins, and the technique that they show.
const SIGNS: [(&str, Technique); 12] = [
    ("mma", Technique::TensorCores),
    ("wmma", Technique::TensorCores),
    ("wgmma", Technique::TensorCores),
    ("ldmatrix", Technique::TensorCores),
    ("cp.async", Technique::AsyncCopies),
    ("memcpy_async", Technique::AsyncCopies),
    ("__pipeline_memcpy_async", Technique::AsyncCopies),
    ("__shared__", Technique::SharedMemory),
    ("__shfl", Technique::WarpExchange),
    ("__reduce", Technique::WarpExchange),
    ("__ballot", Technique::WarpExchange),
    ("shfl.sync", Technique::WarpExchange),
];

impl Technique {
    /// The technique of a candidate's text. Comments do not count, the front matter neither.
    pub fn of(text: &str) -> Self {
        let normalized = normalized(text);
        let code = normalized.as_deref().unwrap_or(text);
        let is_apart = |character: char| {
            !(character.is_ascii_alphanumeric() || character == '_' || character == '.')
        };
        let words = code.split(is_apart).filter(|word| !word.is_empty());
        let shown = words.flat_map(|word| {
            let signs = SIGNS.iter().filter(|(sign, _)| word.starts_with(sign));
            signs.map(|(_, technique)| *technique)
        });
        shown.min().unwrap_or(Self::Threads)
    }
}
