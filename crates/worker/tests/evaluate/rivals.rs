//! What stands in a task's `baselines`, beside a candidate. The scripts are stand-ins that compute
//! in Python and claim times that nobody measured.

use domain::evaluation::EvaluationRequest;
use domain::verdict::{Comparison, Outcome};
use worker::cancel::Cancellation;
use worker::evaluate::{RivalOutcome, Rivalry};

use crate::duels::{kernel, request};
use crate::lab::{Lab, lab};

fn rivals(lab: &Lab, candidate: &str, files: &[(&str, &str)]) -> Vec<Rivalry> {
    let request = with(candidate, files);
    lab.evaluator()
        .rivals(
            &request,
            &gpu::inputs::bytes,
            |_| {},
            &Cancellation::new().unwrap(),
        )
        .unwrap()
}

fn with(candidate: &str, files: &[(&str, &str)]) -> EvaluationRequest {
    let mut request = request(candidate);
    for (name, text) in files {
        let path = format!("baselines/{name}");
        request.task.files.insert(path, (*text).to_owned());
    }
    request
}

fn timed(rival: &Rivalry) -> (f64, f64, Comparison) {
    match &rival.outcome {
        RivalOutcome::Timed { cases, speedup, .. } => {
            let [case] = &cases[..] else {
                panic!("{cases:?}");
            };
            assert_eq!(case.case, "one");
            (case.us, case.candidate_us, speedup.clone())
        }
        RivalOutcome::NotRun { reason } => panic!("{}: {reason}", rival.file),
    }
}

fn not_run(rival: &Rivalry) -> &str {
    match &rival.outcome {
        RivalOutcome::NotRun { reason } => reason,
        timed @ RivalOutcome::Timed { .. } => panic!("{timed:?}"),
    }
}

#[test]
fn a_rival_kernel_is_timed_once_it_is_right() {
    let Some(lab) = lab() else { return };
    let wrong = kernel(40).replace("2.0f * sum", "2.001f * sum");
    let files = [
        ("faster.cu", kernel(10).as_str()),
        ("slower.cu", kernel(200).as_str()),
        ("wrong.cu", wrong.as_str()),
    ]
    .map(|(name, text)| (name, text.to_owned()));
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let found = rivals(&lab, &kernel(40), &files);
    let [faster, slower, wrong] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(faster.file, "baselines/faster.cu");
    let (us, own, speedup) = timed(faster);
    assert!(us < own);
    assert!((speedup.ratio / (us / own) - 1.0).abs() < 1e-9);
    assert_eq!(speedup.outcome, Outcome::NotFaster);
    let (us, same, speedup) = timed(slower);
    assert_eq!(own.to_bits(), same.to_bits());
    assert!(us > own && speedup.outcome == Outcome::Faster);
    let reason = not_run(wrong);
    assert!(
        reason.starts_with("the rival: ") && reason.contains('y'),
        "{reason}"
    );
}

#[test]
fn a_script_is_held_against_the_reference_and_gets_no_modelled_times() {
    let Some(lab) = lab() else { return };
    let script = |factor: &str, bytes: &str| {
        format!(
            r#"
import struct, rival
def prepare(job):
    assert job.dims == {{"N": 64}}, job.dims
    values = struct.unpack("<64f", job.bytes("x"))
    def execute():
        return {{"y": struct.pack("<64f", *({factor} * value for value in values)){bytes}}}
    return "a stand-in 1.0", execute
rival.serve(prepare, lambda job, execute: [1.0] * job.executions)
"#
        )
    };
    let right = script("2.0", "");
    let off = script("2.001", "");
    let short = script("2.0", "[:-4]");
    let missing =
        "import rival\ndef prepare(job): raise rival.NotRun('no GPU here')\nrival.serve(prepare)";
    let found = rivals(
        &lab,
        &kernel(40),
        &[
            ("1-right.py", &right),
            ("2-off.py", &off),
            ("3-short.py", &short),
            ("4-missing.py", missing),
        ],
    );
    let reasons = found.iter().map(not_run).collect::<Vec<_>>();
    assert!(reasons[0].contains("modelled"), "{}", reasons[0]);
    assert_eq!(found[0].what.as_deref(), Some("a stand-in 1.0"));
    assert!(
        reasons[1].starts_with("its y is wrong in case one") && reasons[1].contains("64 elements"),
        "{}",
        reasons[1]
    );
    assert!(
        reasons[2].contains("252 bytes") && reasons[2].contains("256"),
        "{}",
        reasons[2]
    );
    assert_eq!(reasons[3], "no GPU here");
}

/// The protocol of alternating processes, on a device whose times have no noise.
#[test]
fn processes_in_turn_decide_by_all_turns_together() {
    let Some(lab) = lab() else { return };
    let candidate = request(&kernel(40));
    let cancellation = Cancellation::new().unwrap();
    let ask = |mut times: Vec<Vec<f64>>| {
        times.reverse();
        let mut turn = |_| Ok(times.pop().ok_or_else(|| "it went away".to_owned()));
        lab.evaluator()
            .alternate(&candidate, &mut turn, &cancellation)
            .unwrap()
    };
    let speedup = |outcome: RivalOutcome| match outcome {
        RivalOutcome::Timed {
            speedup,
            claimed,
            cases,
        } => {
            assert!(claimed);
            (speedup, cases[0].us, cases[0].candidate_us)
        }
        RivalOutcome::NotRun { reason } => panic!("{reason}"),
    };
    let (_, _, own) = speedup(ask(vec![vec![1.0]; 4]));
    let around = |factor: f64| {
        let spread = [0.99, 1.0, 1.005, 1.01];
        spread.map(|near| vec![near * factor * own]).to_vec()
    };
    let (found, us, _) = speedup(ask(around(2.0)));
    assert_eq!(found.outcome, Outcome::Faster);
    assert!(
        found.interval[0] > 1.9 && found.interval[1] < 2.1,
        "{found:?}"
    );
    assert!((us / own / 2.0 - 1.0).abs() < 0.01);
    let (found, _, _) = speedup(ask(around(0.5)));
    assert_eq!(found.outcome, Outcome::NotFaster);
    // As much apart as the turns are among themselves: nobody can say.
    let (found, _, _) = speedup(ask(around(1.0)));
    assert_eq!(found.outcome, Outcome::Unresolved);

    let RivalOutcome::NotRun { reason } = ask(vec![vec![1.0]; 2]) else {
        panic!("two turns are too few");
    };
    assert_eq!(reason, "it went away");
    let RivalOutcome::NotRun { reason } = ask(vec![vec![1.0, 2.0]]) else {
        panic!("there is one case");
    };
    assert!(reason.contains("2 times for 1 cases"), "{reason}");
}
