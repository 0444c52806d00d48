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

/// The time after which no further process of a control is begun. A verdict that waits for a
/// control is thus delayed by at most this and the deadline of one process, or of two if one dies.
/// A screening has two processes. The limit also suffices for the 21 processes of a confirmation,
/// even if each takes all of its [`super::SECONDS`].
const PATIENCE: Duration = Duration::from_secs(600);

/// The decision of a comparison, or the reason why there is none.
enum Attempt {
    Answered(DecidedComparison),
    /// A verdict, so that a candidate in this place would not be promoted.
    Refused(String),
    /// A fault of the infrastructure, so that the result is unknown.
    Faulted(String),
}

impl PairedComparison<'_> {
    /// Screens the incumbent in the candidate's place, and confirms it if the screening says
    /// "faster". A control that cannot be finished is reported as such.
    ///
    /// # Errors
    /// The work was cancelled, or the device failed its health check: then the verdict on the
    /// candidate that was timed just before does not count either.
    pub(in crate::evaluate) fn control(self) -> Result<Control, EvaluateError> {
        let twin = self.with_incumbent_as_candidate(Instant::now() + PATIENCE);
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

    /// Puts the incumbent in the candidate's place. The anchor stays, because it is also timed
    /// beside candidates.
    fn with_incumbent_as_candidate(mut self, until: Instant) -> Self {
        let image = self.images[&TimedKernel::Incumbent].clone();
        self.images.insert(TimedKernel::Candidate, image);
        for (_, case) in &mut self.cases {
            let plan = case.plans[&TimedKernel::Incumbent].clone();
            case.plans.insert(TimedKernel::Candidate, plan);
        }
        self.unscored.clear();
        // The verified outputs are those of the candidate.
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
                // The outcome includes the gate against regressions.
                let outcome = compared.comparison.outcome;
                let settled = compared.measurement.settled;
                return Ok(Attempt::Answered(DecidedComparison { outcome, ..settled }));
            }
            Err(Stop::Verdict(verdict)) => Attempt::Refused(verdict.to_string()),
            Err(Stop::Fault(fault)) if fault.is_cancelled() || fault.failed_health_check() => {
                return Err(fault);
            }
            Err(Stop::Fault(fault)) => Attempt::Faulted(format!("failed to {fault}")),
        };
        host.check_health(cancellation)?;
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

    /// The result of a screening whose rounds all have the same log-ratio.
    fn settled(ratio: f64) -> DecidedComparison {
        let rounds = vec![ratio; ANALYSIS_PAIRS[0] / 2];
        decide_screening(&rounds, &Cycles::Unknown, Key(Digest::of("key"))).unwrap()
    }

    #[test]
    fn a_false_promotion_needs_screening_and_confirmation() {
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
