//! The answers of references on disk: a folder for each set of inputs, a file for each tensor.
//!
//! A file is renamed into place as a whole, so that a process that dies leaves no partial file.

use std::fs;
use std::path::Path;

use domain::digest::Digest;
use domain::dtype::Dtype;

use tensors::inputs;

use crate::role_error::RoleError;

/// The file of an output's answer.
pub(crate) fn answer_file(tensor: &str) -> String {
    format!("{tensor}.answer")
}

/// The file of an output's error scale.
pub(crate) fn scale_file(tensor: &str) -> String {
    format!("{tensor}.scale")
}

/// Writes a cache file atomically, with the digest of its content at the start.
pub(crate) fn write_cached(folder: &Path, name: &str, content: &[u8]) -> Result<(), RoleError> {
    let path = folder.join(name);
    let partial = folder.join(format!("{name}.{}.partial", std::process::id()));
    let sealed = [Digest::of(content).bytes().as_slice(), content].concat();
    fs::write(&partial, sealed).map_err(RoleError::file("write", &partial))?;
    fs::rename(&partial, &path).map_err(RoleError::file("move into place", &path))
}

/// Reads a cache file of binary64 values; none if it is absent, damaged or of another size.
pub(crate) fn read_cached(folder: &Path, name: &str, elements: u64) -> Option<Vec<f64>> {
    let sealed = fs::read(folder.join(name)).ok()?;
    let (digest, content) = sealed.split_at_checked(32)?;
    let whole = Digest::of(content).bytes().as_slice() == digest
        && content.len() as u64 == elements * Dtype::F64.bytes();
    whole.then(|| inputs::decode(Dtype::F64, content))
}
