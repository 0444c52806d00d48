//! The event stream of a run. The event table is the truth; the store's hint only says that it
//! is worth reading again, so a reader that lags or reconnects misses nothing.

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
use tokio::sync::watch;
use utoipa::IntoParams;

use super::App;
use super::error::{AnyProblem, ApiError};
use super::extract::{Id, Parameters};

/// Number of events that one query fetches.
const PAGE: u32 = 200;

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
    let hint = store.changed_run(run);
    let first = store.events_after(run, after, PAGE).await?;
    let reader = Reader {
        store,
        hint,
        run,
        after,
        pending: VecDeque::new(),
    }
    .with(first);
    let events = stream::unfold(reader, |mut reader| async {
        reader.next().await.map(|event| (event, reader))
    });
    let until_closing = events.take_until(app.closing.cancelled_owned());
    Ok(Sse::new(until_closing.map(|event| Ok(frame(&event)))).keep_alive(KeepAlive::default()))
}

fn frame(event: &Event) -> sse::Event {
    let data = serde_json::to_string(event).expect("an event has only text keys");
    sse::Event::default().id(event.id.to_string()).data(data)
}

struct Reader {
    store: Store,
    hint: watch::Receiver<u64>,
    run: RunId,
    after: i64,
    pending: VecDeque<Event>,
}

impl Reader {
    fn with(mut self, events: Vec<Event>) -> Self {
        self.push(events);
        self
    }

    fn push(&mut self, events: Vec<Event>) {
        if let Some(last) = events.last() {
            self.after = last.id;
        }
        self.pending.extend(events);
    }

    /// The next event, waiting for it. `None` ends the stream: the client comes back with the
    /// last id it saw.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Some(event);
            }
            // The hint is read before the events, so that a commit between the two wakes the wait below.
            self.hint.borrow_and_update();
            match self.store.events_after(self.run, self.after, PAGE).await {
                Ok(events) if events.is_empty() => self.hint.changed().await.ok()?,
                Ok(events) => self.push(events),
                Err(error) => {
                    tracing::error!(run.id = %self.run, "failed to {error}; the event stream ends");
                    return None;
                }
            }
        }
    }
}
