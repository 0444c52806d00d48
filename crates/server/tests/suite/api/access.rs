//! Tokens, scopes, sessions and the list of changes. Every route of the OpenAPI document is asked
//! without a token, and with a token of each scope.

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use chrono::TimeDelta;
use domain::access::{ChangePage, Scope, Secret, SecretKind, SessionView, TokenView};
use domain::digest::Digest;
use domain::id::{JobId, WorkerId};
use domain::lease::{Lease, Receipt, Registered, ReportOutcome};
use insta::assert_snapshot;
use serde_json::{Value, json};
use server::http::access::{Access, OwnSecrets, Requirements};
use server::http::description;
use store::NewToken;

use super::service::{Answer, Service, accepted, registration, report};

const UNKNOWN: &str = "01938e5a-0000-7000-8000-000000000001";

impl Service {
    async fn with_tokens() -> Self {
        let own = OwnSecrets::draw().unwrap();
        Self::with_access(Access::required(&own)).await
    }

    /// A token that expires in a day.
    pub async fn token(&self, name: &str, scope: Scope) -> Secret {
        self.stored_token(name, scope).await.1
    }

    async fn stored_token(&self, name: &str, scope: Scope) -> (TokenView, Secret) {
        let now = self.engine.now();
        let new = NewToken {
            name,
            scope,
            expires_at: Some(now + TimeDelta::days(1)),
        };
        let created = self.engine.store().create_token(&new, "a test", now);
        created.await.unwrap()
    }

    async fn as_bearer(&self, token: &Secret, method: Method, path: &str, body: &Value) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {}", token.reveal()))
            .header("content-type", "application/json")
            .body(serde_json::to_vec(body).unwrap().into());
        self.send(request.unwrap()).await
    }

    async fn post_as(&self, token: &Secret, path: &str, body: impl serde::Serialize) -> Answer {
        let body = serde_json::to_value(body).unwrap();
        self.as_bearer(token, Method::POST, path, &body).await
    }
}

/// One route of the OpenAPI document, with values for the parameters of its path.
struct Route {
    method: Method,
    path: String,
    scope: Option<Scope>,
}

fn routes() -> Vec<Route> {
    let document = serde_json::to_value(description()).unwrap();
    let mut routes = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let security = &operation["security"][0];
            let scope = security["token"][0].as_str();
            routes.push(Route {
                method: method.to_uppercase().parse().unwrap(),
                path: path
                    .replace("{digest}", &Digest::of("none").to_string())
                    .replace("{name}", "nothing")
                    .replace("{id}", UNKNOWN)
                    .replace("{job}", UNKNOWN),
                scope: scope.map(|scope| scope.parse().unwrap()),
            });
        }
    }
    routes
}

#[tokio::test]
async fn every_route_asks_for_the_scope_that_it_documents() {
    let service = Service::with_tokens().await;
    let mut tokens = Vec::new();
    for scope in Scope::ALL {
        tokens.push((scope, service.token(scope.as_str(), scope).await));
    }
    let routes = routes();
    assert!(routes.len() > 30, "{}", routes.len());
    for Route {
        method,
        path,
        scope,
    } in routes
    {
        assert!(
            !path.contains('{'),
            "{path} has a parameter without a value"
        );
        let request = Request::builder().method(method.clone()).uri(&path);
        // The head is enough: a stream of events would not end.
        let without = service.open(request.body(Body::empty()).unwrap()).await;
        let expected_without = scope.is_some();
        assert_eq!(
            without.status() == StatusCode::UNAUTHORIZED,
            expected_without,
            "{method} {path} without a token: {}",
            without.status()
        );
        let Some(needed) = scope else { continue };
        for (scope, token) in &tokens {
            let request = Request::builder()
                .method(method.clone())
                .uri(&path)
                .header("authorization", format!("Bearer {}", token.reveal()));
            let answer = service.open(request.body(Body::empty()).unwrap()).await;
            let status = answer.status();
            if scope.covers(needed) {
                assert_ne!(status, StatusCode::UNAUTHORIZED, "{method} {path} {scope}");
                // Evidence of an unknown bundle is nobody's.
                let owned = path.contains("/evidence/") && method == Method::PUT;
                assert_eq!(
                    status == StatusCode::FORBIDDEN,
                    owned,
                    "{method} {path} {scope}: {status}"
                );
            } else {
                assert_eq!(status, StatusCode::FORBIDDEN, "{method} {path} {scope}");
            }
        }
    }
}

#[test]
#[should_panic(expected = "GET /api/v1/new declares no scope")]
fn a_route_without_a_scope_stops_the_service() {
    let mut document = serde_json::to_value(description()).unwrap();
    document["paths"]["/api/v1/new"] = json!({ "get": { "responses": {} } });
    Requirements::of(&document);
}

#[tokio::test]
async fn a_refusal_says_what_is_wrong_and_what_to_do() {
    let service = Service::with_tokens().await;
    let runs = "/api/v1/runs";
    let none = service.get(runs).await;
    assert_eq!(none.header("www-authenticate"), "Bearer");
    assert_snapshot!(none.show(), @r#"
    401 Unauthorized
    {
      "detail": "this service asks for a token; send the header `Authorization: Bearer TOKEN`, give a command `--token-file FILE`, or sign in on the dashboard; `kernelwright token create` on the service's machine makes a token",
      "status": 401,
      "title": "No token",
      "type": "/problems/no-token"
    }
    "#);
    let unknown = Secret::new(SecretKind::Token, [7; 32]);
    let answer = service
        .as_bearer(&unknown, Method::GET, runs, &Value::Null)
        .await;
    assert_snapshot!(answer.show(), @r#"
    401 Unauthorized
    {
      "detail": "no token of this service has this secret; check the token that is sent, or have an administrator make another with `kernelwright token create`",
      "status": 401,
      "title": "Wrong token",
      "type": "/problems/wrong-token"
    }
    "#);
    let viewer = service.token("wall screen", Scope::Viewer).await;
    let body = json!({ "task": "scale" });
    let answer = service.post_as(&viewer, runs, &body).await;
    assert_snapshot!(answer.show(), @r#"
    403 Forbidden
    {
      "detail": "this request needs a token of scope user, and the token \"wall screen\" has the scope viewer; use one made with `kernelwright token create --scope user`",
      "status": 403,
      "title": "Scope too narrow",
      "type": "/problems/scope-too-narrow"
    }
    "#);
    service.clock.advance(TimeDelta::days(2));
    let answer = service
        .as_bearer(&viewer, Method::GET, runs, &Value::Null)
        .await;
    assert_snapshot!(answer.show(), @r#"
    401 Unauthorized
    {
      "detail": "the token or its session expired at 2026-09-22 14:13 UTC; check the token that is sent, or have an administrator make another with `kernelwright token create`",
      "status": 401,
      "title": "Wrong token",
      "type": "/problems/wrong-token"
    }
    "#);
    let typo = Request::get(runs).header("authorization", "Bearer kw_12");
    let answer = service.send(typo.body(Body::empty()).unwrap()).await;
    assert_snapshot!(answer.show(), @r#"
    401 Unauthorized
    {
      "detail": "failed to read the token: expected \"kw_\" and 64 hexadecimal digits, as `kernelwright token create` prints it; check the token that is sent, or have an administrator make another with `kernelwright token create`",
      "status": 401,
      "title": "Wrong token",
      "type": "/problems/wrong-token"
    }
    "#);
}

#[tokio::test]
async fn a_revoked_token_is_refused_at_once() {
    let service = Service::with_tokens().await;
    let (view, secret) = service.stored_token("laptop", Scope::User).await;
    let get = || service.as_bearer(&secret, Method::GET, "/api/v1/runs", &Value::Null);
    assert_eq!(get().await.status, StatusCode::OK);
    let now = service.engine.now();
    let store = service.engine.store();
    let revoked = store.revoke_token("laptop", "a test", now).await.unwrap();
    assert_eq!((revoked.id, revoked.revoked_at), (view.id, Some(now)));
    let answer = get().await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    assert!(answer.body.contains("was revoked at"), "{}", answer.body);
    // The name is free again, and the first token stays revoked.
    service.token("laptop", Scope::User).await;
    assert_eq!(get().await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_use_is_written_once_a_minute() {
    let service = Service::with_tokens().await;
    let secret = service.token("laptop", Scope::Viewer).await;
    let first = service.engine.now();
    let used = async |seconds| {
        service.clock.advance(TimeDelta::seconds(seconds));
        let get = service.as_bearer(&secret, Method::GET, "/api/v1/runs", &Value::Null);
        assert_eq!(get.await.status, StatusCode::OK);
        let tokens = service.engine.store().tokens().await.unwrap();
        tokens[0].last_used_at.unwrap() - first
    };
    assert_eq!(used(0).await, TimeDelta::zero());
    assert_eq!(used(59).await, TimeDelta::zero());
    assert_eq!(used(1).await, TimeDelta::seconds(60));
}

#[tokio::test]
async fn a_worker_token_works_on_its_own_leases_and_on_nothing_else() {
    let service = Service::with_tokens().await;
    let user = service.token("user", Scope::User).await;
    let own = service.token("machine one", Scope::Worker).await;
    let stolen = service.token("machine two", Scope::Worker).await;
    let task = crate::fixtures::task();
    let answer = service.post_as(&user, "/api/v1/tasks", &task).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.body);
    let run = json!({ "task": "scale", "method": "external" });
    let answer = service.post_as(&user, "/api/v1/runs", &run).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.body);

    let register = service.post_as(&own, "/api/v1/workers", registration());
    let worker = register.await.read::<Registered>().worker;
    let poll = format!("/api/v1/workers/{}/lease?wait=30", worker.uuid());
    let foreign = service.post_as(&stolen, &poll, ()).await;
    assert_snapshot!(foreign.show(), @r#"
    403 Forbidden
    {
      "detail": "use worker work_[id 0]: it belongs to another token; send the request with that one",
      "status": 403,
      "title": "Not yours",
      "type": "/problems/not-yours"
    }
    "#);
    let lease: Lease = service.post_as(&own, &poll, ()).await.read();

    // Its registration under the same name ends no lease of another token's worker.
    let register = service.post_as(&stolen, "/api/v1/workers", registration());
    let thief = register.await.read::<Registered>().worker;
    let job = lease.job.uuid();
    let renew = format!("/api/v1/leases/{job}/renew");
    let renewal = json!({ "attempt": lease.attempt, "stage": "compile" });
    let report_path = format!("/api/v1/leases/{job}/report");
    let mut judged = report(&lease, accepted(100.0));
    let bundle = Digest::of("a manifest");
    if let ReportOutcome::Evaluated { evaluation } = &mut judged.outcome {
        evaluation.evidence = Some(bundle);
    }
    let evidence = format!("/api/v1/evidence/{bundle}");
    for (path, body) in [
        (&renew, renewal.clone()),
        (&report_path, serde_json::to_value(&judged).unwrap()),
        (
            &format!("/api/v1/workers/{}/health", worker.uuid()),
            json!({ "condition": { "state": "well" }, "breaks": {} }),
        ),
    ] {
        let answer = service.post_as(&stolen, path, body).await;
        assert_eq!(
            answer.status,
            StatusCode::FORBIDDEN,
            "{path}: {}",
            answer.body
        );
        assert!(answer.body.contains("not-yours"), "{path}: {}", answer.body);
    }
    let renewed: Receipt = service.post_as(&own, &renew, renewal).await.read();
    assert_eq!(renewed, Receipt::Accepted);
    let early = service
        .as_bearer(&own, Method::PUT, &evidence, &Value::Null)
        .await;
    assert_eq!(early.status, StatusCode::FORBIDDEN, "{}", early.body);
    let receipt: Receipt = service.post_as(&own, &report_path, &judged).await.read();
    assert_eq!(receipt, Receipt::Accepted);
    let put = async |token| {
        let answer = service.as_bearer(token, Method::PUT, &evidence, &Value::Null);
        answer.await.status
    };
    assert_eq!(put(&stolen).await, StatusCode::FORBIDDEN);
    // Past the check of the owner: the body is not the bundle's manifest.
    assert_eq!(put(&own).await, StatusCode::UNPROCESSABLE_ENTITY);
    assert_ne!(thief, worker);
}

#[tokio::test]
async fn a_drained_worker_gets_no_further_job_and_is_told_to_leave() {
    let service = Service::with_task().await;
    let worker = service.register().await;
    let poll = format!("/api/v1/workers/{}/lease?wait=30", worker.uuid());
    let drain = format!("/api/v1/workers/{}/drain", worker.uuid());
    // The drain ends a poll that waits.
    let (polled, drained) = tokio::join!(service.post(&poll, &()), service.post(&drain, &()));
    assert_eq!(drained.status, StatusCode::NO_CONTENT);
    assert_snapshot!(polled.show(), @r#"
    410 Gone
    {
      "detail": "lend work_[id 0] a job: it was drained; it may leave, and takes work again once it is started again",
      "status": 410,
      "title": "Drained",
      "type": "/problems/drained"
    }
    "#);
    let workers = service.get("/api/v1/workers").await;
    assert!(
        workers.body.contains("\"draining\":true"),
        "{}",
        workers.body
    );
    let unknown = WorkerId::from(UNKNOWN.parse::<uuid::Uuid>().unwrap());
    let drain = format!("/api/v1/workers/{}/drain", unknown.uuid());
    let answer = service.post(&drain, &()).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn changes_are_listed_with_who_what_and_when() {
    let service = Service::with_tokens().await;
    let admin = service.token("ada", Scope::Admin).await;
    let user = service.token("bob", Scope::User).await;
    let task = crate::fixtures::task();
    service.post_as(&user, "/api/v1/tasks", &task).await;
    let run = json!({ "task": "scale", "method": "external" });
    let created = service.post_as(&user, "/api/v1/runs", &run).await;
    let run = created.header("location").to_owned();
    service.clock.advance(TimeDelta::seconds(5));
    service
        .post_as(&admin, &format!("{run}/cancel"), json!(null))
        .await;
    service
        .post_as(&user, &format!("{run}/pause"), json!(null))
        .await;
    // Reads are no changes.
    service
        .as_bearer(&user, Method::GET, &run, &Value::Null)
        .await;
    let page: ChangePage = service
        .as_bearer(&admin, Method::GET, "/api/v1/changes", &Value::Null)
        .await
        .read();
    let shown: Vec<_> = page
        .changes
        .iter()
        .map(|change| {
            let (actor, request) = (change.actor.as_str(), change.request.as_str());
            (actor, request, change.status)
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("bob", "POST /api/v1/runs/{id}/pause", Some(409)),
            ("ada", "POST /api/v1/runs/{id}/cancel", Some(200)),
            ("bob", "POST /api/v1/runs", Some(201)),
            ("bob", "POST /api/v1/tasks", Some(201)),
            ("a test", "token create", Some(200)),
            ("a test", "token create", Some(200)),
        ]
    );
    assert_eq!(page.changes[2].subject, run);
    assert_eq!(page.changes[1].subject, format!("{run}/cancel"));
    assert_eq!(
        page.changes[1].at - page.changes[2].at,
        TimeDelta::seconds(5)
    );
    let page: ChangePage = service
        .as_bearer(&admin, Method::GET, "/api/v1/changes?limit=4", &Value::Null)
        .await
        .read();
    let next = format!("/api/v1/changes?cursor={}", page.next.unwrap());
    let rest: ChangePage = service
        .as_bearer(&admin, Method::GET, &next, &Value::Null)
        .await
        .read();
    assert_eq!((rest.changes.len(), rest.next), (2, None));
}

#[tokio::test]
async fn a_lease_that_was_never_lent_is_superseded_and_belongs_to_nobody() {
    let service = Service::with_tokens().await;
    let worker = service.token("machine", Scope::Worker).await;
    let job = JobId::from(UNKNOWN.parse::<uuid::Uuid>().unwrap());
    let path = format!("/api/v1/leases/{}/renew", job.uuid());
    let renewal = json!({ "attempt": 1, "stage": "compile" });
    let receipt: Receipt = service.post_as(&worker, &path, renewal).await.read();
    assert_eq!(receipt, Receipt::Superseded);
}

fn with_cookie(method: Method, path: &str, cookie: &str) -> axum::http::request::Builder {
    let request = Request::builder().method(method).uri(path);
    request.header("cookie", cookie)
}

#[tokio::test]
async fn a_browser_signs_in_with_a_token_and_out_again() {
    let service = Service::with_tokens().await;
    let user = service.token("bob", Scope::User).await;
    let session: SessionView = service.get("/api/v1/session").await.read();
    assert_eq!((session.required, session.name), (true, None));
    let body = json!({ "token": user.reveal() });
    let answer = service.post("/api/v1/session", &body).await;
    let view: SessionView = answer.read();
    assert_eq!(
        (view.name.as_deref(), view.scope),
        (Some("bob"), Some(Scope::User))
    );
    let (cookie, rules) = answer.header("set-cookie").split_once(';').unwrap();
    assert_eq!(rules, " Path=/; Max-Age=43200; HttpOnly; SameSite=Strict");
    assert!(!cookie.contains(user.reveal()), "{cookie}");
    let get = async |path| {
        let request = with_cookie(Method::GET, path, &format!("other=1; {cookie}"));
        service.send(request.body(Body::empty()).unwrap()).await
    };
    assert_eq!(get("/api/v1/runs").await.status, StatusCode::OK);
    assert!(get("/api/v1/session").await.body.contains("\"bob\""));
    // A session is no token.
    let secret = cookie.split_once('=').unwrap().1;
    let bearer = Request::get("/api/v1/runs").header("authorization", format!("Bearer {secret}"));
    let answer = service.send(bearer.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);

    let change = async |headers: &[(&str, &str)]| {
        let mut request = with_cookie(Method::POST, "/api/v1/runs", cookie);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        service
            .send(request.body(Body::empty()).unwrap())
            .await
            .status
    };
    let ours = ("origin", "http://127.0.0.1:8787");
    // The handler refuses the empty body of a request that the guard let pass.
    let passed = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    assert_eq!(
        change(&[ours, ("sec-fetch-site", "same-origin")]).await,
        passed
    );
    assert_eq!(change(&[ours]).await, passed);
    assert_eq!(change(&[("sec-fetch-site", "same-origin")]).await, passed);
    for headers in [
        &[][..],
        &[("sec-fetch-site", "cross-site")],
        &[ours, ("sec-fetch-site", "same-site")],
        &[("origin", "http://evil.example")],
        &[("origin", "null")],
    ] {
        assert_eq!(change(headers).await, StatusCode::FORBIDDEN, "{headers:?}");
    }

    let out = with_cookie(Method::DELETE, "/api/v1/session", cookie).header(ours.0, ours.1);
    let out = service.send(out.body(Body::empty()).unwrap()).await;
    assert_eq!(out.status, StatusCode::NO_CONTENT);
    assert!(out.header("set-cookie").contains("Max-Age=0"));
    assert_eq!(get("/api/v1/runs").await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_session_ends_after_twelve_hours_and_with_its_token() {
    let service = Service::with_tokens().await;
    let user = service.token("bob", Scope::User).await;
    let sign_in = async || {
        let body = json!({ "token": user.reveal() });
        let answer = service.post("/api/v1/session", &body).await;
        let cookie = answer.header("set-cookie").split_once(';').unwrap().0;
        cookie.to_owned()
    };
    let get = async |cookie: &str| {
        let request = with_cookie(Method::GET, "/api/v1/runs", cookie);
        service
            .send(request.body(Body::empty()).unwrap())
            .await
            .status
    };
    let first = sign_in().await;
    service.clock.advance(TimeDelta::hours(12));
    assert_eq!(get(&first).await, StatusCode::UNAUTHORIZED);
    // The token has 12 hours left, and so has a session of it.
    let second = sign_in().await;
    assert_eq!(get(&second).await, StatusCode::OK);
    let now = service.engine.now();
    let store = service.engine.store();
    store.revoke_token("bob", "a test", now).await.unwrap();
    assert_eq!(get(&second).await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn over_tls_the_cookie_is_secure_and_the_origin_is_https() {
    let own = OwnSecrets::draw().unwrap();
    let service = Service::with_access(Access::required(&own).encrypted()).await;
    let user = service.token("bob", Scope::User).await;
    let body = json!({ "token": user.reveal() }).to_string();
    let sign_in = |origin: &str| {
        Request::post("/api/v1/session")
            .header("host", "kernels.example")
            .header("origin", origin.to_owned())
            .header("content-type", "application/json")
            .body(Body::from(body.clone()))
            .unwrap()
    };
    let plain = service.send(sign_in("http://kernels.example")).await;
    assert_eq!(plain.status, StatusCode::FORBIDDEN);
    let answer = service.send(sign_in("https://kernels.example")).await;
    let cookie = answer.header("set-cookie");
    assert!(cookie.starts_with("__Host-kernelwright=kws_"), "{cookie}");
    assert!(
        cookie.ends_with("HttpOnly; SameSite=Strict; Secure"),
        "{cookie}"
    );
}
