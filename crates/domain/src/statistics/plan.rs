//! In which order incumbent, candidate and anchor are timed.

use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::role::Key;

/// The kernels that are timed in a comparison.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum TimedKernel {
    /// The task's baseline, which scores are relative to. Absent where it is the incumbent itself.
    Anchor,
    /// The kernel that the candidate has to beat.
    Incumbent,
    /// The kernel that is judged.
    Candidate,
}

impl TimedKernel {
    /// Its name in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anchor => "anchor",
            Self::Incumbent => "incumbent",
            Self::Candidate => "candidate",
        }
    }
}

/// The order of the four executions of incumbent and candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SampleOrder {
    /// Incumbent, candidate, candidate, incumbent.
    IncumbentOutside,
    /// Candidate, incumbent, incumbent, candidate.
    CandidateOutside,
}

/// The kernel of each sample of a block. An anchor stands at both ends, so that a drift that is
/// linear over the block cancels between it and the candidate as well.
pub fn sample_order(order: SampleOrder, anchored: bool) -> Vec<TimedKernel> {
    use TimedKernel::{Anchor, Candidate, Incumbent};
    let (outer, inner) = match order {
        SampleOrder::IncumbentOutside => (Incumbent, Candidate),
        SampleOrder::CandidateOutside => (Candidate, Incumbent),
    };
    let end = anchored.then_some(Anchor);
    let middle = [outer, inner, inner, outer];
    end.into_iter().chain(middle).chain(end).collect()
}

/// One block of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedBlock {
    /// The score case, counted from 0.
    pub case: usize,
    /// The order.
    pub order: SampleOrder,
}

/// The blocks of `rounds` rounds over `cases` score cases. In each round every case comes once,
/// in an order of its own, and every block throws its own coin; the key decides all of it.
pub fn plan_rounds(key: Key, rounds: usize, cases: usize) -> Vec<Vec<PlannedBlock>> {
    let Key(seed) = key.derive(&["order of the comparison"]);
    let mut rng = ChaCha8Rng::from_seed(*seed.bytes());
    (0..rounds)
        .map(|_| {
            let mut round = (0..cases)
                .map(|case| PlannedBlock {
                    case,
                    order: if rng.random() {
                        SampleOrder::IncumbentOutside
                    } else {
                        SampleOrder::CandidateOutside
                    },
                })
                .collect::<Vec<_>>();
            round.shuffle(&mut rng);
            round
        })
        .collect()
}
