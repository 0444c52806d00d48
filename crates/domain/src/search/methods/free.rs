//! `free`: each generation of five is written from the best alone (EvoEngineer-Free, arXiv
//! 2510.03760).

use super::{Rules, Selection, Shows, Structure};
use crate::search::Operator;

pub(super) const RULES: Rules = Rules {
    first: 0,
    required: 0,
    cycle: &[const { Operator::Init }; 5],
    width: None,
    is_limited: true,
    elite: 4,
    structure: Structure::Elite,
    select: |seen, _, _| Selection::from_best(seen, Shows::Nothing),
};
