//! Starts a role as the supervisor does, but without limits.

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use domain::role::{Envelope, SOCKET_VARIABLE};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Variable that tells the test binary which role to run.
pub const ROLE_VARIABLE: &str = "KERNELWRIGHT_TEST_ROLE";
/// Time limit of a role. No role of these tests takes a tenth of it; it ends a hung one.
const DEADLINE: Duration = Duration::from_secs(120);
const NONCE: &str = "c0ffee";

/// Result of a role process.
pub struct Ended<R> {
    /// Its reply, if it sent one.
    pub reply: Option<R>,
    /// Its standard error.
    pub said: String,
    /// Its exit status, if it was not killed by a signal.
    pub status: Option<i32>,
}

impl<R> Ended<R> {
    /// The reply; panics if there is none.
    pub fn expect_reply(self) -> R {
        let (status, said) = (self.status, self.said);
        self.reply
            .unwrap_or_else(|| panic!("no reply; status {status:?}; it said:\n{said}"))
    }
}

/// Runs a role with `library_path` on the loader's path and waits for its end.
pub fn run<J: Serialize, R: DeserializeOwned>(
    role: &str,
    job: &J,
    library_path: &[PathBuf],
) -> Ended<R> {
    run_in(Path::new("/"), role, job, library_path)
}

/// As `run_role`, in a folder, to which a role that runs candidates is confined.
pub fn run_in<J: Serialize, R: DeserializeOwned>(
    folder: &Path,
    role: &str,
    job: &J,
    library_path: &[PathBuf],
) -> Ended<R> {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    rustix::io::fcntl_setfd(&theirs, rustix::io::FdFlags::empty()).unwrap();
    let paths = std::env::join_paths(library_path).unwrap();
    #[expect(
        clippy::disallowed_methods,
        reason = "the supervisor is another crate's"
    )]
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "role_process", "--nocapture", "--test-threads=1"])
        .current_dir(folder)
        .env_clear()
        .env(ROLE_VARIABLE, role)
        .env(SOCKET_VARIABLE, theirs.as_raw_fd().to_string())
        .env("LD_LIBRARY_PATH", paths)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(theirs);
    ours.set_read_timeout(Some(DEADLINE)).unwrap();
    let envelope = Envelope {
        nonce: NONCE.to_owned(),
        body: job,
    };
    let text = serde_json::to_vec(&envelope).unwrap();
    let length = u32::try_from(text.len()).unwrap();
    // A role that refuses before it reads leaves a closed socket; its standard error gives the reason.
    let mut greeting = [1; 4];
    let sent = ours
        .read_exact(&mut greeting)
        .and_then(|()| ours.write_all(&length.to_le_bytes()))
        .and_then(|()| ours.write_all(&text));
    let mut reply = Vec::new();
    let received = sent.and_then(|()| ours.read_to_end(&mut reply));
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    let reply = received.is_ok().then(|| decode(&reply)).flatten();
    Ended {
        reply,
        said: String::from_utf8_lossy(&stderr).into_owned(),
        status: status.code(),
    }
}

fn decode<R: DeserializeOwned>(wire: &[u8]) -> Option<R> {
    let (length, text) = wire.split_at_checked(4)?;
    let length = u32::from_le_bytes(length.try_into().unwrap());
    assert_eq!(text.len(), length as usize, "the frame is exact");
    let envelope: Envelope<R> = serde_json::from_slice(text).unwrap();
    assert_eq!(envelope.nonce, NONCE, "the reply is bound to its job");
    Some(envelope.body)
}

/// The folder of the compiler's library: `KERNELWRIGHT_NVRTC`, or the folder in the user's cache where the set-up
/// installed it.
pub fn nvrtc() -> Option<PathBuf> {
    let library = installed("KERNELWRIGHT_NVRTC", "nvidia/cu13/lib/libnvrtc.so.13");
    let folder = library.map(|path| match path.parent() {
        Some(folder) if path.is_file() => folder.to_owned(),
        _ => path,
    });
    folder.or_else(|| {
        skip(
            "NVRTC",
            "run the set-up, or set KERNELWRIGHT_NVRTC to the folder of libnvrtc.so",
        )
    })
}

/// NVIDIA's disassembler: `KERNELWRIGHT_NVDISASM`, or the file in the user's cache where the set-up installed it.
pub fn nvdisasm() -> Option<PathBuf> {
    installed("KERNELWRIGHT_NVDISASM", "nvidia/cu13/bin/nvdisasm").or_else(|| {
        skip(
            "NVIDIA's disassembler",
            "run the set-up, or set KERNELWRIGHT_NVDISASM to the program",
        )
    })
}

/// The path in a variable, or the newest of the set-up's packages that contains the file.
fn installed(variable: &str, file: &str) -> Option<PathBuf> {
    let cached = || {
        let cache = std::env::var_os("KERNELWRIGHT_CACHE").map(PathBuf::from);
        let cache = match cache {
            Some(cache) => cache,
            None => PathBuf::from(std::env::var_os("HOME")?).join(".cache/kernelwright"),
        };
        let mut versions: Vec<PathBuf> = fs::read_dir(cache)
            .ok()?
            .filter_map(|entry| Some(entry.ok()?.path().join(file)))
            .filter(|path| path.is_file())
            .collect();
        versions.sort();
        versions.pop()
    };
    std::env::var_os(variable)
        .map(PathBuf::from)
        .or_else(cached)
}

/// The emulated driver's library: `KERNELWRIGHT_DRIVER`, or the newest one in the build folder.
pub fn driver() -> Option<PathBuf> {
    const LIBRARY: &str = "libkernelwright_driver.so";
    let built = || {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?;
        ["debug", "release"]
            .map(|profile| target.join(profile).join(LIBRARY))
            .into_iter()
            .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path)))
            .max()
            .map(|(_, path)| path)
    };
    std::env::var_os("KERNELWRIGHT_DRIVER")
        .map(PathBuf::from)
        .or_else(built)
        .or_else(|| skip("the emulated driver", "run `cargo build -p driver`"))
}

/// Reports on standard error that a test was skipped.
pub fn skip<T>(what: &str, remedy: &str) -> Option<T> {
    static SKIPPED: AtomicU32 = AtomicU32::new(0);
    let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    let mut line = OsString::from("SKIPPED (");
    line.push(format!("{count} so far): {what} was not found; {remedy}\n"));
    // Written directly, because the test harness captures the output of passing tests.
    let _ = std::io::stderr().write_all(line.as_encoded_bytes());
    None
}

/// The folder into which CUDA's headers are unpacked for all tests of a build.
pub fn headers() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("cuda-headers")
}
