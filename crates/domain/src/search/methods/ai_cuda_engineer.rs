//! `ai_cuda_engineer`: generations of four, each written from the five fastest, listed from slow to
//! fast with their code, thoughts and times (the evolve stage of The AI CUDA Engineer, Lange et al.,
//! Sakana AI 2025, with the sizes at which arXiv 2510.03760 compares it).
//!
//! Its first stage translates PyTorch code into a kernel; a task has one already, the baseline. Its
//! last stage shows kernels of other tasks and is left out: no run reads another one.

use rand_chacha::ChaCha8Rng;

use super::{Rules, Selection, Shows, Structure};
use crate::search::Operator;
use crate::search::population::Population;

pub(super) const RULES: Rules = Rules {
    first: 0,
    required: 0,
    cycle: &[const { Operator::Improve }; 4],
    width: None,
    is_limited: true,
    elite: 5,
    structure: Structure::Elite,
    select,
};

fn select(seen: &Population<'_>, _: &Operator, _: &mut ChaCha8Rng) -> Selection {
    Selection {
        operator: Operator::Improve,
        parents: seen.elite().iter().map(|entry| entry.id).collect(),
        best: seen.best().id,
        shows: Shows::Nothing,
    }
}
