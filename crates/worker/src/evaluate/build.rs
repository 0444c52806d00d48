//! Builds: a source is compiled once for an architecture and a compiler, and its image is kept.
//!
//! A build is a folder named by the digest of everything that it depends on. It is made in another
//! folder and renamed, so that an unfinished build is never seen. Its files are checked against the
//! digests stored with them when it is read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use domain::digest::Digest;
use domain::evaluation::EVALUATOR_VERSION;
use domain::judge;
use domain::plan::Configuration;
use domain::role::{CompileJob, CompileReply, Compiled, Contents, Image, KernelResources};
use domain::verdict::Diagnostic;
use serde::{Deserialize, Serialize};

use super::COMPILE_DEADLINE;
use super::error::{EvaluateError, Stop, storage};
use crate::cancel::Cancellation;
use crate::host::{Host, Role};

/// The prefix of folders in which a build is being made.
pub const UNFINISHED: &str = "making-";
/// The file name of every source while it is compiled, and in the line table of its image.
pub const SOURCE_NAME: &str = "candidate.cu";
const RECORD: &str = "build.json";
const CUBIN: &str = "image/image.cubin";
const PTX: &str = "image/image.ptx";

/// The inputs of a compilation.
#[derive(Debug, Clone, Copy)]
pub struct CompilationInputs<'a> {
    /// The text.
    pub source: &'a str,
    /// Its tunables.
    pub configuration: &'a Configuration,
    /// The task's own headers by name.
    pub headers: &'a BTreeMap<String, String>,
    /// Such as `sm_89`.
    pub architecture: &'a str,
}

/// The record that is kept beside a build's files.
#[derive(Debug, Serialize, Deserialize)]
struct BuildRecord {
    cubin_digest: Digest,
    ptx_digest: Digest,
    code_digest: Digest,
    kernels: Vec<KernelResources>,
    contents: Contents,
    diagnostics: Vec<Diagnostic>,
    toolchain: String,
}

/// Finds the build of `recipe`.
pub fn find(host: &Host, recipe: &CompilationInputs<'_>) -> Option<Compiled> {
    load(&build_folder(host, recipe))
}

fn build_folder(host: &Host, recipe: &CompilationInputs<'_>) -> PathBuf {
    let builds = host.data().join("builds");
    builds.join(identity(host, recipe).to_string())
}

/// Compiles `recipe` or finds its build.
///
/// # Errors
/// [`Stop`] with the compiler's verdict on the source, or with a fault.
pub fn build(
    host: &Host,
    recipe: &CompilationInputs<'_>,
    cancellation: &Cancellation,
) -> Result<Compiled, Stop> {
    let builds = host.data().join("builds");
    let place = build_folder(host, recipe);
    if let Some(compiled) = load(&place) {
        return Ok(compiled);
    }
    std::fs::create_dir_all(&builds).map_err(storage(&builds))?;
    let workshop = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .tempdir_in(&builds)
        .map_err(storage(&builds))?;
    let job = lay_out(host, recipe, workshop.path())?;
    let compiled = compile(host, &job, cancellation)?;
    let record = BuildRecord {
        cubin_digest: digest_of(&workshop.path().join(CUBIN))?,
        ptx_digest: digest_of(&workshop.path().join(PTX))?,
        code_digest: compiled.image.code_digest,
        kernels: compiled.kernels,
        contents: compiled.contents,
        diagnostics: compiled.diagnostics,
        toolchain: compiled.toolchain,
    };
    let text = serde_json::to_vec_pretty(&record).expect("a record has only string keys");
    write(&workshop.path().join(RECORD), &text)?;
    // Another process may have made the same build meanwhile; any other content of the folder
    // cannot be used.
    if load(&place).is_none() {
        let _ = std::fs::remove_dir_all(&place);
        std::fs::rename(workshop.path(), &place).map_err(storage(&place))?;
    }
    let path = place.display().to_string();
    load(&place).ok_or_else(|| EvaluateError::Build { path }.into())
}

/// The digest of everything that a build depends on.
fn identity(host: &Host, recipe: &CompilationInputs<'_>) -> Digest {
    let headers = host.toolchain_headers();
    let whole = (
        recipe.source,
        recipe.configuration,
        recipe.headers,
        recipe.architecture,
        (
            host.toolchain(),
            headers.file_name().map(|name| name.to_string_lossy()),
        ),
        EVALUATOR_VERSION,
    );
    Digest::of(serde_json::to_vec(&whole).expect("a recipe is text and numbers"))
}

/// Writes the inputs of a compilation into a new folder. The source gets a fixed name, because the
/// author's name for it must not become a path.
fn lay_out(
    host: &Host,
    recipe: &CompilationInputs<'_>,
    folder: &Path,
) -> Result<CompileJob, EvaluateError> {
    let source = folder.join("source").join(SOURCE_NAME);
    write(&source, recipe.source.as_bytes())?;
    let headers = folder.join("include");
    for (name, text) in recipe.headers {
        write(&headers.join(name), text.as_bytes())?;
    }
    let output = folder.join("image");
    std::fs::create_dir_all(&output).map_err(storage(&output))?;
    let toolchain_headers = host.toolchain_headers();
    std::fs::create_dir_all(&toolchain_headers).map_err(storage(&toolchain_headers))?;
    Ok(CompileJob {
        source,
        architecture: recipe.architecture.to_owned(),
        defines: recipe.configuration.clone(),
        headers: (!recipe.headers.is_empty()).then_some(headers),
        toolchain_headers,
        output,
    })
}

/// Runs the compiler. A compiler that dies is started once more, because the machine may have been
/// short of memory; one that dies because of the source dies again.
fn compile(host: &Host, job: &CompileJob, cancellation: &Cancellation) -> Result<Compiled, Stop> {
    let ask = || host.ask::<_, CompileReply>(Role::Compile, job, COMPILE_DEADLINE, cancellation);
    let mut answer = ask()?;
    if matches!(&answer.reply, Err(exit) if exit.may_succeed_on_retry()) {
        answer = ask()?;
    }
    let reply = match answer.reply {
        Ok(reply) => reply,
        Err(exit) => return Err(judge::judge_compiler_exit(&exit)?.into()),
    };
    match (judge::judge_compilation(&reply), reply) {
        (None, CompileReply::Compiled(compiled)) => Ok(*compiled),
        (Some(verdict), _) => Err(verdict.into()),
        (None, _) => unreachable!("only an image gets no verdict"),
    }
}

/// Reads a finished build; `None` if it is missing or does not match its stored digests.
fn load(place: &Path) -> Option<Compiled> {
    let text = std::fs::read(place.join(RECORD)).ok()?;
    let record: BuildRecord = serde_json::from_slice(&text).ok()?;
    let (cubin, ptx) = (place.join(CUBIN), place.join(PTX));
    let matches = |path: &Path, digest: Digest| {
        std::fs::read(path).is_ok_and(|bytes| Digest::of(bytes) == digest)
    };
    if !matches(&cubin, record.cubin_digest) || !matches(&ptx, record.ptx_digest) {
        tracing::warn!(
            "the build {} was damaged and is made again",
            place.display()
        );
        return None;
    }
    Some(Compiled {
        image: Image {
            cubin,
            ptx,
            cubin_digest: record.cubin_digest,
            code_digest: record.code_digest,
        },
        kernels: record.kernels,
        contents: record.contents,
        diagnostics: record.diagnostics,
        toolchain: record.toolchain,
    })
}

fn digest_of(path: &Path) -> Result<Digest, EvaluateError> {
    let bytes = std::fs::read(path).map_err(storage(path))?;
    Ok(Digest::of(bytes))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), EvaluateError> {
    let folder: PathBuf = path.parent().unwrap_or(Path::new("/")).to_owned();
    std::fs::create_dir_all(&folder).map_err(storage(&folder))?;
    std::fs::write(path, bytes).map_err(storage(path))
}
