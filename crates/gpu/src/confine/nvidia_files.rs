//! Files that NVIDIA's driver opens in a process that has a context already.
//!
//! NVIDIA does not document a complete list. These are the files that its modules document and those that others saw
//! it open behind Landlock: a thread that the driver starts names itself in `/proc/self/task`, and from version 570
//! on a device file of a tool is opened late. A probe tests whether the list is sufficient.

use std::fs;
use std::path::PathBuf;

/// Files and folders that the driver reads: about cards, about this process, and the libraries that it loads late.
const READ: [&str; 12] = [
    "/proc/self/maps",
    "/proc/self/status",
    "/proc/driver/nvidia",
    "/proc/devices",
    "/sys/devices",
    "/sys/bus/pci",
    "/sys/module/nvidia",
    "/etc/nvidia",
    "/usr/share/nvidia",
    "/usr/local/nvidia",
    "/usr/lib/wsl",
    "/run/opengl-driver",
];
/// Prefixes of the driver's device files in `/dev`; the second is that of a virtual card under Windows.
const DEVICES: [&str; 2] = ["nvidia", "dxg"];
/// The folder in which the driver's threads write their names.
const OWN_THREADS: &str = "/proc/self/task";

/// Paths to read.
pub fn readable() -> impl Iterator<Item = PathBuf> {
    READ.into_iter().map(PathBuf::from)
}

/// Paths to read, write and control.
pub fn controllable() -> Vec<PathBuf> {
    let entries = fs::read_dir("/dev").into_iter().flatten().flatten();
    let devices = entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        DEVICES.iter().any(|prefix| name.starts_with(prefix))
    });
    let devices = devices.map(|entry| entry.path());
    devices.chain([PathBuf::from(OWN_THREADS)]).collect()
}
