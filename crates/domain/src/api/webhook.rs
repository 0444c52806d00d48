//! Webhooks: the events that the service sends to other services, and their deliveries.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::RunView;

/// The kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum WebhookKind {
    /// A run completed, failed or was cancelled.
    #[serde(rename = "run.finished")]
    RunFinished,
    /// A run was paused, by a person or because it cannot go on.
    #[serde(rename = "run.paused")]
    RunPaused,
    /// A confirmed winner was committed.
    #[serde(rename = "winner.promoted")]
    WinnerPromoted,
    /// A committed winner no longer held in a re-check, and its commit was taken back.
    #[serde(rename = "winner.reverted")]
    WinnerReverted,
    /// A device failed its health check and was quarantined.
    #[serde(rename = "device.unwell")]
    DeviceUnwell,
    /// A run used 50%, 80% or 100% of a limit of its budget.
    #[serde(rename = "budget.reached")]
    BudgetReached,
}

impl WebhookKind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::RunFinished,
        Self::RunPaused,
        Self::WinnerPromoted,
        Self::WinnerReverted,
        Self::DeviceUnwell,
        Self::BudgetReached,
    ];

    /// The name as the wire and the database carry it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunFinished => "run.finished",
            Self::RunPaused => "run.paused",
            Self::WinnerPromoted => "winner.promoted",
            Self::WinnerReverted => "winner.reverted",
            Self::DeviceUnwell => "device.unwell",
            Self::BudgetReached => "budget.reached",
        }
    }
}

impl fmt::Display for WebhookKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The body of a webhook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WebhookBody {
    /// The kind of event.
    #[serde(rename = "type")]
    pub kind: WebhookKind,
    /// The time at which it happened.
    pub timestamp: DateTime<Utc>,
    /// The event.
    pub data: WebhookData,
}

/// The content of an event, by its kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum WebhookData {
    /// Of `budget.reached`.
    Budget {
        /// The run.
        run: Box<RunView>,
        /// Name of the limit, such as `tokens`.
        limit: String,
        /// 50, 80 or 100.
        percent: u32,
    },
    /// Of `run.finished`, `run.paused`, `winner.promoted` and `winner.reverted`.
    Run {
        /// The run after the change.
        run: Box<RunView>,
    },
    /// Of `device.unwell`.
    Device {
        /// The device.
        device: UnwellDevice,
    },
}

/// A device that was quarantined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnwellDevice {
    /// Name of its worker.
    pub worker: String,
    /// Identity of the device.
    pub uuid: String,
    /// Name of the device.
    pub name: String,
    /// The check that failed.
    pub reason: String,
}

/// An event that an endpoint has not got yet, or that was given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookDelivery {
    /// Id of the event, which all attempts carry.
    pub event: String,
    /// Name of the endpoint.
    pub endpoint: String,
    /// The kind of event.
    #[serde(rename = "type")]
    pub kind: WebhookKind,
    /// The time at which it happened.
    pub created_at: DateTime<Utc>,
    /// Failed attempts.
    pub attempts: u32,
    /// The time of the next attempt; absent if it was given up.
    pub due_at: Option<DateTime<Utc>>,
    /// The reason why the last attempt failed.
    pub last_error: Option<String>,
}
