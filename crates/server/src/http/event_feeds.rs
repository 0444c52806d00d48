//! Reads the new events of a run once for all clients that follow it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::response::sse;
use domain::api::Event;
use domain::id::RunId;
use store::{Store, StoreError};
use tokio::sync::broadcast;

/// Number of events that one query fetches.
pub(super) const PAGE: u32 = 200;
/// Number of events that a client may be behind. One that is further behind reads them itself.
const CAPACITY: usize = 128;

/// An event as clients receive it.
#[derive(Debug, Clone)]
pub(super) struct EventFrame {
    /// The id of the event.
    pub id: i64,
    data: Arc<str>,
}

impl EventFrame {
    pub(super) fn of(event: &Event) -> Self {
        let data = serde_json::to_string(event).expect("an event has only text keys");
        Self {
            id: event.id,
            data: data.into(),
        }
    }

    pub(super) fn into_sse(self) -> sse::Event {
        sse::Event::default()
            .id(self.id.to_string())
            .data(&*self.data)
    }
}

/// The feeds of the runs that clients follow. Clones share them.
#[derive(Debug, Clone)]
pub struct EventFeeds {
    store: Store,
    feeds: Arc<Mutex<HashMap<RunId, broadcast::Sender<EventFrame>>>>,
}

impl EventFeeds {
    /// No feeds yet: each begins with the first client of its run.
    pub fn new(store: Store) -> Self {
        Self {
            store,
            feeds: Arc::default(),
        }
    }

    /// Follows a run: every event that is committed from now on is received, in the order of ids. Some that were
    /// committed shortly before may be received as well.
    ///
    /// # Errors
    /// The database fails.
    pub(super) async fn follow(
        &self,
        run: RunId,
    ) -> Result<broadcast::Receiver<EventFrame>, StoreError> {
        if let Some(feed) = self.feeds().get(&run) {
            return Ok(feed.subscribe());
        }
        let newest = self.store.newest_event().await?;
        let mut feeds = self.feeds();
        // Another client may have begun the feed meanwhile.
        if let Some(feed) = feeds.get(&run) {
            return Ok(feed.subscribe());
        }
        let (feed, receiver) = broadcast::channel(CAPACITY);
        feeds.insert(run, feed.clone());
        drop(feeds);
        tokio::spawn(self.clone().feed(run, newest, feed));
        Ok(receiver)
    }

    /// Sends the events of a run with an id above `after`, until no client follows it or the database fails.
    async fn feed(self, run: RunId, mut after: i64, feed: broadcast::Sender<EventFrame>) {
        let mut hint = self.store.changed_run(run);
        loop {
            // The hint is read before the events, so that a commit between the two wakes the wait below.
            hint.borrow_and_update();
            match self.store.events_after(run, after, PAGE).await {
                Ok(events) => {
                    for event in &events {
                        after = event.id;
                        // Without a client the loop ends below.
                        let _ = feed.send(EventFrame::of(event));
                    }
                    if events.len() == PAGE as usize {
                        continue;
                    }
                }
                Err(error) => {
                    tracing::error!(run.id = %run, "failed to {error}; the streams of its events end");
                    break;
                }
            }
            tokio::select! {
                changed = hint.changed() => if changed.is_err() { break },
                () = feed.closed() => {
                    let mut feeds = self.feeds();
                    // A client may have come between the last one's leaving and this.
                    if feed.receiver_count() == 0 {
                        feeds.remove(&run);
                        return;
                    }
                }
            }
        }
        // Clients come back with the last id they saw.
        self.feeds().remove(&run);
    }

    fn feeds(&self) -> MutexGuard<'_, HashMap<RunId, broadcast::Sender<EventFrame>>> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
