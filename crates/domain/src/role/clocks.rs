//! Job and reply of the role that locks a device's clocks, or gives them free.

use serde::{Deserialize, Serialize};

/// Sets the clocks of one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClocksJob {
    /// The device's identity, as the CUDA driver prints it.
    pub uuid: String,
    /// The requested setting of the clocks.
    pub clocks: Clocks,
}

/// The settings of a device's clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clocks {
    /// The multiprocessors' highest that the device holds under any load.
    Locked,
    /// The driver's to choose.
    Free,
}

/// The reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ClocksReply {
    /// The clocks are set as requested.
    Set,
    /// This process may not.
    Forbidden,
    /// The device or its library does not do that.
    Impossible {
        /// The reason.
        reason: String,
    },
}
