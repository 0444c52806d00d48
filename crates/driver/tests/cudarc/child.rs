//! Child processes with this library on their library path. A process cannot change its own path, so each test starts
//! itself again.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use std::{env, thread};

/// Variable that distinguishes a child from its parent.
pub const CHILD: &str = "DRIVER_TEST_CHILD";
/// Output at the end of a child's test. A child that ran no test at all also exits with status 0.
const FINISHED: &str = "the body of the test has ended";
/// Deadline, far above the time that any child needs.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Result of a child process.
pub struct Ended {
    pub status: ExitStatus,
    pub stderr: String,
}

/// Starts one test of this binary again with this library first on the library path, and waits for its end. None if
/// the child exceeded the deadline and was killed.
pub fn again(test: &str, environment: &[(&str, &str)], deadline: Duration) -> Option<Ended> {
    let program = env::current_exe().expect("a test knows its program");
    let library = program
        .parent()
        .expect("in a folder")
        .join("libkernelwright_driver.so");
    let folder = tempfile::tempdir().expect("a folder");
    link(&library, &folder.path().join("libcuda.so.1"));
    #[expect(
        clippy::disallowed_methods,
        reason = "the test program starts itself, and waits with a deadline"
    )]
    let mut command = Command::new(program);
    command
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env("LD_LIBRARY_PATH", folder.path())
        .env(CHILD, "1")
        .envs(environment.iter().copied())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let child = command.spawn().expect("starts");
    ended(child, deadline)
}

fn link(library: &Path, name: &Path) {
    assert!(library.exists(), "{} was not built", library.display());
    std::os::unix::fs::symlink(library, name).expect("links");
}

/// Waits for a child until its standard error is closed, because only the child holds it open.
fn ended(mut child: Child, deadline: Duration) -> Option<Ended> {
    let mut pipe = child.stderr.take().expect("was asked for");
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut text = String::new();
        // Output that is not UTF-8 contains nothing that the tests look for.
        let _ = pipe.read_to_string(&mut text);
        // Sending fails if the deadline has passed, because the receiver is gone then.
        let _ = sender.send(text);
    });
    let stderr = receiver.recv_timeout(deadline).ok();
    if stderr.is_none() {
        child.kill().expect("our own child");
    }
    let status = child.wait().expect("our own child");
    stderr.map(|stderr| Ended { status, stderr })
}

/// Runs the body in a child process that loads this library; directly if this process is the child.
pub fn in_child(test: &str, environment: &[(&str, &str)], body: impl FnOnce()) {
    if env::var_os(CHILD).is_some() {
        body();
        eprintln!("{FINISHED}");
        return;
    }
    let ended = again(test, environment, DEADLINE).expect("ends in time");
    assert!(ended.status.success(), "{test}: {}", ended.stderr);
    assert!(ended.stderr.contains(FINISHED), "{test} names no test");
}
