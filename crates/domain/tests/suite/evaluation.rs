//! Evaluations: which may be promoted, and which reports of them are accepted.

use domain::digest::Digest;
use domain::evaluation::{EVALUATOR_VERSION, Evaluation, EvaluationStage, StageTime};
use domain::lease::{MAX_ITEMS, MAX_NAME_BYTES, MAX_TEXT_BYTES, Renewal, Report, ReportOutcome};
use domain::timing::{
    CacheState, MAX_TIME_US, MIN_TIME_US, MeasuredTime, ModelledLaunch, ModelledTime, Timing,
};
use domain::verdict::{Acceptance, Comparison, Outcome, Verdict};

fn evaluation(timing: Timing, outcome: Option<Outcome>) -> Evaluation {
    let comparison = outcome.map(|outcome| Comparison {
        outcome,
        ratio: 2.0,
        interval: [1.5, 2.5],
    });
    Evaluation {
        verdict: Verdict::Accepted(Acceptance {
            timing,
            comparison,
            launch_bound: false,
        }),
        evaluator: EVALUATOR_VERSION,
        stage: EvaluationStage::Search,
        found_on: None,
        not_run: Vec::new(),
        task_version: Digest::of("task"),
        candidate_digest: None,
        image_digest: None,
        device: None,
        toolchain: None,
        kernels: Vec::new(),
        gates: Vec::new(),
        checks: Vec::new(),
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

fn measured() -> Timing {
    Timing::Measured {
        unscored: Vec::new(),
        cases: vec![MeasuredTime {
            case: "only".to_owned(),
            cache: CacheState::Cold,
            median_us: 10.0,
            quartiles_us: [9.0, 11.0],
            samples: 32,
        }],
    }
}

fn modelled() -> Timing {
    Timing::Modelled {
        device: "l4".to_owned(),
        label: "uncalibrated".to_owned(),
        unscored: Vec::new(),
        cases: vec![ModelledTime {
            case: "only".to_owned(),
            cache: CacheState::Cold,
            us: 10.0,
            launches: Vec::new(),
        }],
    }
}

#[test]
fn a_measured_time_is_promoted_only_by_a_settled_comparison() {
    for (outcome, promotable) in [
        (None, false),
        (Some(Outcome::Unresolved), false),
        (Some(Outcome::NotFaster), false),
        (Some(Outcome::Faster), true),
    ] {
        let found = evaluation(measured(), outcome).promotable();
        assert_eq!(found, promotable, "{outcome:?}");
    }
}

#[test]
fn a_modelled_time_needs_no_second_run_but_never_an_unresolved_one() {
    for (outcome, promotable) in [
        (None, true),
        (Some(Outcome::NotFaster), true),
        (Some(Outcome::Faster), true),
        (Some(Outcome::Unresolved), false),
    ] {
        let found = evaluation(modelled(), outcome).promotable();
        assert_eq!(found, promotable, "{outcome:?}");
    }
}

#[test]
fn times_that_were_recorded_without_a_state_of_the_cache_are_cold() {
    let old = r#"{"kind": "measured", "cases": [
        {"case": "only", "median_us": 10.0, "quartiles_us": [9.0, 11.0], "samples": 32}]}"#;
    assert_eq!(serde_json::from_str::<Timing>(old).unwrap(), measured());
    let old = r#"{"kind": "modelled", "device": "l4", "label": "uncalibrated",
        "cases": [{"case": "only", "us": 10.0, "launches": []}]}"#;
    assert_eq!(serde_json::from_str::<Timing>(old).unwrap(), modelled());
}

fn report(evaluation: Evaluation) -> Report {
    Report {
        admission: None,
        attempt: 1,
        outcome: ReportOutcome::Evaluated {
            evaluation: Box::new(evaluation),
        },
    }
}

#[test]
fn a_report_holds_only_times_that_an_execution_can_have() {
    for us in [MIN_TIME_US, 10.0, MAX_TIME_US] {
        let Timing::Modelled {
            mut cases,
            device,
            label,
            unscored,
        } = modelled()
        else {
            panic!("modelled");
        };
        cases[0].us = us;
        let timing = Timing::Modelled {
            cases,
            device,
            label,
            unscored,
        };
        assert_eq!(report(evaluation(timing, None)).validate(), Ok(()), "{us}");
    }
    for us in [5e-324, 1e-4, 0.0, -1.0, 1e12, f64::MAX] {
        let spoil: [fn(&mut Timing, f64); 4] = [
            |timing, us| match timing {
                Timing::Measured { cases, .. } => cases[0].median_us = us,
                Timing::Modelled { cases, .. } => cases[0].us = us,
            },
            |timing, us| match timing {
                Timing::Measured { cases, .. } => cases[0].quartiles_us[0] = us,
                Timing::Modelled { cases, .. } => cases[0].us = us,
            },
            |timing, us| match timing {
                Timing::Measured { cases, unscored } => {
                    unscored.push(cases[0].clone());
                    unscored[0].median_us = us;
                }
                Timing::Modelled {
                    cases, unscored, ..
                } => {
                    unscored.push(cases[0].clone());
                    unscored[0].us = us;
                }
            },
            |timing, us| match timing {
                Timing::Measured { cases, .. } => cases[0].quartiles_us[1] = us,
                Timing::Modelled { cases, .. } => cases[0].launches.push(ModelledLaunch {
                    kernel: "k".to_owned(),
                    us,
                    launch_us: 2.0,
                    bottleneck: "bytes".to_owned(),
                    share: 0.5,
                }),
            },
        ];
        for spoil in spoil {
            for mut timing in [measured(), modelled()] {
                spoil(&mut timing, us);
                let report = report(evaluation(timing, None));
                let problems = report.validate().expect_err("a time that cannot be");
                assert!(problems.to_string().contains("a time of"), "{problems}");
            }
        }
    }
}

#[test]
fn every_text_and_count_of_a_message_is_bounded() {
    let renewal = |bytes: usize| Renewal {
        attempt: 1,
        stage: "s".repeat(bytes),
    };
    assert_eq!(renewal(MAX_NAME_BYTES).validate(), Ok(()));
    let problems = renewal(900 << 10).validate().expect_err("a long name");
    assert_eq!(
        problems.to_string(),
        "renewal: stage has 921600 bytes; at most 256 are accepted (send a shorter text)"
    );
    let faulted = |bytes: usize| Report {
        admission: None,
        attempt: 1,
        outcome: ReportOutcome::Faulted {
            message: "m".repeat(bytes),
        },
    };
    assert_eq!(faulted(MAX_TEXT_BYTES).validate(), Ok(()));
    assert!(faulted(MAX_TEXT_BYTES + 1).validate().is_err());
    let stages = |count: usize, bytes: usize, milliseconds: f64| {
        let stage = StageTime {
            stage: "s".repeat(bytes),
            milliseconds,
        };
        report(Evaluation {
            stages: vec![stage; count],
            ..evaluation(modelled(), None)
        })
    };
    assert_eq!(stages(3, 7, 1.0).validate(), Ok(()));
    assert!(stages(1, MAX_NAME_BYTES + 1, 1.0).validate().is_err());
    assert!(stages(MAX_ITEMS + 1, 7, 1.0).validate().is_err());
    assert!(stages(1, 7, -1.0).validate().is_err());
    assert!(stages(1, 7, 1e300).validate().is_err());
}

#[test]
fn a_report_holds_only_ratios_of_valid_times() {
    let mut compared = evaluation(measured(), Some(Outcome::Faster));
    assert_eq!(report(compared.clone()).validate(), Ok(()));
    if let Verdict::Accepted(Acceptance {
        comparison: Some(comparison),
        ..
    }) = &mut compared.verdict
    {
        comparison.ratio = 1e300;
    }
    assert!(report(compared).validate().is_err());
}
