//! Children with our library on their path: a process cannot change its own, so each test starts itself again.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use std::{env, thread};

/// Tells a child from its parent.
pub const CHILD: &str = "DRIVER_TEST_CHILD";
/// What a child says at the end of its test: one that ran no test at all succeeds, too.
const FINISHED: &str = "the body of the test has ended";
/// Far above what any child needs.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// What a child left behind.
pub struct Ended {
    pub status: ExitStatus,
    pub stderr: String,
}

/// Starts one test of this file again with our library first on the path, and waits for its end.
/// None if it had to be killed.
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

/// A child's end shows as the end of its standard error, which only it holds.
fn ended(mut child: Child, deadline: Duration) -> Option<Ended> {
    let mut pipe = child.stderr.take().expect("was asked for");
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut text = String::new();
        // A child that writes no UTF-8 has nothing we look for.
        let _ = pipe.read_to_string(&mut text);
        // Nobody waits any more if the deadline has passed.
        let _ = sender.send(text);
    });
    let stderr = receiver.recv_timeout(deadline).ok();
    if stderr.is_none() {
        child.kill().expect("our own child");
    }
    let status = child.wait().expect("our own child");
    stderr.map(|stderr| Ended { status, stderr })
}

/// Runs the body in a child that has our library; here if this is the child.
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
