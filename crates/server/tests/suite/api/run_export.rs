//! The export of a run in each of its forms.

use std::collections::BTreeMap;
use std::io::Read as _;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use domain::api::{CandidateDetail, CandidateSummary, Event, RunView};
use domain::id::RunId;
use futures::TryStreamExt as _;
use serde_json::Value;
use server::run_export::{Records, RunExportFormat, export};
use worker::evaluate::evidence::store::EvidenceStore;

use super::service::{Answer, Service};
use crate::fixtures;

/// A title that a spreadsheet would take for a formula, and one that a browser would take for markup.
const FORMULA: &str = "=1+1;@SUM(A1)";
const MARKUP: &str = "<img src=x onerror=alert(1)>";

/// A run with its baseline and two faster candidates that have hostile titles.
async fn exported(format: &str) -> (Service, RunId, Answer) {
    let (service, run, worker) = Service::running().await;
    for (title, block, us) in [(FORMULA, 64, 50.0), (MARKUP, 32, 40.0)] {
        service.submit(run, title, block).await;
        service.judge(worker, us).await;
    }
    let path = format!("/api/v1/runs/{}/export?format={format}", run.uuid());
    let answer = service.get(&path).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    (service, run, answer)
}

#[tokio::test]
async fn json_lines_hold_the_run_its_candidates_and_its_events() {
    let (service, run, answer) = exported("jsonl").await;
    assert_eq!(answer.header("content-type"), "application/jsonl");
    let name = format!("attachment; filename=\"run-{}.jsonl\"", run.uuid());
    assert_eq!(answer.header("content-disposition"), name);
    let lines = answer
        .body
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let lines = lines.collect::<Vec<Value>>();
    let view: RunView = serde_json::from_value(lines[0]["run"].clone()).unwrap();
    assert_eq!((view.id, view.name.as_str()), (run, "by hand"));
    let of = |kind: &str| {
        let values = lines.iter().filter_map(|line| line.get(kind).cloned());
        values.collect::<Vec<_>>()
    };
    let candidates = of("candidate")
        .into_iter()
        .map(|value| serde_json::from_value(value).unwrap());
    let candidates = candidates.collect::<Vec<CandidateSummary>>();
    let titles = candidates.iter().map(|candidate| candidate.title.as_str());
    assert_eq!(titles.collect::<Vec<_>>()[1..], [FORMULA, MARKUP]);
    let events = of("event")
        .into_iter()
        .map(|value| serde_json::from_value(value).unwrap());
    let events = events.collect::<Vec<Event>>();
    assert!(events.is_sorted_by_key(|event| event.id));
    let end = &lines[lines.len() - 1]["end"];
    assert_eq!(
        (end["candidates"].as_u64(), end["events"].as_u64()),
        (Some(3), Some(events.len() as u64))
    );
    let default = service
        .get(&format!("/api/v1/runs/{}/export", run.uuid()))
        .await;
    assert_eq!(default.body, answer.body);
}

#[tokio::test]
async fn pages_of_candidates_and_events_follow_each_other_without_gap() {
    let (service, run, whole) = exported("jsonl").await;
    let view: RunView = service
        .get(&format!("/api/v1/runs/{}", run.uuid()))
        .await
        .read();
    for page in [1, 2, 3] {
        let records = Records {
            engine: service.engine.clone(),
            evidence: no_evidence(),
            page,
            closing: tokio_util::sync::CancellationToken::new(),
        };
        let parts = export(records, view.clone(), RunExportFormat::Jsonl);
        let parts: Vec<_> = parts.try_collect().await.unwrap();
        assert_eq!(
            String::from_utf8(parts.concat()).unwrap(),
            whole.body,
            "{page}"
        );
    }
}

fn no_evidence() -> EvidenceStore {
    let folder = tempfile::tempdir().unwrap();
    EvidenceStore::in_folder(folder.path(), None).unwrap()
}

#[tokio::test]
async fn an_export_breaks_off_with_an_error_when_the_service_stops() {
    let (service, run, _) = exported("csv").await;
    let view: RunView = service
        .get(&format!("/api/v1/runs/{}", run.uuid()))
        .await
        .read();
    let closing = tokio_util::sync::CancellationToken::new();
    closing.cancel();
    let records = Records {
        engine: service.engine.clone(),
        evidence: no_evidence(),
        page: 1,
        closing,
    };
    let parts = export(records, view, RunExportFormat::Csv);
    assert!(parts.try_collect::<Vec<_>>().await.is_err());
}

#[tokio::test]
async fn comma_separated_values_begin_no_formula() {
    let (_, _, answer) = exported("csv").await;
    assert!(answer.header("content-type").starts_with("text/csv"));
    let lines = answer.body.split_terminator("\r\n").collect::<Vec<_>>();
    assert_eq!(lines.len(), 4);
    assert!(
        lines[0].starts_with("ordinal,id,generation,parents,operator,"),
        "{}",
        lines[0]
    );
    assert!(lines[2].contains(",\"'=1+1;'@SUM(A1)\","), "{}", lines[2]);
    assert!(lines[3].contains(",evaluated,accepted,"), "{}", lines[3]);
    assert!(lines[3].contains(",40,true,,true,"), "{}", lines[3]);
}

#[tokio::test]
async fn a_report_stands_alone_and_escapes_what_candidates_say() {
    let (_, _, answer) = exported("html").await;
    assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert!(
        answer
            .header("content-security-policy")
            .contains("default-src 'none'")
    );
    let page = answer.body.as_str();
    for loads in [
        "<script", "<link", "<img", "<iframe", "src=\"", "href=", "url(", "@import", "//",
    ] {
        let found = page.lines().find(|line| line.contains(loads));
        assert_eq!(found, None, "{loads}");
    }
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;"));
    assert!(page.contains("content=\"default-src 'none'; style-src 'unsafe-inline'\""));
    for part in [
        "<svg viewBox",
        "<span class=\"big\">2.50x</span> <span class=\"badge\">modelled</span>",
        "<h2>Lineage</h2>",
        "<h2>Way to the best</h2>",
        "<h2>Winner</h2>",
        "verdict    accepted",
        "<span class=\"added\">+ ",
        "<h2>Fastest candidates</h2>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page.ends_with("</html>\n"));
}

#[tokio::test]
async fn a_report_of_a_run_without_an_accepted_candidate_says_so() {
    let service = Service::with_task().await;
    let run = service.launch().await;
    let path = format!("/api/v1/runs/{}/export?format=html", run.uuid());
    let page = service.get(&path).await.body;
    assert!(page.contains("No candidate was accepted."), "{page}");
    assert!(!page.contains("<svg"), "{page}");
}

#[tokio::test]
async fn a_bundle_holds_run_task_candidates_events_and_report() {
    let (service, run, table) = exported("csv").await;
    let path = format!("/api/v1/runs/{}/export?format=bundle", run.uuid());
    let response = service
        .open(Request::get(&path).body(Body::empty()).unwrap())
        .await;
    assert_eq!(response.headers()["content-type"], "application/x-tar");
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 24)
        .await
        .unwrap();
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(bytes.as_ref()).entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_string_lossy().into_owned();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        files.insert(name, text);
    }
    let about: Value = serde_json::from_str(&files["run.json"]).unwrap();
    assert_eq!(about["form"], "kernelwright run 1");
    assert_eq!(about["request"]["task"], "scale");
    assert_eq!(files["task/baseline.cu"], fixtures::kernel("baseline", 128));
    assert_eq!(
        files["candidates/000002/kernel.cu"],
        fixtures::kernel(MARKUP, 32)
    );
    let detail: CandidateDetail =
        serde_json::from_str(&files["candidates/000001/candidate.json"]).unwrap();
    assert_eq!(detail.summary.title, FORMULA);
    assert!(detail.evaluation.is_some());
    let events = files["events/000000.jsonl"].lines();
    let events = events.map(|line| serde_json::from_str::<Event>(line).unwrap());
    assert!(events.count() > 3);
    assert_eq!(files["table/000000.csv"], table.body);
    assert!(files["report.html"].ends_with("</html>\n"));
    assert!(files.contains_key("README.txt"));
    assert_eq!(
        files
            .keys()
            .filter(|name| name.starts_with("candidates/"))
            .count(),
        6
    );
}

#[tokio::test]
async fn an_unknown_run_or_form_is_refused_before_anything_is_sent() {
    let service = Service::new().await;
    let run = "01938e5a-0000-7000-8000-000000000001";
    let unknown = service.get(&format!("/api/v1/runs/{run}/export")).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    let wrong = service
        .get(&format!("/api/v1/runs/{run}/export?format=pdf"))
        .await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
}
