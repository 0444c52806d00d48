use axum::body::{Body, BodyDataStream};
use axum::http::Request;
use domain::api::{Event, EventKind, RunView};
use domain::id::RunId;
use futures::StreamExt as _;
use insta::assert_snapshot;
use serde_json::json;

use super::service::Service;

/// Events as a reader gets them.
pub struct Reader {
    body: BodyDataStream,
    text: String,
}

impl Reader {
    pub async fn open(service: &Service, run: RunId, query: &str, last: Option<i64>) -> Self {
        let mut request = Request::get(format!("/api/v1/runs/{}/events{query}", run.uuid()));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = service.open(request.body(Body::empty()).unwrap()).await;
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self {
            body: response.into_body().into_data_stream(),
            text: String::new(),
        }
    }

    async fn next(&mut self) -> Event {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let line = |name: &str| {
                    let line = frame.lines().find_map(|line| line.strip_prefix(name));
                    line.unwrap().to_owned()
                };
                let event: Event = serde_json::from_str(&line("data: ")).unwrap();
                assert_eq!(line("id: "), event.id.to_string());
                self.text = rest.to_owned();
                return event;
            }
            let bytes = self.body.next().await.unwrap().unwrap();
            self.text.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }

    pub async fn up_to_verdict(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            events.push(self.next().await);
            if matches!(events.last().unwrap().what, EventKind::Judged { .. }) {
                return events;
            }
        }
    }
}

#[tokio::test]
async fn a_stream_tells_what_was_and_then_what_comes() {
    let (service, run, worker) = Service::running().await;
    let mut reader = Reader::open(&service, run, "", None).await;
    let past = reader.up_to_verdict().await;
    assert!(past.windows(2).all(|pair| pair[0].id < pair[1].id));
    let judged = |event: &Event| match &event.what {
        EventKind::Judged { ordinal, .. } => Some(*ordinal),
        _ => None,
    };
    assert_eq!(past.iter().find_map(judged), Some(0));

    let (events, ()) = tokio::join!(reader.up_to_verdict(), async {
        service.submit(run, "small blocks", 64).await;
        service.judge(worker, 50.0).await;
    });
    assert_eq!(events.iter().find_map(judged), Some(1));
}

#[tokio::test]
async fn a_reader_that_comes_back_gets_exactly_what_it_missed() {
    let (service, run, worker) = Service::running().await;
    service.submit(run, "small blocks", 64).await;
    service.judge(worker, 50.0).await;
    let mut whole = Reader::open(&service, run, "", None).await;
    let mut all = whole.up_to_verdict().await;
    all.extend(whole.up_to_verdict().await);
    for (index, seen) in all.iter().enumerate().take(all.len() - 1) {
        let mut by_header = Reader::open(&service, run, "?after=0", Some(seen.id)).await;
        assert_eq!(by_header.next().await, all[index + 1]);
        let query = format!("?after={}", seen.id);
        let mut by_query = Reader::open(&service, run, &query, None).await;
        assert_eq!(by_query.next().await, all[index + 1]);
    }
}

/// The service keeps the last 128 events for a client that does not read.
#[tokio::test]
async fn a_reader_that_stops_for_a_while_misses_nothing() {
    let service = Service::with_task().await;
    let worker = service.register().await;
    let request = json!({ "task": "scale", "method": "external", "budget": { "trials": 200 } });
    let run: RunView = service.post("/api/v1/runs", &request).await.read();
    let run = run.id;
    let mut slow = Reader::open(&service, run, "", None).await;
    service.judge(worker, 100.0).await;
    let mut seen = slow.up_to_verdict().await;
    for block in 100..250 {
        service.submit(run, "another block", block).await;
    }
    let store = service.engine.store();
    let all = store.events_after(run, 0, 1_000).await.unwrap();
    assert!(all.len() > 128 + seen.len(), "only {} events", all.len());
    while seen.len() < all.len() {
        seen.push(slow.next().await);
    }
    assert_eq!(seen, all);
}

#[tokio::test]
async fn events_of_an_unknown_run_and_from_nowhere_are_refused() {
    let service = Service::new().await;
    let path = "/api/v1/runs/01938e5a-0000-7000-8000-000000000001/events";
    assert_snapshot!(service.get(path).await.show(), @r#"
    404 Not Found
    {
      "detail": "no run \"run_[id 0]\" is stored here; list what is there first",
      "status": 404,
      "title": "Unknown run",
      "type": "/problems/unknown-run"
    }
    "#);
    let request = Request::get(path).header("last-event-id", "yesterday");
    let answer = service.send(request.body(Body::empty()).unwrap()).await;
    assert_snapshot!(answer.show(), @r#"
    400 Bad Request
    {
      "detail": "the header Last-Event-ID must be a whole number",
      "status": 400,
      "title": "Malformed request",
      "type": "/problems/malformed-request"
    }
    "#);
}
