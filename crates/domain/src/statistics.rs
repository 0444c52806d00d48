//! The statistics of a comparison between a candidate and the incumbent, as pure functions of
//! numbers and of a seed.
//!
//! A comparison is made of rounds. In each round every score case is timed in a block of four
//! samples, incumbent, candidate, candidate, incumbent or the reverse, so that a drift that is
//! linear over the block cancels; where scores are relative to something else than the incumbent,
//! that anchor is at both ends of the block. This module plans rounds, checks which of them count,
//! and decides. It does not know how a sample is timed, or what a verdict is.
//!
//! It also measures the agreement of two orders of the same items, for the comparison of a time
//! model with measured times.
//!
//! Effects are logarithms of time ratios, incumbent over candidate: positive is faster, and 0.005
//! is half a percent.

mod agreement;
mod batch;
mod bootstrap;
mod clock;
mod conditions;
mod decide;
mod distribution;
mod floor;
mod interval;
mod plan;
mod rank;
mod regression;
mod scatter;
mod share;
pub mod simulate;
mod split;
mod summary;
mod surprise;
mod validity;
mod warm;

pub use agreement::{kendall, regret, spearman};
pub use batch::{BufferSets, batch_size, input_draws, max_warm_batch};
pub use bootstrap::{RESAMPLES, bootstrap};
pub use clock::{ClockReading, EventTimes, find_clock_contradiction};
pub use conditions::{TimedInterval, summarise_conditions};
pub use decide::{
    ALPHA, ANALYSIS_PAIRS, CONFIRMATION, ComparisonSize, Cycles, DecidedComparison, Evidence,
    ScreeningProgress, advance_screening, decide_confirmation, decide_screening, next_analysis,
};
pub use distribution::{binomial_tail, normal_tail, student_quantile, student_tail};
pub use floor::{Arithmetic, Bound, Floor, Rates, ResourceFloor, Work, is_launch_bound};
pub use interval::{Interval, effect, interval};
pub use plan::{PlannedBlock, SampleOrder, TimedKernel, plan_rounds, sample_order};
pub use rank::{holm, signed_rank};
pub use regression::{Regression, check_regressions};
pub use scatter::{Scatter, scatter};
pub use share::binomial_bounds;
pub use split::{ALTERNATIONS, Split, compare_separate_processes};
pub use summary::{deviation, mean, median, quantile};
pub use surprise::{ensure_repeat_agrees, reason_to_repeat};
pub use validity::{
    BaselineHistory, Block, Conditions, Round, RoundDefect, ValidRounds, select_valid_rounds,
};
pub use warm::WarmUp;
