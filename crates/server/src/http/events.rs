//! The event stream of a run. The event table is the truth: a reader that lags or reconnects reads it, and misses
//! nothing.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{self, KeepAlive, Sse};
use domain::api::Event;
use domain::id::RunId;
use futures::{Stream, StreamExt, stream};
use serde::Deserialize;
use store::Store;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use utoipa::IntoParams;

use super::App;
use super::error::{AnyProblem, ApiError};
use super::event_feeds::{EventFrame, PAGE};
use super::extract::{Id, Parameters};

/// Query parameters of an event stream.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Start {
    /// Only events with a larger id; 0 gives all. `Last-Event-ID` overrides it.
    #[serde(default)]
    after: i64,
}

/// Streams the events of a run, from the first or after the last one that the reader has.
#[utoipa::path(
    get,
    path = "/runs/{id}/events",
    tag = "runs",
    security(("token" = ["viewer"])),
    params(
        ("id" = RunId, Path, description = "The run"),
        ("Last-Event-ID" = Option<i64>, Header, description = "The last event the reader has seen"),
        Start
    ),
    responses(
        (status = 200, description = "Server-sent events; the data of each is an Event", body = Event, content_type = "text/event-stream"),
        AnyProblem
    )
)]
pub async fn stream_events(
    State(app): State<App>,
    Id(run): Id<RunId>,
    Parameters(start): Parameters<Start>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, ApiError> {
    let after = match headers.get("last-event-id") {
        None => start.after,
        Some(value) => value
            .to_str()
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| {
                ApiError::Malformed("the header Last-Event-ID must be a whole number".to_owned())
            })?,
    };
    let store = app.engine.store().clone();
    // An unknown run is an error now rather than an empty stream for ever.
    let first = store.events_after(run, after, PAGE).await?;
    let feed = app.feeds.follow(run).await?;
    let reader = Reader {
        store,
        feed,
        run,
        after,
        pending: first.iter().map(EventFrame::of).collect(),
        behind: true,
    };
    let events = stream::unfold(reader, |mut reader| async {
        reader.next().await.map(|event| (event, reader))
    });
    let until_closing = events.take_until(app.closing.cancelled_owned());
    let frames = until_closing.map(|frame| Ok(frame.into_sse()));
    Ok(Sse::new(frames).keep_alive(KeepAlive::default()))
}

struct Reader {
    store: Store,
    feed: broadcast::Receiver<EventFrame>,
    run: RunId,
    after: i64,
    pending: VecDeque<EventFrame>,
    /// Events may be in the database that the feed does not bring.
    behind: bool,
}

impl Reader {
    /// Takes a page of the database.
    fn push(&mut self, events: &[Event]) {
        self.behind = events.len() == PAGE as usize;
        self.pending.extend(events.iter().map(EventFrame::of));
    }

    /// The next event, waiting for it. `None` ends the stream: the client comes back with the
    /// last id it saw.
    async fn next(&mut self) -> Option<EventFrame> {
        loop {
            if let Some(frame) = self.pending.pop_front() {
                self.after = frame.id;
                return Some(frame);
            }
            if self.behind {
                match self.store.events_after(self.run, self.after, PAGE).await {
                    Ok(events) => self.push(&events),
                    Err(error) => {
                        tracing::error!(run.id = %self.run, "failed to {error}; the event stream ends");
                        return None;
                    }
                }
                continue;
            }
            match self.feed.recv().await {
                Ok(frame) if frame.id > self.after => self.pending.push_back(frame),
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => self.behind = true,
                Err(RecvError::Closed) => return None,
            }
        }
    }
}
