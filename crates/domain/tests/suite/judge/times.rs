//! Verdicts on times.

use domain::judge;
use domain::timing::{CacheState, MeasuredTime, ModelledTime, Timing};
use domain::verdict::{Outcome, VerdictKind};

fn modelled(us: f64) -> Timing {
    Timing::Modelled {
        device: "L4".to_owned(),
        label: "uncalibrated".to_owned(),
        unscored: Vec::new(),
        cases: vec![ModelledTime {
            case: "one".to_owned(),
            cache: CacheState::Cold,
            us,
            launches: Vec::new(),
        }],
    }
}

fn measured(us: f64) -> Timing {
    Timing::Measured {
        unscored: Vec::new(),
        cases: vec![MeasuredTime {
            case: "one".to_owned(),
            cache: CacheState::Cold,
            median_us: us,
            quartiles_us: [us, us],
            samples: 32,
        }],
    }
}

fn warm(us: f64) -> Timing {
    let mut timing = modelled(us);
    if let Timing::Modelled { cases, .. } = &mut timing {
        cases[0].cache = CacheState::Warm;
    }
    timing
}

#[test]
fn an_acceptance_compares_only_what_can_be_compared() {
    let outcome = |timing: Timing, incumbent: Timing| {
        let verdict = judge::judge_times(timing, Some(&incumbent), false);
        let acceptance = verdict.acceptance().unwrap().clone();
        acceptance.comparison.map(|comparison| comparison.outcome)
    };
    let table = [
        (modelled(50.0), modelled(100.0), Some(Outcome::Faster)),
        (modelled(99.6), modelled(100.0), Some(Outcome::NotFaster)),
        (modelled(120.0), modelled(100.0), Some(Outcome::NotFaster)),
        (measured(50.0), measured(100.0), Some(Outcome::Unresolved)),
        (modelled(50.0), measured(100.0), None),
        (warm(50.0), warm(100.0), Some(Outcome::Faster)),
        (warm(50.0), modelled(100.0), None),
        (modelled(50.0), warm(100.0), None),
        (measured(50.0), modelled(100.0), None),
    ];
    for (timing, incumbent, expected) in table {
        let name = format!("{timing} against {incumbent}");
        assert_eq!(outcome(timing, incumbent), expected, "{name}");
    }
}

#[test]
fn a_time_that_is_none_is_never_accepted() {
    for us in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let verdict = judge::judge_times(modelled(us), None, false);
        assert_eq!(verdict.kind(), VerdictKind::InvalidRun, "{us}");
    }
    let empty = Timing::Measured {
        cases: Vec::new(),
        unscored: Vec::new(),
    };
    assert_eq!(
        judge::judge_times(empty, None, false).kind(),
        VerdictKind::Inconclusive
    );
}
