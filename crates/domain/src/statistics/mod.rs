//! The statistics of a comparison between a candidate and the incumbent, as pure functions of
//! numbers and of a seed.
//!
//! A comparison is made of rounds. In each round every score case is timed in a block of four
//! samples, incumbent, candidate, candidate, incumbent or the reverse, so that a drift that is
//! linear over the block cancels; where scores are relative to something else than the incumbent,
//! that anchor stands at both ends. This module plans rounds, says which of them count, and
//! decides. It refuses to know how a sample is timed, and what a verdict is.
//!
//! Beside that it says how far two orders of the same things agree, for whoever holds a model
//! against a clock.
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
pub use batch::{BufferSets, batch, draws, longest_warm};
pub use bootstrap::{RESAMPLES, bootstrap};
pub use clock::{Clocks, Reading, disagreement};
pub use conditions::{Moment, conditions};
pub use decide::{
    ALPHA, CONFIRMATION, Cycles, Design, Evidence, LOOKS, Settled, Standing, confirm, next_look,
    screen, screen_all,
};
pub use distribution::{binomial_tail, normal_tail, student_quantile, student_tail};
pub use floor::{Arithmetic, Bound, Floor, Rates, Work, floor, is_launch_bound};
pub use interval::{Interval, effect, interval};
pub use plan::{Contender, Order, PlannedBlock, plan, turns};
pub use rank::{holm, signed_rank};
pub use regression::{Regression, regressions};
pub use scatter::{Scatter, scatter};
pub use share::bounds_on_share;
pub use split::{ALTERNATIONS, Split, split};
pub use summary::{deviation, mean, median, quantile};
pub use surprise::{repeats, surprise};
pub use validity::{Block, Conditions, Defect, History, Kept, Round, keep};
pub use warm::WarmUp;
