use std::collections::BTreeMap;

use axum::http::{Request, StatusCode};
use domain::digest::Digest;
use domain::evaluation::{EVALUATOR_VERSION, Evaluation, EvaluationStage};
use domain::lease::{EvidenceReceipt, ReportOutcome};
use serde_json::json;

use super::service::{Answer, Service, accepted, registration, report};
use crate::fixtures;

/// The files of a bundle, and its manifest.
fn bundle(evaluation: &Evaluation) -> (BTreeMap<&'static str, Vec<u8>>, Vec<u8>) {
    let files = BTreeMap::from([
        ("source.cu", b"// A kernel.".to_vec()),
        ("task.json", serde_json::to_vec(&fixtures::task()).unwrap()),
        ("evaluation.json", serde_json::to_vec(evaluation).unwrap()),
    ]);
    let manifest = manifest(&files, evaluation.task_version, evaluation.stage);
    (files, manifest)
}

/// The manifest of a bundle with these files.
pub fn manifest(
    files: &BTreeMap<&'static str, Vec<u8>>,
    task_version: Digest,
    stage: EvaluationStage,
) -> Vec<u8> {
    let parts = files.iter().map(|(name, bytes)| {
        let part = json!({ "digest": Digest::of(bytes), "bytes": bytes.len() });
        (*name, part)
    });
    let manifest = json!({
        "form": "kernelwright.evidence/1",
        "program": "0.1.0",
        "evaluator": EVALUATOR_VERSION,
        "task": "scale",
        "task_version": task_version,
        "file": "a.cu",
        "configuration": {},
        "stage": stage,
        "incumbent": null,
        "key": Digest::of("a commitment"),
        "device": registration().device,
        "toolchain": "NVRTC 13.5",
        "verdict": "accepted",
        "files": parts.collect::<BTreeMap<_, _>>(),
        "left_out": {},
    });
    serde_json::to_vec(&manifest).unwrap()
}

async fn put(service: &Service, path: &str, body: &[u8]) -> Answer {
    let request = Request::put(path)
        .header("content-type", "application/octet-stream")
        .body(body.to_vec().into())
        .unwrap();
    service.send(request).await
}

#[tokio::test]
async fn a_bundle_is_sent_checked_and_read_back() {
    let service = Service::with_task().await;
    let worker = service.register().await;
    service.launch().await;
    let lease = service.lease(worker).await;
    let ReportOutcome::Evaluated { evaluation } = report(&lease, accepted(1.0)).outcome else {
        panic!("a report of an evaluation");
    };
    let (files, manifest) = bundle(&evaluation);
    let digest = Digest::of(&manifest);
    let path = format!("/api/v1/evidence/{digest}");
    assert_eq!(service.get(&path).await.status, StatusCode::NOT_FOUND);

    let misnamed = format!("/api/v1/evidence/{}", Digest::of("another"));
    let refused = put(&service, &misnamed, &manifest).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    let nonsense = put(&service, "/api/v1/evidence/nonsense", &manifest).await;
    assert_eq!(nonsense.status, StatusCode::BAD_REQUEST);

    let receipt: EvidenceReceipt = put(&service, &path, &manifest).await.read();
    let names = files.keys().map(|name| (*name).to_owned());
    assert_eq!(receipt.missing, names.collect::<Vec<_>>());
    let forged = put(&service, &format!("{path}/source.cu"), b"// Another.").await;
    assert_eq!(forged.status, StatusCode::UNPROCESSABLE_ENTITY);
    for (name, bytes) in &files {
        let sent: EvidenceReceipt = put(&service, &format!("{path}/{name}"), bytes).await.read();
        assert!(!sent.missing.contains(&(*name).to_owned()));
    }
    let complete: EvidenceReceipt = put(&service, &path, &manifest).await.read();
    assert!(complete.missing.is_empty());

    assert_eq!(service.get(&path).await.body.into_bytes(), manifest);
    let source = service.get(&format!("{path}/source.cu")).await;
    assert_eq!(source.body.as_bytes(), files["source.cu"]);
    assert_eq!(source.header("content-type"), "application/octet-stream");
    let none = service.get(&format!("{path}/key")).await;
    assert_eq!(none.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_bundle_that_cannot_be_stored_now_is_to_be_sent_again() {
    let service = Service::with_task().await;
    let task_version = Digest::of("a task");
    let manifest = manifest(&BTreeMap::new(), task_version, EvaluationStage::Search);
    let path = format!("/api/v1/evidence/{}", Digest::of(&manifest));
    // A file in the place of the folder, as a bucket that is not there.
    let folder = service.folder().join("evidence");
    std::fs::remove_dir(&folder).unwrap();
    std::fs::write(&folder, "").unwrap();
    let refused = put(&service, &path, &manifest).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.header("retry-after"), "1");
    assert!(
        refused.body.contains("/problems/no-evidence-store"),
        "{}",
        refused.body
    );
}
