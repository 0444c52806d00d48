//! Which comparisons of a search are followed by a control.

use domain::control::{self, Control};
use domain::evaluation::EvaluationStage;
use domain::role::Compiled;

use super::{Candidate, Course, Stop};

impl Course<'_> {
    /// Compares the incumbent with itself, where that is drawn for this candidate. Whatever comes of it
    /// decides nothing about the candidate.
    pub(super) fn control(
        &mut self,
        candidate: &Candidate,
        compiled: &Compiled,
    ) -> Result<Option<Control>, Stop> {
        let digest = candidate.source.candidate_digest(&candidate.configuration);
        let of_a_search = self.request.stage == EvaluationStage::Search;
        if !of_a_search || !control::is_due(self.request.key, digest) {
            return Ok(None);
        }
        let duel = self.compete(candidate, compiled)?;
        self.timed("control", |_| Ok(Some(duel.control()?)))
    }
}
