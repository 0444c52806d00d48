//! The contents of an image besides arithmetic: variables that outlive a launch, symbols that another module must
//! define, and instructions that read clocks, control caches or read the placement of their block.
//!
//! The sections and symbols of the machine code list the contents; the PTX of the same compilation shows how they are
//! used and on which source line. Comments and macros are not in the PTX any more, so they cannot hide anything,
//! unlike in the source. The policy decides what is allowed.

mod elf;
mod ptx;

use std::collections::BTreeSet;

use domain::digest::Digest;
use domain::role::{Contents, Variable, VariableSpace};

use crate::cubin::Cubin;
pub use ptx::source_line;

/// Most uses kept of each feature: one is enough to refuse, a few help to find them.
const MAX_USES: usize = 8;
/// Most variables and undefined symbols kept, for the same reason.
const MAX_NAMES: usize = 64;

/// The result of scanning a compilation.
#[derive(Debug, PartialEq)]
pub struct Scan {
    /// The contents that the policy judges.
    pub contents: Contents,
    /// Digest of the executed parts: code, constants and resource notes, but neither file names nor lines. It is
    /// equal for sources that differ only in layout, comments or dead code, wherever they were compiled.
    pub code_digest: Digest,
}

/// The candidate's source.
#[derive(Debug, Clone, Copy)]
pub struct SourceFile<'a> {
    /// Name of its file, as passed to the compiler.
    pub name: &'a str,
    /// Its text.
    pub text: &'a str,
}

/// The reason why the outputs of a compilation cannot be scanned.
#[derive(Debug, PartialEq, Eq)]
pub enum ScanError {
    /// The machine code is not in the form that the compiler produces.
    MachineCode,
    /// The PTX contains something that this program could read in another way than the assembler. The text describes
    /// it.
    Ptx(String),
}

/// Scans machine code and the PTX that it was assembled from.
///
/// # Errors
/// [`ScanError`] for either input.
pub fn scan(
    image: &[u8],
    cubin: &Cubin,
    ptx: &str,
    source: SourceFile<'_>,
) -> Result<Scan, ScanError> {
    let image = elf::read(image).ok_or(ScanError::MachineCode)?;
    let text = ptx::read(ptx, source).map_err(ScanError::Ptx)?;
    let mut variables: Vec<Variable> = image
        .variables
        .into_iter()
        .map(|variable| Variable {
            written: variable.space == VariableSpace::Global && text.may_write(&variable.name),
            managed: text.managed.contains(&variable.name),
            ..variable
        })
        .collect();
    // Sorted by importance: variables that are never written matter only if they are large, so they are dropped
    // first.
    variables.sort_by_key(|variable| {
        (
            !variable.managed,
            !variable.written,
            std::cmp::Reverse(variable.bytes),
        )
    });
    let constant_bytes = variables
        .iter()
        .filter(|variable| variable.initialised && !variable.written)
        .map(|variable| variable.bytes)
        .sum();
    variables.truncate(MAX_NAMES);
    let mut uses = Vec::new();
    let mut count = std::collections::BTreeMap::new();
    for found in text.uses {
        let seen: &mut usize = count.entry(found.feature).or_default();
        if *seen < MAX_USES && !uses.contains(&found) {
            *seen += 1;
            uses.push(found);
        }
    }
    let externals: BTreeSet<String> = image.undefined.into_iter().chain(text.externals).collect();
    Ok(Scan {
        contents: Contents {
            variables,
            constant_bytes,
            externals: externals.into_iter().take(MAX_NAMES).collect(),
            uses,
            entries: cubin
                .kernels
                .iter()
                .map(|kernel| kernel.kernel.clone())
                .collect(),
        },
        code_digest: image.code_digest,
    })
}
