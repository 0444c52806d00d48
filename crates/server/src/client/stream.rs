//! A run's events over one connection after the other. After a broken connection the next one starts
//! behind the last event received, so that no event is missed or repeated.

use std::collections::VecDeque;
use std::time::Duration;

use domain::api::Event;
use domain::id::RunId;
use engine::llm::sse::{Decoder, StreamError};
use reqwest::{Response, StatusCode};

use super::{Client, ClientError, accepted};

/// Attempts to restore a lost connection before giving up: about half a minute with their pauses.
const MAX_FAILURES: u32 = 8;
/// The pause after the first lost connection; each further one waits twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// The longest pause between two tries.
const MAX_PAUSE: Duration = Duration::from_secs(8);

/// The events of one run.
#[derive(Debug)]
pub struct Events {
    client: Client,
    run: RunId,
    after: i64,
    connection: Option<Response>,
    decoder: Decoder,
    ready: VecDeque<Event>,
    failures: u32,
}

impl Events {
    /// Events with a larger id than `after`.
    pub fn after(client: &Client, run: RunId, after: i64) -> Self {
        Self {
            client: client.clone(),
            run,
            after,
            connection: None,
            decoder: Decoder::default(),
            ready: VecDeque::new(),
            failures: 0,
        }
    }

    /// The next event, waiting for it; connects again as often as it takes, within reason.
    ///
    /// # Errors
    /// [`ClientError`] when the service refuses, or stays away.
    pub async fn next(&mut self) -> Result<Event, ClientError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.after = event.id;
                return Ok(event);
            }
            match self.read().await {
                Ok(()) => {}
                Err(error @ ClientError::Refused { .. }) => return Err(error),
                Err(error) => {
                    self.connection = None;
                    self.failures += 1;
                    if self.failures > MAX_FAILURES {
                        return Err(error);
                    }
                    let pause = FIRST_PAUSE * (1 << (self.failures - 1));
                    tokio::time::sleep(pause.min(MAX_PAUSE)).await;
                }
            }
        }
    }

    async fn read(&mut self) -> Result<(), ClientError> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => {
                self.decoder = Decoder::default();
                none.insert(connect(&self.client, self.run, self.after).await?)
            }
        };
        match connection.chunk().await {
            Ok(Some(bytes)) => {
                self.failures = 0;
                let complete = self.decoder.push(&bytes);
                for event in complete.map_err(|error| not_a_stream(&error))? {
                    match serde_json::from_str(&event.data) {
                        Ok(event) => self.ready.push_back(event),
                        // A newer service may send kinds of events that this program predates.
                        Err(error) => tracing::warn!("skipped an event: {error}"),
                    }
                }
            }
            Ok(None) => {
                // The service stopped or let go; it gets a moment before it is asked again.
                self.connection = None;
                tokio::time::sleep(FIRST_PAUSE).await;
            }
            Err(source) => return Err(self.client.unreachable(source)),
        }
        Ok(())
    }
}

async fn connect(client: &Client, run: RunId, after: i64) -> Result<Response, ClientError> {
    let url = client.url(&format!("runs/{}/events", run.uuid()));
    let request = client.http.get(url).header("last-event-id", after);
    let response = request
        .send()
        .await
        .map_err(|error| client.unreachable(error))?;
    accepted(response, "follow the run").await
}

fn not_a_stream(error: &StreamError) -> ClientError {
    ClientError::Trouble {
        doing: "follow the run".to_owned(),
        status: StatusCode::OK,
        detail: error.to_string(),
    }
}
