//! NVIDIA's tools on this machine. They are found by file name and not started.

use std::fmt;
use std::path::{Path, PathBuf};

/// The tools that a verb may use, and what for.
const TOOLS: [(&str, &str); 6] = [
    ("nvidia-smi", "clocks and temperature"),
    ("ncu", "counters"),
    ("nsys", "time lines"),
    ("compute-sanitizer", "sanitizers"),
    ("cuobjdump", "machine code"),
    ("nvdisasm", "machine code"),
];
/// Folders of installations, searched besides `PATH`.
const FOLDERS: [&str; 4] = [
    "/usr/local/cuda/bin",
    "/usr/local/cuda/compute-sanitizer",
    "/opt/nvidia/nsight-compute",
    "/opt/nvidia/nsight-systems/bin",
];
/// Says whether only the administrator may read counters.
const PARAMETERS: &str = "/proc/driver/nvidia/params";

/// A tool, or a right.
pub(super) struct Tool {
    name: &'static str,
    found: Option<String>,
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.found.as_deref().unwrap_or("not found");
        write!(f, "{}: {found}", self.name)
    }
}

/// Looks for all of them.
pub(super) fn find_tools() -> Vec<Tool> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path)
        .chain(FOLDERS.map(PathBuf::from))
        .chain(below(Path::new("/opt/nvidia/nsight-compute")))
        .collect();
    let mut tools: Vec<Tool> = TOOLS
        .iter()
        .map(|(name, _)| Tool {
            name,
            found: folders
                .iter()
                .map(|folder| folder.join(name))
                .find(|file| file.is_file())
                .map(|file| file.display().to_string()),
        })
        .collect();
    tools.push(Tool {
        name: "counters for everybody",
        found: std::fs::read_to_string(PARAMETERS)
            .ok()
            .and_then(|text| counters(&text)),
    });
    tools
}

/// The checks that the available tools allow.
pub(super) fn conclusion(tools: &[Tool]) -> String {
    let missing: Vec<&str> = TOOLS
        .iter()
        .filter(|(name, _)| {
            let tool = tools.iter().find(|tool| tool.name == *name);
            tool.is_none_or(|tool| tool.found.is_none())
        })
        .map(|(name, _)| *name)
        .collect();
    if missing.is_empty() {
        "every tool is here".to_owned()
    } else {
        format!(
            "{} missing: what needs them is reported as not run, never as passed",
            missing.join(", ")
        )
    }
}

/// The driver's word on who may read counters.
fn counters(parameters: &str) -> Option<String> {
    let line = parameters
        .lines()
        .find_map(|line| line.strip_prefix("RmProfilingAdminOnly:"))?;
    Some(match line.trim() {
        "0" => "yes".to_owned(),
        _ => "no, only for the administrator (NVreg_RestrictProfilingToAdminUsers=0 opens them)"
            .to_owned(),
    })
}

fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drivers_parameters_say_who_may_count() {
        let yes = counters("Mobile: 4294967295\nRmProfilingAdminOnly: 0\n");
        assert_eq!(yes.as_deref(), Some("yes"));
        let no = counters("RmProfilingAdminOnly: 1\n").unwrap();
        assert!(no.starts_with("no"), "{no}");
        assert_eq!(counters("Mobile: 1\n"), None);
    }

    #[test]
    fn what_is_missing_is_named() {
        let none: Vec<Tool> = Vec::new();
        assert!(conclusion(&none).contains("compute-sanitizer"));
    }
}
