//! What an operator decides about a machine, and where the environment says so.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{ClockPolicy, HostError};
use crate::tools::{self, Tool};

/// The variable with the operator's choice about clocks.
const CLOCKS: &str = "KERNELWRIGHT_CLOCKS";

/// The variable with the operator's choice about files.
const DEVICE_FILES: &str = "KERNELWRIGHT_DEVICE_FILES";

/// The variable with the operator's bound on disk space, GiB.
const DISK: &str = "KERNELWRIGHT_DISK_GIB";
/// The bound without that variable, GiB.
const DISK_GIB: u64 = 7;

/// What an operator may decide.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The program with the hidden command `role`.
    pub executable: PathBuf,
    /// Where builds, reference answers and scratch folders go.
    pub data: PathBuf,
    /// Where the set-up installs the compiler.
    pub cache: PathBuf,
    /// The compiler library or its folder.
    pub nvrtc: Option<PathBuf>,
    /// NVIDIA's disassembler.
    pub nvdisasm: Option<PathBuf>,
    /// NVIDIA's compute-sanitizer.
    pub sanitizer: Option<PathBuf>,
    /// The emulated driver's library.
    pub driver: Option<PathBuf>,
    /// Whether to emulate even where NVIDIA's driver works.
    pub emulate: bool,
    /// Which device to emulate; none is what the environment says, or the usual one.
    pub emulated_device: Option<String>,
    /// Whether processes are started before there is anything for them to do. On a card each holds
    /// a context's memory while it waits.
    pub spares: bool,
    /// Whether walls are put around role processes where the machine grants them.
    pub walls: bool,
    /// Whether roles that open a device may reach any file.
    pub open_files: bool,
    /// What is done about the device's clocks while times are taken.
    pub clocks: ClockPolicy,
    /// Bytes that builds, reference answers and evidence bundles may take in the data folder together.
    pub disk_bytes: u64,
    /// The builds that the data folder holds already, where no compiler is to be looked for.
    pub prebuilt: Option<Prebuilt>,
}

/// Which compiler made the builds in a data folder. With it a machine without that compiler finds
/// them, and can make no others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prebuilt {
    /// The compiler with its version.
    pub toolchain: String,
    /// The name of the folder of its headers.
    pub headers: String,
}

impl Settings {
    /// The settings that the environment gives: `KERNELWRIGHT_NVRTC`, `KERNELWRIGHT_NVDISASM`,
    /// `KERNELWRIGHT_COMPUTE_SANITIZER`, `KERNELWRIGHT_DRIVER`, `KERNELWRIGHT_CACHE`,
    /// `KERNELWRIGHT_EMULATE`, `KERNELWRIGHT_SPARES`, `KERNELWRIGHT_WALLS`,
    /// `KERNELWRIGHT_DEVICE_FILES`, `KERNELWRIGHT_DISK_GIB` and `KERNELWRIGHT_CLOCKS`.
    ///
    /// # Errors
    /// [`HostError::Executable`] if the system does not say which program this is; [`HostError::Setting`] for
    /// a value that means nothing.
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

/// The bound on disk space, bytes.
fn disk_bytes(value: Option<OsString>) -> Result<u64, HostError> {
    let gib = match value.as_ref().and_then(|value| value.to_str()) {
        None if value.is_none() => Some(DISK_GIB),
        Some("") => Some(DISK_GIB),
        text => text.and_then(|text| text.parse().ok()),
    };
    let bytes = gib.and_then(|gib: u64| gib.checked_mul(1 << 30));
    bytes
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| HostError::Setting {
            name: DISK,
            reason: format!("{:?} is no number of GiB from 1", value.unwrap_or_default()),
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
