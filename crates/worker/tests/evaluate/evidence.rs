//! Evidence bundles: complete, unchanged, repeatable, and without the key of the inputs.

use std::path::Path;

use domain::digest::Digest;
use domain::evaluation::{EvaluationRequest, EvaluationStage, MachineCode};
use domain::role::Key;
use domain::seeds::SeedFamily;
use domain::task::{Bundle, Case, CasePurpose, Task};
use domain::verdict::{Verdict, VerdictKind};
use futures::executor::block_on;
use serde_json::Value;
use worker::evaluate::evidence::store::EvidenceStore;
use worker::evaluate::evidence::{Evidence, EvidenceError};

use crate::admission::product;
use crate::lab::{Lab, lab, read};

const TASK: &str = "softmax-f32";

fn request(file: &str) -> EvaluationRequest {
    Lab::request(TASK, file, read(TASK, file))
}

fn store(data: &Path) -> EvidenceStore {
    EvidenceStore::in_folder(data, None).unwrap()
}

/// Sends what is missing of a bundle.
fn send(from: &EvidenceStore, to: &EvidenceStore, digest: Digest) {
    block_on(async {
        let manifest = from.read_part(digest, None).await.unwrap();
        for name in to.receive_manifest(digest, manifest).await.unwrap() {
            let bytes = from.read_part(digest, Some(&name)).await.unwrap();
            to.receive_file(digest, &name, bytes).await.unwrap();
        }
    });
}

#[test]
fn every_verdict_has_a_bundle_that_reproduces_it() {
    let Some(lab) = lab() else { return };
    let data = lab.evaluator().host().data().to_owned();
    let mut unread = request("baseline.cu");
    unread.source = "no kernel".to_owned();
    for (request, expected) in [
        (request("baseline.cu"), VerdictKind::Accepted),
        (
            request("broken/shared-sum-unguarded.cu"),
            VerdictKind::DataRace,
        ),
        (unread, VerdictKind::ParseRejected),
    ] {
        let evaluation = lab.evaluate(&request);
        let digest = evaluation.evidence.unwrap();
        let found = Evidence::open(&data, digest).unwrap();
        assert_eq!(found.manifest.verdict, expected);
        assert_eq!(found.evaluation.verdict, evaluation.verdict);
        assert!(found.differences(lab.evaluator().host()).is_empty());
        let image = found.manifest.files.contains_key("image.cubin");
        assert_eq!(image, expected != VerdictKind::ParseRejected);
        let counters = std::fs::read_to_string(found.folder.join("counters.json"));
        assert_eq!(counters.is_ok(), expected == VerdictKind::Accepted);
        if let Ok(counters) = counters {
            let counted: Value = serde_json::from_str(&counters).unwrap();
            let task = Task::load(&request.task).unwrap();
            let scored = |case: &&Case| case.is_for(CasePurpose::Score);
            assert_eq!(
                counted["cases"].as_array().unwrap().len(),
                task.cases.iter().filter(scored).count()
            );
            let most = counted["cases"][0]["launches"][0]["lines"]
                .as_array()
                .unwrap();
            let most = most.iter().max_by_key(|line| {
                line["counters"]["warp_instructions"]
                    .as_u64()
                    .unwrap_or_default()
            });
            let number = most.unwrap()["line"].as_u64().unwrap() as usize;
            let text = request.source.lines().nth(number - 1).unwrap();
            assert!(
                text.contains('['),
                "the line with the most work reads: {text}"
            );
            let hottest = evaluation.hottest_lines.as_ref().unwrap();
            assert!(task.cases.iter().any(|case| case.name == hottest.case));
            for line in &hottest.lines {
                assert!(0.0 < line.share && line.share <= 1.0, "{line:?}");
                assert!(
                    counted["cases"].as_array().unwrap().iter().any(|case| {
                        let launches = case["launches"].as_array().unwrap();
                        let mut lines = launches
                            .iter()
                            .flat_map(|launch| launch["lines"].as_array().unwrap());
                        case["case"] == hottest.case && lines.any(|own| own["line"] == line.line)
                    }),
                    "line {} is counted",
                    line.line
                );
            }
        }

        let key = found.read_key(&data).unwrap();
        assert_eq!(key, request.key);
        let manifest = std::fs::read_to_string(found.folder.join("manifest.json")).unwrap();
        assert!(!manifest.contains(&key.0.to_string()), "the key is sealed");
        let again = lab.evaluate(&found.request(key));
        assert_eq!(again.verdict, evaluation.verdict);
    }
}

/// A kernel that is wrong only on shapes that a confirmation examines and a search does not. The
/// inputs on which it fails are drawn from the confirmation's own key, which stays in the data
/// folder that made the bundle.
#[test]
fn a_confirmation_that_fails_can_be_replayed_where_its_key_is_and_nowhere_else() {
    let Some(lab) = lab() else { return };
    let data = lab.evaluator().host().data().to_owned();
    let files = product();
    let wrong = files["baseline.cu"].replace("= sum;", "= (M == 20 && N == 40) ? 0.0f : sum;");
    assert_ne!(wrong, files["baseline.cu"]);
    let request = EvaluationRequest {
        task: Bundle { files },
        stage: EvaluationStage::Confirmation,
        key: Key(Digest::of("the root of one confirmation")),
        ..Lab::request("gemm-f32", "candidate.cu", wrong)
    };
    let failed = lab.evaluate(&request);
    let Verdict::IncorrectOutput(mismatch) = &failed.verdict else {
        panic!("{}", failed.verdict);
    };
    assert_eq!(failed.found_on, Some(SeedFamily::Promotion));
    assert!(!failed.may_be_shown(), "of its inputs nobody is told");

    let digest = failed.evidence.unwrap();
    let found = Evidence::open(&data, digest).unwrap();
    assert_eq!(found.manifest.stage, EvaluationStage::Confirmation);
    assert_eq!(found.manifest.verdict, VerdictKind::IncorrectOutput);
    assert!(found.differences(lab.evaluator().host()).is_empty());
    if let Some(MachineCode::Read { kernels, .. }) = &failed.machine_code {
        let sass = std::fs::read_to_string(found.folder.join("image.sass")).unwrap();
        for code in kernels {
            assert!(sass.contains(&format!("{}:\n", code.kernel)), "{sass}");
        }
    }
    let key = found.read_key(&data).expect("it was judged here");
    let again = lab.evaluate(&found.request(key));
    assert_eq!(again.verdict, failed.verdict);
    assert_eq!(again.checks, failed.checks);

    // Another key gives another confirmation, with other shapes and values.
    let other = lab.evaluate(&found.request(Key(Digest::of("another root"))));
    let Verdict::IncorrectOutput(elsewhere) = &other.verdict else {
        panic!("{}", other.verdict);
    };
    assert_ne!(elsewhere, mismatch);

    let there = tempfile::tempdir().unwrap();
    send(&store(&data), &store(there.path()), digest);
    let travelled = Evidence::open(there.path(), digest).unwrap();
    assert_eq!(travelled.evaluation.verdict, failed.verdict);
    assert_eq!(travelled.read_key(there.path()), None);
}

#[test]
fn a_changed_bundle_is_rejected() {
    let Some(lab) = lab() else { return };
    let data = lab.evaluator().host().data().to_owned();
    let mut unread = request("baseline.cu");
    unread.source = "no kernel".to_owned();
    let digest = lab.evaluate(&unread).evidence.unwrap();
    let folder = Evidence::open(&data, digest).unwrap().folder;
    for file in ["source.cu", "evaluation.json", "manifest.json"] {
        let path = folder.join(file);
        let before = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, before.replacen(['e', 'o'], "a", 1)).unwrap();
        let refused = Evidence::open(&data, digest);
        assert!(
            matches!(refused, Err(EvidenceError::Damaged { .. })),
            "{file}: {refused:?}"
        );
        std::fs::write(&path, before).unwrap();
    }
    Evidence::open(&data, digest).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let refused = Evidence::open(&data, digest);
    assert!(matches!(refused, Err(EvidenceError::Missing { .. })));
}

#[test]
fn another_compiler_or_device_is_reported_as_a_difference() {
    let Some(lab) = lab() else { return };
    let data = lab.evaluator().host().data().to_owned();
    let mut unread = request("baseline.cu");
    unread.source = "no kernel".to_owned();
    let digest = lab.evaluate(&unread).evidence.unwrap();
    let mut found = Evidence::open(&data, digest).unwrap();
    found.manifest.toolchain = "another compiler".to_owned();
    found.manifest.evaluator += 1;
    let differences = found.differences(lab.evaluator().host());
    assert_eq!(differences.len(), 2, "{differences:?}");
    assert!(differences[1].contains("another compiler then"));
}

#[test]
fn a_bundle_is_transferred_completely_and_without_its_key() {
    let Some(lab) = lab() else { return };
    let data = lab.evaluator().host().data().to_owned();
    let there = tempfile::tempdir().unwrap();
    let there = there.path();
    let digest = lab.evaluate(&request("baseline.cu")).evidence.unwrap();
    send(&store(&data), &store(there), digest);
    let found = Evidence::open(there, digest).unwrap();
    assert_eq!(
        found.manifest,
        Evidence::open(&data, digest).unwrap().manifest
    );
    assert!(found.read_key(there).is_none(), "keys do not travel");
}
