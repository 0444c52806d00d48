//! Controls: comparisons of the incumbent with itself as if it were a candidate. A control that finds
//! a gain is a false positive, so that controls measure a device's rate of false positives without a
//! model of its noise.
//!
//! A control decides nothing about any candidate.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::digest::Digest;
use crate::role::Key;
use crate::statistics::{DecidedComparison, binomial_bounds};

/// The number of a search's comparisons of which one is followed by a control.
pub const ONE_IN: u64 = 50;
/// The probability that a published bound is wrong.
pub const BOUND_ALPHA: f64 = 0.05;

/// Returns true if a candidate's comparison is followed by a control. The draw is made below the
/// root of the search, which no author knows, and for each candidate anew, so that a replay draws
/// the same.
pub fn is_due(root: Key, candidate: Digest) -> bool {
    let Key(drawn) = root.derive(&["control", &candidate.to_string()]);
    let (word, _) = drawn
        .bytes()
        .split_first_chunk::<8>()
        .expect("a digest has 32 bytes");
    u64::from_le_bytes(*word).is_multiple_of(ONE_IN)
}

/// The result of a control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Control {
    /// Its screening gave no answer, so that it shows nothing.
    Unfinished {
        /// The reason.
        reason: String,
    },
    /// Its screening called nothing faster, as is right.
    Level {
        /// The decision of the screening with its evidence.
        screening: DecidedComparison,
    },
    /// Its screening called the incumbent faster than itself, and the confirmation did not.
    Caught {
        /// The decision of the screening with its evidence.
        screening: DecidedComparison,
        /// The confirmation's different result, in words.
        reason: String,
    },
    /// Its screening called the incumbent faster than itself, and the confirmation gave no answer.
    Undecided {
        /// The decision of the screening with its evidence.
        screening: DecidedComparison,
        /// The reason.
        reason: String,
    },
    /// Both called the incumbent faster than itself: a candidate would have been promoted.
    Promoted {
        /// The decision of the screening with its evidence.
        screening: DecidedComparison,
        /// The decision of the confirmation with its evidence.
        confirmation: DecidedComparison,
    },
}

/// The result of a control as one word, for counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlResult {
    /// [`Control::Unfinished`].
    Unfinished,
    /// [`Control::Level`].
    Level,
    /// [`Control::Caught`].
    Caught,
    /// [`Control::Undecided`].
    Undecided,
    /// [`Control::Promoted`].
    Promoted,
}

impl Control {
    /// The result without its evidence.
    pub fn result(&self) -> ControlResult {
        match self {
            Self::Unfinished { .. } => ControlResult::Unfinished,
            Self::Level { .. } => ControlResult::Level,
            Self::Caught { .. } => ControlResult::Caught,
            Self::Undecided { .. } => ControlResult::Undecided,
            Self::Promoted { .. } => ControlResult::Promoted,
        }
    }
}

/// The counts of all controls of a device, as they are published. A bound is Clopper's and
/// Pearson's, is wrong once in twenty times, and is about one comparison: a run makes as many as it
/// has candidates.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ControlTally {
    /// Controls whose screening gave an answer.
    pub made: u32,
    /// The number of these that the screening called faster.
    pub screened: u32,
    /// The number of these that the confirmation called faster as well: false promotions.
    pub promoted: u32,
    /// The number of those called faster by the screening for which the confirmation gave no
    /// answer.
    pub undecided: u32,
    /// Controls whose screening gave no answer. They count nowhere else.
    pub unfinished: u32,
    /// The share that a screening calls faster is at most this; none where there are no controls
    /// yet.
    pub screened_at_most: Option<f64>,
    /// The share that would be promoted is at most this, where all of the undecided would be; none
    /// where there are no controls yet.
    pub promoted_at_most: Option<f64>,
}

impl ControlTally {
    /// Counts controls: how many came to what.
    pub fn of(counts: impl IntoIterator<Item = (ControlResult, u32)>) -> Self {
        let counts = counts.into_iter().collect::<Vec<_>>();
        let number_of = |wanted: ControlResult| {
            let own = counts.iter().filter(|(result, _)| *result == wanted);
            own.fold(0_u32, |sum, (_, count)| sum.saturating_add(*count))
        };
        let promoted = number_of(ControlResult::Promoted);
        let undecided = number_of(ControlResult::Undecided);
        let doubtful = promoted.saturating_add(undecided);
        let screened = doubtful.saturating_add(number_of(ControlResult::Caught));
        let made = screened.saturating_add(number_of(ControlResult::Level));
        let at_most = |hits: u32| {
            let [_, upper] = binomial_bounds(hits, made, BOUND_ALPHA);
            (made > 0).then_some(upper)
        };
        Self {
            made,
            screened,
            promoted,
            undecided,
            unfinished: number_of(ControlResult::Unfinished),
            screened_at_most: at_most(screened),
            promoted_at_most: at_most(doubtful),
        }
    }
}
