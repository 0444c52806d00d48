//! Events delivered to an HTTP server on this machine that is down, fails, hangs and redirects first.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header::LOCATION};
use axum::response::{IntoResponse as _, Response};
use chrono::TimeDelta;
use domain::api::{WebhookBody, WebhookData, WebhookDelivery, WebhookKind};
use domain::id::RunId;
use server::webhooks::{Endpoint, SigningSecret, deliver, sign};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::service::Service;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const PATH: &str = "/hook?key=of-the-address";

/// The receiver's behaviour.
#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Fails,
    Hangs,
    Redirects,
    Takes,
}

/// A request that the receiver got.
#[derive(Clone)]
struct Got {
    id: String,
    timestamp: i64,
    signature: String,
    body: String,
}

#[derive(Clone)]
struct Receiver {
    mood: Arc<Mutex<Mood>>,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Receiver {
    fn new() -> Self {
        Self {
            mood: Arc::new(Mutex::new(Mood::Fails)),
            got: Arc::default(),
        }
    }

    async fn listen(&self, address: SocketAddr) {
        let listener = TcpListener::bind(address).await.unwrap();
        let app = Router::new().fallback(receive).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
    }

    fn becomes(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }
}

async fn receive(State(receiver): State<Receiver>, headers: HeaderMap, body: String) -> Response {
    let header = |name| headers[name].to_str().unwrap().to_owned();
    receiver.got.lock().unwrap().push(Got {
        id: header("webhook-id"),
        timestamp: header("webhook-timestamp").parse().unwrap(),
        signature: header("webhook-signature"),
        body,
    });
    let mood = *receiver.mood.lock().unwrap();
    match mood {
        Mood::Fails => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Mood::Hangs => std::future::pending().await,
        Mood::Redirects => (StatusCode::FOUND, [(LOCATION, "/elsewhere")]).into_response(),
        Mood::Takes => StatusCode::NO_CONTENT.into_response(),
    }
}

/// The undelivered events once they are as wanted; it looks again after every commit.
async fn until(
    service: &Service,
    holds: impl Fn(&[WebhookDelivery]) -> bool,
) -> Vec<WebhookDelivery> {
    let mut changed = service.engine.store().changed();
    loop {
        changed.borrow_and_update();
        let events = service
            .get("/api/v1/webhooks/undelivered")
            .await
            .read::<Vec<_>>();
        if holds(&events) {
            return events;
        }
        changed.changed().await.unwrap();
    }
}

/// Lets time pass for the deliveries, which look at the clock after a commit.
async fn pass(service: &Service, seconds: i64) {
    service.clock.advance(TimeDelta::seconds(seconds));
    service.launch().await;
}

async fn pause(service: &Service, run: RunId) {
    let path = format!("/api/v1/runs/{}/pause", run.uuid());
    assert_eq!(service.post(&path, &()).await.status, StatusCode::OK);
}

#[tokio::test]
async fn an_event_is_tried_until_its_endpoint_takes_it() {
    let service = Service::with_task().await;
    let run = service.launch().await;
    let store = service.engine.store().clone();
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = port.local_addr().unwrap();
    drop(port);
    let endpoint = Endpoint {
        name: "team".to_owned(),
        url: format!("http://{address}{PATH}").parse().unwrap(),
        secret: SigningSecret::parse(SECRET).unwrap(),
        kinds: vec![WebhookKind::RunPaused, WebhookKind::RunFinished],
        authority: None,
        timeout: Duration::from_millis(200),
    };
    let kinds = [(endpoint.name.clone(), endpoint.kinds.clone())];
    let now = service.engine.now();
    store.subscribe_webhooks(&kinds, now).await.unwrap();
    let start = || {
        let closing = CancellationToken::new();
        let clock = service.clock.clone();
        let task = deliver(endpoint.clone(), store.clone(), clock, closing.clone());
        (task, closing)
    };
    let (task, closing) = start();

    // Nothing listens at first. The run goes on.
    pause(&service, run).await;
    let attempted = |count| move |events: &[WebhookDelivery]| events[0].attempts == count;
    let events = until(&service, attempted(1)).await;
    let error = events[0].last_error.clone().unwrap();
    assert!(!error.contains("of-the-address"), "{error}");
    assert_eq!(events[0].kind, WebhookKind::RunPaused);
    let receiver = Receiver::new();
    receiver.listen(address).await;
    let mut attempts = 1;
    for (mood, seconds, words) in [
        (Mood::Fails, 5, "it answered 500"),
        (Mood::Hangs, 20, "timed out"),
        (
            Mood::Redirects,
            80,
            "it answered 302; redirects are not followed",
        ),
    ] {
        receiver.becomes(mood);
        pass(&service, seconds).await;
        attempts += 1;
        let events = until(&service, attempted(attempts)).await;
        let error = events[0].last_error.clone().unwrap();
        assert!(error.contains(words), "{error}");
        assert_eq!(receiver.got().len(), attempts as usize - 1);
    }
    let metrics = service.get("/metrics").await.body;
    let waiting = "kernelwright_undelivered_webhooks{state=\"waiting\"} 1";
    assert!(metrics.contains(waiting), "{metrics}");

    // The service stops and starts again.
    closing.cancel();
    task.await.unwrap();
    receiver.becomes(Mood::Takes);
    pass(&service, 320).await;
    let (task, closing) = start();
    until(&service, |events| events.is_empty()).await;
    let got = receiver.got();
    assert_eq!(got.len(), 4);
    let secret = &endpoint.secret;
    for request in &got {
        assert_eq!((&request.id, &request.body), (&got[0].id, &got[0].body));
        let signature = sign(secret, &request.id, request.timestamp, &request.body);
        assert_eq!(request.signature, signature);
    }
    assert!(got[0].timestamp < got[3].timestamp);
    let body: WebhookBody = serde_json::from_str(&got[0].body).unwrap();
    let WebhookData::Run { run: view } = body.data else {
        panic!("{}", got[0].body);
    };
    assert_eq!((body.kind, view.id), (WebhookKind::RunPaused, run));

    // A further event has an id of its own.
    let path = format!("/api/v1/runs/{}/cancel", run.uuid());
    service.post(&path, &()).await;
    until(&service, |events| {
        events.is_empty() && receiver.got().len() == 5
    })
    .await;
    assert_ne!(receiver.got()[4].id, got[0].id);
    closing.cancel();
    task.await.unwrap();
}
