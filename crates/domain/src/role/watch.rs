//! Job and reply of the role that watches a device while another process times on it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Watches at a device again and again until told to stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchJob {
    /// The device's identity, as the CUDA driver prints it.
    pub uuid: String,
    /// Between two glimpses, milliseconds.
    pub every_ms: u32,
    /// After so many glimpses it replies by itself.
    pub most: u32,
    /// The file whose existence makes the role reply.
    pub stop: PathBuf,
}

/// The message to a watch that has replied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoreWatching {
    /// The file that ends what follows; none ends the watch.
    pub stop: Option<PathBuf>,
}

/// The reply of the watch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WatchReply {
    /// The glimpses, in order.
    Seen {
        /// At least one in every reply but the last.
        glimpses: Vec<DeviceSample>,
    },
    /// The device cannot be watched here.
    Blind {
        /// The reason.
        reason: String,
    },
}

/// The management library's facts at one moment. A fact that it did not report is unknown, not
/// well.
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
