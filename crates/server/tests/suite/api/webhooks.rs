//! Events delivered to an HTTP server on this machine that is down, fails, hangs and redirects first.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::symlink;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header::LOCATION};
use axum::response::{IntoResponse as _, Response};
use axum::{Json, Router};
use chrono::TimeDelta;
use domain::api::{PromotionState, WebhookBody, WebhookData, WebhookDelivery, WebhookKind};
use domain::id::RunId;
use serde_json::{Value, json};
use server::git_host::{GitHost, HostKind, Project, ProjectOptions};
use server::webhooks::{Endpoint, SigningSecret, Target, deliver, settings, sign};
use store::Committed;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::service::Service;
use crate::pull_request::{BRANCH, Folder, Host};

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
        target: Target::Post {
            url: format!("http://{address}{PATH}").parse().unwrap(),
            secret: SigningSecret::parse(SECRET).unwrap(),
            authority: None,
            timeout: Duration::from_millis(200),
        },
        kinds: vec![WebhookKind::RunPaused, WebhookKind::RunFinished],
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
    let secret = &SigningSecret::parse(SECRET).unwrap();
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

/// Lets an endpoint get events from now on, until the token is cancelled.
async fn subscribe(service: &Service, endpoint: Endpoint) -> (JoinHandle<()>, CancellationToken) {
    let store = service.engine.store().clone();
    let kinds = [(endpoint.name.clone(), endpoint.kinds.clone())];
    let now = service.engine.now();
    store.subscribe_webhooks(&kinds, now).await.unwrap();
    let closing = CancellationToken::new();
    let task = deliver(endpoint, store, service.clock.clone(), closing.clone());
    (task, closing)
}

/// A git host that takes an issue and loses its first answer.
#[derive(Clone, Default)]
struct IssueHost {
    issues: Arc<Mutex<Vec<Value>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

async fn take_issue(
    State(host): State<IssueHost>,
    method: Method,
    headers: HeaderMap,
    uri: Uri,
    body: String,
) -> Response {
    assert_eq!(headers["authorization"], "token of-the-host");
    host.asked
        .lock()
        .unwrap()
        .push(format!("{method} {}", uri.path()));
    let mut issues = host.issues.lock().unwrap();
    let page = |number: usize| format!("https://git.example/team/kernels/issues/{number}");
    if method == Method::GET {
        let listed = issues.iter().enumerate().map(|(at, issue)| {
            json!({ "html_url": page(at + 1), "title": issue["title"], "body": issue["body"] })
        });
        return Json(listed.collect::<Vec<_>>()).into_response();
    }
    issues.push(serde_json::from_str(&body).unwrap());
    match issues.len() {
        1 => StatusCode::BAD_GATEWAY.into_response(),
        number => (
            StatusCode::CREATED,
            Json(json!({ "html_url": page(number) })),
        )
            .into_response(),
    }
}

#[tokio::test]
async fn a_winner_that_was_taken_back_becomes_one_issue() {
    let (service, run, worker) = Service::running().await;
    let winner = service.submit(run, "fast", 64).await.id;
    service.judge(worker, 50.0).await;
    let host = IssueHost::default();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let api = format!("http://{}/api/v1", listener.local_addr().unwrap());
    let app = Router::new().fallback(take_issue).with_state(host.clone());
    tokio::spawn(async move { axum::serve(listener, app).await });
    let project = Project::find(
        "https://git.example/team/kernels",
        &ProjectOptions {
            kind: Some(HostKind::Gitea),
            api: Some(api),
            path: None,
        },
    )
    .unwrap();
    let endpoint = Endpoint {
        name: "kernels".to_owned(),
        target: Target::Issue(Arc::new(
            GitHost::new(project, "of-the-host", None).unwrap(),
        )),
        kinds: vec![WebhookKind::WinnerReverted, WebhookKind::RunPaused],
    };
    let (task, closing) = subscribe(&service, endpoint).await;
    let (store, now) = (service.engine.store().clone(), service.engine.now());

    let promotion = store
        .begin_promotion(run, winner, "kernelwright/scale", now)
        .await
        .unwrap();
    let reverted = PromotionState::Reverted {
        commit: "c0ffee".to_owned(),
        reason: "0.97 times\n``` @team, on the new driver".to_owned(),
    };
    store
        .settle_promotion(run, promotion.id, &reverted, now)
        .await
        .unwrap();
    let events = until(&service, |events| {
        events.first().is_some_and(|event| event.attempts == 1)
    })
    .await;
    let error = events[0].last_error.clone().unwrap();
    assert!(error.contains("502"), "{error}");
    pass(&service, 5).await;
    until(&service, |events| events.is_empty()).await;

    let issues = host.issues.lock().unwrap().clone();
    let [issue] = issues.as_slice() else {
        panic!("one issue, though the first answer was lost: {issues:?}");
    };
    assert_eq!(issue["title"], "The winner for scale no longer holds");
    let text = issue["body"].as_str().unwrap();
    assert!(
        text.contains("reason      0.97 times ''' @team, on the new driver\n"),
        "{text}"
    );
    assert!(text.contains("taken back  by commit c0ffee\n"), "{text}");
    assert_eq!(text.matches("```").count(), 2, "{text}");
    let asked = host.asked.lock().unwrap().clone();
    let path = "/api/v1/repos/team/kernels/issues";
    assert_eq!(asked, [format!("POST {path}"), format!("GET {path}")]);

    // A later event of the run has a title of its own.
    pause(&service, run).await;
    until(&service, |events| {
        events.is_empty() && host.issues.lock().unwrap().len() == 2
    })
    .await;
    let later = host.issues.lock().unwrap()[1]["title"].clone();
    assert_eq!(later, "run.paused of a run for scale");
    closing.cancel();
    task.await.unwrap();
}

/// Promotes a winner to a branch, in the repository `mine` of a folder or in another, while the service proposes
/// winners of the former.
async fn promote(folder: &Folder, host: &Host, branch: &str, is_there: bool) {
    let (service, run, worker) = Service::running().await;
    let winner = service.submit(run, "fast", 64).await.id;
    service.judge(worker, 50.0).await;
    folder.write(
        "webhooks.toml",
        &format!(
            "[pull_requests.kernels]\nrepository = \"mine\"\ntoken_file = \"token\"\n\
             project = \"https://git.example/team/kernels\"\nhost = \"gitea\"\napi = \"{}/api/v1\"\n",
            host.address
        ),
    );
    let file = folder.path("webhooks.toml");
    let mut endpoints = settings::read(Some(&file), &folder.path(".")).unwrap();
    let endpoint = endpoints.remove(0);
    let (task, closing) = subscribe(&service, endpoint).await;
    let (store, now) = (service.engine.store().clone(), service.engine.now());
    let promotion = store
        .begin_promotion(run, winner, branch, now)
        .await
        .unwrap();
    if is_there {
        symlink(folder.path("mine"), &promotion.repository).unwrap();
    }
    let committed = Committed {
        commit: "c0ffee".to_owned(),
        speedup: 2.5,
        device_uuid: Some("GPU-1".to_owned()),
    };
    store
        .commit_promotion(run, promotion.id, &committed, now)
        .await
        .unwrap();
    until(&service, |events| events.is_empty()).await;
    closing.cancel();
    task.await.unwrap();
}

#[test]
fn a_promoted_winner_is_pushed_and_proposed_once() {
    let folder = Folder::new();
    let host = Host::start(&folder, "gitea");
    let runtime = Runtime::new().unwrap();
    runtime.block_on(promote(&folder, &host, BRANCH, true));
    let opened = host.opened();
    let [request] = opened.as_slice() else {
        panic!("{opened:?}");
    };
    assert_eq!(request["title"], "row-norm: one warp per row | @team");
    assert_eq!(
        (&request["head"], &request["base"]),
        (&json!(BRANCH), &json!("main"))
    );
    let tip = folder.git("mine", &["rev-parse", BRANCH]);
    assert_eq!(folder.git("origin.git", &["rev-parse", BRANCH]), tip);
    runtime.block_on(promote(&folder, &host, BRANCH, true));
    assert_eq!(host.opened().len(), 1, "the open one is found again");
}

#[test]
fn winners_elsewhere_and_winners_with_modelled_times_are_not_proposed() {
    let folder = Folder::new();
    let host = Host::start(&folder, "gitea");
    let runtime = Runtime::new().unwrap();
    runtime.block_on(promote(&folder, &host, BRANCH, false));
    let modelled = "kernelwright-modelled/row-norm/0123456789ab";
    folder.git("mine", &["branch", modelled, BRANCH]);
    runtime.block_on(promote(&folder, &host, modelled, true));
    assert_eq!(host.opened(), Vec::<Value>::new());
    assert_eq!(folder.git("origin.git", &["branch", "--list"]), "* main");
}
