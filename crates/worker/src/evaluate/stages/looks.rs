//! Looks at a candidate that stop short of a verdict: whether it builds, whether it is right, how
//! fast it is beside the baseline. The stages are those of an evaluation, in the same order; what
//! is missing is the last word, so that nothing of this can be promoted.

use std::collections::BTreeMap;

use domain::device::DeviceKind;
use domain::digest::Digest;
use domain::evaluation::{CaseLaunches, CheckOutcome, EvaluationRequest, GateOutcome, StageTime};
use domain::finding::Finding;
use domain::plan::ResolvedPlan;
use domain::problem::Problem;
use domain::role::{ExecutionFacts, ExecutionPurpose, Image, KernelResources};
use domain::task::Task;
use domain::timing::Timing;
use domain::verdict::{Comparison, Diagnostic, Outcome, Verdict};

use super::{Course, Evidence, LARGE, SCORE, Stop};
use crate::cancel::Cancellation;
use crate::evaluate::entrants::Entrant;
use crate::evaluate::examine::Trial;
use crate::evaluate::passes::Extent;
use crate::evaluate::roles::{Numbered, Reference, Roles};
use crate::evaluate::timing::{by_case, timing};
use crate::evaluate::{EvaluateError, Evaluator, storage};

/// How far a candidate is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Text, plan, image, policy, and the gates on its resources. Nothing runs.
    Build,
    /// All of that, and every execution of an evaluation with its outputs compared. Nothing is
    /// timed.
    Test,
}

/// What a look found out.
#[derive(Debug)]
pub struct Looked {
    /// What stands against the candidate; none if nothing was found as far as was looked.
    pub against: Option<Verdict>,
    /// Identity of source and values; none if it did not parse.
    pub candidate_digest: Option<Digest>,
    /// The image, once compiled.
    pub image: Option<Image>,
    /// Digest of the launches it plans on every case of the task; none if they could not be resolved.
    pub plans: Option<Digest>,
    /// The compiler.
    pub toolchain: Option<String>,
    /// Each launched kernel's resources.
    pub kernels: Vec<KernelResources>,
    /// Every soft gate that could be looked at.
    pub gates: Vec<GateOutcome>,
    /// Every output compared.
    pub checks: Vec<CheckOutcome>,
    /// The launches of each score case as they ran.
    pub launches: Vec<CaseLaunches>,
    /// Warnings of the compiler.
    pub diagnostics: Vec<Diagnostic>,
    /// What the policy points out.
    pub flags: Vec<Problem>,
    /// What the emulated device proved.
    pub findings: Vec<Finding>,
    /// Wall time of each stage.
    pub stages: Vec<StageTime>,
}

/// Times beside those of the baseline, or of the incumbent that the request names.
#[derive(Debug, Clone, PartialEq)]
pub struct Timed {
    /// The candidate's.
    pub timing: Timing,
    /// The other's, taken in the same way.
    pub baseline: Timing,
    /// The other's over the candidate's, with its interval.
    pub comparison: Comparison,
    /// Whether it takes little more than launching does.
    pub launch_bound: bool,
}

impl Evaluator {
    /// Looks at a candidate without a verdict's last word.
    ///
    /// # Errors
    /// A [`EvaluateError`] if the infrastructure, not the candidate, is to blame.
    pub fn look(
        &self,
        request: &EvaluationRequest,
        depth: Depth,
        progress: impl Fn(&str),
        cancellation: &Cancellation,
    ) -> Result<Looked, EvaluateError> {
        let (looked, _) = self.with_course(request, &progress, cancellation, |course| {
            let candidate = course.timed("parse", Course::read)?;
            let compiled = course.timed("compile", |course| course.compile(&candidate))?;
            if depth == Depth::Build {
                return Ok(());
            }
            course.prescreen(&candidate, &compiled)?;
            let reference = course.timed("reference", Course::reference)?;
            let efforts = course.timed("effort", |course| course.efforts(SCORE))?;
            let trial = Trial {
                plans: &candidate.plans,
                compiled: &compiled,
                reference: &reference,
                efforts: &efforts,
            };
            let passes = course.passes();
            course.examine_small(&trial, Extent::All)?;
            course.examine(SCORE, &passes.score_once()?, &trial)?;
            course.observe(&candidate)
        })?;
        Ok(looked)
    }

    /// Times a candidate beside the task's baseline, or the incumbent that the request names, after
    /// its outputs on the score cases have been found right: a wrong kernel has no time. Never
    /// grounds for a promotion. Modelled times of an incumbent are compared as they are.
    ///
    /// # Errors
    /// A [`EvaluateError`] if the infrastructure, not the candidate, is to blame.
    pub fn measure(
        &self,
        request: &EvaluationRequest,
        progress: impl Fn(&str),
        cancellation: &Cancellation,
    ) -> Result<(Looked, Option<Timed>), EvaluateError> {
        self.measure_beside(request, None, &progress, cancellation)
    }

    /// The same beside an opponent that has no source, with the times that it was found to take on a
    /// device that models them.
    pub(super) fn measure_beside(
        &self,
        request: &EvaluationRequest,
        opponent: Option<&Entrant>,
        progress: &dyn Fn(&str),
        cancellation: &Cancellation,
    ) -> Result<(Looked, Option<Timed>), EvaluateError> {
        self.with_course(request, progress, cancellation, |course| {
            let candidate = course.timed("parse", Course::read)?;
            let compiled = course.timed("compile", |course| course.compile(&candidate))?;
            let reference = course.timed("reference", Course::reference)?;
            let efforts = course.timed("effort", |course| course.efforts(SCORE))?;
            let trial = Trial {
                plans: &candidate.plans,
                compiled: &compiled,
                reference: &reference,
                efforts: &efforts,
            };
            let silicon = course.evaluator.host.device().kind == DeviceKind::Nvidia;
            course.examine(SCORE, &course.first_passes()?, &trial)?;
            course.observe(&candidate)?;
            if silicon {
                let duel = course.compete_with(&candidate, &compiled, opponent)?;
                let compared = course.timed("time", |_| duel.fight())?;
                return Ok(Timed {
                    launch_bound: course.is_launch_bound(&compared.timing),
                    timing: compared.timing,
                    baseline: compared.measurement.incumbent_timing,
                    comparison: compared.comparison,
                });
            }
            let own = course.scored.clone();
            let own = course.times(own.iter().map(|(case, facts)| (case.as_str(), facts)))?;
            let baseline = match &course.request.incumbent {
                Some(incumbent) => incumbent.timing.clone(),
                None => course.timed("baseline", |course| {
                    let scored = course.baseline(&reference)?;
                    course.times(scored.iter().map(|(case, facts)| (case.as_str(), facts)))
                })?,
            };
            Ok(Timed {
                comparison: modelled(&own, &baseline)?,
                launch_bound: course.is_launch_bound(&own),
                timing: own,
                baseline,
            })
        })
    }

    /// A course through stages of the caller's choice, with what it found out.
    pub(super) fn with_course<T>(
        &self,
        request: &EvaluationRequest,
        progress: &dyn Fn(&str),
        cancellation: &Cancellation,
        work: impl FnOnce(&mut Course<'_>) -> Result<T, Stop>,
    ) -> Result<(Looked, Option<T>), EvaluateError> {
        let task = super::task(request)?;
        let scratch = tempfile::tempdir_in(&self.scratch).map_err(storage(&self.scratch))?;
        let disturber = self.disturber(cancellation)?;
        let roles = Roles {
            host: &self.host,
            scratch: scratch.path(),
            cancellation,
            lines: false,
            disturber: disturber.as_ref(),
        };
        let mut course = Course::new(self, request, &task, progress, roles);
        match work(&mut course) {
            Ok(found) => Ok((looked(&task, course.evidence, None), Some(found))),
            Err(Stop::Verdict(verdict)) => {
                Ok((looked(&task, course.evidence, Some(*verdict)), None))
            }
            Err(Stop::Fault(fault)) => Err(fault),
        }
    }
}

impl Course<'_> {
    pub(super) fn times<'f>(
        &self,
        facts: impl Iterator<Item = (&'f str, &'f ExecutionFacts)>,
    ) -> Result<Timing, Stop> {
        let label = self.evidence.label.as_deref();
        Ok(timing(
            self.evaluator.host.device(),
            label,
            &by_case(facts),
            self.task.objective.cache,
        )?)
    }

    /// One execution of the baseline on each score case.
    fn baseline(&self, reference: &Reference<'_>) -> Result<Vec<(String, ExecutionFacts)>, Stop> {
        let source = &reference.task.baseline;
        let configuration = source.plan().default_configuration();
        let fault = |what: String| EvaluateError::Reference(format!("the baseline: {what}"));
        let compiled = self
            .build(source, &configuration)?
            .map_err(|verdict| fault(verdict.to_string()))?;
        let passes = self.passes().score_once()?;
        let passes = passes
            .iter()
            .filter(|pass| pass.purpose == ExecutionPurpose::Score)
            .collect::<Vec<_>>();
        let limits = &self.evaluator.host.device().limits;
        let plans = passes
            .iter()
            .map(|pass| {
                let case = self.task.case(&pass.case).expect("passes name cases");
                source
                    .plan()
                    .resolve(self.task, &case.dims, &configuration, limits)
                    .map_err(|error| fault(format!("case {}: {error}", pass.case)))
            })
            .collect::<Result<Vec<ResolvedPlan>, EvaluateError>>()?;
        let numbered = passes
            .iter()
            .zip(&plans)
            .zip(0..)
            .map(|((pass, plan), id)| Numbered {
                id,
                pass,
                plan,
                save: None,
                budget: LARGE,
            })
            .collect::<Vec<_>>();
        let mut scored = Vec::new();
        self.roles
            .run::<Stop>(&compiled, &numbered, SCORE, |made, reply| {
                let reply = reply.map_err(|verdict| fault(verdict.to_string()))?;
                let ran = made.iter().zip(reply.executions);
                scored.extend(ran.map(|(numbered, facts)| (numbered.pass.case.clone(), facts)));
                Ok(())
            })?;
        Ok(scored)
    }
}

/// Two modelled times have no noise: their ratio is both ends of its interval.
fn modelled(own: &Timing, baseline: &Timing) -> Result<Comparison, Stop> {
    let ratio = own.speedup_over(baseline).ok_or_else(|| {
        let what = "compare with the baseline: the two were not timed on the same cases";
        Stop::from(domain::judge::InfrastructureFault(what.to_owned()))
    })?;
    Ok(Comparison {
        outcome: if ratio > 1.0 {
            Outcome::Faster
        } else {
            Outcome::NotFaster
        },
        ratio,
        interval: [ratio, ratio],
    })
}

fn looked(task: &Task, evidence: Evidence, against: Option<Verdict>) -> Looked {
    let compiled = evidence.compiled;
    // Which further shapes an evaluation meets is a matter of its key.
    let listed = task.cases.iter().filter(|case| !case.uses.is_empty());
    let plans = listed
        .filter_map(|case| evidence.plans.get_key_value(&case.name))
        .collect::<BTreeMap<_, _>>();
    Looked {
        against,
        candidate_digest: evidence.candidate_digest,
        plans: (!plans.is_empty()).then(|| {
            let text = serde_json::to_vec(&plans).expect("a plan has text keys");
            Digest::of(text)
        }),
        image: compiled.as_ref().map(|compiled| compiled.image.clone()),
        toolchain: compiled.as_ref().map(|compiled| compiled.toolchain.clone()),
        kernels: evidence.kernels,
        gates: evidence.gates,
        checks: evidence.checks,
        launches: evidence.launches,
        diagnostics: compiled
            .map(|compiled| compiled.diagnostics)
            .unwrap_or_default(),
        flags: evidence.flags,
        findings: evidence.findings,
        stages: evidence.stages,
    }
}
