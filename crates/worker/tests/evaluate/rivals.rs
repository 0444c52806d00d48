//! The entries of a task's `baselines`, timed beside a candidate. The scripts are stand-ins that
//! compute in Python and report invented times.

use domain::evaluation::EvaluationRequest;
use domain::verdict::{Comparison, Outcome};
use worker::cancel::Cancellation;
use worker::evaluate::{CompilationInputs, RivalOutcome, Rivalry};

use crate::lab::{Lab, lab};
use crate::paired::{kernel, request};

fn rivals(lab: &Lab, candidate: &str, files: &[(&str, &str)]) -> Vec<Rivalry> {
    let request = with(candidate, files);
    lab.evaluator()
        .rivals(
            &request,
            &tensors::inputs::bytes,
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
fn alternating_processes_decide_by_all_turns() {
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
    // The difference is as large as that between the turns, so that the comparison is unresolved.
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

/// A kernel as a vendor ships it: the compiler's machine code, with a plan in a separate file.
fn shipped(lab: &Lab, source: &str, architecture: &str) -> [String; 3] {
    let recipe = CompilationInputs {
        source,
        configuration: &domain::plan::Configuration::new(),
        headers: &std::collections::BTreeMap::new(),
        architecture,
    };
    let evaluator = lab.evaluator();
    let cancellation = Cancellation::new().unwrap();
    let image = evaluator.build(&recipe, &cancellation).unwrap();
    let image = image.image;
    let (_, rest) = source.split_once("/*---\n").unwrap();
    let (plan, _) = rest.split_once("---*/").unwrap();
    [
        hex::encode(std::fs::read(image.cubin).unwrap()),
        std::fs::read_to_string(image.ptx).unwrap(),
        plan.to_owned(),
    ]
}

#[test]
fn machine_code_with_a_plan_is_held_against_the_reference_and_timed_like_a_kernel() {
    let Some(lab) = lab() else { return };
    let here = lab.evaluator().host().device().architecture();
    let [code, ptx, plan] = shipped(&lab, &kernel(10), &here);
    let [wrong, wrong_ptx, _] = shipped(
        &lab,
        &kernel(10).replace("2.0f * sum", "2.001f * sum"),
        &here,
    );
    let [elsewhere, ..] = shipped(&lab, &kernel(10), "sm_80");
    let short = plan.replace(", \"N\"]", "]");
    assert_ne!(short, plan);
    let fitting = format!("4-both.{here}.cubin");
    let found = rivals(
        &lab,
        &kernel(40),
        &[
            ("1-source.cu", &kernel(10)),
            ("2-right.cubin", &code),
            ("2-right.ptx", &ptx),
            ("2-right.toml", &plan),
            ("3-wrong.cubin", &wrong),
            ("3-wrong.ptx", &wrong_ptx),
            ("3-wrong.toml", &plan),
            ("4-both.sm_80.cubin", &elsewhere),
            (&fitting, &code),
            ("4-both.ptx", &ptx),
            ("4-both.toml", &plan),
            ("5-bare.cubin", &code),
            ("5-bare.toml", &plan),
            ("6-short.cubin", &code),
            ("6-short.ptx", &ptx),
            ("6-short.toml", &short),
            ("7-text.cubin", "20202020"),
            ("7-text.toml", &plan),
        ],
    );
    let files = found.iter().map(|rival| rival.file.as_str());
    assert_eq!(files.clone().count(), 8, "{:?}", files.collect::<Vec<_>>());
    assert_eq!(
        found[1].what.as_deref(),
        Some(format!("{here}: twice").as_str())
    );
    assert_eq!(
        timed(&found[1]),
        timed(&found[0]),
        "the same with its source"
    );
    assert_eq!(
        timed(&found[4]),
        timed(&found[0]),
        "of two the one that fits"
    );
    for (rival, reason) in [2, 3, 5, 6, 7].map(|at| &found[at]).into_iter().zip([
        "the rival: ",
        "for sm_80, and the device is",
        "executes PTX",
        "the rival: ",
        "not machine code",
    ]) {
        let why = not_run(rival);
        assert!(why.contains(reason), "{}: {why}", rival.file);
    }
    assert!(not_run(&found[2]).contains('y'), "{}", not_run(&found[2]));
}

#[test]
fn a_plan_that_does_not_parse_is_reported_with_its_line() {
    let Some(lab) = lab() else { return };
    let here = lab.evaluator().host().device().architecture();
    let [code, _, plan] = shipped(&lab, &kernel(10), &here);
    let broken = plan.replace("block = [32]", "block = ?");
    let request = with(
        &kernel(40),
        &[("a.cubin", &code), ("a.toml", &broken), ("b.cubin", &code)],
    );
    let domain::problem::Problems(problems) = domain::task::Task::load(&request.task).unwrap_err();
    let told = problems
        .iter()
        .map(|problem| (problem.file.as_str(), problem.line));
    let told = told.collect::<Vec<_>>();
    let line = plan
        .lines()
        .position(|line| line.starts_with("block"))
        .unwrap() as u32
        + 1;
    assert!(told.contains(&("baselines/a.toml", line)), "{told:?}");
    assert!(told.contains(&("baselines/b.cubin", 0)), "{told:?}");
}
