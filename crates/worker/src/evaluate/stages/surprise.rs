//! What a search does with a time that is nearly too good: all small cases and edges with inputs of
//! the gate's family, and the comparison once more in processes of its own. A promotion does that
//! for every candidate.

use domain::seeds::SeedFamily;
use domain::statistics::{ensure_repeat_agrees, reason_to_repeat};
use domain::verdict::Verdict;

use super::{Candidate, Course, Stop};
use crate::evaluate::examine::Trial;
use crate::evaluate::paired::Compared;
use crate::evaluate::passes::Extent;

impl Course<'_> {
    /// Looks again at times that surprise. A time that does not hold is inconclusive: it was too good
    /// once, and nothing rests on it.
    pub(super) fn look_twice(
        &mut self,
        candidate: &Candidate,
        trial: &Trial<'_>,
        compared: &Compared,
    ) -> Result<(), Stop> {
        let why = reason_to_repeat(&compared.comparison, &self.evidence.floors);
        let Some(why) = why.filter(|_| !self.request.stage.decides_promotion()) else {
            return Ok(());
        };
        let shown = std::mem::replace(&mut self.family, SeedFamily::Gate);
        self.examine_small(trial, Extent::All)?;
        self.family = shown;
        let mut duel = self.compete(candidate, trial.compiled)?;
        duel.key = duel.key.derive(&["again"]);
        let again = self.timed("time again", |_| duel.fight())?;
        ensure_repeat_agrees(&compared.comparison, &again.comparison).map_err(|how| {
            let reason = format!("{why}, which did not hold: {how}");
            Verdict::Inconclusive { reason }.into()
        })
    }
}
