//! One step of an engineer's work on a kernel: a hypothesis, a change, what came of it, and
//! whether it stays. Pure: the numbers come from an evaluation, the best so far from the record.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::evaluation::GateOutcome;
use crate::margins::{is_regression, regression_percent};
use crate::verdict::Verdict;

/// The decision about a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The change stays.
    Keep,
    /// The change is reverted.
    Revert,
    /// The change stays, and the task's target is reached.
    Target,
}

impl Decision {
    /// The decision as stored and printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Revert => "revert",
            Self::Target => "target",
        }
    }

    /// Returns true if the change stays.
    pub fn keeps_change(self) -> bool {
        self != Self::Revert
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A decision with its reason and its numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepDecision {
    /// The decision.
    pub decision: Decision,
    /// Best time so far over this one's, both relative to the baseline beside them; none without
    /// a best or without a time.
    pub gain: Option<f64>,
    /// The reason in one sentence.
    pub reason: String,
}

impl StepDecision {
    /// Turns the decision into a revert, for a reason that the verdict does not know.
    #[must_use]
    pub fn into_revert(self, reason: String) -> Self {
        Self {
            decision: Decision::Revert,
            reason,
            ..self
        }
    }
}

/// Decides about a kernel with this verdict, these gates and this speedup over the baseline. The
/// speedup is compared with the best one ever kept, not with the last one, so that small losses
/// cannot add up. A kernel that a gate keeps from being promoted reaches no target.
/// Every speedup is relative to a baseline timed beside it, so that differences between days and
/// machine states cancel.
pub fn decide_step(
    verdict: &Verdict,
    gates: &[GateOutcome],
    speedup: Option<f64>,
    best: Option<f64>,
    target: Option<f64>,
) -> StepDecision {
    let revert = |gain, reason| StepDecision {
        decision: Decision::Revert,
        gain,
        reason,
    };
    if verdict.acceptance().is_none() {
        return revert(None, verdict.to_string());
    }
    let Some(speedup) = speedup.filter(|speedup| speedup.is_finite() && *speedup > 0.0) else {
        return revert(None, "it has no time".to_owned());
    };
    let gain = best.map(|best| speedup / best);
    if let Some(gain) = gain.filter(|gain| is_regression(*gain, 1.0)) {
        let slower = 100.0 * (1.0 / gain - 1.0);
        let reason = format!(
            "{slower:.1}% slower than the best kept, more than {}",
            regression_percent()
        );
        return revert(Some(gain), reason);
    }
    if let Some(target) = target.filter(|target| speedup >= *target) {
        let reached = format!("{speedup:.3}x reaches the target of {target:.3}x");
        let broken = gates.iter().find(|gate| gate.stands_before_promotion());
        let (decision, reason) = match broken {
            None => (Decision::Target, reached),
            Some(gate) => (
                Decision::Keep,
                format!(
                    "{reached}, but {} before it may be promoted",
                    gate.shortfall()
                ),
            ),
        };
        return StepDecision {
            decision,
            gain,
            reason,
        };
    }
    let reason = match gain {
        None => "the first that is right".to_owned(),
        Some(gain) if gain > 1.0 => {
            format!("{:.1}% faster than the best kept", 100.0 * (gain - 1.0))
        }
        Some(_) => format!("within {} of the best kept", regression_percent()),
    };
    StepDecision {
        decision: Decision::Keep,
        gain,
        reason,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::task::{Enforce, GateSubject};
    use crate::timing::{CacheState, ModelledTime, Timing};
    use crate::verdict::Acceptance;

    fn accepted() -> Verdict {
        Verdict::Accepted(Acceptance {
            timing: Timing::Modelled {
                device: "d".to_owned(),
                label: "l".to_owned(),
                unscored: Vec::new(),
                cases: vec![ModelledTime {
                    case: "c".to_owned(),
                    cache: CacheState::Cold,
                    us: 1.0,
                    launches: Vec::new(),
                }],
            },
            comparison: None,
            launch_bound: false,
        })
    }

    #[test]
    fn a_step_is_held_against_the_best_and_the_target() {
        for (speedup, best, target, expected) in [
            (Some(0.5), None, None, Decision::Keep),
            (Some(1.2), Some(1.0), Some(1.5), Decision::Keep),
            (Some(1.5), Some(1.2), Some(1.5), Decision::Target),
            (Some(0.99), Some(1.0), None, Decision::Keep),
            (Some(0.97), Some(1.0), None, Decision::Revert),
            // The target does not excuse a loss.
            (Some(2.0), Some(2.5), Some(1.5), Decision::Revert),
            (None, None, None, Decision::Revert),
            (Some(f64::NAN), None, None, Decision::Revert),
        ] {
            let found = decide_step(&accepted(), &[], speedup, best, target);
            assert_eq!(found.decision, expected, "{speedup:?} {best:?} {found:?}");
        }
    }

    #[test]
    fn no_target_is_reached_while_a_gate_stands_before_promotion() {
        let gate = |enforce, met| GateOutcome {
            subject: GateSubject::CtasPerSm,
            phase: Some("parallelism".to_owned()),
            case: Some("starved".to_owned()),
            min: Some(4.0),
            max: None,
            found: if met { 4.0 } else { 2.25 },
            met,
            enforce,
        };
        for (gate, expected) in [
            (gate(Enforce::Phase, false), Decision::Keep),
            (gate(Enforce::Phase, true), Decision::Target),
            (gate(Enforce::Advise, false), Decision::Target),
        ] {
            let found = decide_step(&accepted(), &[gate], Some(2.0), None, Some(1.5));
            assert_eq!(found.decision, expected, "{found:?}");
            let told = "2.000x reaches the target of 1.500x, but ctas_per_sm on starved is 2.25, at least 4 is \
                        asked for (phase parallelism) before it may be promoted";
            assert_eq!(
                found.reason == told,
                expected == Decision::Keep,
                "{found:?}"
            );
        }
    }

    #[test]
    fn nothing_wrong_stays_however_fast() {
        let wrong = Verdict::Inconclusive {
            reason: "too few".to_owned(),
        };
        let found = decide_step(&wrong, &[], Some(100.0), None, Some(1.5));
        assert_eq!(found.decision, Decision::Revert);
        assert!(found.reason.contains("inconclusive"), "{}", found.reason);
    }

    proptest! {
        #[test]
        fn small_losses_never_add_up(losses in prop::collection::vec(0.9_f64..1.1, 1..40)) {
            let (mut best, mut current) = (1.0_f64, 1.0_f64);
            for factor in losses {
                let tried = current * factor;
                if decide_step(&accepted(), &[], Some(tried), Some(best), None).decision.keeps_change() {
                    current = tried;
                    best = best.max(tried);
                }
            }
            prop_assert!(!is_regression(current, best));
        }
    }
}
