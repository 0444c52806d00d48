//! The record of a comparison of times: enough to check its decision, and to decide it again from
//! the same numbers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::control::Control;
use crate::digest::Digest;
use crate::statistics::{
    DecidedComparison, Interval, Regression, Round, RoundDefect, Scatter, Split,
};
use crate::timing::{CacheState, Timing};

/// A comparison beside the incumbent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Measurement {
    /// Identity of the incumbent.
    pub incumbent: Digest,
    /// The incumbent's times, taken beside the candidate's.
    pub incumbent_timing: Timing,
    /// The decision and its evidence.
    pub settled: DecidedComparison,
    /// The number of interim analyses until the decision.
    #[serde(rename = "looks")]
    pub analyses: u32,
    /// The mean over the cases of each round's log-ratio, by process. The decision uses these values.
    pub rounds: Vec<Vec<f64>>,
    /// Rounds that were timed, those that do not count among them.
    pub timed: u32,
    /// Rounds that do not count.
    pub discarded: Vec<DiscardedRound>,
    /// Every case before the gate against regressions, in each state of the cache that is scored.
    pub regressions: Vec<Regression>,
    /// The candidate's speedup over the task's baseline, timed beside it: the score.
    pub anchor: Anchored,
    /// The variation of the incumbent compared with itself; in a confirmation only.
    pub noise: Option<Noise>,
    /// The same comparison by processes that ran one of the two only; in a confirmation only.
    pub split: Option<Split>,
    /// The number of blocks for which the device's management library reported each fact.
    pub watched: ConditionCoverage,
    /// True if the device's clocks were locked meanwhile.
    #[serde(default)]
    pub locked: bool,
    /// The incumbent compared with itself after this comparison; none where it was not drawn, which
    /// is 49 times in 50, and in a confirmation.
    #[serde(default)]
    pub control: Option<Control>,
    /// The timing protocol of each case, in each state of the cache that is scored.
    pub cases: Vec<CaseProtocol>,
}

/// The number of blocks for which each fact of the device is known. A rule about a fact that is
/// known of none was not applied.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Watched)]
pub struct ConditionCoverage {
    /// Blocks in all.
    pub blocks: u32,
    /// Clock of the multiprocessors, as the management library tells it.
    pub clock: u32,
    /// The same, counted by a kernel of ours.
    #[serde(default)]
    pub counted_clock: u32,
    /// Lowest and highest clock that was counted, MHz.
    #[serde(default)]
    pub counted_mhz: Option<[f64; 2]>,
    /// Reasons for a lower clock.
    pub clock_events: u32,
    /// Faults that the driver logged.
    pub xids: u32,
    /// Errors of memory.
    pub ecc_errors: u32,
    /// Other processes.
    pub other_processes: u32,
    /// Blocks in which the power limit held the clock down.
    pub power_capped: u32,
    /// Lowest and highest temperature seen, degrees Celsius.
    pub celsius: Option<[f64; 2]>,
}

impl ConditionCoverage {
    /// Counts the facts that are known of these rounds.
    pub fn of(rounds: &[Round]) -> Self {
        let mut watched = Self::default();
        for block in rounds.iter().flat_map(|round| &round.blocks) {
            let conditions = &block.conditions;
            watched.blocks += 1;
            watched.clock += u32::from(conditions.sm_mhz.is_some());
            watched.counted_clock += u32::from(block.counted_mhz.is_some());
            for mhz in block.counted_mhz.iter().flatten().flatten() {
                let [low, high] = watched.counted_mhz.unwrap_or([*mhz; 2]);
                watched.counted_mhz = Some([low.min(*mhz), high.max(*mhz)]);
            }
            watched.clock_events += u32::from(conditions.clock_events.is_some());
            watched.xids += u32::from(conditions.new_xids.is_some());
            watched.ecc_errors += u32::from(conditions.ecc_errors.is_some());
            watched.other_processes += u32::from(conditions.foreign_processes.is_some());
            watched.power_capped += u32::from(conditions.is_power_capped());
            if let Some(celsius) = conditions.celsius {
                let [low, high] = watched.celsius.unwrap_or([celsius; 2]);
                watched.celsius = Some([low.min(celsius), high.max(celsius)]);
            }
        }
        watched
    }
}

/// A round that does not count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Discarded)]
pub struct DiscardedRound {
    /// Its number, from 0.
    pub round: u32,
    /// The reason.
    pub reason: RoundDefect,
}

/// A ratio to the task's baseline that was timed beside the candidate. Such ratios of different
/// processes, workers and days may be ranked together; times may not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Anchored {
    /// Baseline's time over candidate's.
    pub ratio: f64,
    /// Bounds on it, each wrong with a probability of 1%.
    pub interval: [f64; 2],
    /// The baseline's times; none where it is the incumbent, whose times stand there.
    #[serde(default)]
    pub timing: Option<Timing>,
}

/// The incumbent compared with itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Noise {
    /// Bounds on the effect, which is none; each wrong with a probability of 0.5%.
    pub interval: Interval,
    /// Pairs in all.
    pub pairs: u32,
    /// Processes.
    pub processes: u32,
}

/// The timing protocol of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CaseProtocol {
    /// The case.
    pub case: String,
    /// The state of the cache.
    #[serde(default)]
    pub cache: CacheState,
    /// Executions between two events.
    pub batch: u32,
    /// Sets of buffers that took turns.
    pub sets: u32,
    /// Blocks before the first that counted, in the last process.
    pub warm_up: u32,
    /// The scatter of the log-ratios of all its blocks about their median, incumbent over
    /// candidate; none where nothing was timed.
    #[serde(default)]
    pub scatter: Option<Scatter>,
}

impl DiscardedRound {
    /// The reasons of discarded rounds, the most frequent first, with the number of rounds each.
    pub fn reasons(discarded: &[Self]) -> Vec<(&'static str, usize)> {
        let mut reasons: Vec<(&'static str, usize)> = Vec::new();
        for one in discarded {
            let name = one.reason.name();
            match reasons.iter_mut().find(|(reason, _)| *reason == name) {
                Some((_, count)) => *count += 1,
                None => reasons.push((name, 1)),
            }
        }
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        reasons
    }
}
