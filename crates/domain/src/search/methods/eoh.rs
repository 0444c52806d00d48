//! `eoh`: five first candidates, then in each generation one candidate by each of the four operators
//! E1, E2, M1 and M2 within a population of five, from the baseline and the parents' ideas and code
//! (EoH, arXiv 2401.02051: the operators and the rank selection are of its section 3; population and
//! first candidates are of EvoEngineer-Solution, arXiv 2510.03760).

use rand_chacha::ChaCha8Rng;

use super::{Rules, Selection, Shows, Structure};
use crate::search::Operator;
use crate::search::population::Population;
use crate::search::selection::{draw_rank, draw_two_ranks};

pub(super) const RULES: Rules = Rules {
    first: 5,
    required: 2,
    cycle: &[
        // E1: another form than both parents.
        Operator::Explore,
        // E2: a new form of the idea that both parents share.
        Operator::Crossover,
        // M1: a changed version of one parent.
        Operator::Improve,
        // M2: other parameters of one parent.
        Operator::Retune,
    ],
    width: None,
    is_limited: true,
    elite: 5,
    structure: Structure::Elite,
    select,
};

fn select(seen: &Population<'_>, operator: &Operator, rng: &mut ChaCha8Rng) -> Selection {
    // Every prompt shows the baseline and never the best as such.
    let baseline = seen.baseline().id;
    let elite = seen.elite();
    let drawn = match operator {
        Operator::Explore | Operator::Crossover => {
            let two = draw_two_ranks(elite.len(), seen.is_faithful(), rng);
            two.map(|(one, two)| vec![elite[one].id, elite[two].id])
        }
        Operator::Init => None,
        _ => draw_rank(elite.len(), rng).map(|rank| vec![elite[rank].id]),
    };
    Selection {
        operator: match &drawn {
            Some(_) => operator.clone(),
            None => Operator::Init,
        },
        parents: drawn.unwrap_or_else(|| vec![baseline]),
        best: baseline,
        shows: Shows::Nothing,
    }
}
