//! The data that the author of the next candidate gets, and the data that must stay secret.

use std::collections::BTreeMap;

use domain::brief::{
    CandidateBrief, Context, Feedback, Lesson, describe_verdict, feedback, outcome,
};
use domain::device::{Device, DeviceKind, Limits};
use domain::digest::Digest;
use domain::evaluation::{
    CaseLaunches, CheckOutcome, EVALUATOR_VERSION, Evaluation, EvaluationStage, GateOutcome,
};
use domain::finding::{Finding, FindingKind, OtherParty};
use domain::problem::Problem;
use domain::role::{Distribution, KernelResources, LaunchFacts};
use domain::seeds::SeedFamily;
use domain::task::{Bundle, Enforce, GateSubject, Task};
use domain::timing::{CacheState, ModelledLaunch, ModelledTime, Timing};
use domain::verdict::{
    Acceptance, Access, Comparison, Diagnostic, Mismatch, Outcome, Severity, Verdict, VerdictKind,
    WorstElement,
};

const SOURCE: &str = "line one\nx[i] = y[i + 1];\n__syncthreads();\n";

fn device() -> Device {
    Device {
        name: "NVIDIA L4".to_owned(),
        kind: DeviceKind::Emulated,
        uuid: "GPU-secret".to_owned(),
        compute_capability: (8, 9),
        driver_version: 13000,
        memory_bytes: 24 << 30,
        l2_bytes: 48 << 20,
        limits: Limits {
            sm_count: 58,
            threads_per_block: 1024,
            block: [1024, 1024, 64],
            grid: [2_147_483_647, 65535, 65535],
            shared_per_block: 49152,
            shared_per_block_optin: 101_376,
            shared_per_sm: 102_400,
            registers_per_block: 65536,
            registers_per_sm: 65536,
            threads_per_sm: 1536,
            blocks_per_sm: 24,
        },
    }
}

fn evaluation(verdict: Verdict) -> Evaluation {
    Evaluation {
        verdict,
        evaluator: EVALUATOR_VERSION,
        stage: EvaluationStage::Search,
        found_on: None,
        not_run: Vec::new(),
        task_version: Digest::of("task"),
        candidate_digest: None,
        image_digest: None,
        device: Some(device()),
        toolchain: None,
        kernels: Vec::new(),
        gates: Vec::new(),
        checks: vec![CheckOutcome {
            case: "odd".to_owned(),
            distribution: Distribution::Normal,
            tensor: "o".to_owned(),
            relative_l2: Some(4.9e-4),
            worst_ratio: Some(0.99),
            passed: true,
        }],
        launches: Vec::new(),
        floors: Vec::new(),
        measurement: None,
        diagnostics: Vec::new(),
        flags: Vec::new(),
        machine_code: None,
        prescreen: None,
        sanitizers: None,
        evidence: None,
        findings: Vec::new(),
        stages: Vec::new(),
    }
}

fn told(verdict: Verdict) -> Feedback {
    feedback(&evaluation(verdict), SOURCE)
}

fn finding(kind: FindingKind) -> Finding {
    Finding {
        kind,
        kernel: "scale".to_owned(),
        line: Some(2),
        block: [1, 0, 0],
        thread: [31, 0, 0],
        buffer: Some("x".to_owned()),
        offset: Some(124),
        other: Some(OtherParty {
            block: [1, 0, 0],
            thread: [32, 0, 0],
            line: Some(3),
        }),
        occurrences: 7,
        message: "writes byte 124 of `x`".to_owned(),
    }
}

fn mismatch() -> Mismatch {
    Mismatch {
        case: "odd".to_owned(),
        distribution: "heavy_tail".to_owned(),
        tensor: "o".to_owned(),
        reason:
            "relative L2 error 5.31e-4, allowed 5.00e-4; the worst is off by 1.1 times its bound"
                .to_owned(),
        relative_l2: Some(5.31e-4),
        allowed_l2: 5e-4,
        worst: Some(WorstElement {
            index: vec![0, 2, 126, 63],
            found: "0.25".to_owned(),
            expected: "0.5".to_owned(),
        }),
    }
}

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
                "o[0, 2, 126, 63] is 0.25, expected 0.5",
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

fn gate(met: bool) -> GateOutcome {
    GateOutcome {
        subject: GateSubject::CtasPerSm,
        phase: Some("parallelism".to_owned()),
        case: Some("starved".to_owned()),
        min: Some(4.0),
        max: None,
        found: 0.034_482_758,
        met,
        enforce: Enforce::Phase,
    }
}

fn accepted() -> Evaluation {
    let timing = Timing::Modelled {
        device: "l4".to_owned(),
        label: "uncalibrated".to_owned(),
        unscored: Vec::new(),
        cases: vec![ModelledTime {
            case: "starved".to_owned(),
            cache: CacheState::Cold,
            us: 17.392_227_8,
            launches: vec![ModelledLaunch {
                kernel: "scale".to_owned(),
                us: 17.392_227_8,
                bottleneck: "critical_path".to_owned(),
                share: 0.7747,
                launch_us: 0.0,
            }],
        }],
    };
    let mut evaluation = evaluation(Verdict::Accepted(Acceptance {
        timing,
        comparison: Some(Comparison {
            outcome: Outcome::NotFaster,
            ratio: 0.5,
            interval: [0.5, 0.5],
        }),
        launch_bound: false,
    }));
    evaluation.gates = vec![gate(false), gate(true)];
    evaluation.kernels = vec![KernelResources {
        kernel: "scale".to_owned(),
        registers: 233,
        spill_bytes: 16,
        stack_bytes: 0,
        static_shared_bytes: 16384,
        constant_bytes: 0,
        parameters: Vec::new(),
    }];
    let counters = [
        ("global.sectors_read", 524_288),
        ("global.sectors_read_ideal", 278_528),
        ("unique_sectors_read", 49_152),
        ("shared.wavefronts", 400),
        ("shared.wavefronts_ideal", 100),
        ("tensor_macs", 0),
        ("classes.branch", 10),
        ("divergent_branches", 4),
    ];
    evaluation.launches = vec![CaseLaunches {
        case: "starved".to_owned(),
        launches: vec![LaunchFacts {
            kernel: "scale".to_owned(),
            grid: [2, 8, 1],
            block: [64, 1, 1],
            shared_bytes: 0,
            modelled: None,
            modelled_warm: None,
            counters: counters
                .map(|(name, count)| (name.to_owned(), count))
                .into_iter()
                .collect::<BTreeMap<_, _>>(),
        }],
    }];
    evaluation
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
        ]
    );
    // 233 registers are granted as 7,680 to a warp: four blocks of two warps fit 65,536.
    assert_eq!(
        told.counters,
        [
            "scale on starved: 16 blocks over 58 multiprocessors, each can hold 4 (8 of 48 warps, \
          limited by 233 registers per thread); 16 bytes of spills; 1.88 times the sectors that \
          the bytes read need; 10.67 reads of each sector; 4.00 times the passes through shared \
          memory that its bytes need (bank conflicts); tensor cores unused; 4 of 10 branches \
          diverge"
        ]
    );
    assert_eq!(
        told.unmet,
        ["ctas_per_sm on starved is 0.034, at least 4 is asked for (phase parallelism)"]
    );
    let all = serde_json::to_string(&told).expect("JSON");
    assert!(
        !all.contains("0.99") && !all.contains("4.9e-4"),
        "no slack: {all}"
    );
}

/// The task that the service comes with.
fn task() -> Task {
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels/attention-f16");
    let mut files = BTreeMap::new();
    for part in ["", "playbook", "broken"] {
        for entry in std::fs::read_dir(folder.join(part)).expect("the folder is there") {
            let path = entry.expect("an entry").path();
            if path.is_file() {
                let name = path
                    .strip_prefix(&folder)
                    .expect("inside")
                    .display()
                    .to_string();
                files.insert(name, std::fs::read_to_string(path).expect("a text"));
            }
        }
    }
    Task::load(&Bundle { files }).expect("the task is right")
}

#[test]
fn a_context_holds_the_task_without_its_held_out_cases() {
    let context = Context::new(&task(), Some(&device()));
    let cases: Vec<_> = context
        .task
        .cases
        .iter()
        .map(|case| (case.name.as_str(), case.scored))
        .collect();
    assert!(cases.contains(&("starved", true)) && cases.contains(&("ragged", false)));
    let all = serde_json::to_string(&context).expect("JSON");
    assert!(!all.contains("wide"), "the held-out case shows");
    assert!(!all.contains("GPU-secret"));
    let arguments: Vec<_> = context
        .task
        .arguments
        .iter()
        .map(|argument| format!("{} {}", argument.parameter, argument.name))
        .collect();
    assert_eq!(
        arguments,
        [
            "const __half* q",
            "const __half* k",
            "const __half* v",
            "__half* o",
            "float scale",
            "int B",
            "int D",
            "int H",
            "int S",
        ]
    );
    assert_eq!(
        context.task.phases[0].targets,
        ["minimum 2", "good 4", "excellent 8"]
    );
    assert!(context.primary().is_none());
}

#[test]
fn what_authors_wrote_is_shortened_and_cleaned() {
    let evaluation = accepted();
    let anchor = evaluation
        .verdict
        .acceptance()
        .map(|acceptance| acceptance.timing.clone());
    let shown = CandidateBrief::new(
        "#3",
        "two\u{1b}[1m rows",
        Some(" \u{202e} "),
        SOURCE,
        Some(&evaluation),
        anchor.as_ref(),
    );
    assert_eq!(
        (shown.title.as_str(), shown.thought.as_deref()),
        ("two rows", None)
    );
    assert_eq!((shown.speedup, shown.modelled), (Some(1.0), true));
    assert_eq!(
        outcome(&evaluation, Some(6.1)),
        "6.10 times the baseline's speed (modelled)"
    );
    let lesson = Lesson::new(&"x ".repeat(5000), Some("rejected"));
    assert_eq!(lesson.thought.chars().count(), 2000);
}
