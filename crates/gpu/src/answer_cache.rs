//! The answers of references on disk: a folder for each set of inputs, a file for each tensor.
//!
//! A file's content is sealed ([`tensors::answer`]), so that damage is found; forgery is not, because no candidate's
//! process may write here. It is renamed into place as a whole, so that a process that dies leaves no partial file.

use std::fs;
use std::path::Path;

use tensors::answer;

use crate::role_error::RoleError;

/// The file of an output's answer.
pub fn answer_file(tensor: &str) -> String {
    format!("{tensor}.answer")
}

/// The file of an output's error scale.
pub(crate) fn scale_file(tensor: &str) -> String {
    format!("{tensor}.scale")
}

/// Writes a cache file atomically, with the checksum of its content at the start.
pub(crate) fn write_cached(folder: &Path, name: &str, content: &[u8]) -> Result<(), RoleError> {
    let path = folder.join(name);
    let partial = folder.join(format!("{name}.{}.partial", std::process::id()));
    fs::write(&partial, answer::seal(content)).map_err(RoleError::file("write", &partial))?;
    fs::rename(&partial, &path).map_err(RoleError::file("move into place", &path))
}

/// Reads a cache file of `elements` binary64 values; none if it is absent, damaged or of another size.
pub fn read_cached(folder: &Path, name: &str, elements: u64) -> Option<Vec<f64>> {
    answer::unseal(&fs::read(folder.join(name)).ok()?, elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_or_shorter_file_is_no_answer() {
        let folder = tempfile::tempdir().unwrap();
        let content = [1.5_f64, -2.0].map(f64::to_le_bytes).concat();
        write_cached(folder.path(), "y.answer", &content).unwrap();
        let read = |elements| read_cached(folder.path(), "y.answer", elements);
        assert_eq!(read(2), Some(vec![1.5, -2.0]));
        assert_eq!(read(1), None);
        assert_eq!(read_cached(folder.path(), "z.answer", 2), None);

        let path = folder.path().join("y.answer");
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert_eq!(read(2), None);
        fs::write(&path, &bytes[..5]).unwrap();
        assert_eq!(read(2), None);
    }
}
