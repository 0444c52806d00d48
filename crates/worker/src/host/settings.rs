//! The operator's settings of a machine, and the environment variables that give them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ClockPolicy, HostError};
use crate::tools::{self, Tool};

/// The variable that gives the policy for the device's clocks.
const CLOCKS: &str = "KERNELWRIGHT_CLOCKS";

/// The variable that says which files roles on the device may read.
const DEVICE_FILES: &str = "KERNELWRIGHT_DEVICE_FILES";

/// The variable that limits the data folder's size, GiB.
const DISK: &str = "KERNELWRIGHT_DISK_GIB";
/// The limit without that variable, GiB.
const DISK_GIB: u64 = 7;

/// The variable that limits the time of references in Python, seconds.
const PYTHON_SECONDS: &str = "KERNELWRIGHT_PYTHON_SECONDS";
/// The limit without that variable, seconds.
const USUAL_PYTHON_SECONDS: u64 = 120;

/// The operator's settings of a machine.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The executable that has the hidden command `role`.
    pub executable: PathBuf,
    /// The folder for builds, reference answers and scratch folders.
    pub data: PathBuf,
    /// The folder into which the set-up installs the compiler.
    pub cache: PathBuf,
    /// The compiler library or its folder; `None` to search for it.
    pub nvrtc: Option<PathBuf>,
    /// NVIDIA's disassembler; `None` to search for it.
    pub nvdisasm: Option<PathBuf>,
    /// The interpreter of references in Python; `None` for `python3` on the search path.
    pub python: Option<PathBuf>,
    /// The processor time of a reference in Python for all inputs of one question, on each of the worker's threads.
    pub python_limit: Duration,
    /// NVIDIA's compute-sanitizer; `None` to search for it.
    pub sanitizer: Option<PathBuf>,
    /// The emulated driver's library; `None` to search for it.
    pub driver: Option<PathBuf>,
    /// True to emulate even where NVIDIA's driver works.
    pub emulate: bool,
    /// The device to emulate; `None` for the one that the environment names, or else the default.
    pub emulated_device: Option<String>,
    /// True if role processes are started before there is a job for them. On a card each waiting
    /// process holds the memory of a CUDA context.
    pub spares: bool,
    /// True if role processes get namespaces and a control group where the machine grants them.
    pub walls: bool,
    /// True if roles that open a device may access any file.
    pub open_files: bool,
    /// The policy for the device's clocks while kernels are timed.
    pub clocks: ClockPolicy,
    /// The limit on builds, reference answers and evidence bundles in the data folder together,
    /// bytes.
    pub disk_bytes: u64,
    /// The compiler that made the builds which the data folder holds; with it, no compiler is
    /// looked for.
    pub prebuilt: Option<Prebuilt>,
}

/// The identity of the compiler that made the builds in a data folder. With it a machine without
/// that compiler finds these builds; it cannot make others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prebuilt {
    /// The compiler's name and version.
    pub toolchain: String,
    /// The name of the folder that holds the compiler's headers.
    pub headers: String,
}

impl Settings {
    /// Reads the settings from the environment: `KERNELWRIGHT_NVRTC`, `KERNELWRIGHT_NVDISASM`,
    /// `KERNELWRIGHT_COMPUTE_SANITIZER`, `KERNELWRIGHT_PYTHON`, `KERNELWRIGHT_PYTHON_SECONDS`, `KERNELWRIGHT_DRIVER`,
    /// `KERNELWRIGHT_CACHE`, `KERNELWRIGHT_EMULATE`, `KERNELWRIGHT_SPARES`, `KERNELWRIGHT_WALLS`,
    /// `KERNELWRIGHT_DEVICE_FILES`, `KERNELWRIGHT_DISK_GIB` and `KERNELWRIGHT_CLOCKS`.
    ///
    /// # Errors
    /// [`HostError::Executable`] if the system does not report the path of the running executable;
    /// [`HostError::Setting`] for an invalid value.
    pub fn from_environment(data: &Path) -> Result<Self, HostError> {
        let path = |name: &str| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let cache = path("KERNELWRIGHT_CACHE")
            .or_else(|| path("HOME").map(|home| home.join(".cache/kernelwright")))
            .unwrap_or_else(|| data.join("cache"));
        Ok(Self {
            executable: std::env::current_exe().map_err(HostError::Executable)?,
            data: data.to_owned(),
            cache,
            nvrtc: path("KERNELWRIGHT_NVRTC"),
            nvdisasm: path("KERNELWRIGHT_NVDISASM"),
            python: path("KERNELWRIGHT_PYTHON"),
            python_limit: python_limit(std::env::var_os(PYTHON_SECONDS))?,
            sanitizer: tools::named(Tool::Sanitizer),
            driver: path("KERNELWRIGHT_DRIVER"),
            emulate: std::env::var_os("KERNELWRIGHT_EMULATE").is_some_and(|value| value == "1"),
            emulated_device: None,
            spares: std::env::var_os("KERNELWRIGHT_SPARES").is_none_or(|value| value != "0"),
            walls: std::env::var_os("KERNELWRIGHT_WALLS").is_none_or(|value| value != "0"),
            open_files: open_files(std::env::var_os(DEVICE_FILES))?,
            clocks: std::env::var(CLOCKS)
                .map_or(Ok(ClockPolicy::Observe), |name| ClockPolicy::parse(&name))
                .map_err(|reason| HostError::Setting {
                    name: CLOCKS,
                    reason,
                })?,
            disk_bytes: disk_bytes(std::env::var_os(DISK))?,
            prebuilt: None,
        })
    }
}

/// Parses the limit on the data folder's size; bytes.
fn disk_bytes(value: Option<OsString>) -> Result<u64, HostError> {
    count(DISK, "GiB", DISK_GIB, 1 << 30, value)
}

/// Parses the limit on the time of references in Python.
fn python_limit(value: Option<OsString>) -> Result<Duration, HostError> {
    let seconds = count(PYTHON_SECONDS, "seconds", USUAL_PYTHON_SECONDS, 1, value)?;
    Ok(Duration::from_secs(seconds))
}

/// Parses a number from 1 of units, and multiplies it by the size of a unit.
fn count(
    name: &'static str,
    unit: &str,
    usual: u64,
    size: u64,
    value: Option<OsString>,
) -> Result<u64, HostError> {
    let number = match value.as_ref().and_then(|value| value.to_str()) {
        None if value.is_none() => Some(usual),
        Some("") => Some(usual),
        text => text.and_then(|text| text.parse().ok()),
    };
    let product = number.and_then(|number: u64| number.checked_mul(size));
    product
        .filter(|product| *product > 0)
        .ok_or_else(|| HostError::Setting {
            name,
            reason: format!(
                "{:?} is no number of {unit} from 1",
                value.unwrap_or_default()
            ),
        })
}

fn open_files(value: Option<OsString>) -> Result<bool, HostError> {
    match value.as_ref().and_then(|value| value.to_str()) {
        None if value.is_none() => Ok(false),
        Some("" | "restricted") => Ok(false),
        Some("open") => Ok(true),
        _ => Err(HostError::Setting {
            name: DEVICE_FILES,
            reason: format!(
                "{:?} is not known: say \"restricted\" or \"open\"",
                value.unwrap_or_default()
            ),
        }),
    }
}
