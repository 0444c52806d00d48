//! The validity of rounds. A disturbed round is left out with its reason; it is never repaired.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::decide::Cycles;
use super::plan::SampleOrder;
use super::summary::{mean, median};
use crate::margins::MAX_CLOCK_DIFFERENCE_LOG;
use crate::timing::is_valid_time;

/// A clock this far below the run's median is not the clock the run was measured at.
const LOWEST_CLOCK: f64 = 0.90;
/// The share by which the baseline may differ from its own history. A candidate that heats the device,
/// or fills its cache, slows the kernels that are timed beside it.
const HISTORY_DIFFERENCE: f64 = 0.03;
/// Reasons for a lower clock that NVML calls hardware slowdown, software and hardware thermal
/// slowdown, and power brake (`nvmlClocksEventReason*`). A power cap (0x4) is not among them.
const SLOWDOWN: u64 = 0x8 | 0x20 | 0x40 | 0x80;
/// The power limit lowers the clock. A kernel that keeps the device busy reaches it without any
/// disturbance.
const POWER_CAP: u64 = 0x4;
/// Degrees by which a device may grow warmer or cooler from a process's first round to its last. A
/// drift cancels within a round, but times and their history are those of one temperature: boost
/// clocks fall by a step of about 0.75% every five degrees or so, and two steps are half of what the
/// history allows.
const HEATING: f64 = 10.0;
/// Rounds that may be left out, as a share of all.
const DISCARDED: f64 = 0.25;
/// Pairs that must be left.
const FEWEST_PAIRS: usize = 20;

/// Four executions of one case in one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Block {
    /// The score case, counted from 0.
    pub case: usize,
    /// The order of the executions.
    pub order: SampleOrder,
    /// The incumbent's times in the order they were taken, microseconds of one execution.
    pub incumbent_us: [f64; 2],
    /// The candidate's.
    pub candidate_us: [f64; 2],
    /// The anchor's at both ends, where it is not the incumbent.
    pub anchor_us: Option<[f64; 2]>,
    /// The clock of the multiprocessors during the incumbent's times and the candidate's, as a kernel
    /// of ours counted it beside them, MHz.
    pub counted_mhz: Option<[[f64; 2]; 2]>,
    /// The conditions of the device.
    pub conditions: Conditions,
}

/// The known conditions of the device during a block. An absent value is unknown, not well.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Conditions {
    /// Clock of the multiprocessors during the incumbent's and the candidate's executions, MHz.
    pub sm_mhz: Option<[f64; 2]>,
    /// NVML's mask of reasons for a lower clock.
    pub clock_events: Option<u64>,
    /// Faults the driver logged during the block.
    pub new_xids: Option<u32>,
    /// Errors of memory that could not be corrected, during the block.
    pub ecc_errors: Option<u32>,
    /// The device's temperature, degrees Celsius.
    pub celsius: Option<f64>,
    /// Other processes on the device.
    pub foreign_processes: Option<u32>,
}

impl Conditions {
    /// Returns true if the power limit held the clock down.
    pub fn is_power_capped(&self) -> bool {
        self.clock_events.is_some_and(|mask| mask & POWER_CAP != 0)
    }
}

/// A block for each score case, taken one after another in one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Round {
    /// The process, counted from 0.
    pub process: usize,
    /// One block for each score case, in any order.
    pub blocks: Vec<Block>,
}

/// The baseline's earlier times, by case.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BaselineHistory {
    /// Its usual time in microseconds, where there is one.
    pub baseline_us: Vec<Option<f64>>,
}

/// The reasons why a round does not count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schema(as = Defect)]
pub enum RoundDefect {
    /// A time is zero, negative, infinite or not a number.
    #[error("a time reads {us} us")]
    NoTime {
        /// The time as text, so that every value survives JSON.
        us: String,
    },
    /// The round does not have one block for each case.
    #[error("it has {found} blocks for {cases} cases")]
    Incomplete {
        /// Blocks of different cases.
        found: usize,
        /// Cases.
        cases: usize,
    },
    /// The clock was far below the run's.
    #[error("the clock was at {mhz} MHz, the run's median is {median_mhz} MHz")]
    ClockLow {
        /// The clock.
        mhz: f64,
        /// The run's.
        median_mhz: f64,
    },
    /// Incumbent and candidate ran at different clocks.
    #[error("the incumbent ran at {incumbent_mhz} MHz, the candidate at {candidate_mhz} MHz")]
    ClocksDiffer {
        /// The incumbent's.
        incumbent_mhz: f64,
        /// The candidate's.
        candidate_mhz: f64,
    },
    /// The device slowed itself down.
    #[error("the device slowed down, reasons {mask:#x}")]
    SlowedDown {
        /// NVML's mask.
        mask: u64,
    },
    /// The driver logged a fault.
    #[error("the driver logged {count} faults")]
    NewXid {
        /// The number.
        count: u32,
    },
    /// Device memory lost bits.
    #[error("device memory had {count} errors that could not be corrected")]
    EccErrors {
        /// The number.
        count: u32,
    },
    /// Somebody else used the device.
    #[error("{count} other processes used the device")]
    Shared {
        /// The number.
        count: u32,
    },
    /// The baseline was not itself.
    #[error("the baseline took {us:.3} us, usually it takes {usual_us:.3} us")]
    BaselineOff {
        /// Its time in this block.
        us: f64,
        /// Its usual time.
        usual_us: f64,
    },
}

impl RoundDefect {
    /// Its name as the wire carries it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NoTime { .. } => "no_time",
            Self::Incomplete { .. } => "incomplete",
            Self::ClockLow { .. } => "clock_low",
            Self::ClocksDiffer { .. } => "clocks_differ",
            Self::SlowedDown { .. } => "slowed_down",
            Self::NewXid { .. } => "new_xid",
            Self::EccErrors { .. } => "ecc_errors",
            Self::Shared { .. } => "shared",
            Self::BaselineOff { .. } => "baseline_off",
        }
    }
}

/// The rounds that count.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidRounds {
    /// The log-ratio of each case, by process: `cases[case][process][round]`.
    pub cases: Vec<Vec<Vec<f64>>>,
    /// The mean over the cases, by process.
    pub whole: Vec<Vec<f64>>,
    /// The mean over the cases of the log-ratios in clock cycles. They decide unless the power limit
    /// held a clock down.
    pub cycles: Cycles<Vec<Vec<f64>>>,
    /// The same against the anchor; equal where the incumbent is the anchor.
    pub anchored: Vec<Vec<f64>>,
    /// The rounds that were left out: number and first reason.
    pub discarded: Vec<(usize, RoundDefect)>,
    /// The reason why the valid rounds are too few to decide anything; none if they suffice.
    pub inconclusive: Option<String>,
}

/// Sorts out rounds over `cases` score cases.
pub fn select_valid_rounds(
    rounds: &[Round],
    cases: usize,
    history: &BaselineHistory,
) -> ValidRounds {
    let clocks = rounds
        .iter()
        .flat_map(|round| &round.blocks)
        .filter_map(Block::clocks)
        .flatten()
        .filter(|mhz| mhz.is_finite())
        .collect::<Vec<_>>();
    let usual_clock = median(&clocks);
    let processes = rounds.iter().map(|round| round.process + 1).max();
    let mut kept = ValidRounds {
        cases: vec![vec![Vec::new(); processes.unwrap_or(0)]; cases],
        whole: vec![Vec::new(); processes.unwrap_or(0)],
        cycles: Cycles::Unknown,
        anchored: vec![Vec::new(); processes.unwrap_or(0)],
        discarded: Vec::new(),
        inconclusive: None,
    };
    let mut cycles = Some(kept.whole.clone());
    let mut power_capped = false;
    for (number, round) in rounds.iter().enumerate() {
        if let Some(defect) = defect(round, cases, usual_clock, history) {
            kept.discarded.push((number, defect));
            continue;
        }
        let (mut sum, mut anchored) = (0.0, 0.0);
        for block in &round.blocks {
            let ratio = block.log_ratio();
            kept.cases[block.case][round.process].push(ratio);
            sum += ratio;
            anchored += block.log_ratio_to_anchor();
        }
        #[expect(clippy::cast_precision_loss, reason = "a task has few cases")]
        let count = cases as f64;
        kept.whole[round.process].push(sum / count);
        kept.anchored[round.process].push(anchored / count);
        let in_cycles = round.blocks.iter().map(Block::log_ratio_in_cycles);
        let in_cycles = in_cycles.sum::<Option<f64>>();
        cycles = cycles.zip(in_cycles).map(|(mut cycles, sum)| {
            cycles[round.process].push(sum / count);
            cycles
        });
        let mut conditions = round.blocks.iter().map(|block| &block.conditions);
        power_capped |= conditions.any(Conditions::is_power_capped);
    }
    kept.cycles = match cycles {
        None => Cycles::Unknown,
        Some(cycles) if power_capped => Cycles::Telling(cycles),
        Some(cycles) => Cycles::Deciding(cycles),
    };
    let left = rounds.len() - kept.discarded.len();
    #[expect(clippy::cast_precision_loss, reason = "a few hundred rounds")]
    let discarded = kept.discarded.len() as f64 / rounds.len().max(1) as f64;
    if discarded > DISCARDED || 2 * left < FEWEST_PAIRS {
        let reasons = kept
            .discarded
            .first()
            .map(|(number, defect)| format!("; the first, round {}: {defect}", number + 1))
            .unwrap_or_default();
        kept.inconclusive = Some(format!(
            "{left} of {} rounds are valid{reasons}",
            rounds.len()
        ));
    }
    if kept.inconclusive.is_none() {
        kept.inconclusive = heating(rounds);
    }
    kept
}

/// The process during whose rounds the device's temperature changed by too much, in words: the
/// change along the straight line through all its temperatures (least squares), which one wrong
/// reading hardly moves.
fn heating(rounds: &[Round]) -> Option<String> {
    let processes = rounds.iter().map(|round| round.process + 1).max()?;
    (0..processes).find_map(|process| {
        let own = rounds.iter().filter(|round| round.process == process);
        let blocks = own.flat_map(|round| &round.blocks);
        #[expect(clippy::cast_precision_loss, reason = "a few thousand blocks")]
        let celsius = blocks
            .enumerate()
            .filter_map(|(at, block)| Some((at as f64, block.conditions.celsius?)))
            .collect::<Vec<_>>();
        let change = change_along_a_line(&celsius)?;
        (change.abs() > HEATING).then(|| {
            format!(
                "the device's temperature changed by {change:.0} degrees from the first round to the last, and by at most {HEATING:.0} it may; time again now that it is warm"
            )
        })
    })
}

/// The change of the second value from the first point to the last along the straight line through
/// all; none of fewer than two.
fn change_along_a_line(points: &[(f64, f64)]) -> Option<f64> {
    let (first, last) = points.first().zip(points.last())?;
    let at = mean(&points.iter().map(|(x, _)| *x).collect::<Vec<_>>())?;
    let centre = mean(&points.iter().map(|(_, y)| *y).collect::<Vec<_>>())?;
    let (mut across, mut along) = (0.0, 0.0);
    for (x, y) in points {
        across += (x - at) * (y - centre);
        along += (x - at).powi(2);
    }
    (along > 0.0).then(|| across / along * (last.0 - first.0))
}

impl Block {
    /// The candidate's gain over the incumbent: the mean of the two pairs' log-ratios.
    pub fn log_ratio(&self) -> f64 {
        log_ratio(self.incumbent_us, self.candidate_us)
    }

    /// The same in clock cycles, where the clock was counted.
    pub fn log_ratio_in_cycles(&self) -> Option<f64> {
        let [incumbent, candidate] = self.counted_mhz?;
        let cycles = |us: [f64; 2], mhz: [f64; 2]| [us[0] * mhz[0], us[1] * mhz[1]];
        let ratio = log_ratio(
            cycles(self.incumbent_us, incumbent),
            cycles(self.candidate_us, candidate),
        );
        Some(ratio).filter(|ratio| ratio.is_finite())
    }

    /// The incumbent's clock and the candidate's: counted by a kernel, or reported by the management
    /// library.
    pub fn clocks(&self) -> Option<[f64; 2]> {
        let counted = || {
            self.counted_mhz
                .map(|both| both.map(|mhz| mhz.iter().sum::<f64>() / 2.0))
        };
        self.conditions.sm_mhz.or_else(counted)
    }

    /// The times of what scores are relative to: the anchor's, which is the incumbent where there is
    /// none beside it.
    pub fn baseline_us(&self) -> [f64; 2] {
        self.anchor_us.unwrap_or(self.incumbent_us)
    }

    /// The candidate's gain over the kernel that scores are relative to, as a log-ratio.
    pub fn log_ratio_to_anchor(&self) -> f64 {
        log_ratio(self.baseline_us(), self.candidate_us)
    }
}

fn log_ratio([first, second]: [f64; 2], [own_first, own_second]: [f64; 2]) -> f64 {
    0.5 * ((first / own_first).ln() + (second / own_second).ln())
}

fn defect(
    round: &Round,
    cases: usize,
    usual_clock: Option<f64>,
    history: &BaselineHistory,
) -> Option<RoundDefect> {
    let mut seen = vec![false; cases];
    for block in &round.blocks {
        if let Some(seen) = seen.get_mut(block.case) {
            *seen = true;
        }
    }
    let found = seen.iter().filter(|seen| **seen).count();
    if found != cases || round.blocks.len() != cases {
        return Some(RoundDefect::Incomplete { found, cases });
    }
    round.blocks.iter().find_map(|block| {
        times(block)
            .or_else(|| disturbance(&block.conditions))
            .or_else(|| clock(block, usual_clock?))
            .or_else(|| own_history(block, history))
    })
}

fn times(block: &Block) -> Option<RoundDefect> {
    let anchor = block.anchor_us.iter().flatten();
    let mut times = block
        .incumbent_us
        .iter()
        .chain(&block.candidate_us)
        .chain(anchor);
    times
        .find(|us| !is_valid_time(**us))
        .map(|us| RoundDefect::NoTime { us: us.to_string() })
}

fn disturbance(conditions: &Conditions) -> Option<RoundDefect> {
    let slowed = conditions
        .clock_events
        .map(|mask| mask & SLOWDOWN)
        .filter(|mask| *mask != 0)
        .map(|mask| RoundDefect::SlowedDown { mask });
    let xid = || {
        let count = conditions.new_xids.filter(|count| *count > 0)?;
        Some(RoundDefect::NewXid { count })
    };
    let shared = || {
        let count = conditions.foreign_processes.filter(|count| *count > 0)?;
        Some(RoundDefect::Shared { count })
    };
    let ecc = || {
        let count = conditions.ecc_errors.filter(|count| *count > 0)?;
        Some(RoundDefect::EccErrors { count })
    };
    slowed.or_else(xid).or_else(ecc).or_else(shared)
}

fn clock(block: &Block, median_mhz: f64) -> Option<RoundDefect> {
    let mhz = block.clocks()?;
    if block.conditions.is_power_capped() {
        return None;
    }
    // Written so that a clock that is no number fails.
    let usual = |mhz: f64| mhz >= LOWEST_CLOCK * median_mhz;
    if let Some(&low) = mhz.iter().find(|mhz| !usual(**mhz)) {
        return Some(RoundDefect::ClockLow {
            mhz: low,
            median_mhz,
        });
    }
    let [incumbent_mhz, candidate_mhz] = mhz;
    let difference = (incumbent_mhz / candidate_mhz).ln().abs();
    let same = difference <= MAX_CLOCK_DIFFERENCE_LOG;
    (!same).then_some(RoundDefect::ClocksDiffer {
        incumbent_mhz,
        candidate_mhz,
    })
}

/// Compares the baseline with its own history. Where the power limit holds the clock down, the
/// clock results from both kernels together, so that the history does not apply.
fn own_history(block: &Block, history: &BaselineHistory) -> Option<RoundDefect> {
    if block.conditions.is_power_capped() {
        return None;
    }
    let usual_us = (*history.baseline_us.get(block.case)?)?;
    let us = block.baseline_us().iter().sum::<f64>() / 2.0;
    let near = (us / usual_us).ln().abs() <= HISTORY_DIFFERENCE;
    (!near).then_some(RoundDefect::BaselineOff { us, usual_us })
}
