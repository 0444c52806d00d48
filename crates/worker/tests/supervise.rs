//! The supervisor against children that behave, misbehave and refuse to end. The child is this test
//! binary itself, started again to run the one test that plays the child.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its functions too"
)]

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use domain::judge::Exit;
use domain::role::{Envelope, FAULT_STATUS, MAX_REPLY_BYTES, SOCKET_VARIABLE};
use serde::{Deserialize, Serialize};
use worker::cancel::Cancellation;
use worker::supervise::{
    Answer, Bounds, KEPT_BYTES, Limits, Program, SuperviseError, ask, converse,
};

/// The behaviour of the child.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Act {
    Echo(String),
    EchoInTurn(String),
    Environment,
    HangForever,
    AnswerAndHang,
    AnswerAnotherJobAndWait,
    FloodThenAnswer,
    FloodForever,
    Abort,
    AnswerAndAbort,
    ExitSilently(i32),
    MissToolchain,
    AnswerAnotherJob,
    AnswerNonsense,
    AnswerAnotherShape,
    AnswerTooMuch,
    AnswerTwice,
    AnswerHalf,
    TickTwiceThenAnswer,
    TickForever,
    LeaveGrandchild(PathBuf),
    TakeMemory,
    Compute,
}

/// The variable that makes the child do something else than announce that it is ready.
const UNREADY: &str = "KERNELWRIGHT_TEST_UNREADY";
/// Longer than any child of these tests needs, and shorter than any test's time limit.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn plays_the_child_when_started_as_one() {
    let Ok(descriptor) = std::env::var(SOCKET_VARIABLE) else {
        return;
    };
    assert_eq!(descriptor, "0", "the socket is the standard input");
    let stdin = std::io::stdin();
    let mut socket = UnixStream::from(stdin.as_fd().try_clone_to_owned().unwrap());
    match std::env::var(UNREADY).as_deref() {
        Ok("abort") => std::process::abort(),
        Ok("leave") => std::process::exit(0),
        Ok("refuse") => {
            eprintln!("failed to open the GPU; plug it in");
            std::process::exit(i32::from(FAULT_STATUS));
        }
        Ok("speak") => frame(&mut socket, b"{}"),
        Ok("hang") => wait_for_the_end(),
        _ => frame(&mut socket, b""),
    }
    let job = receive_job(&mut socket);
    play(job, &mut socket);
}

fn receive_job(socket: &mut UnixStream) -> Envelope<Act> {
    let mut header = [0; 4];
    socket.read_exact(&mut header).unwrap();
    let mut job = vec![0; u32::from_le_bytes(header) as usize];
    socket.read_exact(&mut job).unwrap();
    serde_json::from_slice(&job).unwrap()
}

fn play(job: Envelope<Act>, socket: &mut UnixStream) {
    let Envelope { nonce, body } = job;
    match body {
        Act::Echo(text) => answer(socket, &nonce, &text),
        Act::EchoInTurn(text) => {
            answer(socket, &nonce, &text);
            play(receive_job(socket), socket);
        }
        Act::Environment => {
            let names = std::env::vars().map(|(name, _)| name).collect::<Vec<_>>();
            answer(socket, &nonce, &names.join(","));
        }
        Act::HangForever => wait_for_the_end(),
        Act::AnswerAndHang => {
            answer(socket, &nonce, "done");
            wait_for_the_end();
        }
        Act::AnswerAnotherJobAndWait => {
            answer(socket, "0123", "done");
            let _ = socket.read_to_end(&mut Vec::new());
            eprintln!("no further job");
        }
        Act::FloodThenAnswer => {
            let mut out = std::io::stderr().lock();
            for _ in 0..200 {
                out.write_all(&[b'x'; 10_000]).unwrap();
            }
            answer(socket, &nonce, "dry");
        }
        Act::FloodForever => {
            let mut out = std::io::stdout().lock();
            while out.write_all(&[b'x'; 10_000]).is_ok() {}
        }
        Act::Abort => std::process::abort(),
        Act::AnswerAndAbort => {
            answer(socket, &nonce, "done");
            std::process::abort();
        }
        Act::ExitSilently(status) => std::process::exit(status),
        Act::MissToolchain => {
            eprintln!("something else\nfailed to find libnvrtc; install it with pip\n");
            std::process::exit(i32::from(FAULT_STATUS));
        }
        Act::AnswerAnotherJob => answer(socket, "0123456789abcdef", "forged"),
        Act::AnswerNonsense => frame(socket, b"{not json"),
        Act::AnswerAnotherShape => frame(socket, &serde_json::to_vec(&(&nonce, 1)).unwrap()),
        Act::AnswerTooMuch => answer(socket, &nonce, &"x".repeat(MAX_REPLY_BYTES)),
        Act::AnswerTwice => {
            answer(socket, &nonce, "one");
            answer(socket, &nonce, "two");
        }
        Act::AnswerHalf => socket.write_all(&[100, 0, 0, 0, b'{']).unwrap(),
        Act::TickTwiceThenAnswer => {
            for _ in 0..2 {
                frame(socket, b"");
                let mut heard = [0];
                socket.read_exact(&mut heard).unwrap();
                frame(socket, b"");
            }
            answer(socket, &nonce, "timed");
        }
        Act::TickForever => while socket.write_all(&[0; 4096]).is_ok() {},
        Act::LeaveGrandchild(pipe) => {
            start_holder_of(&pipe);
            answer(socket, &nonce, "left one behind");
        }
        Act::TakeMemory => {
            let mut hoard = Vec::new();
            for _ in 0..64 {
                hoard.push(vec![1_u8; 64 << 20]);
            }
            answer(socket, &nonce, &format!("{} blocks", hoard.len()));
        }
        Act::Compute => {
            let mut value = 1_u64;
            loop {
                value = std::hint::black_box(value.wrapping_mul(3));
            }
        }
    }
    // Nothing of the test harness may follow, because its output would become part of the reply.
    std::process::exit(0);
}

/// Starts a shell that holds `pipe` open for writing as long as it lives, and waits until it does.
#[expect(
    clippy::disallowed_methods,
    clippy::zombie_processes,
    reason = "a child that starts processes and leaves them is what the test is about"
)]
fn start_holder_of(pipe: &Path) {
    let script = format!("exec 3>'{}'; echo ready; sleep 1000", pipe.display());
    let mut shell = std::process::Command::new("/bin/sh")
        .args(["-c", &script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    let mut stdout = shell.stdout.take().unwrap();
    stdout.read_exact(&mut ready).unwrap();
    assert_eq!(&ready, b"ready\n");
}

fn wait_for_the_end() -> ! {
    loop {
        std::thread::park();
    }
}

fn answer(socket: &mut UnixStream, nonce: &str, body: &str) {
    let reply = Envelope {
        nonce: nonce.to_owned(),
        body,
    };
    frame(socket, &serde_json::to_vec(&reply).unwrap());
}

fn frame(socket: &mut UnixStream, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).unwrap();
    // The supervisor may have closed the socket by then.
    let _ = socket.write_all(&length.to_le_bytes());
    let _ = socket.write_all(bytes);
}

fn child() -> Program {
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
        walls: None,
    }
}

fn bounded(act: &Act, bounds: Bounds) -> Result<Answer<String>, SuperviseError> {
    ask(&child(), act, bounds, &Cancellation::new().unwrap())
}

fn patient(act: &Act) -> Result<Answer<String>, SuperviseError> {
    bounded(
        act,
        Bounds {
            limits: Limits::default(),
            readiness: Some(PATIENCE),
            deadline: PATIENCE,
        },
    )
}

fn hurried(act: &Act) -> Result<Answer<String>, SuperviseError> {
    bounded(
        act,
        Bounds {
            limits: Limits::default(),
            readiness: Some(PATIENCE),
            deadline: Duration::from_millis(300),
        },
    )
}

#[test]
fn a_job_longer_than_the_sockets_buffer_is_answered() {
    let text = "kernel ".repeat(100_000);
    let answer = patient(&Act::Echo(text.clone())).unwrap();
    assert_eq!(answer.reply.unwrap(), text);
}

#[test]
fn a_child_sees_the_environment_it_is_given_and_nothing_else() {
    let answer = patient(&Act::Environment).unwrap();
    assert_eq!(answer.reply.unwrap(), SOCKET_VARIABLE);
}

#[test]
fn a_child_that_never_gets_ready_is_a_fault() {
    let table = [
        ("abort", "get a role process ready: it ended by signal 6"),
        ("leave", "it exited with status 0 without a reply"),
        ("speak", "it speaks before it is ready"),
        ("hang", "it was not ready in time"),
        ("refuse", "open the GPU; plug it in"),
    ];
    for (how, expected) in table {
        let mut program = child();
        program.environment.push((UNREADY.into(), how.into()));
        let bounds = Bounds {
            limits: Limits::default(),
            readiness: Some(match how {
                "hang" => Duration::from_millis(300),
                _ => PATIENCE,
            }),
            deadline: PATIENCE,
        };
        let cancellation = Cancellation::new().unwrap();
        let job = Act::Echo("secret".to_owned());
        let fault = ask::<_, String>(&program, &job, bounds, &cancellation).unwrap_err();
        assert!(fault.to_string().contains(expected), "{how}: {fault}");
    }
}

#[test]
fn a_program_that_is_no_role_gets_its_job_at_once() {
    let program = Program {
        executable: "/bin/sh".into(),
        // It repeats the length and the beginning of the job: {"nonce".
        arguments: vec!["-c".into(), "head -c 12 | tail -c 8".into()],
        ..child()
    };
    let bounds = Bounds {
        limits: Limits::default(),
        readiness: None,
        deadline: PATIENCE,
    };
    let job = Act::Echo("job".to_owned());
    let cancellation = Cancellation::new().unwrap();
    let answer = ask::<_, String>(&program, &job, bounds, &cancellation).unwrap();
    assert_eq!(answer.stdout.text(), "{\"nonce\"");
    assert_eq!(answer.reply, Err(Exit::Silent { status: 0 }));
}

#[test]
fn a_child_without_an_answer_is_killed_at_its_deadline() {
    for act in [Act::HangForever, Act::FloodForever] {
        let answer = hurried(&act).unwrap();
        assert_eq!(answer.reply.unwrap_err(), Exit::TimedOut, "{act:?}");
        assert!(answer.wall < PATIENCE, "{act:?}");
    }
}

#[test]
fn a_child_that_stays_after_its_answer_is_killed_and_the_answer_counts() {
    let answer = patient(&Act::AnswerAndHang).unwrap();
    assert_eq!(answer.reply.unwrap(), "done");
    assert!(answer.wall < PATIENCE);
}

#[test]
fn a_child_that_waits_for_a_job_after_a_refused_reply_reads_the_end_of_its_input() {
    let answer = patient(&Act::AnswerAnotherJobAndWait).unwrap();
    let exit = answer.reply.unwrap_err();
    assert!(matches!(exit, Exit::Garbled { .. }), "{exit:?}");
    let said = answer.stderr.text();
    assert!(said.contains("no further job"), "{said}");
}

#[test]
fn a_flood_of_output_neither_blocks_the_child_nor_fills_memory() {
    let answer = patient(&Act::FloodThenAnswer).unwrap();
    assert_eq!(answer.reply.unwrap(), "dry");
    let kept = answer.stderr.text();
    assert!(kept.len() < KEPT_BYTES + 100, "{} bytes kept", kept.len());
    assert!(kept.contains("bytes left out"));
}

#[test]
fn each_way_to_end_has_an_exit_of_its_own() {
    let table = [
        (Act::Abort, Exit::Died { signal: 6 }),
        (Act::AnswerAndAbort, Exit::Died { signal: 6 }),
        (Act::ExitSilently(0), Exit::Silent { status: 0 }),
        (Act::ExitSilently(7), Exit::Silent { status: 7 }),
    ];
    for (act, expected) in table {
        let answer = patient(&act).unwrap();
        assert_eq!(answer.reply.unwrap_err(), expected, "{act:?}");
    }
}

#[test]
fn a_reply_that_breaks_the_rules_is_refused() {
    let table = [
        (Act::AnswerAnotherJob, "another job"),
        (Act::AnswerNonsense, "key must be a string"),
        (Act::AnswerAnotherShape, "expected a string"),
        (Act::AnswerTooMuch, "at most 1048576 are read"),
        (Act::AnswerTwice, "more follows"),
        (Act::AnswerHalf, "cut short"),
        (Act::TickForever, "ticks more than"),
    ];
    for (act, expected) in table {
        let answer = patient(&act).unwrap();
        match answer.reply.unwrap_err() {
            Exit::Garbled { how } => assert!(how.contains(expected), "{act:?}: {how}"),
            other => panic!("{act:?}: {other:?}"),
        }
    }
}

#[test]
fn a_child_gets_one_job_after_another_until_none_is_left() {
    let bounds = Bounds {
        limits: Limits::default(),
        readiness: Some(PATIENCE),
        deadline: PATIENCE,
    };
    let talk = |acts: Vec<Act>| {
        let mut acts = acts.into_iter();
        let first = acts.next().unwrap();
        let mut heard = Vec::new();
        let cancellation = Cancellation::new().unwrap();
        let answer = converse(
            &child(),
            &first,
            bounds,
            &cancellation,
            |said: String, _| {
                heard.push(said);
                acts.next()
            },
        );
        (heard, answer.unwrap().reply)
    };
    let turn = |text: &str| Act::EchoInTurn(text.to_owned());
    let last = Act::Echo("three".to_owned());
    let (heard, end) = talk(vec![turn("one"), turn("two"), last]);
    assert_eq!((heard.join(" ").as_str(), end), ("one two three", Ok(())));
    // A bad end counts, whatever the child replied before.
    let (heard, end) = talk(vec![turn("one"), Act::Abort]);
    assert_eq!((heard.len(), end), (1, Err(Exit::Died { signal: 6 })));
    let (heard, end) = talk(vec![turn("one"), Act::AnswerAndAbort]);
    assert_eq!((heard.len(), end), (2, Err(Exit::Died { signal: 6 })));
    let (heard, end) = talk(vec![turn("one"), Act::ExitSilently(0)]);
    assert_eq!((heard.len(), end), (1, Err(Exit::Silent { status: 0 })));
    let (heard, end) = talk(vec![turn("one"), Act::AnswerAnotherJob]);
    assert!(matches!(end, Err(Exit::Garbled { .. })) && heard.len() == 1);
}

#[test]
fn work_between_two_ticks_begins_after_the_first_was_recorded() {
    let before = Instant::now();
    let answer = patient(&Act::TickTwiceThenAnswer).unwrap();
    assert_eq!(answer.reply.unwrap(), "timed");
    assert_eq!(answer.ticks.len(), 4);
    assert!(answer.ticks[0] > before && answer.ticks.is_sorted());
    // A child that waited for the acknowledgement cannot have sent the second tick with the first.
    assert!(answer.ticks[0] < answer.ticks[1] && answer.ticks[2] < answer.ticks[3]);
    assert!(
        patient(&Act::Echo("none".to_owned()))
            .unwrap()
            .ticks
            .is_empty()
    );
}

#[test]
fn a_role_without_its_toolchain_is_a_fault_with_the_roles_own_words() {
    let fault = patient(&Act::MissToolchain).unwrap_err();
    assert!(
        matches!(fault, SuperviseError::UnsupportedMachine { .. }),
        "{fault:?}"
    );
    assert_eq!(fault.to_string(), "find libnvrtc; install it with pip");
}

#[test]
fn grandchildren_die_with_their_parent() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    // The read ends when the last writer is gone, which is when the grandchild dies.
    let listener = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read_to_string(pipe).unwrap()
    });
    let answer = patient(&Act::LeaveGrandchild(pipe)).unwrap();
    assert_eq!(answer.reply.unwrap(), "left one behind");
    assert_eq!(listener.join().unwrap(), "");
}

#[test]
fn a_limit_on_memory_ends_a_hoarder() {
    let limits = Limits {
        address_space: Some(1 << 30),
        ..Limits::default()
    };
    let answer = bounded(
        &Act::TakeMemory,
        Bounds {
            limits,
            readiness: Some(PATIENCE),
            deadline: PATIENCE,
        },
    )
    .unwrap();
    assert_eq!(answer.reply.unwrap_err(), Exit::Died { signal: 6 });
}

#[test]
fn a_limit_on_processor_time_ends_a_child_without_its_supervisors_help() {
    let limits = Limits {
        cpu_seconds: Some(1),
        ..Limits::default()
    };
    let answer = bounded(
        &Act::Compute,
        Bounds {
            limits,
            readiness: Some(PATIENCE),
            deadline: PATIENCE,
        },
    )
    .unwrap();
    // The error names the limit, so that it is not taken for a crash or a busy machine.
    assert_eq!(answer.reply, Err(Exit::OverCpu { seconds: 1 }));
}

#[test]
fn cancellation_ends_a_child_at_once() {
    let cancellation = Cancellation::new().unwrap();
    let bounds = Bounds {
        limits: Limits::default(),
        readiness: Some(PATIENCE),
        deadline: PATIENCE,
    };
    let started = Instant::now();
    let asked = std::thread::spawn({
        let cancellation = cancellation.clone();
        move || ask::<_, String>(&child(), &Act::HangForever, bounds, &cancellation)
    });
    cancellation.cancel();
    let fault = asked.join().unwrap().unwrap_err();
    assert!(matches!(fault, SuperviseError::Cancelled), "{fault:?}");
    assert!(cancellation.is_cancelled());
    assert!(started.elapsed() < PATIENCE);
}

#[test]
fn a_program_that_does_not_exist_is_a_fault_that_names_it() {
    let program = Program {
        executable: "/nowhere/kernelwright".into(),
        ..child()
    };
    let bounds = Bounds {
        limits: Limits::default(),
        readiness: Some(PATIENCE),
        deadline: PATIENCE,
    };
    let cancellation = Cancellation::new().unwrap();
    let fault = ask::<_, String>(&program, &Act::HangForever, bounds, &cancellation).unwrap_err();
    assert!(
        fault.to_string().contains("/nowhere/kernelwright"),
        "{fault}"
    );
}
