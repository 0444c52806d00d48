//! Spares and the events that end them. A spare is this test binary itself, started again to run
//! the one test that plays it; so is a worker that is killed.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its functions too"
)]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use domain::role::{Envelope, SOCKET_VARIABLE};
use worker::cancel::Cancellation;
use worker::spares::{Spare, SpareSpec, Spares};
use worker::supervise::{Bounds, Limits, Program};

const PLACE: &str = "echo";
/// The variable that names the pipe which a spare holds open as long as it lives.
const HELD: &str = "KERNELWRIGHT_TEST_HELD";
/// The variable that makes this binary a worker with one spare, which holds the named pipe.
const WORKER: &str = "KERNELWRIGHT_TEST_WORKER";
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn plays_a_spare_when_started_as_one() {
    if std::env::var_os(SOCKET_VARIABLE).is_none() {
        return;
    }
    let held = std::env::var_os(HELD).map(|pipe| File::options().write(true).open(pipe).unwrap());
    let stdin = std::io::stdin();
    let mut socket = UnixStream::from(stdin.as_fd().try_clone_to_owned().unwrap());
    socket.write_all(&[0; 4]).unwrap();
    let mut header = [0; 4];
    // A worker that has ended has closed its end.
    if socket.read_exact(&mut header).is_ok() {
        let mut job = vec![0; u32::from_le_bytes(header) as usize];
        socket.read_exact(&mut job).unwrap();
        let job: Envelope<String> = serde_json::from_slice(&job).unwrap();
        let folder = std::env::current_dir().unwrap();
        let reply = Envelope {
            nonce: job.nonce,
            body: (std::process::id(), job.body, folder),
        };
        let reply = serde_json::to_vec(&reply).unwrap();
        let length = u32::try_from(reply.len()).unwrap();
        socket.write_all(&length.to_le_bytes()).unwrap();
        socket.write_all(&reply).unwrap();
    }
    drop(held);
    std::process::exit(0);
}

#[test]
fn plays_a_worker_when_started_as_one() {
    let Some(pipe) = std::env::var_os(WORKER) else {
        return;
    };
    let spares = Spares::start();
    spares.start_in_background(PLACE, recipe(Some(Path::new(&pipe))));
    loop {
        std::thread::park();
    }
}

fn recipe(held: Option<&Path>) -> SpareSpec {
    let home = tempfile::tempdir().unwrap();
    let arguments = [
        "--exact",
        "plays_a_spare_when_started_as_one",
        "--nocapture",
    ];
    let mut environment = vec![(SOCKET_VARIABLE.into(), "0".into())];
    environment.extend(held.map(|pipe| (HELD.into(), pipe.into())));
    SpareSpec {
        program: Program {
            executable: std::env::current_exe().unwrap(),
            arguments: arguments.map(Into::into).to_vec(),
            environment,
            directory: home.path().to_owned(),
            walls: None,
        },
        limits: Limits::default(),
        home,
    }
}

/// The reply of a spare: its number, the job's text and its folder.
fn ask(spare: Spare, text: &str) -> (u32, String, PathBuf) {
    let bounds = Bounds {
        limits: Limits::default(),
        readiness: Some(PATIENCE),
        deadline: PATIENCE,
    };
    let cancellation = Cancellation::new().unwrap();
    let (answer, _home) = spare.ask(&text, bounds, &cancellation).unwrap();
    answer.reply.unwrap()
}

/// Takes the spare that was started last, however long it takes to start.
fn wait_for(spares: &Spares) -> Spare {
    loop {
        if let Some(spare) = spares.take(PLACE) {
            return spare;
        }
        std::thread::yield_now();
    }
}

/// A pipe, and a thread that notices that its last writer is gone.
fn pipe(folder: &Path) -> (PathBuf, JoinHandle<()>) {
    let pipe = folder.join("held");
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, rustix::fs::Mode::RWXU, 0).unwrap();
    let listener = std::thread::spawn({
        let pipe = pipe.clone();
        move || {
            File::open(pipe)
                .unwrap()
                .read_to_end(&mut Vec::new())
                .unwrap();
        }
    });
    (pipe, listener)
}

/// Waits until everything requested has been started; requests are served in order.
fn has_started(spares: &Spares) {
    spares.start_in_background("another", recipe(None));
    while spares.take("another").is_none() {
        std::thread::yield_now();
    }
}

#[test]
fn a_spare_does_one_job_in_a_folder_of_its_own() {
    let spares = Spares::start();
    assert!(spares.take(PLACE).is_none(), "nothing was ordered");
    let mut seen = Vec::new();
    for text in ["one", "two"] {
        spares.start_in_background(PLACE, recipe(None));
        let spare = wait_for(&spares);
        assert!(spares.take(PLACE).is_none(), "there is one for each place");
        let home = spare.home.path().canonicalize().unwrap();
        let (process, said, folder) = ask(spare, text);
        assert_eq!((said.as_str(), &folder), (text, &home));
        assert!(!home.exists(), "its folder goes with it");
        seen.push((process, folder));
    }
    assert_ne!(seen[0], seen[1], "none is used twice");
}

#[test]
fn spares_end_on_request_and_with_their_owner() {
    let folder = tempfile::tempdir().unwrap();
    let (held, listener) = pipe(folder.path());
    let spares = Spares::start();
    spares.start_in_background(PLACE, recipe(Some(&held)));
    has_started(&spares);
    // The spare may hold the pipe already or be about to; afterwards it does not.
    let witness = File::options().write(true).open(&held).unwrap();
    spares.end_all();
    assert!(spares.take(PLACE).is_none());
    drop(witness);
    listener.join().unwrap();

    let other = tempfile::tempdir().unwrap();
    let (held, listener) = pipe(other.path());
    spares.start_in_background(PLACE, recipe(Some(&held)));
    has_started(&spares);
    let witness = File::options().write(true).open(&held).unwrap();
    drop(spares);
    drop(witness);
    listener.join().unwrap();
}

#[test]
fn a_spare_that_has_ended_is_not_used() {
    let spares = Spares::start();
    let mut broken = recipe(None);
    broken.program.executable = "/bin/true".into();
    spares.start_in_background(PLACE, broken);
    has_started(&spares);
    // It may not have ended yet, but then it cannot be used either.
    while let Some(spare) = spares.take(PLACE) {
        let bounds = Bounds {
            limits: Limits::default(),
            readiness: Some(PATIENCE),
            deadline: PATIENCE,
        };
        let cancellation = Cancellation::new().unwrap();
        let asked = spare.ask::<_, String>(&"job", bounds, &cancellation);
        assert!(asked.is_err(), "{asked:?}");
    }
}

#[test]
fn spares_die_with_a_worker_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let (held, listener) = pipe(folder.path());
    #[expect(
        clippy::disallowed_methods,
        reason = "a worker that nobody supervises is what the test is about"
    )]
    let mut worker = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "plays_a_worker_when_started_as_one",
            "--nocapture",
        ])
        .env(WORKER, &held)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // The listener reads once the spare has opened its end; from then on it lives.
    let mut ready = false;
    while !ready {
        ready = has_a_writer(&held);
        std::thread::yield_now();
    }
    worker.kill().unwrap();
    worker.wait().unwrap();
    listener.join().unwrap();
}

/// Returns true if another process has the pipe open.
fn has_a_writer(pipe: &Path) -> bool {
    let name = pipe.canonicalize().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap();
    processes.filter_map(Result::ok).any(|process| {
        let Ok(files) = std::fs::read_dir(process.path().join("fd")) else {
            return false;
        };
        let own = process.file_name() == *std::process::id().to_string();
        !own && files
            .filter_map(Result::ok)
            .any(|file| std::fs::read_link(file.path()).is_ok_and(|target| target == name))
    })
}
