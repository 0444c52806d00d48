//! A service whose bucket of evidence refuses requests, is slow or is away: runs go on, the reason is said, and the
//! evidence arrives when the bucket works again.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use domain::api::{RunRequest, RunState};
use domain::digest::Digest;
use lab::Lab;

/// How the stand-in answers.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
enum Behaviour {
    #[default]
    Works,
    /// It refuses the credentials.
    Denied,
    /// It takes longer to answer than a request may.
    Slow,
}

/// A stand-in for an S3 server, of which it has the requests that bundles need.
#[derive(Clone, Default)]
struct Bucket(Arc<Mutex<(Behaviour, BTreeMap<String, Bytes>)>>);

impl Bucket {
    fn state(&self) -> MutexGuard<'_, (Behaviour, BTreeMap<String, Bytes>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts it, and returns it with its address.
    async fn start() -> Result<(Self, String)> {
        let bucket = Self::default();
        let router = Router::new().fallback(answer).with_state(bucket.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = format!("http://{}", listener.local_addr()?);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok((bucket, address))
    }
}

fn refuse(status: StatusCode, code: &str) -> Response {
    let body = format!("<Error><Code>{code}</Code><Message>{code}</Message></Error>");
    (status, body).into_response()
}

async fn answer(State(bucket): State<Bucket>, method: Method, uri: Uri, body: Bytes) -> Response {
    let behaviour = bucket.state().0;
    match behaviour {
        Behaviour::Works => {}
        Behaviour::Denied => return refuse(StatusCode::FORBIDDEN, "AccessDenied"),
        Behaviour::Slow => tokio::time::sleep(Duration::from_secs(600)).await,
    }
    let objects = &mut bucket.state().1;
    let key = uri.path().to_owned();
    let headers = [
        ("etag", "\"1\""),
        ("last-modified", "Sun, 29 Nov 2026 00:00:00 GMT"),
    ];
    match method {
        Method::PUT => {
            objects.insert(key, body);
            headers.into_response()
        }
        // The keys to remove are in the body.
        Method::POST => {
            let text = String::from_utf8_lossy(&body);
            let names = text.split("<Key>").skip(1);
            let names = names.filter_map(|rest| rest.split("</Key>").next());
            let removed = names.map(|name| {
                objects.remove(&format!("{key}/{name}"));
                format!("<Deleted><Key>{name}</Key></Deleted>")
            });
            let removed = removed.collect::<String>();
            format!("<DeleteResult>{removed}</DeleteResult>").into_response()
        }
        Method::GET if uri.query().is_some_and(|query| query.contains("list-type")) => {
            let prefix = uri.query().and_then(|query| query.split("prefix=").nth(1));
            let prefix = prefix.unwrap_or_default().replace("%2F", "/");
            let listed = objects.iter().filter_map(|(path, body)| {
                let name = path.strip_prefix(&format!("{key}/"))?;
                let bytes = body.len();
                name.starts_with(&prefix).then(|| {
                    format!(
                        "<Contents><Key>{name}</Key><LastModified>2026-11-29T00:00:00Z</LastModified>\
                         <ETag>1</ETag><Size>{bytes}</Size></Contents>"
                    )
                })
            });
            let listed = listed.collect::<String>();
            format!("<ListBucketResult><IsTruncated>false</IsTruncated>{listed}</ListBucketResult>")
                .into_response()
        }
        Method::GET | Method::HEAD => match objects.get(&key) {
            Some(body) => (headers, body.clone()).into_response(),
            None => refuse(StatusCode::NOT_FOUND, "NoSuchKey"),
        },
        _ => refuse(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
    }
}

/// The bundles of a run.
async fn evidence(lab: &Lab, run: domain::id::RunId) -> Result<Vec<Digest>> {
    let mut all = Vec::new();
    for candidate in lab.candidates(run).await? {
        let detail = lab.candidate(candidate.id).await?;
        let evaluations = [detail.evaluation, detail.confirmation];
        all.extend(evaluations.iter().flatten().filter_map(|one| one.evidence));
    }
    Ok(all)
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_go_on_while_a_bucket_refuses_or_does_not_answer() -> Result<()> {
    let (bucket, address) = Bucket::start().await?;
    let environment = [
        ("AWS_ENDPOINT", address.as_str()),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_REGION", "here"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
    ];
    let arguments = ["--evidence-bucket", "s3://evidence/lab"];

    // A service that could never keep evidence does not start.
    bucket.state().0 = Behaviour::Denied;
    let mut lab = Lab::new()?;
    let refused = lab.serve_with(&arguments, &environment).await;
    let refused = refused.unwrap_err().to_string();
    for part in ["s3://evidence/lab", "AccessDenied"] {
        ensure!(refused.contains(part), "{part:?} is not in {refused}");
    }

    bucket.state().0 = Behaviour::Works;
    lab.serve_with(&arguments, &environment).await?;
    let request = RunRequest::new("softmax-f32", domain::search::Method::Playbook);
    for behaviour in [Behaviour::Denied, Behaviour::Slow] {
        bucket.state().0 = behaviour;
        let worker = lab.worker("bench")?;
        let run = lab.launch(&lab::small_softmax()?, &request).await?;
        let run = lab.finished(run.id).await?;
        let is_completed = matches!(run.state, RunState::Completed { .. });
        ensure!(is_completed, "{behaviour:?}: {}", run.state);
        // The service has the bucket's reason, and the worker repeats.
        lab.until_logged(&worker, "failed to send the evidence")
            .await?;
        if behaviour == Behaviour::Denied {
            let log = lab.service_log();
            ensure!(log.contains("AccessDenied"), "{log}");
        }
        bucket.state().0 = Behaviour::Works;
        let bundles = evidence(&lab, run.id).await?;
        ensure!(bundles.len() > 2, "baseline, winner and confirmation");
        for digest in bundles {
            let began = Instant::now();
            while let Err(error) = lab.text(&format!("/evidence/{digest}")).await {
                ensure!(
                    began.elapsed() < Duration::from_secs(90),
                    "{behaviour:?}: {error}\n{}\n{}",
                    worker.log(),
                    lab.service_log()
                );
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
    Ok(())
}
