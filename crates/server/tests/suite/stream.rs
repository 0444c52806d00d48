//! The client's reading of an event stream, against a service that breaks the connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use axum::Router;
use axum::http::HeaderMap;
use axum::routing::get;
use domain::api::{Event, EventKind, RunState};
use domain::id::RunId;
use server::client::Client;
use server::client::stream::Events;

use crate::fixtures::then;

/// Sends the two events after the last one seen, then half of a third, and hangs up.
async fn breaking(headers: HeaderMap, run: RunId, connections: Arc<AtomicI64>) -> String {
    connections.fetch_add(1, Ordering::SeqCst);
    let last = headers["last-event-id"].to_str().unwrap();
    let last: i64 = last.parse().unwrap();
    let frame = |id| {
        let event = Event {
            id,
            run,
            at: then(),
            what: EventKind::RunChanged {
                state: RunState::Running,
            },
        };
        let data = serde_json::to_string(&event).unwrap();
        format!("id: {id}\ndata: {data}\n\n")
    };
    let half: String = frame(last + 3).chars().take(30).collect();
    format!("{}{}{half}", frame(last + 1), frame(last + 2))
}

#[tokio::test]
async fn a_broken_stream_goes_on_after_the_last_event_seen() {
    let run: RunId = "01938e5a-0000-7000-8000-00000000000a".parse().unwrap();
    let connections = Arc::new(AtomicI64::new(0));
    let counted = connections.clone();
    let app = Router::new().route(
        "/api/v1/runs/{id}/events",
        get(move |headers: HeaderMap| breaking(headers, run, counted.clone())),
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = tokio::spawn(async move { axum::serve(listener, app).await });

    let client = Client::new(&format!("http://{address}")).unwrap();
    let mut events = Events::after(&client, run, 4);
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(events.next().await.unwrap().id);
    }
    assert_eq!(seen, [5, 6, 7, 8, 9]);
    assert_eq!(connections.load(Ordering::SeqCst), 3);
    service.abort();
}
