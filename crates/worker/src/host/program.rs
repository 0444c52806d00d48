//! The program of a role process: its loader path with driver and compiler, its environment
//! variables and its confinement.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::role::{FILES_VARIABLE, OPEN_FILES, SOCKET_VARIABLE};

use super::isolation::Confinement;
use super::{HostError, Role, Settings, create, storage};
use crate::supervise::Program;

/// File name of the emulated driver's library as cargo builds it.
pub(super) const DRIVER_LIBRARY: &str = "libkernelwright_driver.so";
/// Names under which programs look for a CUDA driver.
pub(super) const CUDA_NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];
/// The name of NVIDIA's management library. The emulated driver implements it for its own devices.
const MANAGEMENT_NAME: &str = "libnvidia-ml.so.1";
/// Folders in which NVIDIA's driver is installed, beside the loader's own path.
const NVIDIA_FOLDERS: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/run/opengl-driver/lib",
];
/// The variable that names the emulated driver's fault plan.
pub(super) const FAULT_PLAN: &str = "KERNELWRIGHT_FAULT_PLAN";
/// The variable that names the device to emulate.
pub(super) const EMULATED_DEVICE: &str = "KERNELWRIGHT_EMULATED_DEVICE";
/// Settings of glibc's allocator for roles: blocks up to 32 MiB, the most that it takes, come from memory that the
/// process has had before. By default it gives the memory of each tensor back to the system, and the next tensor's
/// pages are cleared one by one: more than half of the system time of a confirmation, measured on softmax-f32. Other
/// C libraries ignore it.
const ALLOCATOR_SETTINGS: &str =
    "glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=4294967296";
/// Variables that a role inherits from this process if they are set.
const PASSED_ON: [&str; 6] = [
    "CUDA_VISIBLE_DEVICES",
    EMULATED_DEVICE,
    FAULT_PLAN,
    "NVIDIA_VISIBLE_DEVICES",
    "RUST_BACKTRACE",
    "RUST_LOG",
];

pub(super) fn role_program(
    settings: &Settings,
    role: Role,
    nvrtc: &Path,
    driver: Option<&Path>,
    scratch: &Path,
    confinement: &Confinement,
) -> Program {
    let mut library_path = Vec::new();
    if !matches!(role, Role::Compile | Role::Disassemble | Role::Python) {
        match driver {
            Some(driver) => library_path.push(driver.to_owned()),
            None => library_path.extend(loader_path()),
        }
    }
    if matches!(role, Role::Compile | Role::Probe) {
        library_path.push(nvrtc.to_owned());
    }
    let library_path = std::env::join_paths(library_path)
        .expect("the folders exist under these names or came from such a list");
    let mut environment: Vec<(OsString, OsString)> = vec![
        ("LD_LIBRARY_PATH".into(), library_path),
        (SOCKET_VARIABLE.into(), "0".into()),
        ("CUDA_CACHE_DISABLE".into(), "1".into()),
        // Code that is loaded lazily at its first launch would wait for kernels that run beside it.
        ("CUDA_MODULE_LOADING".into(), "EAGER".into()),
        ("HOME".into(), scratch.into()),
        ("TMPDIR".into(), scratch.into()),
        ("LANG".into(), "C.UTF-8".into()),
        ("GLIBC_TUNABLES".into(), ALLOCATOR_SETTINGS.into()),
    ];
    for name in PASSED_ON {
        if let Some(value) = std::env::var_os(name) {
            environment.push((name.into(), value));
        }
    }
    if confinement.open_files.is_some() {
        environment.push((FILES_VARIABLE.into(), OPEN_FILES.into()));
    }
    if let Some(device) = &settings.emulated_device {
        environment.retain(|(name, _)| name != EMULATED_DEVICE);
        environment.push((EMULATED_DEVICE.into(), device.into()));
    }
    // The compiler writes its working directory into the image's line table. With a constant one,
    // equal sources give equal bytes.
    let directory = match role {
        Role::Compile => PathBuf::from("/"),
        _ => scratch.to_owned(),
    };
    Program {
        executable: settings.executable.clone(),
        arguments: vec!["role".into(), role.as_str().into()],
        environment,
        directory,
        walls: match role {
            // A tool inspects the first, the second reads the process list of the whole machine,
            // and the third needs its user's rights.
            Role::Trace | Role::Watch | Role::Clocks => None,
            _ => Some(Arc::clone(&confinement.walls)),
        },
    }
}

/// Checks that NVIDIA's driver is installed and not disabled by the settings; the error is the
/// reason why it is not used.
pub(super) fn check_nvidia_driver(settings: &Settings) -> Result<(), String> {
    if settings.emulate {
        return Err("NVIDIA's is set aside by KERNELWRIGHT_EMULATE".to_owned());
    }
    let folders = loader_path()
        .into_iter()
        .chain(NVIDIA_FOLDERS.map(PathBuf::from));
    let installed = folders
        .into_iter()
        .any(|folder| CUDA_NAMES.iter().any(|name| folder.join(name).exists()));
    if installed {
        Ok(())
    } else {
        Err("NVIDIA's is not installed".to_owned())
    }
}

/// The first card's device file in the folder `devices`, if there is one: `nvidia` and a number, or
/// `dxg`, the card of the Windows machine around WSL.
pub(super) fn find_card(devices: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(devices).ok()?.flatten();
    let is_card = |name: &str| {
        let number = name.strip_prefix("nvidia");
        let numbered = number.is_some_and(|number| number.parse::<u32>().is_ok());
        numbered || name == "dxg"
    };
    let cards = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_card));
    cards.map(|entry| entry.path()).min()
}

/// Finds the emulated driver's library: as set, beside the executable, or in the folder of an
/// installation.
pub(super) fn find_emulated_driver(
    settings: &Settings,
    nvidia: String,
) -> Result<PathBuf, HostError> {
    let beside = settings.executable.parent().unwrap_or(Path::new("/"));
    let candidates = match &settings.driver {
        Some(driver) => vec![driver.clone()],
        None => [".", "deps", "../lib/kernelwright"]
            .map(|folder| beside.join(folder).join(DRIVER_LIBRARY))
            .to_vec(),
    };
    let found = candidates
        .iter()
        .find_map(|library| library.canonicalize().ok().filter(|path| path.is_file()));
    found.ok_or_else(|| HostError::Driver {
        nvidia,
        searched: candidates
            .iter()
            .map(|library| library.display().to_string())
            .collect::<Vec<_>>()
            .join(", "),
    })
}

/// Creates a folder of links that give the library the names which programs look for.
pub(super) fn create_driver_folder(data: &Path, library: &Path) -> Result<PathBuf, HostError> {
    let data = data
        .canonicalize()
        .map_err(|source| storage(data, source))?;
    let identity = domain::digest::Digest::of(library.as_os_str().as_encoded_bytes());
    let folder = data.join("driver").join(identity.short());
    create(&folder)?;
    for name in CUDA_NAMES.into_iter().chain([MANAGEMENT_NAME]) {
        let link = folder.join(name);
        match std::os::unix::fs::symlink(library, &link) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(storage(&link, error));
            }
            _ => {}
        }
    }
    Ok(folder)
}

pub(super) fn loader_path() -> Vec<PathBuf> {
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .collect()
}
