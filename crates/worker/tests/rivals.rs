//! Scripts that time a library. The scripts here are stand-ins: they compute in Python and report
//! invented times.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its functions too"
)]

use std::collections::BTreeMap;
use std::path::Path;

use domain::digest::Digest;
use domain::dtype::Dtype;
use domain::role::{Distribution, Key, TensorData};
use domain::task::{Case, Role};
use worker::cancel::Cancellation;
use worker::rivals::{Question, ScriptReply, TimingOptions, ask, python};

fn tensor(name: &str, role: Role) -> TensorData {
    TensorData {
        name: name.to_owned(),
        dtype: Dtype::F32,
        extents: vec![4, 2],
        role,
        align: 16,
        distribution: Distribution::Integers,
        key: Key(Digest::of("a key")),
        alteration: None,
    }
}

fn answer_of(python: &Path, script: &str, folder: &Path) -> ScriptReply {
    let case = Case {
        name: "only".to_owned(),
        dims: BTreeMap::from([("R".to_owned(), 4), ("C".to_owned(), 2)]),
        uses: Vec::new(),
    };
    let scalars = BTreeMap::from([("factor".to_owned(), 3.0)]);
    let tensors = [tensor("x", Role::In), tensor("y", Role::Out)];
    let outputs = folder.join("outputs");
    std::fs::create_dir_all(&outputs).unwrap();
    let question = Question {
        case: &case,
        scalars: &scalars,
        tensors: &tensors,
        outputs: &outputs,
    };
    let options = TimingOptions {
        executions: 3,
        flush_bytes: 1 << 20,
        content: &tensors::inputs::bytes,
    };
    let cancellation = Cancellation::new().unwrap();
    ask(
        python,
        script,
        &[question, question],
        options,
        folder,
        &cancellation,
    )
    .unwrap()
}

fn answer(script: &str) -> ScriptReply {
    let folder = tempfile::tempdir().unwrap();
    answer_of(&python().unwrap(), script, folder.path())
}

fn not_run(script: &str) -> String {
    match answer(script) {
        ScriptReply::NotRun { reason } => reason,
        timed @ ScriptReply::Timed { .. } => panic!("{timed:?}"),
    }
}

/// Multiplies by the scalar, and reports that each execution took one microsecond more.
const SCALE: &str = r#"
import struct, sys, rival
def prepare(job):
    assert (job.case, job.dims) == ("only", {"R": 4, "C": 2}), job.dims
    values = struct.unpack("<8f", job.bytes("x"))
    print("words for people")
    def execute():
        return {"y": struct.pack("<8f", *(job.scalars["factor"] * value for value in values))}
    return "a stand-in", execute
rival.serve(prepare, lambda job, execute: [1.0 + at for at in range(job.executions)])
"#;

#[test]
fn a_script_gets_the_inputs_and_gives_outputs_and_times() {
    let folder = tempfile::tempdir().unwrap();
    let answer = answer_of(&python().unwrap(), SCALE, folder.path());
    let expected = ScriptReply::Timed {
        what: "a stand-in".to_owned(),
        microseconds: vec![vec![1.0, 2.0, 3.0]; 2],
    };
    assert_eq!(answer, expected);
    let read = |bytes: Vec<u8>| {
        let values = bytes
            .chunks_exact(4)
            .map(|four| f32::from_le_bytes(four.try_into().unwrap()));
        values.collect::<Vec<_>>()
    };
    let x = read(tensors::inputs::bytes(&tensor("x", Role::In)));
    let y = read(std::fs::read(folder.path().join("outputs/y.bin")).unwrap());
    assert_eq!(y, x.iter().map(|value| 3.0 * value).collect::<Vec<_>>());
    assert!(x.iter().any(|value| *value != 0.0));
}

#[test]
fn a_script_that_cannot_run_gives_its_reason_and_no_times() {
    let table = [
        (
            "import rival\ndef prepare(job): raise rival.NotRun('no such library')\nrival.serve(prepare)",
            "no such library",
        ),
        ("raise ValueError('a mistake')", "ValueError: a mistake"),
        ("import nowhere_to_be_found", "ModuleNotFoundError"),
        ("import sys; sys.exit(3)", "start a role"),
        ("print('hello')", "the script"),
    ];
    for (script, reason) in table {
        let said = not_run(script);
        assert!(said.contains(reason), "{script:?}: {said}");
    }
    let claims = |times: &str| SCALE.replace("[1.0 + at for at in range(job.executions)]", times);
    for times in ["[1.0]", "[1.0, 0.0, 1.0]", "[1.0, float('nan'), 1.0]"] {
        let said = not_run(&claims(times));
        assert!(!said.is_empty(), "{times}");
    }
}

#[test]
fn a_machine_without_python_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let answer = answer_of(Path::new("/nonexistent/python3"), SCALE, folder.path());
    let ScriptReply::NotRun { reason } = answer else {
        panic!("{answer:?}");
    };
    assert!(reason.contains("/nonexistent/python3"), "{reason}");
}
