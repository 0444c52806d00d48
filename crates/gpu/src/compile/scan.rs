//! What an image holds besides honest arithmetic: variables that outlive a launch, symbols that
//! somebody else must supply, and instructions that look at clocks, caches or their own place.
//!
//! The machine code says what is there (sections and symbols); the PTX of the same compilation
//! says how it is used and on which line. Comments and macros are gone by then, so that nothing
//! can be hidden from it the way it can from a look at the source. What is allowed is the
//! policy's business.

mod elf;
mod ptx;

use std::collections::BTreeSet;

use domain::digest::Digest;
use domain::role::{Contents, Variable, VariableSpace};

use crate::cubin::Cubin;
pub use ptx::source_line;

/// Uses kept of each feature: one is enough to refuse, a few help to find them.
const MAX_USES: usize = 8;
/// Variables and foreign symbols kept, for the same reason.
const MAX_NAMES: usize = 64;

/// What a compilation produced, looked through.
#[derive(Debug, PartialEq)]
pub struct Scan {
    /// What the policy judges.
    pub contents: Contents,
    /// Digest of what executes: code, constants and resource notes, but neither names of files nor
    /// lines. Equal for sources that differ only in layout, comments or dead code, wherever they
    /// were compiled.
    pub code_digest: Digest,
}

/// The candidate's source.
#[derive(Debug, Clone, Copy)]
pub struct SourceFile<'a> {
    /// Name of its file, as the compiler was told it.
    pub name: &'a str,
    /// Its text.
    pub text: &'a str,
}

/// Reason why a compilation's products cannot be scanned.
#[derive(Debug, PartialEq, Eq)]
pub enum ScanError {
    /// The machine code is not in the form that the compiler makes.
    MachineCode,
    /// The PTX holds something that this program could read in another way than the assembler. The
    /// text says what.
    Ptx(String),
}

/// Looks through machine code and the PTX it was assembled from.
///
/// # Errors
/// [`ScanError`] for either of them.
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
    // Variables that are never written are no news unless they are large: those go first.
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
