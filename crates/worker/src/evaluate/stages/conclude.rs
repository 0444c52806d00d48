//! The last of an evaluation: the times decide where nothing else did, what was found becomes one
//! value, and the bundle that it rests on is kept.

use domain::evaluation::{CaseLaunches, EVALUATOR_VERSION, Evaluation, EvaluationStage};
use domain::judge::{self, CaseBlocks};
use domain::statistics::Floor;
use domain::task::ScoredCache;
use domain::timing::Timing;
use domain::verdict::Verdict;

use super::{Candidate, Course, Evidence, MAX_FINDINGS, Stop};
use crate::evaluate::EvaluateError;
use crate::evaluate::evidence::{self, Parts};
use crate::evaluate::examine::Trial;
use crate::evaluate::timing::{by_case, floors, launch_bound, timing};

impl Course<'_> {
    /// Every stage is passed: the gates on what really ran, then the times.
    pub(super) fn decide(
        &mut self,
        candidate: &Candidate,
        trial: &Trial<'_>,
    ) -> Result<Verdict, Stop> {
        let scored = by_case(
            self.scored
                .iter()
                .map(|(case, facts)| (case.as_str(), facts)),
        );
        let label = self.evidence.label.as_deref();
        let cache = self.task.objective.cache;
        let timing = timing(self.evaluator.host.device(), label, &scored, cache)?;
        self.observe(candidate)?;
        let in_turn = self.evaluator.host.times_in_turn();
        let baseline = self.request.stage == EvaluationStage::Baseline;
        if in_turn && baseline && cache != ScoredCache::Cold {
            // What is timed alone is timed with a cold cache.
            let duel = self.compete(candidate, trial.compiled)?;
            let compared = self.timed("time", |_| duel.fight())?;
            self.judge_floors(&compared.timing)?;
            let bound = self.is_launch_bound(&compared.timing);
            return Ok(judge::judge_times(compared.timing, None, bound));
        }
        if in_turn && !baseline {
            let duel = self.compete(candidate, trial.compiled)?;
            let mut compared = self.timed("time", |_| duel.fight())?;
            compared.measurement.control = self.control(candidate, trial.compiled)?;
            self.evidence.measurement = Some(compared.measurement.clone());
            self.judge_floors(&compared.timing)?;
            self.look_twice(candidate, trial, &compared)?;
            let bound = self.is_launch_bound(&compared.timing);
            let mut verdict = judge::judge_times(compared.timing, None, bound);
            if let Verdict::Accepted(acceptance) = &mut verdict {
                acceptance.comparison = Some(compared.comparison);
            }
            return Ok(verdict);
        }
        self.judge_floors(&timing)?;
        let bound = self.is_launch_bound(&timing);
        let incumbent = self.request.incumbent.as_ref();
        let times = incumbent.map(|incumbent| &incumbent.timing);
        Ok(judge::judge_times(timing, times, bound))
    }

    /// Whether every score case takes little more than launching as many empty kernels.
    pub(super) fn is_launch_bound(&self, timing: &Timing) -> bool {
        let launches = self.evidence.launches.iter();
        let launches = launches
            .map(|case| (case.case.clone(), case.launches.len()))
            .collect();
        launch_bound(timing, &launches, self.evaluator.host.rates().as_ref())
    }

    /// Holds every case's time against what no kernel can beat, before times of several cases
    /// become one number.
    fn judge_floors(&mut self, timing: &Timing) -> Result<(), Stop> {
        let host = &self.evaluator.host;
        let mut found = floors(self.task, timing, host.rates().as_ref())?;
        if found.iter().any(Floor::is_broken) {
            // A card that was busy when it was measured gets another chance first.
            let rates = host.measure_rates(self.roles.cancellation);
            found = floors(
                self.task,
                timing,
                rates.map_err(EvaluateError::from)?.as_ref(),
            )?;
        }
        self.evidence.floors = found;
        let broken = self.evidence.floors.iter().find(|floor| floor.is_broken());
        broken.map_or(Ok(()), |floor| {
            Err(Verdict::PhysicallyImpossible {
                case: floor.cache.name_of(&floor.case),
                floor_us: floor.us,
                found_us: floor.found_us,
            }
            .into())
        })
    }

    /// Notes the launches of each score case as they ran, and looks at the gates again with them.
    pub(super) fn observe(&mut self, candidate: &Candidate) -> Result<(), Stop> {
        let scored = by_case(
            self.scored
                .iter()
                .map(|(case, facts)| (case.as_str(), facts)),
        );
        let launches = scored
            .iter()
            .filter_map(|(case, executions)| {
                Some(CaseLaunches {
                    case: case.clone(),
                    launches: executions.first()?.launches.clone(),
                })
            })
            .collect::<Vec<_>>();
        let observed = launches
            .iter()
            .filter_map(|case| CaseBlocks::executed(&case.case, &case.launches))
            .collect::<Vec<_>>();
        self.evidence.launches.clone_from(&launches);
        self.judge_gates(candidate, &observed)
    }

    /// The evaluation, with the name of its bundle.
    pub(super) fn conclude(mut self, verdict: Verdict) -> Result<Evaluation, EvaluateError> {
        let (host, request, task) = (&self.evaluator.host, self.request, self.task);
        let plans = std::mem::take(&mut self.evidence.plans);
        let compiled = self.evidence.compiled.clone();
        let mut evaluation = self.concluded(verdict);
        let parts = Parts {
            request,
            task_name: &task.name,
            evaluation: &evaluation,
            plans: &plans,
            compiled: compiled.as_ref(),
        };
        evaluation.evidence = Some(evidence::keep(host, &parts)?);
        Ok(evaluation)
    }

    /// The evaluation with its evidence, the deciding finding first.
    fn concluded(self, verdict: Verdict) -> Evaluation {
        let Evidence {
            candidate_digest,
            plans: _,
            compiled,
            ran,
            prescreen,
            not_run,
            label: _,
            kernels,
            gates,
            checks,
            launches,
            floors,
            measurement,
            flags,
            machine_code,
            sanitizers,
            mut findings,
            stages,
        } = self.evidence;
        if let Some(deciding) = verdict.finding() {
            findings.retain(|finding| finding != deciding);
            findings.insert(0, deciding.clone());
        }
        findings.truncate(MAX_FINDINGS);
        Evaluation {
            verdict,
            evaluator: EVALUATOR_VERSION,
            stage: self.request.stage,
            found_on: (ran || prescreen.is_some()).then_some(self.family),
            not_run,
            task_version: self.task.version,
            candidate_digest,
            image_digest: compiled.as_ref().map(|compiled| compiled.image.code_digest),
            device: ran.then(|| self.evaluator.host.device().clone()),
            prescreen,
            toolchain: compiled.as_ref().map(|compiled| compiled.toolchain.clone()),
            kernels,
            gates,
            checks,
            launches,
            floors,
            measurement,
            diagnostics: compiled
                .map(|compiled| compiled.diagnostics)
                .unwrap_or_default(),
            flags,
            machine_code,
            sanitizers,
            evidence: None,
            findings,
            stages,
        }
    }
}
