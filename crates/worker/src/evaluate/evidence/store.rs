//! A store of bundles: a folder of this machine, or a bucket of an object store.
//!
//! Everything received is checked: the manifest must have the digest that names the bundle, and
//! every file the digest and length that the manifest states. A file is received only once, so that
//! an interrupted transfer continues. Keys are never in a store.
//!
//! A bundle's objects are `DIGEST/NAME`. Its manifest is `DIGEST/.manifest.json` while files are
//! missing and `DIGEST/manifest.json` afterwards, because no store moves a folder in one step.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use domain::causes::with_causes;
use domain::decode_message::describe_json;
use domain::digest::Digest;
use futures::{StreamExt as _, TryStreamExt as _};
use object_store::aws::AmazonS3Builder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, ObjectStoreExt as _, PutPayload, RetryConfig};
use url::Url;

use super::super::disk_limits::IN_USE_AGE;
use super::{FORM, MANIFEST, MAX_BUNDLE_BYTES, Manifest, bundles_folder};

/// The limit on the bundles in a service's folder where nothing else is said, bytes.
pub const FOLDER_BYTES: u64 = 2 << 30;
/// The largest manifest, bytes. It contains the source of the incumbent.
pub const MANIFEST_BYTES: u64 = 2 << 20;
/// The manifest of a bundle whose files are not all here.
const UNFINISHED_MANIFEST: &str = ".manifest.json";
/// The object that [`EvidenceStore::check_access`] writes and removes.
const PROBE: &str = "access-check";
/// The most files of a bundle; a bundle of this program has seven.
const MAX_FILES: usize = 32;
/// The longest file name, bytes.
const MAX_NAME_BYTES: usize = 64;
/// The share of its limit that a store receives before old bundles are removed again.
const TRIM_SHARE: u64 = 8;
/// The most characters of an object store's reason.
const REASON_CHARACTERS: usize = 400;
/// Repetitions of a request to a bucket that is slow or does not answer. A worker waits for them.
const RETRIES: usize = 3;
const RETRY_TIME: Duration = Duration::from_secs(15);

/// Bundles of evidence in a folder or a bucket.
#[derive(Debug, Clone)]
pub struct EvidenceStore {
    objects: Arc<dyn ObjectStore>,
    /// The folder or the bucket's URL, for messages.
    place: String,
    /// The limit on all bundles together; none keeps all.
    most_bytes: Option<u64>,
    /// Bytes received since old bundles were last removed.
    received: Arc<AtomicU64>,
}

/// Numbers of a store's bundles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Contents {
    /// Bundles, with those that are not complete.
    pub bundles: u64,
    /// Bytes of their files.
    pub bytes: u64,
}

/// The reasons why a bundle is not accepted or not sent. Messages follow "failed to".
#[derive(Debug, thiserror::Error)]
pub enum EvidenceStoreError {
    /// The received bytes do not match the name, or break a limit.
    #[error("take in the evidence {digest}: {what}")]
    Refused {
        /// The bundle's name.
        digest: Digest,
        /// The mismatch.
        what: String,
    },
    /// There is no such bundle, or no such file in it.
    #[error("find {what} of the evidence {digest}")]
    Missing {
        /// The bundle's name.
        digest: Digest,
        /// The missing part.
        what: String,
    },
    /// The URL names no bucket.
    #[error(
        "read the evidence bucket {url:?}: {what}; write s3://BUCKET/PREFIX or gs://BUCKET/PREFIX"
    )]
    Url {
        /// The text.
        url: String,
        /// Its defect.
        what: String,
    },
    /// The folder or the bucket does not do what it was asked for.
    #[error("use {place}: {reason}; check {remedy}")]
    Storage {
        /// The folder or the bucket.
        place: String,
        /// The reason, with its causes, of the system or the object store.
        reason: String,
        /// The setting that the operator checks.
        remedy: &'static str,
    },
    /// The folder cannot be made.
    #[error("make the folder {place}")]
    Folder {
        /// The folder.
        place: String,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
}

impl EvidenceStore {
    /// The store in a data folder, with the bundles of evaluations in this folder.
    ///
    /// # Errors
    /// [`EvidenceStoreError::Folder`] or [`EvidenceStoreError::Storage`]
    pub fn in_folder(data: &Path, most_bytes: Option<u64>) -> Result<Self, EvidenceStoreError> {
        let folder = bundles_folder(data);
        let place = folder.display().to_string();
        fs::create_dir_all(&folder).map_err(|source| EvidenceStoreError::Folder {
            place: place.clone(),
            source,
        })?;
        // Removed bundles leave no empty folders.
        let objects = LocalFileSystem::new_with_prefix(&folder)
            .map(|folder| folder.with_automatic_cleanup(true))
            .map_err(storage(&place))?;
        Ok(Self::new(Arc::new(objects), place, most_bytes))
    }

    /// The store in a bucket, `s3://BUCKET/PREFIX` or `gs://BUCKET/PREFIX`. Credentials and
    /// addresses come from the variables `AWS_*` and `GOOGLE_*` that other programs also read,
    /// or from the machine's role in its cloud.
    ///
    /// # Errors
    /// [`EvidenceStoreError::Url`] or [`EvidenceStoreError::Storage`]
    pub fn in_bucket(url: &str, most_bytes: Option<u64>) -> Result<Self, EvidenceStoreError> {
        let wrong = |what: String| EvidenceStoreError::Url {
            url: url.to_owned(),
            what,
        };
        let parsed = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
        let bucket = parsed.host_str().unwrap_or_default();
        if bucket.is_empty() {
            return Err(wrong("it names no bucket".to_owned()));
        }
        let prefix =
            ObjectPath::from_url_path(parsed.path()).map_err(|error| wrong(error.to_string()))?;
        let retry = RetryConfig {
            max_retries: RETRIES,
            retry_timeout: RETRY_TIME,
            ..RetryConfig::default()
        };
        let storage = storage(url);
        let bucket: Box<dyn ObjectStore> = match parsed.scheme() {
            "s3" => {
                let builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
                Box::new(builder.with_retry(retry).build().map_err(storage)?)
            }
            "gs" => {
                let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket);
                Box::new(builder.with_retry(retry).build().map_err(storage)?)
            }
            other => return Err(wrong(format!("the scheme {other} is not known"))),
        };
        let objects = PrefixStore::new(bucket, prefix);
        Ok(Self::new(Arc::new(objects), url.to_owned(), most_bytes))
    }

    fn new(objects: Arc<dyn ObjectStore>, place: String, most_bytes: Option<u64>) -> Self {
        Self {
            objects,
            place,
            most_bytes,
            received: Arc::default(),
        }
    }

    /// The limit on all bundles together, bytes; none keeps all.
    pub fn most_bytes(&self) -> Option<u64> {
        self.most_bytes
    }

    /// Writes an object and removes it.
    ///
    /// # Errors
    /// [`EvidenceStoreError::Storage`] if one of the two is refused.
    pub async fn check_access(&self) -> Result<(), EvidenceStoreError> {
        let path = ObjectPath::from(PROBE);
        self.put(&path, Bytes::from_static(b"kernelwright")).await?;
        self.objects
            .delete(&path)
            .await
            .map_err(storage(&self.place))
    }

    /// Receives a manifest, which begins or resumes a transfer. Returns the names of the files that
    /// are still missing; an empty list means that the bundle is complete.
    ///
    /// # Errors
    /// See [`EvidenceStoreError`].
    pub async fn receive_manifest(
        &self,
        digest: Digest,
        text: Bytes,
    ) -> Result<Vec<String>, EvidenceStoreError> {
        if self.get(&object(digest, MANIFEST)).await?.is_some() {
            return Ok(Vec::new());
        }
        let manifest = read(digest, &text)?;
        self.put(&object(digest, UNFINISHED_MANIFEST), text.clone())
            .await?;
        self.finish(digest, &manifest, text).await
    }

    /// Receives a file of a bundle whose manifest has been received. Returns the same as
    /// [`Self::receive_manifest`].
    ///
    /// # Errors
    /// See [`EvidenceStoreError`].
    pub async fn receive_file(
        &self,
        digest: Digest,
        name: &str,
        bytes: Bytes,
    ) -> Result<Vec<String>, EvidenceStoreError> {
        let missing = |what: &str| EvidenceStoreError::Missing {
            digest,
            what: what.to_owned(),
        };
        let Some(text) = self.get(&object(digest, UNFINISHED_MANIFEST)).await? else {
            let complete = self.get(&object(digest, MANIFEST)).await?;
            return complete
                .map(|_| Vec::new())
                .ok_or_else(|| missing("the manifest"));
        };
        let manifest = read(digest, &text)?;
        let part = manifest.files.get(name).ok_or_else(|| missing(name))?;
        if Digest::of(&bytes) != part.digest || bytes.len() as u64 != part.bytes {
            return Err(EvidenceStoreError::Refused {
                digest,
                what: format!("{name} is not the file that the manifest names"),
            });
        }
        self.put(&object(digest, name), bytes).await?;
        self.finish(digest, &manifest, text).await
    }

    /// Reads the manifest of a complete bundle, or one of its files.
    ///
    /// # Errors
    /// [`EvidenceStoreError::Missing`], also if the stored bytes are damaged, or
    /// [`EvidenceStoreError::Storage`].
    pub async fn read_part(
        &self,
        digest: Digest,
        name: Option<&str>,
    ) -> Result<Bytes, EvidenceStoreError> {
        let missing = |what: &str| EvidenceStoreError::Missing {
            digest,
            what: what.to_owned(),
        };
        let text = self.get(&object(digest, MANIFEST)).await?;
        let text = text.ok_or_else(|| missing("the manifest"))?;
        let manifest = read(digest, &text).map_err(|_| missing("an undamaged manifest"))?;
        let Some(name) = name else { return Ok(text) };
        let part = manifest.files.get(name).ok_or_else(|| missing(name))?;
        let bytes = self.get(&object(digest, name)).await?;
        let bytes = bytes.ok_or_else(|| missing(name))?;
        if Digest::of(&bytes) == part.digest {
            Ok(bytes)
        } else {
            Err(missing("an undamaged file"))
        }
    }

    /// Counts the bundles and their bytes. Reads no content, but lists every object.
    ///
    /// # Errors
    /// [`EvidenceStoreError::Storage`]
    pub async fn contents(&self) -> Result<Contents, EvidenceStoreError> {
        let bundles = self.bundles().await?;
        Ok(Contents {
            bundles: bundles.len() as u64,
            bytes: bundles.values().map(|bundle| bundle.bytes).sum(),
        })
    }

    /// Removes the oldest bundles until the rest has at most the limit. Those that changed within two
    /// minutes before `now` stay.
    ///
    /// # Errors
    /// [`EvidenceStoreError::Storage`]
    pub async fn trim(&self, now: SystemTime) -> Result<(), EvidenceStoreError> {
        let Some(most_bytes) = self.most_bytes else {
            return Ok(());
        };
        let mut bundles = self.bundles().await?.into_values().collect::<Vec<_>>();
        bundles.sort_by_key(|bundle| std::cmp::Reverse(bundle.modified));
        let mut kept = 0_u64;
        for bundle in bundles {
            kept = kept.saturating_add(bundle.bytes);
            let age = now.duration_since(bundle.modified).unwrap_or_default();
            if kept > most_bytes && age > IN_USE_AGE {
                self.remove(bundle).await?;
            }
        }
        Ok(())
    }

    /// Removes a bundle, its manifest first: what is left of a bundle after an error is no bundle.
    async fn remove(&self, bundle: StoredBundle) -> Result<(), EvidenceStoreError> {
        let (manifest, files): (Vec<_>, Vec<_>) = bundle
            .objects
            .into_iter()
            .partition(|path| path.filename() == Some(MANIFEST));
        for paths in [manifest, files] {
            let paths = futures::stream::iter(paths.into_iter().map(Ok)).boxed();
            let mut removed = self.objects.delete_stream(paths);
            while let Some(result) = removed.next().await {
                match result {
                    Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                    Err(error) => return Err(storage(&self.place)(error)),
                }
            }
        }
        Ok(())
    }

    /// Every bundle by its name.
    async fn bundles(&self) -> Result<BTreeMap<String, StoredBundle>, EvidenceStoreError> {
        let mut bundles = BTreeMap::<String, StoredBundle>::new();
        let mut objects = self.objects.list(None);
        while let Some(object) = objects.try_next().await.map_err(storage(&self.place))? {
            let mut parts = object.location.parts();
            let (Some(name), Some(_)) = (parts.next(), parts.next()) else {
                continue;
            };
            let modified = SystemTime::from(object.last_modified);
            let bundle = bundles.entry(name.as_ref().to_owned()).or_default();
            bundle.bytes += object.size;
            bundle.modified = bundle.modified.max(modified);
            bundle.objects.push(object.location);
        }
        Ok(bundles)
    }

    /// Writes the final manifest once all files are there. Returns the names of missing files.
    async fn finish(
        &self,
        digest: Digest,
        manifest: &Manifest,
        text: Bytes,
    ) -> Result<Vec<String>, EvidenceStoreError> {
        let folder = ObjectPath::from(digest.to_string());
        let here = self.objects.list(Some(&folder));
        let here = here.map_ok(|object| (object.location, object.size));
        let here = here.try_collect::<BTreeMap<_, _>>().await;
        let here = here.map_err(storage(&self.place))?;
        let missing = manifest
            .files
            .iter()
            .filter(|(name, part)| here.get(&object(digest, name)) != Some(&part.bytes))
            .map(|(name, _)| name.clone())
            .collect::<Vec<_>>();
        if !missing.is_empty() {
            return Ok(missing);
        }
        self.put(&object(digest, MANIFEST), text).await?;
        match self
            .objects
            .delete(&object(digest, UNFINISHED_MANIFEST))
            .await
        {
            // Another sender completed the same bundle.
            Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(storage(&self.place)(error)),
        }
        self.count_received(manifest.files.values().map(|part| part.bytes).sum());
        Ok(Vec::new())
    }

    /// Counts received bytes, and removes old bundles beside other work once they are many.
    fn count_received(&self, bytes: u64) {
        let Some(most_bytes) = self.most_bytes else {
            return;
        };
        let before = self.received.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes < most_bytes / TRIM_SHARE {
            return;
        }
        self.received.store(0, Ordering::Relaxed);
        let store = self.clone();
        tokio::spawn(async move {
            if let Err(error) = store.trim(SystemTime::now()).await {
                tracing::warn!(error = %with_causes(&error), "old evidence was not removed");
            }
        });
    }

    async fn put(&self, path: &ObjectPath, bytes: Bytes) -> Result<(), EvidenceStoreError> {
        let put = self.objects.put(path, PutPayload::from_bytes(bytes));
        put.await.map(drop).map_err(storage(&self.place))
    }

    /// The content of an object; none if there is no such object.
    async fn get(&self, path: &ObjectPath) -> Result<Option<Bytes>, EvidenceStoreError> {
        let found = match self.objects.get(path).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(storage(&self.place)(error)),
        };
        found.bytes().await.map(Some).map_err(storage(&self.place))
    }
}

/// The objects of one bundle.
struct StoredBundle {
    bytes: u64,
    /// The time of the newest.
    modified: SystemTime,
    objects: Vec<ObjectPath>,
}

impl Default for StoredBundle {
    fn default() -> Self {
        Self {
            bytes: 0,
            modified: SystemTime::UNIX_EPOCH,
            objects: Vec::new(),
        }
    }
}

fn object(digest: Digest, name: &str) -> ObjectPath {
    ObjectPath::from_iter([digest.to_string().as_str(), name])
}

/// Adds the place to an error of an object store, whose text has its causes already.
fn storage(place: &str) -> impl Fn(object_store::Error) -> EvidenceStoreError + use<> {
    let place = place.to_owned();
    let remedy = if place.contains("://") {
        "the bucket's name, and credentials and address in AWS_* or GOOGLE_*"
    } else {
        "free space and permissions"
    };
    move |error| {
        // Answers of servers have several lines, and may be long.
        let words = error.to_string();
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        EvidenceStoreError::Storage {
            place: place.clone(),
            reason: words.chars().take(REASON_CHARACTERS).collect(),
            remedy,
        }
    }
}

/// Parses a manifest and checks its digest, its limits and the names of its files.
fn read(digest: Digest, text: &[u8]) -> Result<Manifest, EvidenceStoreError> {
    let refused = |what: String| EvidenceStoreError::Refused { digest, what };
    if text.len() as u64 > MANIFEST_BYTES {
        return Err(refused(format!(
            "its manifest exceeds {MANIFEST_BYTES} bytes"
        )));
    }
    if Digest::of(text) != digest {
        return Err(refused("its manifest has another digest".to_owned()));
    }
    let manifest: Manifest =
        serde_json::from_slice(text).map_err(|error| refused(describe_json(&error.to_string())))?;
    if manifest.form != FORM {
        return Err(refused(format!("its form is not {FORM}")));
    }
    if manifest.files.len() > MAX_FILES || !manifest.files.keys().all(|name| is_plain(name)) {
        return Err(refused("it has files that no bundle has".to_owned()));
    }
    let bytes = manifest.files.values().map(|part| part.bytes);
    let bytes = bytes.fold(0, u64::saturating_add);
    if bytes > MAX_BUNDLE_BYTES {
        return Err(refused(format!(
            "{bytes} bytes; a bundle has at most {MAX_BUNDLE_BYTES}"
        )));
    }
    Ok(manifest)
}

/// Returns true if a name is that of a plain file in the bundle's folder.
fn is_plain(name: &str) -> bool {
    let mut bytes = name.bytes();
    let letters = bytes.all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    letters
        && name.len() <= MAX_NAME_BYTES
        && !name.starts_with('.')
        && name != MANIFEST
        && !name.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_cannot_leave_the_folder_of_a_bundle() {
        for name in ["source.cu", "image.ptx", "plans.json"] {
            assert!(is_plain(name), "{name}");
        }
        let long = "x".repeat(65);
        for name in [
            "",
            ".",
            "..",
            "../key",
            "a/b",
            "/etc/passwd",
            ".hidden",
            MANIFEST,
            "a\0",
            &long,
        ] {
            assert!(!is_plain(name), "{name:?}");
        }
    }
}
