//! What may be promoted.

use domain::digest::Digest;
use domain::evaluation::{EVALUATOR_VERSION, Evaluation, EvaluationStage};
use domain::timing::{CacheState, MeasuredTime, ModelledTime, Timing};
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
        prescreen: None,
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
