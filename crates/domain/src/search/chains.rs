//! Chains of candidates for `refine`: each begins with a candidate that was written from the baseline
//! and holds that one's descendants.

use std::collections::HashMap;

use super::{Entry, Operator};
use crate::id::CandidateId;

/// Steps between two times at which half of the chains are dropped.
pub(super) const STEPS: usize = 4;

/// All chains of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Chains {
    /// The chain of each candidate that is in one.
    of: HashMap<CandidateId, usize>,
    chains: Vec<Chain>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Chain {
    /// Candidates that were charged, its first one included.
    length: usize,
    /// Position and speedup of the fastest valid one.
    best: Option<(usize, f64)>,
}

impl Chains {
    /// Adds a candidate to its parent's chain, or begins one. One that is not valid only adds length.
    pub(super) fn add(&mut self, place: usize, entry: &Entry, is_valid: bool) {
        let mut chains = std::mem::take(&mut self.chains);
        let chain = self.count(entry, &mut chains);
        self.chains = chains;
        let Some(chain) = chain else {
            return;
        };
        self.of.insert(entry.id, chain);
        let chain = &mut self.chains[chain];
        if let Some(speedup) = entry.speedup().filter(|_| is_valid)
            && chain.best.is_none_or(|(_, best)| speedup > best)
        {
            chain.best = Some((place, speedup));
        }
    }

    /// The chains with the lengths that they have once the planned candidates are written.
    pub(super) fn with_planned<'e>(
        &self,
        planned: impl Iterator<Item = &'e Entry>,
    ) -> PlannedChains {
        let mut chains = self.chains.clone();
        for entry in planned {
            self.count(entry, &mut chains);
        }
        PlannedChains { chains }
    }

    /// Counts a candidate in its chain, which it returns.
    fn count(&self, entry: &Entry, chains: &mut Vec<Chain>) -> Option<usize> {
        let chain = match (&entry.operator, entry.parent) {
            (Operator::Init, _) => {
                chains.push(Chain::default());
                chains.len() - 1
            }
            (_, Some(parent)) => *self.of.get(&parent)?,
            (_, None) => return None,
        };
        chains[chain].length += usize::from(entry.trial);
        Some(chain)
    }

    /// Returns true if the candidate is in the chain.
    pub(super) fn is_member(&self, candidate: CandidateId, chain: usize) -> bool {
        self.of.get(&candidate) == Some(&chain)
    }
}

/// The chains of a run, with candidates that are planned and have no verdict yet.
pub(super) struct PlannedChains {
    chains: Vec<Chain>,
}

impl PlannedChains {
    /// The number of chains that were begun.
    pub(super) fn started(&self) -> usize {
        self.chains.len()
    }

    /// The chains that the next steps belong to, the fastest first: of all that have a valid candidate,
    /// the better half, the better quarter and so on, as soon as every chain that is left has four,
    /// eight and so on.
    pub(super) fn open(&self) -> Vec<usize> {
        let speedup = |chain: &usize| self.chains[*chain].best.map(|(_, speedup)| speedup);
        let mut left: Vec<usize> = (0..self.chains.len())
            .filter(|chain| speedup(chain).is_some())
            .collect();
        left.sort_by(|one, other| {
            let order = speedup(one).partial_cmp(&speedup(other));
            order.unwrap_or(std::cmp::Ordering::Equal).reverse()
        });
        let mut steps = STEPS;
        while !left.is_empty() {
            let short = |chain: &usize| self.chains[*chain].length < steps;
            if left.iter().any(short) {
                left.retain(short);
                return left;
            }
            left.truncate(left.len().div_ceil(2));
            steps += STEPS;
        }
        left
    }

    /// The open chain with the fewest candidates, the fastest of these, and the position of its fastest
    /// candidate.
    pub(super) fn next(&self) -> Option<(usize, usize)> {
        let open = self.open();
        let chain = open
            .into_iter()
            .min_by_key(|chain| self.chains[*chain].length)?;
        Some((chain, self.chains[chain].best?.0))
    }
}
