//! Confinement of a role process by itself: it may read what its job names, write where the job says, and compute.
//!
//! A process applies this before it touches anything that a candidate wrote. Landlock restricts files, seccomp
//! restricts system calls, and resource limits restrict amounts. A kernel without Landlock is accepted and reported.
//! A restriction that was granted and does not hold is a fault. The module knows no role: callers state the needs of
//! theirs.

mod filter;
pub mod nvidia_files;

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, path_beneath_rules,
};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::role_error::RoleError;

pub use filter::SystemCalls;

/// Limit of a compiling process's address space, bytes.
pub const COMPILE_MEMORY_BYTES: u64 = 4 << 30;
/// Limit of a compiling process's processor time, seconds.
pub const COMPILE_CPU_SECONDS: u64 = 30;
/// The largest file a role may write.
const FILE_BYTES: u64 = 8 << 30;
/// The newest Landlock interface whose file rights are requested; an older kernel grants fewer.
const LANDLOCK: ABI = ABI::V5;
/// System folders and files that are needed to load and run a library. None holds a secret.
const SYSTEM: [&str; 9] = [
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/etc/ld.so.cache",
    "/dev/urandom",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/sys/devices/system/cpu",
];
/// Files that no role needs, which must be inaccessible afterwards. A minimal system may lack one of them.
const FORBIDDEN_FILES: [&str; 2] = ["/proc/self/environ", "/etc/passwd"];

/// The needs of a role; everything else is refused.
#[derive(Debug, Clone)]
pub struct Permissions {
    /// Files and folders to read, besides those of the loader and the system's libraries.
    pub read: Vec<PathBuf>,
    /// Existing folders in which files may be created, changed and removed.
    pub write: Vec<PathBuf>,
    /// Existing files and folders whose files may be read, written and controlled with `ioctl`; no file may be
    /// created there.
    pub control: Vec<PathBuf>,
    /// The set of system calls.
    pub calls: SystemCalls,
    /// True if file access is to be restricted.
    pub restrict_files: bool,
    /// Address space in bytes.
    pub memory_bytes: Option<u64>,
    /// Processor time in seconds.
    pub cpu_seconds: Option<u64>,
}

/// The part of the confinement that this kernel granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfinementLevel {
    /// The restriction of files.
    pub files: Files,
    /// The system calls that are left.
    pub calls: SystemCalls,
}

/// The extent to which file access is restricted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// As requested.
    Full,
    /// As far as this kernel's older Landlock supports.
    Partial,
    /// Not at all, because this kernel has no Landlock.
    Unavailable,
    /// Not requested.
    Unrestricted,
}

impl fmt::Display for ConfinementLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = match self.files {
            Files::Full => "files: Landlock, fully enforced",
            Files::Partial => "files: Landlock, partially enforced",
            Files::Unavailable => "files: open, since this kernel has no Landlock",
            Files::Unrestricted => "files: open, as the worker wants it",
        };
        let calls = match self.calls {
            SystemCalls::Computing => "system calls: allow-list",
            SystemCalls::Tool => "system calls: allow-list, and starting a tool",
            SystemCalls::Driver => "system calls: deny-list",
        };
        write!(f, "{files}; {calls}")
    }
}

/// Restricts this process for the rest of its life, then checks that the restrictions hold. The process must have
/// only one thread. Called in a second thread, it restricts that thread and the processes that it starts; the
/// resource limits hold for all.
///
/// # Errors
/// A [`RoleError`] where the kernel refuses a restriction that every supported kernel grants, or where a granted
/// restriction does not hold.
pub fn apply(permissions: &Permissions) -> Result<ConfinementLevel, RoleError> {
    limit(permissions)?;
    let files = if permissions.restrict_files {
        restrict_files(permissions)?
    } else {
        Files::Unrestricted
    };
    filter::install(permissions.calls)?;
    let level = ConfinementLevel {
        files,
        calls: permissions.calls,
    };
    check_restrictions(&level)?;
    Ok(level)
}

fn limit(permissions: &Permissions) -> Result<(), RoleError> {
    let limits = [
        (Resource::Core, Some(0)),
        (Resource::Fsize, Some(FILE_BYTES)),
        (Resource::As, permissions.memory_bytes),
        (Resource::Cpu, permissions.cpu_seconds),
    ];
    for (resource, value) in limits {
        let Some(value) = value else { continue };
        // The supervisor may have set a lower limit already; a limit is never raised.
        let hard = rustix::process::getrlimit(resource).maximum;
        let within = |value: u64| hard.map_or(value, |hard| hard.min(value));
        // Exceeding the processor time first raises a signal that names the cause, then kills the process.
        let grace = if resource == Resource::Cpu { 5 } else { 0 };
        let limit = Rlimit {
            current: Some(within(value)),
            maximum: Some(within(value.saturating_add(grace))),
        };
        setrlimit(resource, limit).map_err(|error| {
            RoleError::Confinement(format!("limit {resource:?} to {value}: {error}"))
        })?;
    }
    Ok(())
}

fn restrict_files(permissions: &Permissions) -> Result<Files, RoleError> {
    let read: Vec<PathBuf> = SYSTEM
        .iter()
        .map(PathBuf::from)
        .chain(library_folders())
        .chain(permissions.read.iter().cloned())
        .collect();
    let fault = |error: landlock::RulesetError| {
        RoleError::Confinement(format!("restrict file access: {error}"))
    };
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK))
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rules(path_beneath_rules(read, AccessFs::from_read(LANDLOCK))))
        .and_then(|rules| {
            let null = [PathBuf::from("/dev/null")];
            let write = permissions.write.iter().chain(&null);
            rules.add_rules(path_beneath_rules(write, write_rights()))
        })
        .and_then(|rules| {
            rules.add_rules(path_beneath_rules(&permissions.control, control_rights()))
        })
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(fault)?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Files::Full,
        RulesetStatus::PartiallyEnforced => Files::Partial,
        RulesetStatus::NotEnforced => Files::Unavailable,
    })
}

/// Rights in a folder to write to. A later reader of the folder finds files and folders only, and never a link to
/// another place, a device or a pipe.
fn write_rights() -> BitFlags<AccessFs> {
    AccessFs::ReadFile
        | AccessFs::ReadDir
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::MakeDir
        | AccessFs::RemoveFile
        | AccessFs::RemoveDir
        | AccessFs::Refer
}

/// Rights for a device file. A driver is controlled with `ioctl`.
fn control_rights() -> BitFlags<AccessFs> {
    AccessFs::ReadFile
        | AccessFs::ReadDir
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::IoctlDev
}

/// Folders in which the loader looks for NVRTC and the emulated driver.
fn library_folders() -> Vec<PathBuf> {
    std::env::var_os("LD_LIBRARY_PATH")
        .map(|paths| {
            std::env::split_paths(&paths)
                .filter(|path| path.is_absolute() && *path != Path::new("/"))
                .collect()
        })
        .unwrap_or_default()
}

/// Tries accesses that must fail now.
fn check_restrictions(level: &ConfinementLevel) -> Result<(), RoleError> {
    if matches!(level.files, Files::Full | Files::Partial) {
        let attempts = FORBIDDEN_FILES.iter().flat_map(|path| {
            let opened = OpenOptions::new().append(true).open(path);
            [fs::read(path).map(drop), opened.map(drop)]
        });
        let mut denied = false;
        for outcome in attempts {
            match outcome {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => denied = true,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => {
                    return Err(RoleError::Confinement(format!(
                        "opening {FORBIDDEN_FILES:?} must be denied now, but the outcome was {other:?}"
                    )));
                }
            }
        }
        if !denied {
            return Err(RoleError::Confinement(format!(
                "check that files are out of reach: none of {FORBIDDEN_FILES:?} exists"
            )));
        }
    }
    match rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None) {
        Err(Errno::PERM) => Ok(()),
        other => Err(RoleError::Confinement(format!(
            "opening a network socket must be denied now, but the outcome was {other:?}"
        ))),
    }
}
