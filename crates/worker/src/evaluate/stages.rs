//! The stages of one evaluation in their order, and the evidence they leave.

mod around;
mod conclude;
mod controls;
mod foreign;
mod inspect;
mod looks;
mod prescreen;
mod rivals;
mod sanitizers;
mod surprise;
mod thorough;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use domain::candidate::KernelSource;
use domain::device::DeviceKind;
use domain::digest::Digest;
use domain::dtype::Dtype;
use domain::evaluation::{
    CaseLaunches, CheckOutcome, Evaluation, EvaluationRequest, GateOutcome, MachineCode, NotRun,
    Prescreen, StageTime,
};
use domain::finding::Finding;
use domain::judge::{self, CaseBlocks, InfrastructureFault};
use domain::measurement::Measurement;
use domain::plan::{Configuration, ResolvedPlan, ResolvedStep};
use domain::policy::{self, Feature};
use domain::problem::{Problem, Problems};
use domain::role::{Compiled, ExecutionFacts, ExecutionPurpose, KernelResources, Side};
use domain::seeds::SeedFamily;
use domain::statistics::{self, Floor};
use domain::task::{Case, Task};
use domain::tools::sanitize::Sanitizers;
use domain::verdict::Verdict;

use super::build::{Recipe, build};
use super::edges;
use super::entrants::Entrant;
use super::examine::Trial;
use super::paired::{Compared, Duel};
use super::passes::{Against, Extent, Inputs, Pass, Passes, Repetition};
use super::roles::{Allowance, Reference, Roles};
use super::scratch;
use super::vast::tensor_bytes;
use super::{EvaluateError, Evaluator, storage};
use crate::cancel::Cancellation;

pub use inspect::{CaseProfile, Instrument, LaunchProfile, Profiled, Sanitized};
pub use looks::{Depth, Looked, Timed};
pub use rivals::{RivalCase, RivalOutcome, Rivalry, Turn};

/// Findings kept as evidence.
const MAX_FINDINGS: usize = 32;
/// Different inputs of each score case that are timed in turn on the emulated device, where a batch
/// has two executions.
const EMULATED_DRAWS: u32 = 4;
/// Executions of each score case whose time is taken alone, on silicon: at least 30 make a median
/// worth comparing.
const SAMPLES: u64 = 32;

/// Small cases: an honest kernel needs tens of millions of thread instructions, and a loop without
/// an end is found within seconds even where a single thread is caught in it.
const SMALL: u64 = 1 << 28;
/// Score cases: generous, since a slow kernel is not a wrong one.
const LARGE: u64 = 48 << 30;

const SMOKE: Allowance = Allowance {
    stage: "smoke",
    deadline: Duration::from_secs(20),
    instructions: SMALL,
};
pub(super) const SCREEN: Allowance = Allowance {
    stage: "screen",
    deadline: Duration::from_secs(60),
    instructions: SMALL,
};
const REPEAT: Allowance = Allowance {
    stage: "repeat",
    deadline: Duration::from_secs(60),
    instructions: SMALL,
};
const GATE: Allowance = Allowance {
    stage: "gate",
    deadline: Duration::from_secs(60),
    instructions: SMALL,
};
const SCORE: Allowance = Allowance {
    stage: "score",
    deadline: Duration::from_secs(120),
    instructions: LARGE,
};

/// Why the stages ended before the last.
pub(super) enum Stop {
    Verdict(Box<Verdict>),
    Fault(EvaluateError),
}

impl From<Verdict> for Stop {
    fn from(verdict: Verdict) -> Self {
        Self::Verdict(Box::new(verdict))
    }
}

impl From<EvaluateError> for Stop {
    fn from(fault: EvaluateError) -> Self {
        Self::Fault(fault)
    }
}

impl From<Problem> for Stop {
    fn from(problem: Problem) -> Self {
        Self::Fault(problem.into())
    }
}

impl From<InfrastructureFault> for Stop {
    fn from(trouble: InfrastructureFault) -> Self {
        Self::Fault(trouble.into())
    }
}

/// The task of a request, with the shapes of its evaluation beside those that it lists.
///
/// # Errors
/// [`EvaluateError::Task`] if the task does not read.
pub fn task(request: &EvaluationRequest) -> Result<Task, EvaluateError> {
    let mut task = Task::load(&request.task).map_err(EvaluateError::Task)?;
    let edges = edges::cases(&task, request)?;
    task.cases.extend(edges);
    Ok(task)
}

/// Takes a candidate through all stages.
pub fn evaluate(
    evaluator: &Evaluator,
    request: &EvaluationRequest,
    progress: &dyn Fn(&str),
    cancellation: &Cancellation,
) -> Result<Evaluation, EvaluateError> {
    let task = task(request)?;
    let scratch = tempfile::tempdir_in(&evaluator.scratch).map_err(storage(&evaluator.scratch))?;
    let disturber = evaluator.disturber(cancellation)?;
    let mut course = Course::new(evaluator, request, &task, progress, {
        Roles {
            host: &evaluator.host,
            scratch: scratch.path(),
            cancellation,
            lines: false,
            disturber: disturber.as_ref(),
        }
    });
    match course.run() {
        Ok(verdict) => course.conclude(verdict),
        Err(Stop::Verdict(verdict)) => course.conclude(*verdict),
        Err(Stop::Fault(fault)) => Err(fault),
    }
}

/// Times a candidate in turn with the task's baseline, and nothing more.
pub fn bench(
    evaluator: &Evaluator,
    request: &EvaluationRequest,
    progress: &dyn Fn(&str),
    cancellation: &Cancellation,
) -> Result<Result<Compared, Verdict>, EvaluateError> {
    let task = task(request)?;
    let scratch = tempfile::tempdir_in(&evaluator.scratch).map_err(storage(&evaluator.scratch))?;
    let disturber = evaluator.disturber(cancellation)?;
    let roles = Roles {
        host: &evaluator.host,
        scratch: scratch.path(),
        cancellation,
        lines: false,
        disturber: disturber.as_ref(),
    };
    let mut course = Course::new(evaluator, request, &task, progress, roles);
    match course.bench() {
        Ok(compared) => Ok(Ok(compared)),
        Err(Stop::Verdict(verdict)) => Ok(Err(*verdict)),
        Err(Stop::Fault(fault)) => Err(fault),
    }
}

/// Whether an image has instructions whose fragments could be laid out another way.
fn uses_fragments(compiled: &Compiled) -> bool {
    let mut uses = compiled.contents.uses.iter();
    uses.any(|found| found.feature == Feature::TensorOperations)
}

/// What the stages found out.
#[derive(Default)]
pub(super) struct Evidence {
    candidate_digest: Option<Digest>,
    /// The launches planned on each case.
    plans: BTreeMap<String, ResolvedPlan>,
    pub(super) compiled: Option<Compiled>,
    pub(super) ran: bool,
    prescreen: Option<Prescreen>,
    pub(super) not_run: Vec<NotRun>,
    pub(super) label: Option<String>,
    kernels: Vec<KernelResources>,
    gates: Vec<GateOutcome>,
    pub(super) checks: Vec<CheckOutcome>,
    launches: Vec<CaseLaunches>,
    floors: Vec<Floor>,
    measurement: Option<Measurement>,
    flags: Vec<Problem>,
    machine_code: Option<MachineCode>,
    sanitizers: Option<Sanitizers>,
    pub(super) findings: Vec<Finding>,
    stages: Vec<StageTime>,
}

/// A candidate that reads, with its plan for every case that takes part.
struct Candidate {
    source: KernelSource,
    configuration: Configuration,
    plans: BTreeMap<String, ResolvedPlan>,
}

/// One candidate on its way through the stages.
pub(super) struct Course<'a> {
    pub(super) evaluator: &'a Evaluator,
    pub(super) request: &'a EvaluationRequest,
    pub(super) task: &'a Task,
    pub(super) progress: &'a dyn Fn(&str),
    pub(super) roles: Roles<'a>,
    /// Whose inputs executions have now.
    family: SeedFamily,
    pub(super) evidence: Evidence,
    /// The first execution on each set of inputs.
    pub(super) originals: BTreeMap<Inputs, ExecutionFacts>,
    /// Executions whose time counts, with their case.
    pub(super) scored: Vec<(String, ExecutionFacts)>,
    pub(super) next_id: u32,
    pub(super) judged: Judged,
}

/// The execution that was judged last.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Judged {
    /// Its number.
    pub(super) id: u32,
    /// Whether it ended only after the blocks beside it had given up.
    pub(super) outlasted: bool,
}

impl<'a> Course<'a> {
    pub(super) fn new(
        evaluator: &'a Evaluator,
        request: &'a EvaluationRequest,
        task: &'a Task,
        progress: &'a dyn Fn(&str),
        roles: Roles<'a>,
    ) -> Self {
        Self {
            evaluator,
            request,
            task,
            progress,
            roles,
            family: SeedFamily::of(request.stage),
            evidence: Evidence::default(),
            originals: BTreeMap::new(),
            scored: Vec::new(),
            next_id: 0,
            judged: Judged::default(),
        }
    }

    fn bench(&mut self) -> Result<Compared, Stop> {
        let candidate = self.timed("parse", Self::read)?;
        let compiled = self.timed("compile", |course| course.compile(&candidate))?;
        let duel = self.timed("opponents", |course| course.compete(&candidate, &compiled))?;
        (self.progress)("time");
        duel.fight()
    }

    /// The candidate as one of those who are timed in turn.
    fn compete(&self, candidate: &Candidate, compiled: &Compiled) -> Result<Duel<'a>, Stop> {
        self.compete_with(candidate, compiled, None)
    }

    /// The same with an opponent that has no source.
    fn compete_with(
        &self,
        candidate: &Candidate,
        compiled: &Compiled,
        opponent: Option<&Entrant>,
    ) -> Result<Duel<'a>, Stop> {
        let entrant = Entrant {
            digest: candidate.source.candidate_digest(&candidate.configuration),
            side: Side::from(compiled),
            plans: candidate.plans.clone(),
        };
        self.duel(entrant, LARGE, opponent)
    }

    fn run(&mut self) -> Result<Verdict, Stop> {
        let candidate = self.timed("parse", Self::read)?;
        self.note_omissions();
        let compiled = self.timed("compile", |course| course.compile(&candidate))?;
        self.prescreen(&candidate, &compiled)?;
        let reference = self.timed("reference", Self::reference)?;
        let efforts = self.timed("effort", |course| course.efforts(SCORE))?;
        let trial = Trial {
            plans: &candidate.plans,
            compiled: &compiled,
            reference: &reference,
            efforts: &efforts,
        };
        if self.request.stage.decides_promotion() {
            self.examine_small(&trial, Extent::All)?;
        } else {
            self.examine_small(&trial, Extent::Sample)?;
            self.pass_gate(&trial)?;
        }
        self.examine(SCORE, &self.score_passes()?, &trial)?;
        if self.request.stage.decides_promotion() {
            self.examine_many(&candidate, &compiled, &reference)?;
            self.sanitize(&candidate, &compiled)?;
        }
        self.decide(&candidate, &trial)
    }

    /// The stages on small cases, which are all that correctness asks except for the score cases.
    fn examine_small(&mut self, trial: &Trial<'_>, extent: Extent) -> Result<(), Stop> {
        let passes = self.passes();
        let smoke = [passes.smoke()?, passes.probes()?].concat();
        self.examine(SMOKE, &smoke, trial)?;
        self.examine(SCREEN, &passes.screen(extent)?, trial)?;
        let mut repeats = passes.repeats(extent)?;
        if !uses_fragments(trial.compiled) {
            repeats.retain(|pass| pass.comparison != Against::Relaid);
        }
        self.examine(REPEAT, &repeats, trial)?;
        if let Some(asked) = self.evaluator.host.repetition(self.request.stage) {
            let Repetition { repeats, draws } = asked;
            let more = [passes.determinism(repeats)?, passes.untimed(draws)?].concat();
            self.examine(REPEAT, &more, trial)?;
        }
        Ok(())
    }

    /// What stands between a search and a score: inputs that nobody who writes candidates has ever
    /// been told anything about.
    fn pass_gate(&mut self, trial: &Trial<'_>) -> Result<(), Stop> {
        let extent = if self.evaluator.host.is_unproved() {
            Extent::All
        } else {
            Extent::Sample
        };
        let shown = std::mem::replace(&mut self.family, SeedFamily::Gate);
        self.examine(GATE, &self.passes().gate(extent)?, trial)?;
        self.family = shown;
        Ok(())
    }

    /// Runs one stage, tells whoever watches, and notes how long it took.
    pub(super) fn timed<T>(
        &mut self,
        stage: &str,
        work: impl FnOnce(&mut Self) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        (self.progress)(stage);
        let started = Instant::now();
        let result = work(self);
        self.evidence.stages.push(StageTime {
            stage: stage.to_owned(),
            milliseconds: started.elapsed().as_secs_f64() * 1e3,
        });
        result
    }

    pub(super) fn passes(&self) -> Passes<'a> {
        Passes {
            task: self.task,
            key: self.request.key,
            family: self.family,
        }
    }

    /// Everything that needs no compiler: text, policy, plan, and the gates on the plan.
    fn read(&mut self) -> Result<Candidate, Stop> {
        let reject = |problems: Vec<Problem>| Stop::from(Verdict::ParseRejected { problems });
        let source = KernelSource::parse(&self.request.file, self.request.source.as_str())
            .map_err(|Problems(problems)| reject(problems))?;
        let configuration = source
            .configure(&self.request.configuration)
            .map_err(|problem| reject(vec![problem]))?;
        self.evidence.candidate_digest = Some(source.candidate_digest(&configuration));
        let problems = policy::find_violations(&self.request.file, &source, &self.task.baseline);
        if !problems.is_empty() {
            return Err(Verdict::PolicyRejected { problems }.into());
        }
        let device = self.evaluator.host.device();
        let rejected = |case: &str, why: &dyn std::fmt::Display| {
            Stop::from(Verdict::LaunchRejected {
                reason: format!("case {case}: {why}"),
            })
        };
        let mut plans = BTreeMap::new();
        for case in self.passes().cases() {
            let plan = source
                .plan()
                .resolve(self.task, &case.dims, &configuration, &device.limits)
                .map_err(|error| rejected(&case.name, &error))?;
            let tensors = tensor_bytes(self.task, case, Dtype::bytes)?;
            let (kind, memory) = (device.kind, device.memory_bytes);
            if let Some(why) = scratch::refusal(kind, memory, plan.workspace_bytes(), tensors) {
                return Err(rejected(&case.name, &why));
            }
            plans.insert(case.name.clone(), plan);
        }
        self.evidence.plans.clone_from(&plans);
        let candidate = Candidate {
            source,
            configuration,
            plans,
        };
        let planned = self.planned_blocks(&candidate.plans);
        self.judge_gates(&candidate, &planned)?;
        Ok(candidate)
    }

    /// An image, and the gates on its resources.
    fn compile(&mut self, candidate: &Candidate) -> Result<Compiled, Stop> {
        let compiled = self.build(&candidate.source, &candidate.configuration)?;
        let compiled = compiled.map_err(Stop::from)?;
        let launched = candidate
            .plans
            .values()
            .flat_map(|plan| &plan.steps)
            .filter_map(|step| match step {
                ResolvedStep::Kernel(launch) => Some(launch.kernel.as_str()),
                ResolvedStep::Memset { .. } => None,
            })
            .collect::<BTreeSet<_>>();
        self.evidence.kernels = compiled
            .kernels
            .iter()
            .filter(|kernel| launched.contains(kernel.kernel.as_str()))
            .cloned()
            .collect();
        self.evidence.compiled = Some(compiled.clone());
        let review = policy::review_image(
            &self.request.file,
            candidate.source.text(),
            &compiled.contents,
            &launched,
            &self.task.policy,
        );
        self.evidence.flags = review.flagged;
        if !review.denied.is_empty() {
            return Err(Verdict::PolicyRejected {
                problems: review.denied,
            }
            .into());
        }
        if self.request.stage.decides_promotion() {
            let (code, review) = self.read_back(candidate.source.text(), &compiled)?;
            self.evidence.machine_code = Some(code);
            self.evidence.flags.extend(review.flagged);
            if !review.denied.is_empty() {
                return Err(Verdict::PolicyRejected {
                    problems: review.denied,
                }
                .into());
            }
        }
        let limits = &self.evaluator.host.device().limits;
        for plan in candidate.plans.values() {
            if let Some(verdict) = judge::judge_image(plan, &compiled.kernels, limits) {
                return Err(verdict.into());
            }
        }
        let planned = self.planned_blocks(&candidate.plans);
        self.judge_gates(candidate, &planned)?;
        Ok(compiled)
    }

    /// The task's reference as an image. One that does not compile is nobody's verdict.
    fn reference(&mut self) -> Result<Reference<'a>, Stop> {
        let source = &self.task.reference;
        let configuration = source.plan().default_configuration();
        let compiled = self
            .build(source, &configuration)?
            .map_err(|verdict| EvaluateError::Reference(verdict.to_string()))?;
        Ok(Reference {
            task: self.task,
            compiled,
        })
    }

    pub(super) fn build(
        &self,
        source: &KernelSource,
        configuration: &Configuration,
    ) -> Result<Result<Compiled, Verdict>, EvaluateError> {
        let architecture = self.evaluator.host.device().architecture();
        let text = source.compiler_input();
        let recipe = Recipe {
            source: &text,
            configuration,
            headers: &self.task.headers,
            architecture: &architecture,
        };
        build(&self.evaluator.host, &recipe, self.roles.cancellation)
    }

    /// The blocks of each score case's launches, as planned.
    fn planned_blocks<'c>(&self, plans: &'c BTreeMap<String, ResolvedPlan>) -> Vec<CaseBlocks<'c>> {
        self.task
            .score_cases()
            .filter_map(|case| plans.get_key_value(&case.name))
            .filter_map(|(case, plan)| CaseBlocks::planned(case, plan))
            .collect()
    }

    /// Looks at every gate the facts so far decide, and stops at a broken one that rejects.
    fn judge_gates(
        &mut self,
        candidate: &Candidate,
        blocks: &[CaseBlocks<'_>],
    ) -> Result<(), Stop> {
        let limits = &self.evaluator.host.device().limits;
        self.evidence.gates =
            judge::evaluate_gates(self.task, blocks, &self.evidence.kernels, limits);
        let phase = candidate.source.step().map(|step| step.phase.as_str());
        match judge::judge_gates(&self.evidence.gates, phase, self.request.stage) {
            Some(verdict) => Err(verdict.into()),
            None => Ok(()),
        }
    }

    /// The passes of the score stage: on silicon every draw several times, each over poison of
    /// its own; the outputs of the first are compared with the reference, those of the others
    /// with the first, so that every timed output is verified.
    fn score_passes(&self) -> Result<Vec<Pass>, Problem> {
        let mut passes = self.first_passes()?;
        if self.evaluator.host.device().kind == DeviceKind::Emulated {
            return Ok(passes);
        }
        let timed = passes.iter();
        let timed = timed.filter(|pass| pass.purpose == ExecutionPurpose::Score);
        let timed = timed.cloned().collect::<Vec<_>>();
        for first in &timed {
            let draws = timed.iter().filter(|pass| pass.case == first.case).count();
            passes.extend((1..SAMPLES.div_ceil(draws as u64)).map(|repetition| Pass {
                poison: first.poison.wrapping_add(repetition),
                comparison: Against::Itself,
                ..first.clone()
            }));
        }
        Ok(passes)
    }

    /// The score cases on each of their inputs once, and what else is left for their stage. On the
    /// emulated device, whose model is deterministic, each case has one input.
    fn first_passes(&self) -> Result<Vec<Pass>, Problem> {
        match self.evaluator.host.device().kind {
            DeviceKind::Emulated => self.passes().score_once(),
            DeviceKind::Nvidia => self.passes().score(|case| self.draws(case)),
        }
    }

    /// On how many different inputs a score case is timed in turn.
    pub(super) fn draws(&self, case: &Case) -> Result<u32, Problem> {
        match self.evaluator.host.device().kind {
            DeviceKind::Emulated => Ok(EMULATED_DRAWS),
            DeviceKind::Nvidia => {
                let bytes = tensor_bytes(self.task, case, Dtype::bytes)?;
                Ok(statistics::input_draws(bytes))
            }
        }
    }
}
