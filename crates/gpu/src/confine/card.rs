//! What NVIDIA's driver opens in the life of a process that has a context already.
//!
//! Nobody outside NVIDIA can list it. These are the files that its modules document and those that
//! others saw it open behind Landlock: a thread that the driver starts names itself in
//! `/proc/self/task`, and a tool's device file is opened late from version 570 on. Whether it is
//! enough is tried by a probe.

use std::fs;
use std::path::PathBuf;

/// Where the driver reads: about cards, about this process, and the libraries that it loads late.
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
/// Names of the driver's device files in `/dev` begin so; the second is that of a virtual card under
/// Windows.
const DEVICES: [&str; 2] = ["nvidia", "dxg"];
/// Where the driver's threads write their names.
const OWN_THREADS: &str = "/proc/self/task";

/// What to read.
pub fn read() -> impl Iterator<Item = PathBuf> {
    READ.into_iter().map(PathBuf::from)
}

/// What to read, write and control.
pub fn operate() -> Vec<PathBuf> {
    let entries = fs::read_dir("/dev").into_iter().flatten().flatten();
    let devices = entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        DEVICES.iter().any(|prefix| name.starts_with(prefix))
    });
    let devices = devices.map(|entry| entry.path());
    devices.chain([PathBuf::from(OWN_THREADS)]).collect()
}
