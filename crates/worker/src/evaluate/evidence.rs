//! Evidence bundles: everything that a verdict rests on, in a folder named by the digest of its own
//! manifest. A verdict can thus be checked, copied and repeated, and a change is always noticed.
//!
//! A bundle does not contain the key of the inputs, because the inputs can be derived from it. The
//! manifest holds a commitment to the key. The key itself lies beside the bundles, readable only
//! for the folder's owner.

pub mod store;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use domain::decode_message::describe_json;
use domain::device::Device;
use domain::digest::Digest;
use domain::evaluation::{
    EVALUATOR_VERSION, Evaluation, EvaluationRequest, EvaluationStage, Incumbent, ProtocolPart,
};
use domain::plan::{Configuration, ResolvedPlan};
use domain::role::{Compiled, Key};
use domain::task::Bundle as TaskBundle;
use domain::verdict::VerdictKind;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::build::UNFINISHED;
use super::error::{EvaluateError, storage};
use super::facts::CaseLines;
use crate::host::Host;

/// Name and version of the bundle format.
pub const FORM: &str = "kernelwright.evidence/1";
/// The largest bundle, bytes. Files that do not fit are named in the manifest.
const MAX_BUNDLE_BYTES: u64 = 64 << 20;
const MANIFEST: &str = "manifest.json";
const SOURCE: &str = "source.cu";
const TASK: &str = "task.json";
const EVALUATION: &str = "evaluation.json";
/// The counters of source lines, on the emulated device.
const COUNTERS: &str = "counters.json";
/// Instructions of the machine code by source line.
const SASS: &str = "image.sass";
/// The most bytes of the counters of source lines.
const MAX_COUNTERS_BYTES: u64 = 1 << 20;
/// The folder of all bundles, in the data folder.
pub(super) const BUNDLES: &str = "evidence";
/// The folder of the keys, in the data folder.
pub(super) const KEYS: &str = "evidence-keys";
/// The file of a key in its folder.
const KEY: &str = "key";

/// The manifest of a bundle. Its digest is the bundle's name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Always [`FORM`].
    pub form: String,
    /// Version of the program that evaluated.
    pub program: String,
    /// Version of the evaluation protocol.
    pub evaluator: u32,
    /// The task's name.
    pub task: String,
    /// The task's version.
    pub task_version: Digest,
    /// The name of the kernel's file.
    pub file: String,
    /// Values of tunables that differ from the source's defaults.
    pub configuration: Configuration,
    /// The extent of the evaluation.
    pub stage: EvaluationStage,
    /// The kernel that the candidate was compared with.
    pub incumbent: Option<Incumbent>,
    /// Commitment to the key of the inputs.
    pub key: Digest,
    /// The device that evaluated.
    pub device: Device,
    /// The compiler's name and version.
    pub toolchain: String,
    /// The verdict's kind.
    pub verdict: VerdictKind,
    /// Each file with its digest and length.
    pub files: BTreeMap<String, Part>,
    /// Files that were left out, each with the reason.
    pub left_out: BTreeMap<String, String>,
}

/// A file of a bundle, as the manifest describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Digest of its content.
    pub digest: Digest,
    /// Its length, bytes.
    pub bytes: u64,
}

/// The reasons why a bundle cannot be used. Messages follow "failed to".
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// There is no such bundle.
    #[error(
        "find the evidence {digest} in {folder}; `kernelwright evidence fetch` brings it from a service"
    )]
    Missing {
        /// The bundle's name.
        digest: Digest,
        /// The folder in which it was looked for.
        folder: String,
    },
    /// The content does not have the digest that names it.
    #[error("read the evidence {digest}: {what}; it was damaged or changed")]
    Damaged {
        /// The bundle's name.
        digest: Digest,
        /// The damage.
        what: String,
    },
}

/// A bundle whose every byte was checked against its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// The bundle's name.
    pub digest: Digest,
    /// Its manifest.
    pub manifest: Manifest,
    /// The verdict with its facts.
    pub evaluation: Evaluation,
    /// Its folder.
    pub folder: PathBuf,
    source: String,
    task: TaskBundle,
}

/// The content of a new bundle.
pub(super) struct Parts<'a> {
    pub request: &'a EvaluationRequest,
    pub task_name: &'a str,
    pub evaluation: &'a Evaluation,
    pub plans: &'a BTreeMap<String, ResolvedPlan>,
    pub compiled: Option<&'a Compiled>,
    pub lines: &'a [CaseLines],
    /// The instructions of the machine code, where they were read.
    pub sass: Option<&'a str>,
}

/// The folder of all bundles.
pub(super) fn bundles_folder(data: &Path) -> PathBuf {
    data.join(BUNDLES)
}

/// The folder of the keys.
pub(super) fn keys_folder(data: &Path) -> PathBuf {
    data.join(KEYS)
}

/// Writes a bundle and returns its name.
pub(super) fn write_bundle(host: &Host, parts: &Parts<'_>) -> Result<Digest, EvaluateError> {
    let bundles = bundles_folder(host.data());
    fs::create_dir_all(&bundles).map_err(storage(&bundles))?;
    let unfinished = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .tempdir_in(&bundles)
        .map_err(storage(&bundles))?;
    let request = parts.request;
    let mut draft = Draft {
        folder: unfinished.path(),
        files: BTreeMap::new(),
        left_out: BTreeMap::new(),
        bytes: 0,
    };
    draft.text(SOURCE, request.source.as_bytes())?;
    draft.json(TASK, &request.task)?;
    draft.json(EVALUATION, parts.evaluation)?;
    draft.json("plans.json", parts.plans)?;
    if let Some(compiled) = parts.compiled {
        let compiler = json!({
            "toolchain": compiled.toolchain,
            "architecture": host.device().architecture(),
            "defines": request.configuration,
            "diagnostics": compiled.diagnostics,
            "kernels": compiled.kernels,
            "contents": compiled.contents,
            "code_digest": compiled.image.code_digest,
        });
        draft.json("compiler.json", &compiler)?;
        draft.file("image.cubin", &compiled.image.cubin)?;
        draft.file("image.ptx", &compiled.image.ptx)?;
    }
    if let Some(sass) = parts.sass {
        draft.text(SASS, sass.as_bytes())?;
    }
    if !parts.lines.is_empty() {
        let counters = json!({ "modelled_on": host.device().name, "cases": parts.lines });
        let text = serde_json::to_vec(&counters).expect("counters have text keys");
        draft.at_most(MAX_COUNTERS_BYTES, COUNTERS, &text)?;
    }
    let manifest = Manifest {
        form: FORM.to_owned(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        evaluator: EVALUATOR_VERSION,
        task: parts.task_name.to_owned(),
        task_version: parts.evaluation.task_version,
        file: request.file.clone(),
        configuration: request.configuration.clone(),
        stage: request.stage,
        incumbent: request.incumbent.clone(),
        key: commitment(request.key),
        device: host.device().clone(),
        toolchain: host.toolchain().to_owned(),
        verdict: parts.evaluation.verdict.kind(),
        files: draft.files,
        left_out: draft.left_out,
    };
    let text = serde_json::to_vec_pretty(&manifest).expect("a manifest has text keys");
    let digest = Digest::of(&text);
    let path = unfinished.path().join(MANIFEST);
    fs::write(&path, text).map_err(storage(&path))?;
    write_key(host.data(), request.key)?;
    let place = bundles.join(digest.to_string());
    match fs::rename(unfinished.path(), &place) {
        Ok(()) => Ok(digest),
        // The same bundle exists already, because names are digests of contents.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists
            ) =>
        {
            Ok(digest)
        }
        Err(error) => Err(storage(&place)(error)),
    }
}

/// A bundle that is being written.
struct Draft<'a> {
    folder: &'a Path,
    files: BTreeMap<String, Part>,
    left_out: BTreeMap<String, String>,
    bytes: u64,
}

impl Draft<'_> {
    fn json(&mut self, name: &str, value: &impl Serialize) -> Result<(), EvaluateError> {
        let text = serde_json::to_vec_pretty(value).expect("these values have text keys");
        self.text(name, &text)
    }

    fn text(&mut self, name: &str, bytes: &[u8]) -> Result<(), EvaluateError> {
        self.at_most(MAX_BUNDLE_BYTES, name, bytes)
    }

    /// Adds a text unless it is longer than `most` bytes or the bundle is full.
    fn at_most(&mut self, most: u64, name: &str, bytes: &[u8]) -> Result<(), EvaluateError> {
        let length = bytes.len() as u64;
        if length > most {
            let reason = format!("{length} bytes; it may have {most}");
            self.left_out.insert(name.to_owned(), reason);
            return Ok(());
        }
        if !self.fits(name, length) {
            return Ok(());
        }
        let path = self.folder.join(name);
        fs::write(&path, bytes).map_err(storage(&path))?;
        self.note(name, bytes);
        Ok(())
    }

    /// Adds a file of a build, as a hard link where possible, because a build's files never change.
    fn file(&mut self, name: &str, from: &Path) -> Result<(), EvaluateError> {
        let bytes = fs::read(from).map_err(storage(from))?;
        if !self.fits(name, bytes.len() as u64) {
            return Ok(());
        }
        let path = self.folder.join(name);
        if fs::hard_link(from, &path).is_err() {
            fs::write(&path, &bytes).map_err(storage(&path))?;
        }
        self.note(name, &bytes);
        Ok(())
    }

    fn fits(&mut self, name: &str, bytes: u64) -> bool {
        let fits = self.bytes + bytes <= MAX_BUNDLE_BYTES;
        if !fits {
            let reason = format!("{bytes} bytes; a bundle has at most {MAX_BUNDLE_BYTES}");
            self.left_out.insert(name.to_owned(), reason);
        }
        fits
    }

    fn note(&mut self, name: &str, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let part = Part {
            digest: Digest::of(bytes),
            bytes: bytes.len() as u64,
        };
        self.files.insert(name.to_owned(), part);
    }
}

/// The digest by which a manifest commits to a key.
fn commitment(key: Key) -> Digest {
    Digest::of_parts([b"kernelwright evidence key".as_slice(), key.0.bytes()])
}

/// Writes a key to a file that only its owner can read.
fn write_key(data: &Path, key: Key) -> Result<(), EvaluateError> {
    let folder = keys_folder(data).join(commitment(key).to_string());
    fs::create_dir_all(&folder).map_err(storage(&folder))?;
    let path = folder.join(KEY);
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path);
    match file {
        Ok(mut file) => file
            .write_all(key.0.to_string().as_bytes())
            .map_err(storage(&path)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(storage(&path)(error)),
    }
}

impl Evidence {
    /// Reads a bundle and checks every byte of it.
    ///
    /// # Errors
    /// See [`EvidenceError`].
    pub fn open(data: &Path, digest: Digest) -> Result<Self, EvidenceError> {
        let folder = bundles_folder(data).join(digest.to_string());
        let damaged = |what: String| EvidenceError::Damaged { digest, what };
        let text = fs::read(folder.join(MANIFEST)).map_err(|_| EvidenceError::Missing {
            digest,
            folder: bundles_folder(data).display().to_string(),
        })?;
        if Digest::of(&text) != digest {
            return Err(damaged("its manifest has another digest".to_owned()));
        }
        let manifest: Manifest = serde_json::from_slice(&text)
            .map_err(|error| damaged(describe_json(&error.to_string())))?;
        if manifest.form != FORM {
            return Err(damaged(format!("its form is {}", manifest.form)));
        }
        let mut contents = BTreeMap::new();
        for (name, part) in &manifest.files {
            let bytes =
                fs::read(folder.join(name)).map_err(|error| damaged(format!("{name}: {error}")))?;
            if Digest::of(&bytes) != part.digest {
                return Err(damaged(format!("{name} has another digest")));
            }
            contents.insert(name.as_str(), bytes);
        }
        let content = |name: &str| {
            let bytes = contents.get(name);
            bytes.ok_or_else(|| damaged(format!("{name} is missing")))
        };
        let source = String::from_utf8(content(SOURCE)?.clone())
            .map_err(|_| damaged(format!("{SOURCE} is no text")))?;
        let task = serde_json::from_slice(content(TASK)?)
            .map_err(|error| damaged(format!("{TASK}: {}", describe_json(&error.to_string()))))?;
        let evaluation = serde_json::from_slice(content(EVALUATION)?).map_err(|error| {
            damaged(format!(
                "{EVALUATION}: {}",
                describe_json(&error.to_string())
            ))
        })?;
        Ok(Self {
            digest,
            manifest,
            evaluation,
            folder,
            source,
            task,
        })
    }

    /// The names of the bundles in a data folder that begin with `prefix`.
    pub fn names(data: &Path, prefix: &str) -> Vec<Digest> {
        let entries = fs::read_dir(bundles_folder(data))
            .into_iter()
            .flatten()
            .flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names
            .filter(|name| name.starts_with(prefix))
            .filter_map(|name| name.parse().ok())
            .collect()
    }

    /// The key of the inputs, if this data folder has it.
    pub fn read_key(&self, data: &Path) -> Option<Key> {
        let path = keys_folder(data)
            .join(self.manifest.key.to_string())
            .join(KEY);
        let text = fs::read_to_string(path).ok()?;
        let key = Key(text.trim().parse().ok()?);
        (commitment(key) == self.manifest.key).then_some(key)
    }

    /// The conditions that differ between the bundle and `host`, so that a repetition with another
    /// verdict would prove nothing.
    pub fn differences(&self, host: &Host) -> Vec<String> {
        let own = &self.manifest;
        let different = |what: &str, then: String, now: String| {
            (then != now).then(|| format!("{what}: {then} then, {now} now"))
        };
        let device = |device: &Device| format!("{device} {:?}", device.kind);
        let first = |looked: Option<&Device>| looked.map_or("nobody".to_owned(), device);
        let (then, rows) = (&self.evaluation.prescreen, &self.evaluation.not_run);
        // An evaluation that ended before the pre-screen does not show which device would have made
        // it.
        let reached = then.is_some() || rows.iter().any(|row| row.part == ProtocolPart::Prescreen);
        let now = host.prescreener().and_then(|now| now.device.as_ref().ok());
        [
            different(
                "evaluation protocol",
                own.evaluator.to_string(),
                EVALUATOR_VERSION.to_string(),
            ),
            different(
                "compiler",
                own.toolchain.clone(),
                host.toolchain().to_owned(),
            ),
            different("device", device(&own.device), device(host.device())),
            different(
                "pre-screen",
                first(then.as_ref().map(|then| &then.device)),
                first(now.map(|now| now.device())),
            )
            .filter(|_| reached),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// The request that repeats the evaluation.
    pub fn request(&self, key: Key) -> EvaluationRequest {
        EvaluationRequest {
            task: self.task.clone(),
            file: self.manifest.file.clone(),
            source: self.source.clone(),
            configuration: self.manifest.configuration.clone(),
            stage: self.manifest.stage,
            key,
            incumbent: self.manifest.incumbent.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_manifest_that_does_not_parse_is_described_in_plain_words() {
        let data = tempfile::tempdir().unwrap();
        let text = br#"{"form": 1}"#;
        let digest = Digest::of(text);
        let expected = "line 1, column 10: a string is needed, not 1";
        let store = store::EvidenceStore::in_folder(data.path(), None).unwrap();
        let received = store.receive_manifest(digest, text.as_slice().into());
        let refused = received.await.unwrap_err();
        assert!(refused.to_string().contains(expected), "{refused}");
        let folder = bundles_folder(data.path()).join(digest.to_string());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(MANIFEST), text).unwrap();
        let damaged = Evidence::open(data.path(), digest).unwrap_err();
        assert!(damaged.to_string().contains(expected), "{damaged}");
    }
}
