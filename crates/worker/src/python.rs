//! The Python interpreter that computes a task's reference.
//!
//! The interpreter is asked once for its files and versions, without a line of the task's. The role `python` then runs
//! it confined to these files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use domain::role::Interpreter;
use serde::Deserialize;

/// Prints the interpreter's program, folders and versions as JSON. Imports neither `NumPy` nor PyTorch.
const DESCRIBE: &str = r#"
import importlib.metadata, json, os, sys
versions = {"python": sys.version}
for package in ("numpy", "torch"):
    try:
        versions[package] = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        pass
prefixes = {sys.prefix, sys.base_prefix}
folders = [path for path in sys.path if path and os.path.exists(path)]
files = [os.path.join(prefix, name) for prefix in prefixes for name in ("pyvenv.cfg", "lib", "bin")]
program = os.path.realpath(sys.executable)
print(json.dumps({
    "program": sys.executable,
    "readable": [path for path in [program, *folders, *files] if os.path.exists(path)],
    "module_folders": folders,
    "versions": versions,
}))
"#;

#[derive(Deserialize)]
struct Description {
    program: PathBuf,
    readable: Vec<PathBuf>,
    module_folders: Vec<PathBuf>,
    versions: BTreeMap<String, String>,
}

/// Finds the interpreter: the one that the settings name, or else `python3` on this process's search path.
///
/// # Errors
/// A sentence that says what is missing and how to install it.
pub fn find(named: Option<&Path>) -> Result<Interpreter, String> {
    let program = match named {
        Some(program) => program.to_owned(),
        None => crate::rivals::python()?,
    };
    let failed = |reason: &str| {
        format!(
            "{} does not start: {reason}; install Python 3.8 or newer, or name it in KERNELWRIGHT_PYTHON",
            program.display()
        )
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "it runs a constant program of this module, and nothing of a task"
    )]
    let output = Command::new(&program)
        .args(["-s", "-c", DESCRIBE])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(&error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(said.lines().last().unwrap_or("it says nothing")));
    }
    let found: Description =
        serde_json::from_slice(&output.stdout).map_err(|error| failed(&error.to_string()))?;
    if !found.versions.contains_key("numpy") {
        let program = found.program.display();
        return Err(format!(
            "NumPy is not installed for {program}: {program} -m pip install numpy, or name another interpreter in KERNELWRIGHT_PYTHON"
        ));
    }
    Ok(Interpreter {
        executable: found.program,
        readable: found.readable,
        module_folders: found.module_folders,
        versions: found.versions,
    })
}
