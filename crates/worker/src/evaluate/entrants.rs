//! Who takes part in a comparison: a source as an image, with its plan for every score case.

use std::collections::BTreeMap;

use domain::candidate::KernelSource;
use domain::digest::Digest;
use domain::evaluation::Incumbent;
use domain::plan::{Configuration, ResolvedPlan};
use domain::role::{ExecutionPurpose, Side, TimedCase, fingerprint};
use domain::statistics::TimedKernel;
use domain::timing::CacheState;

use super::EvaluateError;
use super::history::Book;
use super::paired::Duel;
use super::stages::{Course, Stop};

/// One of those who are timed in turn.
#[derive(Debug, Clone)]
pub struct Entrant {
    /// Identity of its source and tunables.
    pub digest: Digest,
    /// Its image.
    pub side: Side,
    /// Its plan for each score case.
    pub plans: BTreeMap<String, ResolvedPlan>,
}

impl<'a> Course<'a> {
    /// The candidate, what it has to beat, and what scores are relative to, ready to be timed in
    /// turn. Without an incumbent the task's baseline is both of the latter; an opponent without
    /// source takes the incumbent's place.
    pub(super) fn duel(
        &self,
        candidate: Entrant,
        instructions: u64,
        opponent: Option<&Entrant>,
    ) -> Result<Duel<'a>, Stop> {
        let baseline = &self.task.baseline;
        let configuration = baseline.plan().default_configuration();
        let anchor = self.entrant(baseline, &configuration, "the baseline")?;
        let incumbent = match (opponent, &self.request.incumbent) {
            (Some(opponent), _) => opponent.clone(),
            (None, Some(incumbent)) => self.incumbent(incumbent)?,
            (None, None) => anchor.clone(),
        };
        let anchor_digest = anchor.digest;
        let mut entrants = BTreeMap::from([
            (TimedKernel::Incumbent, incumbent),
            (TimedKernel::Candidate, candidate),
        ]);
        if entrants[&TimedKernel::Incumbent].digest != anchor.digest {
            entrants.insert(TimedKernel::Anchor, anchor);
        }
        let mut timed: Vec<(String, TimedCase)> = Vec::new();
        let mut verified = BTreeMap::new();
        let passes = self.passes().score(|case| self.draws(case))?;
        for pass in passes
            .into_iter()
            .filter(|pass| pass.purpose == ExecutionPurpose::Score)
        {
            if timed.last().is_none_or(|(name, _)| *name != pass.case) {
                let plans = entrants.iter();
                let case = TimedCase {
                    plans: plans
                        .map(|(contender, entrant)| (*contender, entrant.plans[&pass.case].clone()))
                        .collect(),
                    draws: Vec::new(),
                    cache: CacheState::Cold,
                    batch: 1,
                };
                timed.push((pass.case.clone(), case));
            }
            let number = timed.len() - 1;
            let draws = &mut timed[number].1.draws;
            if let Some(facts) = self.originals.get(&pass.inputs()) {
                let inputs = (pass.case.clone(), draws.len());
                verified.insert(inputs, fingerprint(&facts.outputs));
            }
            draws.push(pass.tensors);
        }
        Ok(Duel {
            incumbent: entrants[&TimedKernel::Incumbent].digest,
            sides: entrants
                .into_iter()
                .map(|(contender, entrant)| (contender, entrant.side))
                .collect(),
            cases: in_states(&timed, self.task.objective.cache.scored()),
            beside: in_states(&timed, self.task.objective.cache.unscored().as_slice()),
            verified,
            book: Book::of(self.evaluator.host(), self.task.version, anchor_digest),
            key: self.passes().secret(),
            stage: self.request.stage,
            instructions,
            until: None,
            roles: self.roles,
        })
    }

    fn incumbent(&self, incumbent: &Incumbent) -> Result<Entrant, Stop> {
        let who = "the incumbent";
        let unreadable = |reason: String| EvaluateError::Reference(format!("{who}: {reason}"));
        let source = KernelSource::parse(&incumbent.file, incumbent.source.as_str())
            .map_err(|problems| unreadable(problems.to_string()))?;
        let configuration = source
            .configure(&incumbent.configuration)
            .map_err(|problem| unreadable(problem.to_string()))?;
        self.entrant(&source, &configuration, who)
    }

    /// A source that was accepted before, as an image. That it cannot take part is nobody's
    /// verdict.
    fn entrant(
        &self,
        source: &KernelSource,
        configuration: &Configuration,
        who: &str,
    ) -> Result<Entrant, Stop> {
        let compiled = self
            .build(source, configuration)?
            .map_err(|verdict| EvaluateError::Reference(format!("{who}: {verdict}")))?;
        let limits = &self.evaluator.host().device().limits;
        let mut plans = BTreeMap::new();
        for case in self.task.score_cases() {
            let plan = source
                .plan()
                .resolve(self.task, &case.dims, configuration, limits)
                .map_err(|error| {
                    EvaluateError::Reference(format!("{who} on case {}: {error}", case.name))
                })?;
            plans.insert(case.name.clone(), plan);
        }
        Ok(Entrant {
            digest: source.candidate_digest(configuration),
            side: Side::from(&compiled),
            plans,
        })
    }
}

/// Each case with the cache in each of these states.
fn in_states(cases: &[(String, TimedCase)], states: &[CacheState]) -> Vec<(String, TimedCase)> {
    let entries = cases.iter().flat_map(|(name, case)| {
        let in_state = move |cache: &CacheState| TimedCase {
            cache: *cache,
            ..case.clone()
        };
        states
            .iter()
            .map(move |cache| (name.clone(), in_state(cache)))
    });
    entries.collect()
}
