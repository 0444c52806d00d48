//! The decision of a comparison.
//!
//! A screening runs in one process and has at most four interim analyses, each with a quarter of the
//! error probability. A confirmation spreads its rounds over fresh processes and has one analysis.

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::bootstrap::{RESAMPLES, bootstrap};
use super::interval::{Interval, effect, interval};
use super::rank::signed_rank;
use crate::margins::FASTER_MARGIN_LOG;
use crate::role::Key;
use crate::verdict::Outcome;

/// The probability of a wrong decision in either direction.
pub const ALPHA: f64 = 0.01;
/// Numbers of pairs after which a screening has an interim analysis. Two pairs make a round.
pub const ANALYSIS_PAIRS: [usize; 4] = [30, 60, 120, 240];
/// The size of a confirmation; its control is as large. With half the pairs a gain of 2% under
/// noise of 3% would be confirmed in eight of ten cases only.
pub const CONFIRMATION: ComparisonSize = ComparisonSize {
    processes: 8,
    pairs: 60,
};

/// The size of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComparisonSize {
    /// Fresh processes.
    pub processes: usize,
    /// Pairs in each.
    pub pairs: usize,
}

/// Everything a decision rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Evidence {
    /// The effect.
    pub effect: f64,
    /// Bounds on it, each at the interim analysis' share of [`ALPHA`].
    pub interval: Interval,
    /// The same by the hierarchical bootstrap; only where it could overturn the decision.
    pub bootstrap: Option<Interval>,
    /// Wilcoxon's probability of so high ranks without an effect.
    pub signed_rank: f64,
    /// The effect in clock cycles instead of time, where clocks are known.
    pub cycles: Option<f64>,
    /// The margin that the effect must exceed.
    pub margin: f64,
    /// Processes with at least one round.
    pub processes: usize,
    /// Pairs in all.
    pub pairs: usize,
}

/// A decision with its evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Settled)]
pub struct DecidedComparison {
    /// The decision.
    pub outcome: Outcome,
    /// The evidence of the decision.
    pub evidence: Evidence,
}

/// Log-ratios in clock cycles instead of time.
#[derive(Debug, Clone, PartialEq)]
pub enum Cycles<R> {
    /// Cycles were not counted, or not in all rounds.
    Unknown,
    /// Cycles are reported and decide nothing: where the power limit holds the clock down, a
    /// candidate that draws more power takes fewer cycles for the same time, and one that draws
    /// less takes more.
    Telling(R),
    /// A candidate that takes no fewer of them is not faster.
    Deciding(R),
}

impl<R> Cycles<R> {
    /// Applies `part` to the log-ratios; unknown if `part` returns none.
    pub fn map<'a, S>(&'a self, part: impl FnOnce(&'a R) -> Option<S>) -> Cycles<S> {
        match self {
            Self::Unknown => Cycles::Unknown,
            Self::Telling(ratios) => part(ratios).map_or(Cycles::Unknown, Cycles::Telling),
            Self::Deciding(ratios) => part(ratios).map_or(Cycles::Unknown, Cycles::Deciding),
        }
    }
}

/// The progress of a screening.
#[derive(Debug, Clone, PartialEq)]
pub enum ScreeningProgress {
    /// It needs this many pairs in all before its next interim analysis.
    Open {
        /// Pairs.
        pairs: usize,
    },
    /// It is decided.
    Decided(DecidedComparison),
}

/// Makes all interim analyses that a screening's rounds, all of one process, suffice for. `cycles`
/// are the same rounds' log-ratios in clock cycles.
pub fn advance_screening(rounds: &[f64], cycles: &Cycles<Vec<f64>>, key: Key) -> ScreeningProgress {
    let next = next_analysis(2 * rounds.len());
    match decide_screening(rounds, cycles, key) {
        Some(settled) if next.is_none() || settled.outcome != Outcome::Unresolved => {
            ScreeningProgress::Decided(settled)
        }
        _ => ScreeningProgress::Open {
            pairs: next.unwrap_or(ANALYSIS_PAIRS[0]),
        },
    }
}

/// Returns the number of pairs at which a screening with `pairs` has its next interim analysis; none
/// after the last one.
pub fn next_analysis(pairs: usize) -> Option<usize> {
    ANALYSIS_PAIRS.into_iter().find(|look| *look > pairs)
}

/// Decides a screening whose rounds are complete: by the first interim analysis that resolves it, or
/// by the last one that the rounds suffice for. None if they are too few for any.
pub fn decide_screening(
    rounds: &[f64],
    cycles: &Cycles<Vec<f64>>,
    key: Key,
) -> Option<DecidedComparison> {
    let mut last = None;
    for pairs in ANALYSIS_PAIRS {
        let Some(seen) = rounds.get(..pairs / 2) else {
            break;
        };
        let cycles = cycles.map(|cycles| Some(vec![cycles.get(..pairs / 2)?.to_vec()]));
        let settled = analyse_rounds(seen, cycles, key);
        let resolved = settled.outcome != Outcome::Unresolved;
        last = Some(settled);
        if resolved {
            break;
        }
    }
    last
}

/// Makes one interim analysis of a screening, with its share of the error probability.
fn analyse_rounds(rounds: &[f64], cycles: Cycles<Vec<Vec<f64>>>, key: Key) -> DecidedComparison {
    #[expect(clippy::cast_precision_loss, reason = "there are four analyses")]
    let alpha = ALPHA / ANALYSIS_PAIRS.len() as f64;
    let data = Data {
        rounds: &[rounds.to_vec()],
        cycles,
        margin: FASTER_MARGIN_LOG,
    };
    data.decide(alpha, key)
}

/// Decides a confirmation: the rounds by process, the same in cycles where clocks are known, and
/// the control, in which the incumbent was compared with itself in the same way.
///
/// A gain must also exceed the variation of the control, because that variation is noise.
///
/// # Errors
/// The control shows a difference where there is none; then no measurement beside it counts. The text
/// names the interval.
pub fn decide_confirmation(
    rounds: &[Vec<f64>],
    cycles: &Cycles<Vec<Vec<f64>>>,
    control: &[Vec<f64>],
    key: Key,
) -> Result<DecidedComparison, String> {
    let noise = interval(control, ALPHA / 2.0);
    // Written so that bounds that are no numbers fail.
    let includes_none = noise.lower <= FASTER_MARGIN_LOG && noise.upper >= -FASTER_MARGIN_LOG;
    if !includes_none {
        return Err(format!(
            "compared with itself the incumbent differs by {:.2}% to {:.2}%",
            100.0 * noise.lower,
            100.0 * noise.upper
        ));
    }
    let data = Data {
        rounds,
        cycles: cycles.clone(),
        margin: FASTER_MARGIN_LOG.max(noise.half_width()),
    };
    Ok(data.decide(ALPHA, key))
}

struct Data<'a> {
    rounds: &'a [Vec<f64>],
    cycles: Cycles<Vec<Vec<f64>>>,
    margin: f64,
}

impl Data<'_> {
    fn decide(&self, alpha: f64, key: Key) -> DecidedComparison {
        let (cycles, veto) = match self.cycles.map(|cycles| effect(cycles)) {
            Cycles::Unknown => (None, false),
            Cycles::Telling(effect) => (Some(effect), false),
            Cycles::Deciding(effect) => {
                // Written so that an effect that is no number fails.
                let fewer = effect > 0.0;
                (Some(effect), !fewer)
            }
        };
        let interval = interval(self.rounds, alpha);
        let all = self.rounds.concat();
        let mut evidence = Evidence {
            effect: effect(self.rounds).unwrap_or(f64::NAN),
            interval,
            bootstrap: None,
            signed_rank: signed_rank(&all),
            cycles,
            margin: self.margin,
            processes: self.rounds.iter().filter(|one| !one.is_empty()).count(),
            pairs: 2 * all.len(),
        };
        let outcome = if interval.lower > self.margin {
            let Key(seed) = key.derive(&["bootstrap"]);
            let mut rng = ChaCha8Rng::from_seed(*seed.bytes());
            let drawn = bootstrap(self.rounds, alpha, RESAMPLES, &mut rng);
            evidence.bootstrap = Some(drawn);
            let confirmed = drawn.lower > self.margin && evidence.signed_rank < ALPHA && !veto;
            if confirmed {
                Outcome::Faster
            } else {
                Outcome::Unresolved
            }
        } else if interval.upper < self.margin {
            Outcome::NotFaster
        } else {
            Outcome::Unresolved
        };
        DecidedComparison { outcome, evidence }
    }
}
