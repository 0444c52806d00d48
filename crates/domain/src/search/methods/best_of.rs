//! `best_of`: greedy sequential best-of-N. Each candidate is written from the task and the best of
//! those before it, with the best's times and profile and nothing else of the run. No published
//! harness beats it significantly at an equal budget (arXiv 2607.18235), so it is the method that
//! others are compared with.

use super::{Rules, Selection, Shows, Structure};
use crate::search::Operator;

pub(super) const RULES: Rules = Rules {
    first: 0,
    required: 0,
    cycle: &[Operator::Init],
    width: None,
    is_limited: false,
    elite: 1,
    structure: Structure::Elite,
    select: |seen, _, _| Selection::from_best(seen, Shows::Nothing),
};
