//! In which order incumbent and candidate are timed.

use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::role::Key;

/// Who comes first and last in a block of four.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Incumbent, candidate, candidate, incumbent.
    IncumbentOutside,
    /// Candidate, incumbent, incumbent, candidate.
    CandidateOutside,
}

/// One block of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedBlock {
    /// The score case, counted from 0.
    pub case: usize,
    /// The order.
    pub order: Order,
}

/// The blocks of `rounds` rounds over `cases` score cases. In each round every case comes once,
/// in an order of its own, and every block throws its own coin; the key decides all of it.
pub fn plan(key: Key, rounds: usize, cases: usize) -> Vec<Vec<PlannedBlock>> {
    let Key(seed) = key.derive(&["order of the comparison"]);
    let mut rng = ChaCha8Rng::from_seed(*seed.bytes());
    (0..rounds)
        .map(|_| {
            let mut round = (0..cases)
                .map(|case| PlannedBlock {
                    case,
                    order: if rng.random() {
                        Order::IncumbentOutside
                    } else {
                        Order::CandidateOutside
                    },
                })
                .collect::<Vec<_>>();
            round.shuffle(&mut rng);
            round
        })
        .collect()
}
