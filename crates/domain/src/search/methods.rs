//! The methods that ask models, one file each: the slots of a generation, the population that parents
//! are selected from, and what a prompt shows of the run.
//!
//! A further method is a file with a [`Rules`] and a line in [`of`].

mod adaptive;
mod ai_cuda_engineer;
mod archive;
mod best_of;
mod eoh;
mod free;
mod full;
mod funsearch;
mod insight;
mod refine;

use rand_chacha::ChaCha8Rng;

use super::population::Population;
use super::{Method, Operator};
use crate::id::CandidateId;

/// The rules of one method that asks models.
pub(super) struct Rules {
    /// Slots of a generation without breeding, planned again until enough members are valid.
    pub first: usize,
    /// Valid members, the baseline included, before the method breeds; 0 if it breeds at once.
    pub required: usize,
    /// The operators of the slots of one generation, in order.
    pub cycle: &'static [Operator],
    /// Slots of the next generation, by the first operator of the cycle, where their number depends on
    /// the population.
    pub width: Option<fn(&Population<'_>) -> usize>,
    /// True if a run ends after [`Evolution::generations`](super::Evolution::generations).
    pub is_limited: bool,
    /// The fastest valid members that parents are drawn from.
    pub elite: usize,
    /// The further population that is kept.
    pub structure: Structure,
    /// Selects the parents of a slot.
    pub select: fn(&Population<'_>, &Operator, &mut ChaCha8Rng) -> Selection,
}

/// A population that is kept besides the elite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Structure {
    /// None.
    Elite,
    /// Lineages that do not exchange members ([`super::chains`]).
    Chains,
    /// Populations that do not exchange members except in resets ([`super::islands`]).
    Islands,
    /// The fastest of each cell ([`super::archive`]).
    Archive,
}

/// The candidates that a slot is written from.
pub(super) struct Selection {
    /// The operator, which may differ from the one asked for where parents are missing.
    pub operator: Operator,
    /// The parents; edits apply to the first.
    pub parents: Vec<CandidateId>,
    /// The candidate that the prompt shows as the best.
    pub best: CandidateId,
    /// The further candidates that the prompt shows.
    pub shows: Shows,
}

/// The candidates that a prompt shows besides best and parents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shows {
    /// None.
    Nothing,
    /// Three thoughts of the run and its last attempts.
    Run,
    /// The last attempts of one chain.
    Chain(usize),
}

impl Selection {
    /// Makes a pinned candidate one of the parents, in the place of the last one. A first candidate is
    /// written from the best, so that the pinned one stands in for it.
    pub(super) fn include(&mut self, pinned: CandidateId) {
        if self.parents.contains(&pinned) {
            return;
        }
        self.parents.pop();
        self.parents.push(pinned);
        if self.operator == Operator::Init {
            self.best = pinned;
        }
    }

    /// A candidate from the best of the run.
    fn from_best(seen: &Population<'_>, shows: Shows) -> Self {
        let best = seen.best().id;
        Self {
            operator: Operator::Init,
            parents: vec![best],
            best,
            shows,
        }
    }
}

/// The rules of a method. Of those of `free`, which methods without a model have, only the structure is
/// read.
pub(super) fn of(method: Method) -> &'static Rules {
    match method {
        Method::Playbook | Method::Sweep | Method::External | Method::Transform | Method::Free => {
            &free::RULES
        }
        Method::Insight => &insight::RULES,
        Method::Full => &full::RULES,
        Method::Archive => &archive::RULES,
        Method::BestOf => &best_of::RULES,
        Method::Refine => &refine::RULES,
        Method::Eoh => &eoh::RULES,
        Method::Funsearch => &funsearch::RULES,
        Method::AiCudaEngineer => &ai_cuda_engineer::RULES,
        Method::Adaptive => &adaptive::RULES,
    }
}

impl Method {
    /// Returns true if the method keeps populations that exchange no members except in resets.
    pub fn keeps_islands(self) -> bool {
        of(self).structure == Structure::Islands
    }
}

/// The most candidates that a method's models write in so many generations, repairs not counted; none
/// if only the budget limits them.
pub fn most_slots(method: Method, generations: u32) -> Option<u64> {
    let rules = of(method);
    let first = if rules.required > 0 { rules.first } else { 0 };
    let bred = u64::from(generations) * rules.cycle.len() as u64;
    rules.is_limited.then_some(bred + first as u64)
}
