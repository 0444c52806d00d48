//! The feedback on an evaluation, by verdict.

use domain::brief::{describe_verdict, feedback, outcome};
use domain::evaluation::{Evaluation, EvaluationStage};
use domain::finding::{Finding, FindingKind};
use domain::problem::Problem;
use domain::seeds::SeedFamily;
use domain::statistics::{Bound, Floor};
use domain::timing::CacheState;
use domain::verdict::{Access, Diagnostic, Severity, Verdict, VerdictKind};

use super::{SOURCE, accepted, evaluation, finding, gate, mismatch, told};

#[test]
fn a_finding_names_both_lines_with_their_text() {
    let verdict = Verdict::DataRace {
        finding: finding(FindingKind::SharedRace),
    };
    let told = told(verdict);
    assert_eq!(told.verdict, Some(VerdictKind::DataRace));
    assert_eq!(
        told.details,
        [
            "writes byte 124 of `x`",
            "in scale, block [1, 0, 0], thread [31, 0, 0], 7 times",
            "line 2 `x[i] = y[i + 1];`",
            "against block [1, 0, 0], thread [32, 0, 0], line 3 `__syncthreads();`",
        ]
    );
}

#[test]
fn a_single_occurrence_is_counted_in_the_singular() {
    let once = Finding {
        occurrences: 1,
        ..finding(FindingKind::Trap)
    };
    let feedback = told(Verdict::BarrierError { finding: once });
    assert_eq!(
        feedback.details[1],
        "in scale, block [1, 0, 0], thread [31, 0, 0], once"
    );
}

#[test]
fn a_wrong_element_is_named_and_the_slack_is_not() {
    for verdict in [
        Verdict::IncorrectOutput(mismatch()),
        Verdict::PrecisionDowngrade(mismatch()),
    ] {
        let told = told(verdict);
        assert_eq!(
            told.details,
            [
                "o on case odd, heavy_tail inputs",
                "48 of 65536 elements are wrong, on axis 1 at 2, on axis 2 from 124 to 126, on axis 3 from 3 to \
                 63 in steps of 4; the first: o[0, 2, 124, 3] is 1, expected 2",
                "furthest off: o[0, 2, 126, 63] is 0.25, expected 0.5",
            ]
        );
        let all = serde_json::to_string(&told).expect("it is kept as JSON");
        for slack in ["5.31", "5e-4", "5.00e-4", "1.1", "0.99", "4.9"] {
            assert!(!all.contains(slack), "{all}");
        }
    }
}

#[test]
fn of_inputs_that_are_not_shown_only_the_class_of_a_failure_is_told() {
    let mut failed = evaluation(Verdict::IncorrectOutput(mismatch()));
    failed.stage = EvaluationStage::Confirmation;
    failed.gates = vec![gate(false)];
    let class = |failed: &Evaluation, kind: VerdictKind| {
        let told = feedback(failed, SOURCE);
        assert_eq!(told.verdict, Some(kind));
        assert!(
            told.summary.ends_with(describe_verdict(kind)),
            "{}",
            told.summary
        );
        assert_eq!(outcome(failed, None), told.summary);
        assert!(told.details.is_empty() && told.diagnostics.is_none());
        assert!(told.times.is_empty() && told.counters.is_empty() && told.unmet.is_empty());
        assert!(!serde_json::to_string(&told).expect("JSON").contains("odd"));
        told
    };
    let told = class(&failed, VerdictKind::IncorrectOutput);
    // Another input, another element: not a word is different.
    let mut elsewhere = mismatch();
    elsewhere.case = "wide".to_owned();
    elsewhere.distribution = "ties".to_owned();
    elsewhere.worst = None;
    failed.verdict = Verdict::IncorrectOutput(elsewhere);
    assert_eq!(class(&failed, VerdictKind::IncorrectOutput), told);
    failed.verdict = Verdict::DataRace {
        finding: finding(FindingKind::SharedRace),
    };
    class(&failed, VerdictKind::DataRace);
    failed.stage = EvaluationStage::Champion;
    class(&failed, VerdictKind::DataRace);
    // A search has inputs that are not shown, too, and others that are.
    failed.stage = EvaluationStage::Search;
    failed.found_on = Some(SeedFamily::Gate);
    class(&failed, VerdictKind::DataRace);
    failed.found_on = Some(SeedFamily::Feedback);
    assert!(!feedback(&failed, SOURCE).details.is_empty());
}

#[test]
fn the_compilers_words_are_capped_cleaned_and_fenced() {
    let diagnostic = |line, message: &str| Diagnostic {
        line,
        severity: Severity::Error,
        message: message.to_owned(),
    };
    let mut diagnostics = vec![
        diagnostic(Some(2), "identifier \"\u{202e}y\u{1b}[31m\" is undefined"),
        diagnostic(None, &"long ".repeat(100)),
    ];
    diagnostics.extend((0..30).map(|n| diagnostic(Some(90 + n), "more")));
    let told = told(Verdict::CompileRejected { diagnostics });
    let untrusted = told.diagnostics.expect("the compiler said something");
    assert_eq!(untrusted.lines.len(), 20);
    assert_eq!(
        untrusted.lines[0],
        "line 2 `x[i] = y[i + 1];`: error: identifier \"y\" is undefined"
    );
    assert!(untrusted.lines[1].chars().count() <= 200 + "error: ".len());
    assert_eq!(untrusted.lines[2], "line 90: error: more");
    assert!(
        untrusted
            .lines
            .iter()
            .all(|line| !line.contains(&untrusted.fence))
    );
    // The fence depends on what it holds.
    let other = Verdict::CompileRejected {
        diagnostics: vec![diagnostic(None, "other")],
    };
    let other = feedback(&evaluation(other), SOURCE)
        .diagnostics
        .expect("said");
    assert_ne!(other.fence, untrusted.fence);
}

#[test]
fn every_verdict_has_its_sentence_and_its_details() {
    let reason = || "case odd: read /var/lib/kernel/x.cu".to_owned();
    let problems = || {
        vec![Problem {
            file: "/home/me/k.cu".to_owned(),
            line: 2,
            column: 1,
            message: "unknown key".to_owned(),
            fix: "remove it".to_owned(),
        }]
    };
    let some = || Some(finding(FindingKind::Uninitialised));
    let cases = [
        (
            Verdict::ParseRejected {
                problems: problems(),
            },
            "does not parse",
            "line 2 `x[i] = y[i + 1];`: unknown key; remove it",
        ),
        (
            Verdict::PolicyRejected {
                problems: problems(),
            },
            "not allowed",
            "unknown key",
        ),
        (
            Verdict::GateRejected {
                gate: "registers".to_owned(),
                limit: 64.0,
                found: 70.5,
            },
            "registers is 70.5, the limit is 64",
            "",
        ),
        (Verdict::CompileTimeout { seconds: 60 }, "within 60 s", ""),
        (
            Verdict::CompileResource {
                resource: "static shared memory".to_owned(),
                limit: 49152,
                found: Some(57376),
                message: "too much".to_owned(),
            },
            "more of a resource",
            "the limit is 49152, the kernel needs 57376",
        ),
        (
            Verdict::CompileCrash {
                how: "ended by signal 11".to_owned(),
            },
            "compiler crashed",
            "signal 11",
        ),
        (
            Verdict::LaunchRejected { reason: reason() },
            "cannot be launched",
            "case odd: read (a path)",
        ),
        (
            Verdict::Unsupported {
                opcode: "wgmma.fence".to_owned(),
                line: Some(3),
            },
            "nothing against the idea",
            "line 3 `__syncthreads();`",
        ),
        (
            Verdict::Timeout {
                stage: "screen".to_owned(),
                finding: some(),
            },
            "in time",
            "while: screen",
        ),
        (
            Verdict::ExcessiveEffort {
                stage: "screen".to_owned(),
                case: "odd".to_owned(),
                finding: some().unwrap(),
            },
            "far more instructions than the baseline",
            "while: screen, case odd",
        ),
        (
            Verdict::RuntimeFault {
                code: 716,
                name: "CUDA_ERROR_MISALIGNED_ADDRESS".to_owned(),
                finding: some(),
            },
            "error 716 (CUDA_ERROR_MISALIGNED_ADDRESS)",
            "line 2",
        ),
        (
            Verdict::RunnerCrash {
                how: "killed".to_owned(),
            },
            "died",
            "killed",
        ),
        (
            Verdict::OutOfBounds {
                access: Access::Write,
                finding: None,
                reason: reason(),
            },
            "writes outside",
            "(a path)",
        ),
        (
            Verdict::OutOfBounds {
                access: Access::Read,
                finding: some(),
                reason: reason(),
            },
            "reads outside",
            "line 2",
        ),
        (
            Verdict::UninitDependent {
                finding: some(),
                reason: reason(),
            },
            "nobody wrote",
            "line 2",
        ),
        (
            Verdict::BarrierError {
                finding: finding(FindingKind::Deadlock),
            },
            "same barrier",
            "line 2",
        ),
        (
            Verdict::InputMutated {
                tensor: "q".to_owned(),
            },
            "changes its input q",
            "",
        ),
        (
            Verdict::NonDeterministic {
                reason: reason(),
                finding: None,
            },
            "different outputs",
            "(a path)",
        ),
        (
            Verdict::ClockMismatch { reason: reason() },
            "two clocks",
            "",
        ),
        (
            Verdict::PhysicallyImpossible {
                case: "odd".to_owned(),
                floor_us: 4.4,
                found_us: 1.0,
            },
            "faster than",
            "the floor is 4.40000 us",
        ),
        (
            Verdict::Inconclusive { reason: reason() },
            "too few",
            "(a path)",
        ),
        (
            Verdict::InvalidRun { reason: reason() },
            "disturbed",
            "(a path)",
        ),
    ];
    for (verdict, summary, detail) in cases {
        let kind = verdict.kind();
        let told = told(verdict);
        assert_eq!(told.verdict, Some(kind));
        assert!(told.summary.contains(summary), "{kind}: {}", told.summary);
        let details = told.details.join("\n");
        assert!(details.contains(detail), "{kind}: {details}");
        let all = serde_json::to_string(&told).expect("JSON");
        assert!(!all.contains("/var") && !all.contains("/home"), "{all}");
    }
}

#[test]
fn an_accepted_kernel_is_told_where_its_time_goes() {
    let told = feedback(&accepted(), SOURCE);
    assert_eq!(
        told.summary,
        "accepted: 17.39223 us modelled, geometric mean over the score cases; not faster than the \
         best before it (0.500 times its speed)"
    );
    assert_eq!(
        told.times,
        [
            "starved: 17.39223 us modelled; scale (grid 2x8, block 64) 17.39223 us, 77% of it \
             bound by critical_path (one block's dependent chain, latency that nothing hides)",
            "largest bottleneck (modelled): critical_path (one block's dependent chain, latency that \
             nothing hides) in scale on starved; shorten or hide the dependent chain: more blocks or \
             warps, independent loads ahead of their use, a split of the reduction",
        ]
    );
    let mut bounded = accepted();
    bounded.floors = vec![Floor {
        case: "starved".to_owned(),
        cache: CacheState::Cold,
        us: 4.348_056_95,
        bound: Bound::Bytes,
        found_us: 17.392_227_8,
        resources: Vec::new(),
    }];
    let with_floor = feedback(&bounded, SOURCE).times;
    assert_eq!(
        with_floor[0],
        format!(
            "{}; no kernel takes less than 4.34806 us because of the bytes that must move, 25% of the \
             time found",
            told.times[0]
        )
    );
    // 233 registers are granted as 7,680 to a warp: four blocks of two warps fit 65,536.
    assert_eq!(
        told.counters[..1],
        [
            "scale on starved: 16 blocks over 58 multiprocessors, each can hold 4 (8 of 48 warps, \
          limited by registers); 233 registers per thread, 16384 bytes of shared memory per block; 16 bytes of spills; 1.88 times the sectors that \
          the bytes read need; 10.67 reads of each sector; 4.00 times the passes through shared \
          memory that its bytes need (bank conflicts); tensor cores unused; 4 of 10 branches \
          diverge"
        ]
    );
    assert_eq!(
        told.counters[1..],
        [
            "line 2 `x[i] = y[i + 1];`: 62% of the sectors of global memory of scale on starved; 3.88 times the \
             sectors that its bytes need",
            "line 3 `__syncthreads();`: 5% of the sectors of global memory of scale on starved",
        ]
    );
    assert_eq!(
        told.unmet,
        [
            "ctas_per_sm on starved is 0.034, at least 4 is asked for (phase parallelism)",
            "dram_percent on starved is 41.25 modelled, at least 60 is asked for (phase parallelism)",
        ]
    );
    let all = serde_json::to_string(&told).expect("JSON");
    assert!(
        !all.contains("0.99") && !all.contains("4.9e-4"),
        "no slack: {all}"
    );
}
