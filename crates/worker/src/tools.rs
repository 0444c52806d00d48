//! The search for NVIDIA's profiler and sanitizer on this machine. Both come with a CUDA toolkit
//! and are not part of the product; commands that need them report their absence.

use std::path::{Path, PathBuf};

/// A program of the CUDA toolkit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Nsight Compute.
    Profiler,
    /// compute-sanitizer.
    Sanitizer,
}

impl Tool {
    /// Its file name.
    pub fn program(self) -> &'static str {
        match self {
            Self::Profiler => "ncu",
            Self::Sanitizer => "compute-sanitizer",
        }
    }

    /// The environment variable that may give its path.
    pub fn variable(self) -> &'static str {
        match self {
            Self::Profiler => "KERNELWRIGHT_NCU",
            Self::Sanitizer => "KERNELWRIGHT_COMPUTE_SANITIZER",
        }
    }

    /// Folders of usual installations, searched after the search path.
    fn folders(self) -> Vec<PathBuf> {
        let mut folders = vec![PathBuf::from("/usr/local/cuda/bin")];
        if self == Self::Profiler {
            let mut versions = std::fs::read_dir("/opt/nvidia/nsight-compute")
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.path())
                .collect::<Vec<_>>();
            versions.sort();
            folders.extend(versions.into_iter().rev());
        }
        folders
    }
}

/// Finds the tool: as the environment names it, else on the search path, else in the folders of
/// usual installations.
///
/// # Errors
/// One sentence that says where it was looked for and how to name it.
pub fn find(tool: Tool) -> Result<PathBuf, String> {
    find_named(tool, named(tool).as_deref())
}

/// The path that the environment gives.
pub fn named(tool: Tool) -> Option<PathBuf> {
    let named = std::env::var_os(tool.variable());
    named.filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Finds the tool like [`find`], with a path that may come from another source than the
/// environment.
///
/// # Errors
/// As of [`find`].
pub fn find_named(tool: Tool, named: Option<&Path>) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(tool.folders());
    find_in(tool, named, &folders.collect::<Vec<_>>())
}

fn find_in(tool: Tool, named: Option<&Path>, folders: &[PathBuf]) -> Result<PathBuf, String> {
    let (program, variable) = (tool.program(), tool.variable());
    if let Some(named) = named {
        return named
            .canonicalize()
            .map_err(|error| format!("{variable} names {}: {error}", named.display()));
    }
    let found = folders
        .iter()
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file());
    found.ok_or_else(|| {
        format!(
            "{program} is not on this machine: install the CUDA toolkit's, or name it in {variable}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_tool_comes_before_the_folders_and_a_wrong_name_is_reported() {
        let root = tempfile::tempdir().unwrap();
        let (first, second) = (root.path().join("first"), root.path().join("second"));
        for folder in [&first, &second] {
            std::fs::create_dir(folder).unwrap();
        }
        std::fs::write(second.join("ncu"), "").unwrap();
        let folders = [first.clone(), second.clone()];
        assert_eq!(
            find_in(Tool::Profiler, None, &folders),
            Ok(second.join("ncu"))
        );
        std::fs::write(first.join("own"), "").unwrap();
        let own = first.join("own").canonicalize().unwrap();
        assert_eq!(find_in(Tool::Profiler, Some(&own), &folders), Ok(own));
        let wrong = find_in(Tool::Profiler, Some(&first.join("none")), &folders).unwrap_err();
        assert!(wrong.contains("KERNELWRIGHT_NCU"), "{wrong}");
        let missing = find_in(Tool::Sanitizer, None, &folders).unwrap_err();
        assert!(
            missing.contains("KERNELWRIGHT_COMPUTE_SANITIZER"),
            "{missing}"
        );
    }
}
