//! The control: compares the incumbent with itself as if it were a candidate, with the same processes,
//! interim analyses and rules. A result of "faster" is a false positive there.

use std::time::{Duration, Instant};

use domain::control::Control;
use domain::evaluation::EvaluationStage;
use domain::statistics::{DecidedComparison, TimedKernel};
use domain::verdict::Outcome;

use super::PairedComparison;
use crate::evaluate::error::{EvaluateError, Stop};
use crate::evaluate::roles::Roles;

/// After so long no further process of a control is begun, so that a verdict which waits for one is
/// late by this and the deadline of one process at most, or of two where one dies. A screening takes
/// two processes; it is enough for the 21 of a confirmation as well, should each need all of the
/// [`super::SECONDS`] that it has for its rounds.
const PATIENCE: Duration = Duration::from_secs(600);

/// The decision of a comparison, or the reason why there is none.
enum Attempt {
    Answered(DecidedComparison),
    /// A verdict: whoever gets it is not promoted.
    Refused(String),
    /// Trouble of the infrastructure: it may have become anything.
    Faulted(String),
}

impl PairedComparison<'_> {
    /// Screens the incumbent in the candidate's place, and confirms it there if that calls it
    /// faster. What does not come to its end says so.
    ///
    /// # Errors
    /// The work was called off, or the device is unwell: then what it said of the candidate just
    /// before counts for nothing either.
    pub(in crate::evaluate) fn control(self) -> Result<Control, EvaluateError> {
        let twin = self.of_the_incumbent_with_itself(Instant::now() + PATIENCE);
        let confirmation = PairedComparison {
            stage: EvaluationStage::Confirmation,
            key: twin.key.derive(&["confirmation"]),
            ..twin.clone()
        };
        match twin.attempt()? {
            Attempt::Answered(screening) if screening.outcome == Outcome::Faster => {
                Ok(called_faster(screening, confirmation.attempt()?))
            }
            Attempt::Answered(screening) => Ok(Control::Level { screening }),
            Attempt::Refused(reason) | Attempt::Faulted(reason) => {
                Ok(Control::Unfinished { reason })
            }
        }
    }

    /// The anchor stays where it is: it stands beside candidates, too.
    fn of_the_incumbent_with_itself(mut self, until: Instant) -> Self {
        let side = self.sides[&TimedKernel::Incumbent].clone();
        self.sides.insert(TimedKernel::Candidate, side);
        for (_, case) in &mut self.cases {
            let plan = case.plans[&TimedKernel::Incumbent].clone();
            case.plans.insert(TimedKernel::Candidate, plan);
        }
        self.beside.clear();
        // They are those of the candidate.
        self.verified.clear();
        self.key = self.key.derive(&["control"]);
        self.until = Some(until);
        self
    }

    fn attempt(self) -> Result<Attempt, EvaluateError> {
        let Roles {
            host, cancellation, ..
        } = self.roles;
        let unanswered = match self.measure_and_decide() {
            Ok(compared) => {
                // With the gate against regressions.
                let outcome = compared.comparison.outcome;
                let settled = compared.measurement.settled;
                return Ok(Attempt::Answered(DecidedComparison { outcome, ..settled }));
            }
            Err(Stop::Verdict(verdict)) => Attempt::Refused(verdict.to_string()),
            Err(Stop::Fault(fault)) if fault.is_cancelled() || fault.is_unwell() => {
                return Err(fault);
            }
            Err(Stop::Fault(fault)) => Attempt::Faulted(format!("failed to {fault}")),
        };
        host.check(cancellation)?;
        Ok(unanswered)
    }
}

/// The result of a control whose screening called the incumbent faster than itself.
fn called_faster(screening: DecidedComparison, confirmation: Attempt) -> Control {
    match confirmation {
        Attempt::Answered(confirmation) if confirmation.outcome == Outcome::Faster => {
            Control::Promoted {
                screening,
                confirmation,
            }
        }
        Attempt::Answered(DecidedComparison { evidence, .. }) => Control::Caught {
            screening,
            reason: format!(
                "a gain of {:+.2}% to {:+.2}%",
                100.0 * evidence.interval.lower.exp_m1(),
                100.0 * evidence.interval.upper.exp_m1()
            ),
        },
        Attempt::Refused(reason) => Control::Caught { screening, reason },
        Attempt::Faulted(reason) => Control::Undecided { screening, reason },
    }
}

#[cfg(test)]
mod tests {
    use domain::control::ControlResult;
    use domain::digest::Digest;
    use domain::role::Key;
    use domain::statistics::{ANALYSIS_PAIRS, Cycles, decide_screening};

    use super::*;

    /// What a screening says whose rounds all show the same log-ratio.
    fn settled(ratio: f64) -> DecidedComparison {
        let rounds = vec![ratio; ANALYSIS_PAIRS[0] / 2];
        decide_screening(&rounds, &Cycles::Unknown, Key(Digest::of("key"))).unwrap()
    }

    #[test]
    fn only_what_both_call_faster_is_a_false_promotion() {
        let reason = || "the driver logged a fault".to_owned();
        for (confirmation, result) in [
            (Attempt::Answered(settled(0.02)), ControlResult::Promoted),
            (Attempt::Answered(settled(0.0)), ControlResult::Caught),
            (Attempt::Refused(reason()), ControlResult::Caught),
            (Attempt::Faulted(reason()), ControlResult::Undecided),
        ] {
            let control = called_faster(settled(0.03), confirmation);
            assert_eq!(control.result(), result, "{control:?}");
        }
    }
}
