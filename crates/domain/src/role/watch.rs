//! Job and reply of the role that watches a device while another process times on it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Samples a device's state at a fixed interval until a file exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchJob {
    /// The device's identity, as the CUDA driver prints it.
    pub uuid: String,
    /// The interval between two samples, milliseconds.
    pub interval_ms: u32,
    /// The number of samples after which the role replies by itself.
    pub max_samples: u32,
    /// The file whose existence makes the role reply.
    pub stop: PathBuf,
}

/// The supervisor's answer to a reply: sample again, or end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextWatch {
    /// The file whose existence ends the next samples; none ends the role.
    pub stop: Option<PathBuf>,
}

/// The reply of the watch role.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WatchReply {
    /// The samples since the last reply, in order.
    Samples {
        /// At least one in every reply but the last.
        device_samples: Vec<DeviceSample>,
    },
    /// The management library cannot report this device's state.
    Unavailable {
        /// The reason.
        reason: String,
    },
}

/// The management library's facts at one moment. A fact that it did not report is unknown, not
/// good.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceSample {
    /// The time by the system's monotonic clock, nanoseconds.
    pub at_ns: u64,
    /// Clock of the multiprocessors, MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_mhz: Option<u32>,
    /// Mask of reasons for a lower clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_events: Option<u64>,
    /// Temperature, degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub celsius: Option<u32>,
    /// Processes on the device that are not ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign_processes: Option<u32>,
    /// Memory errors that could not be corrected, since the driver was loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecc_errors: Option<u64>,
    /// Faults (Xid) the driver logged since the watch began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xids: Option<u32>,
}
