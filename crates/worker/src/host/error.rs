//! Why a machine cannot evaluate.

use std::io;

use super::program::DRIVER_LIBRARY;
use crate::{supervise, toolchain};

/// Why this machine cannot evaluate.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The system does not know our own program.
    #[error("find the running executable")]
    Executable(#[source] io::Error),
    /// A variable of the environment has a value that means nothing.
    #[error("read {name}: {reason}")]
    Setting {
        /// The variable.
        name: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// No compiler.
    #[error(transparent)]
    Toolchain(#[from] toolchain::Missing),
    /// No emulated driver, and none of NVIDIA's that works.
    #[error(
        "find a CUDA driver: {nvidia}, and the emulated driver {DRIVER_LIBRARY} is not in {searched}; build it with `cargo build -p driver` or name it in KERNELWRIGHT_DRIVER"
    )]
    Driver {
        /// What is wrong with NVIDIA's.
        nvidia: String,
        /// Where the emulated one was looked for.
        searched: String,
    },
    /// A folder could not be prepared.
    #[error("prepare {path}")]
    Storage {
        /// Which.
        path: String,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A child could not be supervised.
    #[error(transparent)]
    Supervise(#[from] supervise::SuperviseError),
    /// The probe found no usable device.
    #[error("use the device: {reason}")]
    Unusable {
        /// What is wrong.
        reason: String,
    },
    /// The device was unwell whenever it was asked, and takes no work until somebody has looked at it.
    #[error("use the device, which is quarantined: {reason}; when it is mended, remove {record}")]
    Quarantined {
        /// What was found.
        reason: String,
        /// The file that says so.
        record: String,
    },
    /// The candidate left devices behind that were unwell, and meets no other.
    #[error(
        "run candidate {candidate}: it is quarantined, as devices that ran it were unwell afterwards"
    )]
    Poison {
        /// The digest of its text and configuration.
        candidate: String,
    },
}

impl HostError {
    /// Whether the device is to take no more work.
    pub fn is_quarantine(&self) -> bool {
        matches!(self, Self::Quarantined { .. })
    }

    /// Whether trying again may help although nobody has done anything about it: a device that does
    /// not answer yet, a machine without a process to spare.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Unusable { .. }
                | Self::Supervise(
                    supervise::SuperviseError::Start { .. }
                        | supervise::SuperviseError::Supervise(_)
                )
        )
    }

    /// Whether the device was found unwell just now.
    pub fn is_unwell(&self) -> bool {
        matches!(self, Self::Unusable { .. } | Self::Quarantined { .. })
    }
}
