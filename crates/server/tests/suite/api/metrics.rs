//! The metrics that Prometheus scrapes, and the answers that supervisors and load balancers wait for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use axum::http::StatusCode;
use chrono::TimeDelta;
use domain::access::Scope;
use domain::api::RunState;
use domain::lease::{LEASE_SECONDS, ReportOutcome};
use serde_json::json;
use server::http::access::{Access, OwnSecrets};

use super::service::{Service, report};

/// Samples by name with labels, and the names' types.
struct Scrape {
    samples: BTreeMap<String, f64>,
    types: BTreeMap<String, String>,
}

impl Scrape {
    fn parse(text: &str) -> Self {
        let mut scrape = Self {
            samples: BTreeMap::new(),
            types: BTreeMap::new(),
        };
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                scrape.types.insert(name.to_owned(), kind.to_owned());
            } else if !line.starts_with('#') {
                let (name, value) = line.rsplit_once(' ').unwrap();
                scrape
                    .samples
                    .insert(name.to_owned(), value.parse().unwrap());
            }
        }
        scrape
    }

    #[track_caller]
    fn value(&self, name: &str) -> f64 {
        let all = || self.samples.keys().cloned().collect::<Vec<_>>().join("\n");
        *self
            .samples
            .get(name)
            .unwrap_or_else(|| panic!("no {name} in\n{}", all()))
    }
}

impl Service {
    async fn scrape(&self) -> Scrape {
        let answer = self.get("/metrics").await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        assert!(
            answer
                .header("content-type")
                .starts_with("application/openmetrics-text")
        );
        assert!(answer.body.ends_with("# EOF\n"));
        Scrape::parse(&answer.body)
    }
}

#[tokio::test]
async fn metrics_count_what_the_database_holds_and_what_workers_report() {
    let service = Service::with_task().await;
    let empty = service.scrape().await;
    assert_eq!(empty.value("kernelwright_runs{state=\"running\"}"), 0.0);
    assert_eq!(empty.value("kernelwright_workers{activity=\"idle\"}"), 0.0);
    assert!(empty.value("kernelwright_database_bytes") > 0.0);

    let worker = service.register().await;
    let run = service.launch().await;
    service
        .until(run, |view| view.state == RunState::CheckingBaseline)
        .await;
    service.clock.advance(TimeDelta::seconds(5));
    let queued = service.scrape().await;
    assert_eq!(
        queued.value("kernelwright_runs{state=\"checking_baseline\"}"),
        1.0
    );
    let waiting = "kernelwright_jobs{state=\"queued\",device=\"\"}";
    assert_eq!(queued.value(waiting), 1.0);
    assert_eq!(queued.value("kernelwright_longest_wait_seconds"), 5.0);
    assert_eq!(queued.value("kernelwright_workers{activity=\"idle\"}"), 1.0);

    let lease = service.lease(worker).await;
    let busy = service.scrape().await;
    assert_eq!(
        busy.value("kernelwright_workers{activity=\"evaluating\"}"),
        1.0
    );
    assert_eq!(busy.value("kernelwright_longest_wait_seconds"), 0.0);
    let path = format!("/api/v1/leases/{}/report", lease.job.uuid());
    let fault = ReportOutcome::Faulted {
        message: "the driver went away".to_owned(),
    };
    let mut faulted = report(&lease, super::service::accepted(100.0));
    faulted.outcome = fault;
    service.post(&path, &faulted).await;
    // The same report again is of an attempt that is over.
    service.post(&path, &faulted).await;
    service.clock.advance(TimeDelta::minutes(1));
    service.judge(worker, 100.0).await;
    let judged = service.scrape().await;
    assert_eq!(
        judged.value("kernelwright_reports_total{outcome=\"fault\"}"),
        1.0
    );
    assert_eq!(
        judged.value("kernelwright_reports_total{outcome=\"accepted\"}"),
        1.0
    );
    let leases = "kernelwright_request_duration_seconds_count{method=\"POST\",route=\"/api/v1/workers/{id}/lease\",status=\"200\"}";
    assert_eq!(judged.value(leases), 2.0);
}

#[tokio::test]
async fn a_worker_that_is_gone_is_silent_unless_it_came_back_or_was_drained() {
    let service = Service::with_task().await;
    service.register().await;
    service
        .clock
        .advance(TimeDelta::seconds(2 * LEASE_SECONDS as i64 + 1));
    let gone = service.scrape().await;
    assert_eq!(gone.value("kernelwright_workers{activity=\"silent\"}"), 1.0);
    let again = service.register().await;
    let back = service.scrape().await;
    assert_eq!(back.value("kernelwright_workers{activity=\"silent\"}"), 0.0);
    assert_eq!(back.value("kernelwright_workers{activity=\"idle\"}"), 1.0);
    let path = format!("/api/v1/workers/{}/drain", again.uuid());
    service.post(&path, &()).await;
    let drained = service.scrape().await;
    assert_eq!(
        drained.value("kernelwright_workers{activity=\"draining\"}"),
        1.0
    );
    service
        .clock
        .advance(TimeDelta::seconds(2 * LEASE_SECONDS as i64 + 1));
    let left = service.scrape().await;
    for activity in ["idle", "evaluating", "suspended", "draining", "silent"] {
        let name = format!("kernelwright_workers{{activity={activity:?}}}");
        assert_eq!(left.value(&name), 0.0, "{activity}");
    }
}

#[tokio::test]
async fn a_quarantined_device_is_counted() {
    let service = Service::with_task().await;
    let worker = service.register().await;
    let path = format!("/api/v1/workers/{}/health", worker.uuid());
    let condition = json!({ "state": "quarantined", "reason": "it forgets" });
    service
        .post(&path, &json!({ "condition": condition, "breaks": {} }))
        .await;
    let scrape = service.scrape().await;
    assert_eq!(
        scrape.value("kernelwright_devices{condition=\"quarantined\"}"),
        1.0
    );
    assert_eq!(
        scrape.value("kernelwright_devices{condition=\"well\"}"),
        0.0
    );
}

#[tokio::test]
async fn supervisors_need_no_token_and_prometheus_does() {
    let own = OwnSecrets::draw().unwrap();
    let service = Service::with_access(Access::required(&own)).await;
    for path in ["/livez", "/readyz"] {
        let answer = service.get(path).await;
        assert_eq!(answer.status, StatusCode::NO_CONTENT, "{path}");
    }
    let without = service.get("/metrics").await;
    assert_eq!(without.status, StatusCode::UNAUTHORIZED);
    let token = service.token("prometheus", Scope::Viewer).await;
    let request = axum::http::Request::get("/metrics")
        .header("authorization", format!("Bearer {}", token.reveal()))
        .body(axum::body::Body::empty())
        .unwrap();
    assert_eq!(service.send(request).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_service_whose_database_is_closed_is_alive_and_not_ready() {
    let service = Service::new().await;
    service.engine.store().close().await;
    assert_eq!(service.get("/livez").await.status, StatusCode::NO_CONTENT);
    let ready = service.get("/readyz").await;
    assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);
    let refused = service.get("/api/v1/runs").await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.body.contains("no-database"), "{}", refused.body);
}

/// A metric that a rule or panel asks for under another name would never fire.
#[tokio::test]
async fn alert_rules_and_panels_ask_for_metrics_that_exist() {
    let (service, run, _) = Service::running().await;
    // A queued job, since labels without a known list appear with the first count.
    service.submit(run, "another block", 64).await;
    let scrape = service.scrape().await;
    let known = scrape
        .types
        .iter()
        .flat_map(|(name, kind)| match kind.as_str() {
            "counter" => vec![format!("{name}_total")],
            "histogram" => vec![format!("{name}_bucket"), format!("{name}_count")],
            _ => vec![name.clone()],
        });
    let known: BTreeSet<String> = known.collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docker/monitoring");
    for file in ["alerts.yml", "alerts.test.yml", "grafana-dashboard.json"] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let named = text
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter(|word| word.starts_with("kernelwright_"));
        let named: BTreeSet<&str> = named.collect();
        assert!(named.len() > 3, "{file}");
        for name in named {
            assert!(known.contains(name), "{file} asks for {name}");
        }
    }
}
