//! The data that the author of the next candidate gets, and the data that must stay secret.

mod context;
mod feedback;

use std::collections::BTreeMap;

use domain::brief::{Feedback, feedback};
use domain::device::{Device, DeviceKind, Limits};
use domain::digest::Digest;
use domain::evaluation::{
    CaseLaunches, CheckOutcome, EVALUATOR_VERSION, Evaluation, EvaluationStage, Explanation,
    GateOutcome,
};
use domain::finding::{Finding, FindingKind, OtherParty};
use domain::hottest_lines::{HotLine, HottestLines, LineWork};
use domain::role::{Distribution, KernelResources, LaunchFacts};
use domain::statistics::{Bound, Floor};
use domain::task::{Enforce, GateSubject};
use domain::timing::{CacheState, MeasuredTime, ModelledLaunch, ModelledTime, Timing};
use domain::verdict::{
    Acceptance, AxisSpan, Comparison, Mismatch, Outcome, Verdict, WrongElement, WrongElements,
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
        hottest_lines: None,
        explanation: None,
        prescreen: None,
        drawn_shapes: None,
        preconditions: None,
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
        worst: Some(WrongElement {
            index: vec![0, 2, 126, 63],
            found: "0.25".to_owned(),
            expected: "0.5".to_owned(),
        }),
        wrong: Some(WrongElements {
            count: 48,
            elements: 65536,
            spans: vec![
                None,
                Some(AxisSpan {
                    from: 2,
                    to: 2,
                    step: 1,
                }),
                Some(AxisSpan {
                    from: 124,
                    to: 126,
                    step: 1,
                }),
                Some(AxisSpan {
                    from: 3,
                    to: 63,
                    step: 4,
                }),
            ],
            first: vec![WrongElement {
                index: vec![0, 2, 124, 3],
                found: "1".to_owned(),
                expected: "2".to_owned(),
            }],
        }),
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
    let busy = GateOutcome {
        subject: GateSubject::DramPercent,
        min: Some(60.0),
        found: 41.25,
        ..gate(false)
    };
    evaluation.gates = vec![gate(false), gate(true), busy];
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
            modelled_terms: BTreeMap::new(),
            counters: counters
                .map(|(name, count)| (name.to_owned(), count))
                .into_iter()
                .collect::<BTreeMap<_, _>>(),
        }],
    }];
    let hot = |line: u32, share: f64, times_ideal: Option<f64>| HotLine {
        line,
        share,
        times_ideal,
    };
    evaluation.hottest_lines = Some(HottestLines {
        case: "starved".to_owned(),
        kernel: "scale".to_owned(),
        work: LineWork::GlobalSectors,
        lines: vec![hot(2, 0.621, Some(3.878)), hot(3, 0.05, None)],
    });
    evaluation
}

#[test]
fn a_measured_time_is_explained_by_the_emulated_device() {
    let modelled = accepted();
    let timing = modelled
        .verdict
        .acceptance()
        .expect("accepted")
        .timing
        .clone();
    let mut found = evaluation(Verdict::Accepted(Acceptance {
        timing: Timing::Measured {
            unscored: Vec::new(),
            cases: vec![MeasuredTime {
                case: "starved".to_owned(),
                cache: CacheState::Cold,
                median_us: 20.0,
                quartiles_us: [19.0, 21.0],
                samples: 32,
            }],
        },
        comparison: None,
        launch_bound: false,
    }));
    let unexplained = feedback(&found, SOURCE);
    assert_eq!(unexplained.times.len(), 1);
    assert_eq!(unexplained.counters, [""; 0]);
    found.explanation = Some(Explanation {
        timing,
        launches: modelled.launches.clone(),
        hottest_lines: modelled.hottest_lines.clone(),
    });
    let told = feedback(&found, SOURCE);
    let own = feedback(&modelled, SOURCE);
    assert_eq!(told.bottleneck.as_deref(), Some("critical_path"));
    assert_eq!(told.times[0], unexplained.times[0]);
    let explained = format!("{}; on the emulated l4, which only explains", own.times[0]);
    assert_eq!(told.times[1..], [explained, own.times[1].clone()]);
    assert!(
        told.counters[0].ends_with("counted on an emulated device"),
        "{:?}",
        told.counters
    );
    assert_eq!(told.counters[1..], own.counters[1..]);
}

#[test]
fn a_measured_time_is_bounded_by_its_nearest_floor_or_by_latency() {
    let time = |case: &str| MeasuredTime {
        case: case.to_owned(),
        cache: CacheState::Cold,
        median_us: 10.0,
        quartiles_us: [9.0, 11.0],
        samples: 32,
    };
    let mut found = evaluation(Verdict::Accepted(Acceptance {
        timing: Timing::Measured {
            unscored: Vec::new(),
            cases: vec![time("small"), time("large")],
        },
        comparison: None,
        launch_bound: false,
    }));
    let floor = |case: &str, us: f64, bound: Bound| Floor {
        case: case.to_owned(),
        cache: CacheState::Cold,
        us,
        bound,
        found_us: 10.0,
        resources: Vec::new(),
    };
    assert_eq!(
        feedback(&found, SOURCE).bottleneck,
        None,
        "no floor is known"
    );
    for (large, bound, expected) in [
        (8.0, Bound::Bytes, "dram_bytes"),
        (8.0, Bound::Operations, "fp32"),
        (8.0, Bound::Launch, "launch"),
        (2.5, Bound::Bytes, "critical_path"),
    ] {
        found.floors = vec![
            floor("small", 2.0, Bound::Launch),
            floor("large", large, bound),
        ];
        let told = feedback(&found, SOURCE).bottleneck;
        assert_eq!(
            told.as_deref(),
            Some(expected),
            "{large} us because of {bound:?}"
        );
    }
}
