//! The claims that a role process receives about its confinement. It trusts none of them: it proves
//! each part before it does anything else.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The environment variable with the [`Claims`] as JSON; not set where nothing is claimed.
pub const WALLS_VARIABLE: &str = "KERNELWRIGHT_ROLE_WALLS";

/// A kind of namespace: what a process of one cannot see of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Namespace {
    /// Users and privileges: the process has none outside of the namespace.
    User,
    /// Processes: those outside are not visible, and all inside end with the first.
    Pid,
    /// Mounted file systems, and with them the list of processes.
    Mount,
    /// Network interfaces.
    Net,
    /// Shared memory, semaphores and message queues of System V and POSIX.
    Ipc,
}

impl Namespace {
    /// The namespaces that a role can have.
    pub const ALL: [Self; 5] = [Self::User, Self::Pid, Self::Mount, Self::Net, Self::Ipc];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Pid => "pid",
            Self::Mount => "mount",
            Self::Net => "net",
            Self::Ipc => "ipc",
        }
    }

    /// The kernel's file that identifies a process's own.
    pub fn link(self) -> &'static str {
        match self {
            Self::User => "/proc/self/ns/user",
            Self::Pid => "/proc/self/ns/pid",
            Self::Mount => "/proc/self/ns/mnt",
            Self::Net => "/proc/self/ns/net",
            Self::Ipc => "/proc/self/ns/ipc",
        }
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The confinement that a supervisor claims to have put around a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// The namespaces that the process has for itself, each with the supervisor's identity of it,
    /// which must not be the process's.
    pub outside: BTreeMap<Namespace, String>,
    /// The control group that the process is alone in.
    pub group: Option<GroupClaim>,
}

/// A control group and what it is limited to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupClaim {
    /// Its folder.
    pub folder: PathBuf,
    /// Memory of all its processes together, bytes; none where the group cannot limit it.
    pub memory_bytes: Option<u64>,
    /// Processes and threads together; none where the group cannot limit them.
    pub tasks: Option<u64>,
    /// True if all its processes can be killed at once.
    pub kill: bool,
}
