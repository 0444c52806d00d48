//! `funsearch`: islands of programs in clusters of equal score; a prompt lists up to two programs of
//! one island, the slower first, and asks for the next (FunSearch, doi 10.1038/s41586-023-06924-6).
//!
//! Two programs in a prompt, and temperatures from 0.1 down to 0 over 30,000 programs, are those of the
//! published program (`functions_per_prompt`, `cluster_sampling_temperature_init` and `_period` in
//! google-deepmind/funsearch, `implementation/config.py`). Five islands and generations of five are
//! those of arXiv 2510.03760; the published program has ten. Scores are logarithms of speedups, because
//! one temperature has to serve kernels of every duration. The published draw within a cluster prefers
//! short programs; here each member is as likely, since the search does not read the programs.

use rand_chacha::ChaCha8Rng;

use super::{Rules, Selection, Shows, Structure};
use crate::search::Operator;
use crate::search::population::Population;

pub(super) const RULES: Rules = Rules {
    first: 0,
    required: 0,
    cycle: &[const { Operator::Improve }; 5],
    width: None,
    is_limited: false,
    elite: 1,
    structure: Structure::Islands,
    select,
};

fn select(seen: &Population<'_>, _: &Operator, rng: &mut ChaCha8Rng) -> Selection {
    let drawn = seen.islands().draw(rng);
    let parents: Vec<_> = drawn.iter().map(|place| seen.entry(*place).id).collect();
    Selection {
        operator: Operator::Improve,
        best: parents.first().copied().unwrap_or(seen.baseline().id),
        parents,
        shows: Shows::Nothing,
    }
}
