//! The store of evidence, in a folder and in a bucket.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, SystemTime};

use axum::body::Bytes;
use domain::digest::Digest;
use domain::evaluation::EvaluationStage;
use worker::evaluate::evidence::store::{EvidenceStore, EvidenceStoreError};

use crate::api::evidence::manifest;

/// More than the age below which nothing is removed.
const LATER: Duration = Duration::from_secs(3600);

/// A bundle of a number: its name, its manifest and its files.
struct Sample {
    digest: Digest,
    manifest: Bytes,
    files: BTreeMap<&'static str, Vec<u8>>,
}

fn sample(number: u64) -> Sample {
    let files = BTreeMap::from([
        ("evaluation.json", b"{}".to_vec()),
        ("source.cu", number.to_le_bytes().to_vec()),
    ]);
    let task_version = Digest::of("a task");
    let manifest = manifest(&files, task_version, EvaluationStage::Search);
    Sample {
        digest: Digest::of(&manifest),
        manifest: manifest.into(),
        files,
    }
}

async fn send(store: &EvidenceStore, sample: &Sample) {
    let missing = store.receive_manifest(sample.digest, sample.manifest.clone());
    for name in missing.await.unwrap() {
        let bytes = Bytes::from(sample.files[name.as_str()].clone());
        store
            .receive_file(sample.digest, &name, bytes)
            .await
            .unwrap();
    }
}

async fn has(store: &EvidenceStore, sample: &Sample) -> bool {
    match store.read_part(sample.digest, None).await {
        Ok(manifest) => manifest == sample.manifest,
        Err(EvidenceStoreError::Missing { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Sends, resumes, reads, counts and removes bundles in a store that holds at most a byte.
async fn exercise(store: EvidenceStore) {
    store.check_access().await.unwrap();
    assert_eq!(store.contents().await.unwrap().bundles, 0);
    let sent = sample(1);
    let (digest, manifest) = (sent.digest, &sent.manifest);

    // Received bytes must have the digest that names them.
    let misnamed = store.receive_manifest(Digest::of("another"), manifest.clone());
    assert!(matches!(
        misnamed.await,
        Err(EvidenceStoreError::Refused { .. })
    ));
    let early = store.receive_file(digest, "source.cu", Bytes::new());
    assert!(matches!(
        early.await,
        Err(EvidenceStoreError::Missing { .. })
    ));
    let missing = store
        .receive_manifest(digest, manifest.clone())
        .await
        .unwrap();
    assert!(missing.iter().eq(sent.files.keys()));
    let forged = store.receive_file(digest, "source.cu", Bytes::from_static(b"text"));
    assert!(matches!(
        forged.await,
        Err(EvidenceStoreError::Refused { .. })
    ));
    let outside = store.receive_file(digest, "../key", Bytes::new());
    assert!(matches!(
        outside.await,
        Err(EvidenceStoreError::Missing { .. })
    ));

    // A transfer that ends here is no bundle, and is resumed.
    let first = Bytes::from(sent.files[missing[0].as_str()].clone());
    let rest = store
        .receive_file(digest, &missing[0], first)
        .await
        .unwrap();
    assert_eq!(rest, missing[1..]);
    assert!(!has(&store, &sent).await);
    let resumed = store.receive_manifest(digest, manifest.clone()).await;
    assert_eq!(resumed.unwrap(), rest);
    send(&store, &sent).await;
    assert!(has(&store, &sent).await);
    for (name, content) in &sent.files {
        let read = store.read_part(digest, Some(name)).await.unwrap();
        assert_eq!(&read, content);
    }
    let unknown = store.read_part(digest, Some("key")).await;
    assert!(matches!(unknown, Err(EvidenceStoreError::Missing { .. })));
    let again = store.receive_manifest(digest, manifest.clone()).await;
    assert!(again.unwrap().is_empty(), "it is complete");

    let others = [sample(2), sample(3)];
    for other in &others {
        send(&store, other).await;
    }
    let contents = store.contents().await.unwrap();
    let bytes = |one: &Sample| one.manifest.len() + one.files.values().map(Vec::len).sum::<usize>();
    let all = [&sent, &others[0], &others[1]].map(bytes);
    assert_eq!(contents.bundles, 3);
    assert_eq!(contents.bytes, all.iter().sum::<usize>() as u64);

    let now = SystemTime::now();
    store.trim(now).await.unwrap();
    assert!(has(&store, &sent).await, "it may be in use");
    store.trim(now + LATER).await.unwrap();
    assert_eq!(store.contents().await.unwrap().bundles, 0);
}

#[tokio::test]
async fn bundles_are_kept_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    exercise(EvidenceStore::in_folder(folder.path(), Some(1)).unwrap()).await;
    let left = fs::read_dir(folder.path().join("evidence")).unwrap();
    assert_eq!(left.count(), 0, "not even empty folders are left");
}

#[tokio::test]
#[ignore = "needs an object store: tests/objects cargo nextest run -p server --run-ignored all"]
async fn bundles_are_kept_in_a_bucket() {
    let bucket = std::env::var("KERNELWRIGHT_TEST_BUCKET").unwrap();
    let url = format!("{bucket}/a/prefix");
    exercise(EvidenceStore::in_bucket(&url, Some(1)).unwrap()).await;
}

#[tokio::test]
async fn the_oldest_bundles_are_removed_first_and_only_as_many_as_must() {
    let folder = tempfile::tempdir().unwrap();
    let samples = [sample(1), sample(2), sample(3)];
    let now = SystemTime::now();
    let unlimited = EvidenceStore::in_folder(folder.path(), None).unwrap();
    for (age, one) in [3_u32, 2, 1].into_iter().zip(&samples) {
        send(&unlimited, one).await;
        let place = folder.path().join("evidence").join(one.digest.to_string());
        for file in fs::read_dir(place).unwrap() {
            let file = fs::File::options().write(true).open(file.unwrap().path());
            file.unwrap().set_modified(now - age * LATER).unwrap();
        }
    }
    unlimited.trim(now).await.unwrap();
    assert_eq!(unlimited.contents().await.unwrap().bundles, 3);
    let third = unlimited.contents().await.unwrap().bytes / 3;
    let limited = EvidenceStore::in_folder(folder.path(), Some(2 * third + 9)).unwrap();
    limited.trim(now).await.unwrap();
    assert!(!has(&limited, &samples[0]).await);
    assert!(has(&limited, &samples[1]).await && has(&limited, &samples[2]).await);
}

#[tokio::test]
async fn a_damaged_file_is_not_given_out() {
    let folder = tempfile::tempdir().unwrap();
    let store = EvidenceStore::in_folder(folder.path(), None).unwrap();
    let one = sample(1);
    send(&store, &one).await;
    let place = folder.path().join("evidence").join(one.digest.to_string());
    fs::write(place.join("source.cu"), "another kernel").unwrap();
    let read = store.read_part(one.digest, Some("source.cu")).await;
    assert!(
        matches!(read, Err(EvidenceStoreError::Missing { .. })),
        "{read:?}"
    );
    fs::write(place.join("manifest.json"), "{}").unwrap();
    let read = store.read_part(one.digest, None).await;
    assert!(
        matches!(read, Err(EvidenceStoreError::Missing { .. })),
        "{read:?}"
    );
}

#[test]
fn a_url_that_names_no_bucket_is_refused_with_the_form() {
    for url in [
        "bucket",
        "s3://",
        "s3:///prefix",
        "https://bucket/prefix",
        "file:///tmp",
    ] {
        let refused = EvidenceStore::in_bucket(url, None).unwrap_err().to_string();
        assert!(refused.contains(&format!("{url:?}")), "{refused}");
        assert!(refused.contains("write s3://BUCKET/PREFIX"), "{refused}");
    }
}
