//! The reasons why a machine cannot evaluate.

use std::io;

use super::program::DRIVER_LIBRARY;
use crate::{supervise, toolchain};

/// The reasons why this machine cannot evaluate.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The system does not report the path of the running executable.
    #[error("find the running executable")]
    Executable(#[source] io::Error),
    /// An environment variable has an invalid value.
    #[error("read {name}: {reason}")]
    Setting {
        /// The variable's name.
        name: &'static str,
        /// The fault in its value.
        reason: String,
    },
    /// No compiler was found.
    #[error(transparent)]
    Toolchain(#[from] toolchain::Missing),
    /// NVIDIA's driver does not work and the emulated one was not found.
    #[error(
        "find a CUDA driver: {nvidia}, and the emulated driver {DRIVER_LIBRARY} is not in {searched}; take it from a release archive, install it with `./kw install`, or name it in KERNELWRIGHT_DRIVER"
    )]
    Driver {
        /// The fault of NVIDIA's driver.
        nvidia: String,
        /// The paths at which the emulated driver was looked for.
        searched: String,
    },
    /// A folder or file of the data folder could not be created or resolved.
    #[error("prepare {path}")]
    Storage {
        /// Its path.
        path: String,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A role process could not be started or supervised.
    #[error(transparent)]
    Supervise(#[from] supervise::SuperviseError),
    /// The probe found no usable device.
    #[error("use the device: {reason}")]
    Unusable {
        /// The probe's reason, or how the probe ended.
        reason: String,
    },
    /// The device failed every repeat of its health check. It takes no work until an operator
    /// removes the record.
    #[error("use the device, which is quarantined: {reason}; when it is mended, remove {record}")]
    Quarantined {
        /// The result of the failed check.
        reason: String,
        /// The path of the record.
        record: String,
    },
    /// Devices failed their health check after they had run the candidate, so that no further
    /// device runs it.
    #[error(
        "run candidate {candidate}: it is quarantined, as devices that ran it were unwell afterwards"
    )]
    QuarantinedCandidate {
        /// The digest of the candidate's text and configuration.
        candidate: String,
    },
}

impl HostError {
    /// Returns true if the device is quarantined, so that it takes no more work.
    pub fn is_quarantine(&self) -> bool {
        matches!(self, Self::Quarantined { .. })
    }

    /// Returns true if a retry may succeed without an operator: the device does not answer yet, or
    /// the system had no process or descriptor to spare.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unusable { .. }
                | Self::Supervise(
                    supervise::SuperviseError::Start { .. }
                        | supervise::SuperviseError::Supervise(_)
                )
        )
    }

    /// Returns true if the device failed its health check or gave no answer to it.
    pub fn failed_health_check(&self) -> bool {
        matches!(self, Self::Unusable { .. } | Self::Quarantined { .. })
    }
}
