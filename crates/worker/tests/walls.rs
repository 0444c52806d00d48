//! Processes inside the walls that this machine grants: their view, their end, and that nothing
//! remains of them. The child is this test binary itself, started again to run the one test that
//! plays it.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its functions too"
)]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use domain::judge::Exit;
use domain::role::walls::{Claims, Namespace, WALLS_VARIABLE};
use domain::role::{Envelope, SOCKET_VARIABLE};
use gpu::walls::{PREFIX, Walls};
use serde::{Deserialize, Serialize};
use worker::cancel::Cancellation;
use worker::supervise::{Answer, Bounds, Limits, Program, ask};

/// The behaviour of the child.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Act {
    Prove,
    TellClaims,
    Hang,
    Exit(i32),
    Abort,
    Fault,
    Compute,
    Hoard,
    LeaveStranger(PathBuf),
}

/// The variable that makes this binary a worker whose child leaves a process behind that holds the
/// named pipe.
const WORKER: &str = "KERNELWRIGHT_TEST_WORKER";
const PATIENCE: Duration = Duration::from_secs(60);
const MEBIBYTE: usize = 1 << 20;
/// The memory limit of the child that allocates a hundred times as much.
const FEW_BYTES: u64 = 256 << 20;

#[test]
fn plays_the_child_when_started_as_one() {
    if std::env::var_os(SOCKET_VARIABLE).is_none() {
        return;
    }
    if std::process::id() == 1 {
        gpu::walls::handle_signals();
    }
    let stdin = std::io::stdin();
    let mut socket = UnixStream::from(stdin.as_fd().try_clone_to_owned().unwrap());
    let mut header = [0; 4];
    socket.read_exact(&mut header).unwrap();
    let mut job = vec![0; u32::from_le_bytes(header) as usize];
    socket.read_exact(&mut job).unwrap();
    let Envelope { nonce, body } = serde_json::from_slice(&job).unwrap();
    let body = match body {
        Act::Prove => match gpu::walls::prove() {
            Ok(Some(holding)) => holding,
            Ok(None) => "nothing was claimed".to_owned(),
            Err(fault) => fault.to_string(),
        },
        Act::TellClaims => std::env::var(WALLS_VARIABLE).unwrap(),
        Act::Hang => loop {
            std::thread::park();
        },
        Act::Exit(status) => std::process::exit(status),
        Act::Abort => std::process::abort(),
        // Recursion without an end.
        Act::Fault => format!("{}", deeper(1)),
        Act::Compute => {
            let mut value = 1_u64;
            loop {
                value = std::hint::black_box(value.wrapping_mul(3));
            }
        }
        Act::Hoard => {
            let mut hoard = Vec::new();
            for _ in 0..100 * FEW_BYTES as usize / MEBIBYTE {
                hoard.push(vec![1_u8; MEBIBYTE]);
            }
            format!("{} blocks", hoard.len())
        }
        Act::LeaveStranger(pipe) => {
            leave_stranger(&pipe);
            "left one behind".to_owned()
        }
    };
    let reply = serde_json::to_vec(&Envelope { nonce, body }).unwrap();
    let length = u32::try_from(reply.len()).unwrap();
    socket.write_all(&length.to_le_bytes()).unwrap();
    socket.write_all(&reply).unwrap();
    std::process::exit(0);
}

#[expect(
    unconditional_recursion,
    reason = "the test is about the end that this comes to"
)]
fn deeper(level: u64) -> u64 {
    let room = std::hint::black_box([level; 1024]);
    deeper(level + 1) + room[usize::try_from(level % 1024).unwrap()]
}

/// Starts a shell in a process group of its own, which the child's does not reach; it holds `pipe`
/// open for writing as long as it lives.
#[expect(
    clippy::disallowed_methods,
    clippy::zombie_processes,
    reason = "a child that starts processes and leaves them is what the test is about"
)]
fn leave_stranger(pipe: &Path) {
    let script = format!("exec 3>'{}'; echo ready; sleep 1000", pipe.display());
    let mut shell = std::process::Command::new("/bin/sh")
        .args(["-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    shell.stdout.take().unwrap().read_exact(&mut ready).unwrap();
    assert_eq!(&ready, b"ready\n");
}

#[test]
fn plays_a_worker_when_started_as_one() {
    let Some(pipe) = std::env::var_os(WORKER) else {
        return;
    };
    // The child starts its own process and waits; only the death of this process ends them.
    let script = format!(
        "(exec 3>'{}'; setsid sleep 1000) & exec sleep 1000",
        Path::new(&pipe).display()
    );
    let program = Program {
        executable: "/bin/sh".into(),
        arguments: vec!["-c".into(), script.into()],
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        ..child(&Arc::new(Walls::find()))
    };
    let _ = ask::<_, String>(
        &program,
        &Act::Hang,
        patient(),
        &Cancellation::new().unwrap(),
    );
}

fn child(walls: &Arc<Walls>) -> Program {
    let arguments = [
        "--exact",
        "plays_the_child_when_started_as_one",
        "--nocapture",
    ];
    Program {
        executable: std::env::current_exe().unwrap(),
        arguments: arguments.map(Into::into).to_vec(),
        environment: vec![(SOCKET_VARIABLE.into(), "0".into())],
        directory: std::env::temp_dir(),
        walls: Some(Arc::clone(walls)),
    }
}

fn patient() -> Bounds {
    Bounds {
        limits: Limits::default(),
        readiness: None,
        deadline: PATIENCE,
    }
}

fn asked(walls: &Arc<Walls>, act: &Act, bounds: Bounds) -> Answer<String> {
    let cancellation = Cancellation::new().unwrap();
    ask(&child(walls), act, bounds, &cancellation).unwrap()
}

/// The walls of this machine; prints the missing ones.
fn walls() -> Arc<Walls> {
    let walls = Walls::find();
    for gap in walls.gaps() {
        // Written past the capture of the test harness, which hides the output of tests that pass.
        let line = format!("NOT RUN: {}: {}\n", gap.part, gap.reason);
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    Arc::new(walls)
}

/// The machine's walls and none, because the way in which a child ends must not depend on them.
fn with_and_without() -> [Arc<Walls>; 2] {
    [walls(), Arc::new(Walls::none("the test asks for none", ""))]
}

/// A pipe, and a thread that notices that its last writer is gone.
fn pipe(folder: &Path) -> (PathBuf, JoinHandle<()>) {
    let pipe = folder.join("held");
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, rustix::fs::Mode::RWXU, 0).unwrap();
    let listener = std::thread::spawn({
        let pipe = pipe.clone();
        move || {
            let mut bytes = Vec::new();
            File::open(pipe).unwrap().read_to_end(&mut bytes).unwrap();
        }
    });
    (pipe, listener)
}

#[test]
fn a_child_proves_every_wall_that_is_granted() {
    let walls = walls();
    let holding = asked(&walls, &Act::Prove, patient()).reply.unwrap();
    if !walls.exist() {
        assert_eq!(holding, "nothing was claimed");
        return;
    }
    let missing = walls.gaps().iter().map(|gap| gap.part).collect::<Vec<_>>();
    let words = holding.split([',', ';', ' ', ':']).collect::<Vec<_>>();
    for kind in Namespace::ALL {
        let granted = !missing.contains(&kind.as_str());
        assert_eq!(words.contains(&kind.as_str()), granted, "{kind}: {holding}");
    }
}

#[test]
fn a_false_claim_about_walls_is_detected() {
    let outside = |kind: Namespace| {
        let own = std::fs::read_link(kind.link()).unwrap();
        own.to_string_lossy().into_owned()
    };
    for kind in Namespace::ALL {
        // First the claim names the supervisor's own namespace, in which the child is. Then it
        // names another one, and the child must detect that it is not there.
        for (told, expected) in [
            (outside(kind), "namespace is its supervisor's"),
            ("other:[1]".to_owned(), ""),
        ] {
            let mut program = child(&Arc::new(Walls::none("", "")));
            let claims = format!("{{\"outside\":{{\"{kind}\":\"{told}\"}},\"group\":null}}");
            program
                .environment
                .push((WALLS_VARIABLE.into(), claims.into()));
            let cancellation = Cancellation::new().unwrap();
            let answer = ask::<_, String>(&program, &Act::Prove, patient(), &cancellation);
            let said = answer.unwrap().reply.unwrap();
            // Entries of a namespace of this kind cannot be listed.
            let seen = kind != Namespace::Ipc || !expected.is_empty();
            // A user without privileges has none to show.
            let root = rustix::process::geteuid().is_root();
            if seen && (kind != Namespace::User || root || !expected.is_empty()) {
                assert!(
                    said.starts_with("confine the process: prove"),
                    "{kind}: {said}"
                );
                assert!(said.contains(expected), "{kind}: {said}");
            }
        }
    }
}

#[test]
fn a_group_of_other_limits_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let group = |memory: &str, tasks: &str| {
        std::fs::write(folder.path().join("memory.max"), memory).unwrap();
        std::fs::write(folder.path().join("pids.max"), tasks).unwrap();
        let claims = serde_json::json!({
            "outside": {},
            "group": { "folder": folder.path(), "memory_bytes": 8192, "tasks": 64, "kill": true },
        });
        let mut program = child(&Arc::new(Walls::none("", "")));
        // A shell that reports the processes of its group, and becomes the child.
        let script = format!(
            "echo $$ > {}/cgroup.procs; exec \"$0\" \"$@\"",
            folder.path().display()
        );
        let mut words = vec![
            "-c".into(),
            script.into(),
            program.executable.into_os_string(),
        ];
        words.append(&mut program.arguments);
        program.executable = "/bin/sh".into();
        program.arguments = words;
        let claims = claims.to_string();
        program
            .environment
            .push((WALLS_VARIABLE.into(), claims.into()));
        let cancellation = Cancellation::new().unwrap();
        let answer = ask::<_, String>(&program, &Act::Prove, patient(), &cancellation);
        answer.unwrap().reply.unwrap()
    };
    assert_eq!(
        group("8192\n", "64\n"),
        "control group: memory, tasks, kill"
    );
    assert!(group("max\n", "64\n").contains("memory.max is max and not 8192"));
    assert!(group("8192\n", "65\n").contains("pids.max is 65 and not 64"));
}

#[test]
fn how_a_child_ends_does_not_depend_on_the_walls() {
    for walls in with_and_without() {
        let table = [
            (Act::Exit(0), Exit::Silent { status: 0 }),
            (Act::Exit(7), Exit::Silent { status: 7 }),
            (Act::Abort, Exit::Died { signal: 6 }),
        ];
        for (act, expected) in table {
            let answer = asked(&walls, &act, patient());
            assert_eq!(answer.reply.unwrap_err(), expected, "{act:?}");
        }
        let ended = asked(&walls, &Act::Fault, patient()).reply.unwrap_err();
        assert!(matches!(ended, Exit::Died { .. }), "{ended:?}");
        let hurried = Bounds {
            deadline: Duration::from_millis(300),
            ..patient()
        };
        let ended = asked(&walls, &Act::Hang, hurried).reply;
        assert_eq!(ended, Err(Exit::TimedOut));
    }
}

#[test]
fn exceeded_processor_time_is_reported_inside_walls() {
    for walls in with_and_without() {
        let bounds = Bounds {
            limits: Limits {
                cpu_seconds: Some(1),
                ..Limits::default()
            },
            ..patient()
        };
        let ended = asked(&walls, &Act::Compute, bounds).reply;
        assert_eq!(ended, Err(Exit::OverCpu { seconds: 1 }));
    }
}

#[test]
fn a_child_that_takes_too_much_memory_is_ended_whatever_its_address_space() {
    for walls in with_and_without() {
        let bounds = Bounds {
            limits: Limits {
                memory_bytes: Some(FEW_BYTES),
                ..Limits::default()
            },
            ..patient()
        };
        let ended = asked(&walls, &Act::Hoard, bounds).reply;
        assert_eq!(ended, Err(Exit::OverMemory { bytes: FEW_BYTES }));
    }
}

#[test]
fn a_process_that_leaves_its_group_stays_inside_the_walls() {
    let walls = walls();
    if !walls.hide_processes() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (pipe, listener) = pipe(folder.path());
    let answer = asked(&walls, &Act::LeaveStranger(pipe), patient());
    assert_eq!(answer.reply.unwrap(), "left one behind");
    listener.join().unwrap();
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the worker of this test is killed as nobody else's is"
)]
fn processes_inside_die_with_a_killed_worker() {
    if !walls().hide_processes() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (pipe, listener) = pipe(folder.path());
    let mut worker = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "plays_a_worker_when_started_as_one",
            "--nocapture",
        ])
        .env(WORKER, &pipe)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Opening waits for the reader, and the reader for the process inside that holds the pipe.
    let held = File::options().write(true).open(&pipe).unwrap();
    while !is_held_by_another(&pipe, &held) {
        std::thread::yield_now();
    }
    drop(held);
    worker.kill().unwrap();
    worker.wait().unwrap();
    listener.join().unwrap();
}

/// Returns true if a process other than this one has the file open.
fn is_held_by_another(path: &Path, held: &File) -> bool {
    let _ = held;
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let own = std::process::id().to_string();
    let mut others = processes.filter(|entry| entry.file_name().to_string_lossy() != own);
    others.any(|process| {
        let open = std::fs::read_dir(process.path().join("fd"));
        let mut open = open.into_iter().flatten().flatten();
        open.any(|file| std::fs::read_link(file.path()).is_ok_and(|target| target == path))
    })
}

#[test]
fn the_control_group_of_an_ended_process_is_removed() {
    let walls = walls();
    if !walls.exist() {
        return;
    }
    let told = asked(&walls, &Act::TellClaims, patient()).reply.unwrap();
    let claims: Claims = serde_json::from_str(&told).unwrap();
    let Some(group) = claims.group else {
        let missing = walls.gaps().iter().map(|gap| gap.part).collect::<Vec<_>>();
        assert!(missing.contains(&"control group"), "{missing:?}");
        return;
    };
    let name = group.folder.file_name().unwrap().to_string_lossy();
    assert!(name.starts_with(PREFIX), "{name}");
    assert!(group.folder.parent().unwrap().is_dir());
    assert!(!group.folder.exists(), "{name}");
}

#[test]
fn a_missing_program_is_reported_inside_walls() {
    for walls in with_and_without() {
        let program = Program {
            executable: "/nowhere/kernelwright".into(),
            ..child(&walls)
        };
        let cancellation = Cancellation::new().unwrap();
        let fault = ask::<_, String>(&program, &Act::Hang, patient(), &cancellation).unwrap_err();
        assert!(
            fault.to_string().contains("/nowhere/kernelwright"),
            "{fault}"
        );
        let cause = std::error::Error::source(&fault).unwrap().to_string();
        assert!(
            cause.contains("No such file") || cause.contains("not found"),
            "{cause}"
        );
    }
}
