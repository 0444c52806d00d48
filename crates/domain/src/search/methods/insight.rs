//! `insight`: each generation of five is written from the best, with thoughts of the run
//! (EvoEngineer-Insight, arXiv 2510.03760).

use super::{Rules, Selection, Shows, free};

pub(super) const RULES: Rules = Rules {
    select: |seen, _, _| Selection::from_best(seen, Shows::Run),
    ..free::RULES
};
