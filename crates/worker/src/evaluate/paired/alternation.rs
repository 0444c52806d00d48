//! The comparison of a candidate with a solution that cannot share a process with it.

use domain::margins::FASTER_MARGIN_LOG;
use domain::statistics::{self, ALPHA, ALTERNATIONS, ANALYSIS_PAIRS, BaselineHistory};
use domain::timing::CacheState;
use domain::verdict::{Comparison, Outcome};

use super::super::rivals::RivalTiming;
use super::process::RoundRequest;
use super::{KernelAssignment, PairedComparison, TimedRounds, exponential};
use crate::evaluate::error::{EvaluateError, Stop};

/// The reasons why alternating processes gave no comparison.
pub(in crate::evaluate) enum AlternationError {
    /// The other side gave no times, for this reason.
    NoTimes(String),
    Stop(Stop),
}

impl<E: Into<Stop>> From<E> for AlternationError {
    fn from(stop: E) -> Self {
        Self::Stop(stop.into())
    }
}

/// The comparison of alternating processes. Both sides are timed with a cold cache, whatever the
/// task scores, because a process of its own can only flush the cache.
#[derive(Debug, Clone, PartialEq)]
pub struct AlternatingComparison {
    /// Each case with the other's time and the candidate's, microseconds: medians of all turns.
    pub cases: Vec<(String, f64, f64)>,
    /// The other's time over the candidate's.
    pub comparison: Comparison,
}

impl PairedComparison<'_> {
    /// Alternates processes that time the candidate with calls of `turn`, which returns the other
    /// side's time of each case. A turn without times ends the comparison with its reason.
    pub(in crate::evaluate) fn alternate_processes(
        mut self,
        turn: &mut dyn FnMut(usize) -> Result<RivalTiming, EvaluateError>,
    ) -> Result<AlternatingComparison, AlternationError> {
        let _locked = self.roles.host.lock_clocks();
        self.cases.append(&mut self.unscored);
        self.cases
            .retain(|(_, case)| case.cache == CacheState::Cold);
        self.choose_batches()?;
        let wanted = RoundRequest::exactly(ANALYSIS_PAIRS[0] / 2);
        let mut taken = TimedRounds::default();
        let mut others = Vec::new();
        for process in 0..ALTERNATIONS {
            self.measure(KernelAssignment::Alone, process, &wanted, &mut taken)?;
            match turn(process)? {
                Ok(times) if times.len() == self.cases.len() => others.push(times),
                Ok(times) => {
                    return Err(AlternationError::NoTimes(format!(
                        "it gave {} times for {} cases",
                        times.len(),
                        self.cases.len()
                    )));
                }
                Err(reason) => return Err(AlternationError::NoTimes(reason)),
            }
        }
        // The usual rules decide if the rounds were disturbed too much.
        self.select_valid_rounds(&taken, &BaselineHistory::default())?;
        let own = (0..ALTERNATIONS)
            .map(|process| self.median_times(&taken, process))
            .collect::<Vec<_>>();
        let ratios = own.iter().zip(&others).map(|(own, other)| {
            let logarithms = other.iter().zip(own).map(|(other, own)| (other / own).ln());
            statistics::mean(&logarithms.collect::<Vec<_>>()).unwrap_or(f64::NAN)
        });
        let apart = ratios.map(|ratio| vec![ratio]).collect::<Vec<_>>();
        let bounds = statistics::interval(&apart, ALPHA);
        let middle = |times: &[Vec<f64>], case: usize| {
            let of_case = times.iter().map(|turn| turn[case]).collect::<Vec<_>>();
            statistics::median(&of_case).unwrap_or(f64::NAN)
        };
        Ok(AlternatingComparison {
            cases: self
                .cases
                .iter()
                .enumerate()
                .map(|(case, (name, _))| (name.clone(), middle(&others, case), middle(&own, case)))
                .collect(),
            comparison: Comparison {
                outcome: if bounds.lower > FASTER_MARGIN_LOG {
                    Outcome::Faster
                } else if bounds.upper < FASTER_MARGIN_LOG {
                    Outcome::NotFaster
                } else {
                    Outcome::Unresolved
                },
                ratio: statistics::effect(&apart).map_or(f64::NAN, f64::exp),
                interval: exponential(bounds),
            },
        })
    }
}
