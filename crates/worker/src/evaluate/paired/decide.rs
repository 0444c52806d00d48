//! The decisions on a comparison's rounds: the number of further rounds, the rounds that are valid,
//! and their result.

use domain::measurement::Noise;
use domain::statistics::{
    self, ALPHA, ALTERNATIONS, ANALYSIS_PAIRS, BaselineHistory, Cycles, DecidedComparison,
    Interval, Round, ScreeningProgress, Split, ValidRounds, check_regressions, next_analysis,
};
use domain::verdict::{Outcome, Verdict};

use super::{PairedComparison, SECONDS, TimedRounds, count};
use crate::evaluate::error::Stop;

impl PairedComparison<'_> {
    /// The number of further rounds until the next interim analysis of a screening; 0 once it is
    /// settled, or after the last analysis. A result of "faster" is not settled while the gate
    /// against regressions blocks on a case that further rounds might clear.
    pub(super) fn count_further_rounds(&self, rounds: &[Round], usual: &BaselineHistory) -> usize {
        let kept = statistics::select_valid_rounds(rounds, self.cases.len(), usual);
        let ratios = kept.whole.concat();
        // If too many rounds were disturbed, the next analysis is the one that all rounds together
        // would reach.
        let pairs = match kept.inconclusive {
            None => 2 * ratios.len(),
            Some(_) => 2 * rounds.len(),
        };
        let standing = match kept.inconclusive {
            None => Some(statistics::advance_screening(
                &ratios,
                &of_single_process(&kept.cycles),
                self.key,
            )),
            Some(_) => None,
        };
        let over = match standing {
            None | Some(ScreeningProgress::Open { .. }) => false,
            Some(ScreeningProgress::Decided(settled)) => {
                let held_back = || {
                    check_regressions(&kept.cases)
                        .iter()
                        .any(|case| case.blocks)
                };
                settled.outcome != Outcome::Faster || !held_back()
            }
        };
        let next = next_analysis(pairs).filter(|_| !over);
        next.map_or(0, |next| (next - pairs).div_ceil(2))
    }

    /// The baseline's median time of each case, over the valid rounds.
    pub(super) fn baseline_us(&self, taken: &TimedRounds, kept: &ValidRounds) -> Vec<f64> {
        let counts = |number: usize| {
            kept.discarded
                .iter()
                .all(|(left_out, _)| *left_out != number)
        };
        let rounds = taken.rounds.iter().enumerate();
        let blocks = rounds
            .filter(|(number, _)| counts(*number))
            .flat_map(|(_, round)| &round.blocks)
            .collect::<Vec<_>>();
        let cases = (0..self.cases.len()).map(|case| {
            let own = blocks.iter().filter(|block| block.case == case);
            let times = own.flat_map(|block| block.baseline_us());
            statistics::median(&times.collect::<Vec<_>>()).unwrap_or(f64::NAN)
        });
        cases.collect()
    }

    pub(super) fn select_valid_rounds(
        &self,
        taken: &TimedRounds,
        usual: &BaselineHistory,
    ) -> Result<ValidRounds, Stop> {
        let mut kept = statistics::select_valid_rounds(&taken.rounds, self.cases.len(), usual);
        match kept.inconclusive.take() {
            Some(reason) => Err(Verdict::Inconclusive { reason }.into()),
            None => Ok(kept),
        }
    }

    pub(super) fn screen(&self, kept: &ValidRounds) -> Result<DecidedComparison, Stop> {
        let rounds = kept.whole.concat();
        statistics::decide_screening(&rounds, &of_single_process(&kept.cycles), self.key)
            .ok_or_else(|| {
                let reason = format!(
                    "{} pairs were timed in {SECONDS} s, {} are needed",
                    2 * rounds.len(),
                    ANALYSIS_PAIRS[0]
                );
                Verdict::Inconclusive { reason }.into()
            })
    }

    pub(super) fn confirm(
        &self,
        kept: &ValidRounds,
        control: &TimedRounds,
    ) -> Result<(DecidedComparison, Option<Noise>), Stop> {
        // The baseline's history does not apply, because the control times the incumbent alone.
        let control = self.select_valid_rounds(control, &BaselineHistory::default())?;
        let settled =
            statistics::decide_confirmation(&kept.whole, &kept.cycles, &control.whole, self.key)
                .map_err(|reason| Verdict::InvalidRun { reason })?;
        let noise = Noise {
            interval: statistics::interval(&control.whole, ALPHA / 2.0),
            pairs: count(2 * control.whole.iter().map(Vec::len).sum::<usize>()),
            processes: count(control.whole.len()),
        };
        Ok((settled, Some(noise)))
    }

    /// Compares the ratio seen in shared processes with that of processes that run one kernel each.
    pub(super) fn compare_separate_processes(
        &self,
        control: &TimedRounds,
        alone: &TimedRounds,
        shared: Interval,
    ) -> Result<Split, Stop> {
        let ratios = (0..ALTERNATIONS)
            .filter_map(|process| {
                let of_both = self.median_times(control, process);
                let of_both = of_both.iter().zip(self.median_times(alone, process));
                let logarithms = of_both.map(|(incumbent, own)| (incumbent / own).ln());
                statistics::mean(&logarithms.collect::<Vec<_>>())
            })
            .filter(|ratio| ratio.is_finite())
            .collect::<Vec<_>>();
        statistics::compare_separate_processes(&ratios, shared)
            .map_err(|reason| Verdict::InvalidRun { reason }.into())
    }

    /// The median time of each case in one process that ran a single kernel; NaN for a case without
    /// times.
    pub(super) fn median_times(&self, taken: &TimedRounds, process: usize) -> Vec<f64> {
        let centre = |case: usize| {
            let own = taken.rounds.iter().filter(|round| round.process == process);
            let blocks = own.flat_map(|round| &round.blocks);
            let times = blocks
                .filter(|block| block.case == case)
                .flat_map(|block| block.incumbent_us.into_iter().chain(block.candidate_us))
                .filter(|us| us.is_finite() && *us > 0.0)
                .collect::<Vec<_>>();
            statistics::median(&times).unwrap_or(f64::NAN)
        };
        (0..self.cases.len()).map(centre).collect()
    }
}

/// The number of analyses that were made: in a screening those up to the deciding one, in a
/// confirmation one.
pub(super) fn count_analyses(settled: &DecidedComparison, confirming: bool) -> u32 {
    if confirming {
        return 1;
    }
    let seen = ANALYSIS_PAIRS
        .iter()
        .filter(|look| **look <= settled.evidence.pairs)
        .count();
    count(seen)
}

/// The rounds of a screening, which has a single process.
fn of_single_process(cycles: &Cycles<Vec<Vec<f64>>>) -> Cycles<Vec<f64>> {
    cycles.map(|cycles| Some(cycles.concat()))
}
