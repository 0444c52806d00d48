//! Sends bundles of evidence to the service, beside the evaluations.
//!
//! A verdict does not depend on its bundle, so an evaluation never waits for one to be sent. A service
//! whose store is away gets the bundle later; one that is never sent stays in the data folder.

use std::path::PathBuf;

use domain::causes::with_causes;
use domain::digest::Digest;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::backoff::Backoff;
use super::client::{Client, RequestError};
use super::{Pace, is_final};
use crate::evaluate::evidence::store::{EvidenceStore, EvidenceStoreError};

/// The sender of one worker's bundles.
pub struct BundleSender {
    pub client: Client,
    /// The data folder with the bundles.
    pub data: PathBuf,
    pub pace: Pace,
    pub shutdown: CancellationToken,
}

/// The reasons why a bundle was not sent. Messages follow "failed to send the evidence".
#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error(transparent)]
    Unreadable(#[from] EvidenceStoreError),
    #[error("{0}")]
    Refused(RequestError),
}

impl From<RequestError> for SendError {
    fn from(error: RequestError) -> Self {
        Self::Refused(error)
    }
}

impl SendError {
    /// Returns true if a repetition cannot succeed.
    fn is_final(&self) -> bool {
        match self {
            Self::Unreadable(_) => true,
            Self::Refused(RequestError::Status { status, .. }) => is_final(*status),
            Self::Refused(_) => false,
        }
    }
}

impl BundleSender {
    /// Sends every bundle that is named, one after the other, until the queue is closed. Each is
    /// repeated until the service has it or refuses it; on shutdown each has one attempt.
    pub async fn send_all(self, mut queue: mpsc::UnboundedReceiver<Digest>) {
        while let Some(digest) = queue.recv().await {
            let mut backoff = Backoff::new(self.pace.first_delay, self.pace.longest_delay);
            while let Err(error) = self.send(digest).await {
                let delay = backoff.next();
                let again = !error.is_final()
                    && self
                        .shutdown
                        .run_until_cancelled(tokio::time::sleep(delay))
                        .await
                        .is_some();
                warn!(
                    again,
                    "failed to send the evidence {}: {}",
                    digest.short(),
                    with_causes(&error)
                );
                if !again {
                    break;
                }
            }
        }
    }

    /// Sends the files of a bundle that the service lacks.
    async fn send(&self, digest: Digest) -> Result<(), SendError> {
        let own = EvidenceStore::in_folder(&self.data, None)?;
        let manifest = own.read_part(digest, None).await?;
        for name in self.client.evidence(digest, None, manifest).await?.missing {
            let file = own.read_part(digest, Some(&name)).await?;
            self.client.evidence(digest, Some(&name), file).await?;
        }
        Ok(())
    }
}
