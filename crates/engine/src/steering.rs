//! Steering: checks the directions that people give a run, and records them. The search reads them
//! from the records.

use domain::api::{
    BanRequest, BudgetRequest, CandidateState, CandidateSummary, ForkOrigin, ForkRequest,
    HintRequest, InsightRequest, ModelRequest, PromotionView, RunState, RunView, Steer,
    SteeringEntry,
};
use domain::candidate::KernelSource;
use domain::cleaning;
use domain::id::{CandidateId, RunId};
use domain::margins::{MIN_PROMOTION_SPEEDUP, is_promotable};
use domain::problem::{Problem, Problems};
use domain::search::{Method, Operator};
use domain::task::Task;
use domain::verdict::VerdictKind;
use store::{NewCandidate, NewRun, Snapshot, StoreError, Takeover};

use crate::promote::branch_name;
use crate::{Created, Engine, EngineError, intake, model_choices};

/// The longest hint or idea, characters.
const MAX_TEXT: usize = 2_000;
/// The most prompts that a hint may be limited to.
const MAX_PROMPTS: u32 = 100_000;

impl Engine {
    /// Gives a run a text that its next prompts carry.
    ///
    /// # Errors
    /// The text is empty or too long, the run is unknown or over, or the database fails.
    pub async fn hint(
        &self,
        run: RunId,
        actor: &str,
        request: HintRequest,
    ) -> Result<SteeringEntry, EngineError> {
        let mut problems = Vec::new();
        let text = text("text", &request.text, &mut problems);
        if let Some(prompts) = request.prompts
            && !(1..=MAX_PROMPTS).contains(&prompts)
        {
            let message = format!("a hint is for 1 to {MAX_PROMPTS} prompts, not for {prompts}");
            let fix = "leave it out for a hint that holds until it is withdrawn";
            problems.push(Problem::whole("prompts", message, fix));
        }
        refuse(problems)?;
        let what = Steer::Hint {
            text,
            prompts: request.prompts,
        };
        Ok(self.store.direct(run, actor, what, self.now()).await?)
    }

    /// Makes an accepted candidate a parent of every further one.
    ///
    /// # Errors
    /// The candidate is unknown, of another run, not accepted, or banned; the run is over; or the
    /// database fails.
    pub async fn pin(
        &self,
        run: RunId,
        actor: &str,
        candidate: CandidateId,
    ) -> Result<SteeringEntry, EngineError> {
        let summary = self.accepted_of(run, candidate).await?;
        let what = Steer::Pin {
            candidate: summary.id,
            ordinal: summary.ordinal,
        };
        Ok(self.store.direct(run, actor, what, self.now()).await?)
    }

    /// Bans a candidate, or an idea.
    ///
    /// # Errors
    /// The request names both or neither, the candidate is unknown, of another run or the baseline, the
    /// run is over, or the database fails.
    pub async fn ban(
        &self,
        run: RunId,
        actor: &str,
        request: BanRequest,
    ) -> Result<SteeringEntry, EngineError> {
        let mut problems = Vec::new();
        let (candidate, idea) = match (request.candidate, request.idea) {
            (Some(candidate), None) => (Some(candidate), None),
            (None, Some(idea)) => (None, Some(text("idea", &idea, &mut problems))),
            _ => {
                let message = "a ban is of a candidate or of an idea";
                let fix = "name one of both";
                problems.push(Problem::whole("candidate", message, fix));
                (None, None)
            }
        };
        if idea.is_some() && request.descendants {
            let message = "an idea has no descendants";
            let fix = "leave it out, or ban a candidate";
            problems.push(Problem::whole("descendants", message, fix));
        }
        refuse(problems)?;
        let Some(candidate) = candidate else {
            let what = Steer::Avoid {
                idea: idea.unwrap_or_default(),
            };
            return Ok(self.store.direct(run, actor, what, self.now()).await?);
        };
        let summary = self.original_of(run, candidate).await?;
        if summary.ordinal == 0 {
            return Err(invalid(
                "#0 is the baseline, which every time is compared with",
                "ban candidates that were made from it",
            ));
        }
        let banned = self
            .store
            .ban(
                run,
                actor,
                summary.id,
                summary.ordinal,
                request.descendants,
                self.now(),
            )
            .await?;
        Ok(banned)
    }

    /// Corrects a candidate's thought as prompts show it, or leaves it out of prompts.
    ///
    /// # Errors
    /// The text is empty or too long, the candidate is unknown, of another run or without a thought, the
    /// run is over, or the database fails.
    pub async fn edit_insight(
        &self,
        run: RunId,
        actor: &str,
        request: InsightRequest,
    ) -> Result<SteeringEntry, EngineError> {
        let mut problems = Vec::new();
        let given = request.text.as_deref();
        let text = given.map(|given| text("text", given, &mut problems));
        refuse(problems)?;
        let summary = self.original_of(run, request.candidate).await?;
        let ordinal = summary.ordinal;
        let has_thought = self.record(summary.id).await?.idea.is_some();
        if ordinal == 0 || !has_thought {
            return Err(invalid(
                format!("#{ordinal} has no thought that prompts could show"),
                "name a candidate of the run's insights",
            ));
        }
        let what = Steer::Insight {
            candidate: summary.id,
            ordinal,
            text,
        };
        Ok(self.store.direct(run, actor, what, self.now()).await?)
    }

    /// Withdraws a hint, a pin, a ban, an avoided idea or an edited insight.
    ///
    /// # Errors
    /// The run has no such entry in force, it is over, or the database fails.
    pub async fn withdraw(
        &self,
        run: RunId,
        actor: &str,
        entry: u32,
    ) -> Result<SteeringEntry, EngineError> {
        match self.store.withdraw(run, actor, entry, self.now()).await {
            Err(StoreError::Unknown {
                subject: "steering",
                ..
            }) => Err(EngineError::Invalid(Problems(vec![Problem::whole(
                "entry",
                format!("entry {entry} of the run is no hint, pin, ban or edited insight in force"),
                format!("list the entries: GET /api/v1/runs/{}/steering", run.uuid()),
            )]))),
            other => Ok(other?),
        }
    }

    /// Changes the limits of a run. One that ended because of a limit goes on when this one is raised,
    /// and one that ended early when this stop is put off.
    ///
    /// # Errors
    /// No limit is given, or one below what is used; the run ended for another reason; or the database
    /// fails.
    pub async fn change_budget(
        &self,
        run: RunId,
        actor: &str,
        change: BudgetRequest,
    ) -> Result<SteeringEntry, EngineError> {
        let view = self.view_of(run).await?;
        let mut problems = budget_defects(&view, &change);
        if problems.is_empty() {
            let mut request = self.store.request(run).await?;
            request.budget = change.applied_to(request.budget);
            problems = model_choices::defects(&request, &self.models);
            problems
                .retain(|problem| problem.file.starts_with("budget") || problem.file == "models");
        }
        refuse(problems)?;
        if let RunState::Completed { reason } = view.state {
            let Some(setting) = reason.setting() else {
                return Err(EngineError::Refused {
                    why: format!(
                        "continue run {run}: it ended with {reason:?} ({reason}), which no budget changes; fork \
                         it to go on from one of its candidates"
                    ),
                });
            };
            if !goes_on(&view, &change, setting) {
                return Err(invalid_field(
                    setting,
                    format!("the run ended because of this limit: {reason}"),
                    match setting {
                        "floor_percent" | "trials_without_gain" => {
                            "raise it, or give 0, so that the run can go on"
                        }
                        "gain_per_dollar" => "lower it, or give 0, so that the run can go on",
                        _ => "raise it, so that the run can go on",
                    },
                ));
            }
        }
        let now = self.now();
        Ok(self.store.change_budget(run, actor, &change, now).await?)
    }

    /// Replaces a model of a run by another one, also in the calls that wait for an answer.
    ///
    /// # Errors
    /// The run does not ask the first model, the second is not configured or has no price where dollars
    /// are limited, the run is over, or the database fails.
    pub async fn replace_model(
        &self,
        run: RunId,
        actor: &str,
        request: ModelRequest,
    ) -> Result<SteeringEntry, EngineError> {
        let ModelRequest { from, to } = request;
        let mut changed = self.store.request(run).await?;
        let asked = changed.models.iter().map(|choice| choice.name.as_str());
        let asked = asked.collect::<Vec<_>>().join(", ");
        if asked.is_empty() {
            return Err(invalid_field(
                "from",
                format!(
                    "the run asks no model: its method is {}",
                    changed.method.as_str()
                ),
                "fork the run with a method that asks models",
            ));
        }
        if !changed.models.iter().any(|choice| choice.name == from) {
            return Err(invalid_field(
                "from",
                format!("the run does not ask {from:?}"),
                format!("name a model of the run: {asked}"),
            ));
        }
        if from == to {
            return Err(invalid_field(
                "to",
                format!("{to:?} cannot replace itself"),
                "name another configured model",
            ));
        }
        changed.models.retain(|choice| choice.name == from);
        changed.models[0].name.clone_from(&to);
        let mut problems = model_choices::defects(&changed, &self.models);
        problems.retain(|problem| problem.file == "models");
        for problem in &mut problems {
            "to".clone_into(&mut problem.file);
        }
        refuse(problems)?;
        let Some(view) = self.models.view(&to) else {
            return Err(invalid_field(
                "to",
                format!("no model is named {to:?}"),
                "name a configured model",
            ));
        };
        let takeover = Takeover {
            from: &from,
            to: &to,
        };
        let entry = self
            .store
            .replace_model(
                run,
                actor,
                takeover,
                |prompt| view.ceiling(prompt),
                self.now(),
            )
            .await?;
        Ok(entry)
    }

    /// Queues a further evaluation of a candidate, which is recorded beside the first.
    ///
    /// # Errors
    /// The candidate is unknown, of another run, or has no verdict of a worker; the run's jobs do not
    /// run any more; or the database fails.
    pub async fn reevaluate(
        &self,
        run: RunId,
        actor: &str,
        candidate: CandidateId,
    ) -> Result<SteeringEntry, EngineError> {
        let summary = self.original_of(run, candidate).await?;
        let ordinal = summary.ordinal;
        let problem = match summary.verdict {
            _ if ordinal == 0 => Some((
                "#0 is the baseline, which every evaluation times again".to_owned(),
                "name another candidate",
            )),
            None => Some((
                format!("#{ordinal} has no verdict yet"),
                "wait for its first verdict",
            )),
            Some(VerdictKind::ParseRejected) => Some((
                format!("#{ordinal} does not parse, so there is nothing to run"),
                "submit a mended file",
            )),
            Some(_) => None,
        };
        if let Some((message, fix)) = problem {
            return Err(invalid(message, fix));
        }
        let now = self.now();
        let entry = self.store.reevaluate(run, actor, summary.id, ordinal, now);
        Ok(entry.await?)
    }

    /// Begins to promote an accepted candidate: it is confirmed, and committed if that holds.
    ///
    /// # Errors
    /// The candidate is unknown, of another run, not accepted, banned, too slow or held back by a gate;
    /// a promotion is under way; or the database fails.
    pub async fn promote(
        &self,
        run: RunId,
        actor: &str,
        candidate: CandidateId,
    ) -> Result<PromotionView, EngineError> {
        let summary = self.accepted_of(run, candidate).await?;
        let ordinal = summary.ordinal;
        let speedup = summary.speedup.unwrap_or_default();
        if !is_promotable(speedup) {
            return Err(invalid(
                format!(
                    "#{ordinal} has {speedup:.3} times the baseline's speed, and a promotion needs \
                     more than {MIN_PROMOTION_SPEEDUP}"
                ),
                "name a faster candidate",
            ));
        }
        if !summary.unmet_gates.is_empty() {
            return Err(invalid(
                format!(
                    "#{ordinal} does not meet every gate that the task sets before a promotion"
                ),
                "name a candidate that meets the gates",
            ));
        }
        let outline = self.store.outline(run).await?;
        let task = self.task(outline.content).await?;
        let branch = branch_name(&task.name, run, summary.modelled);
        let view = self
            .store
            .promote(run, actor, summary.id, ordinal, &branch, self.now())
            .await?;
        Ok(view)
    }

    /// Creates a run of the same task that starts from an accepted candidate of another run. The same
    /// key always gives the same run.
    ///
    /// # Errors
    /// The candidate is unknown, of another run or not accepted; the new run's settings are wrong; or
    /// the database fails.
    pub async fn fork(
        &self,
        run: RunId,
        actor: &str,
        fork: ForkRequest,
        idempotency_key: Option<&str>,
    ) -> Result<Created, EngineError> {
        let summary = self.accepted_of(run, fork.candidate).await?;
        if summary.ordinal == 0 {
            return Err(invalid(
                "#0 is the baseline, from which every run starts",
                "launch a run, or name another candidate",
            ));
        }
        let source = self.view_of(run).await?;
        let mut request = self.store.request(run).await?;
        let method = fork.method.unwrap_or(request.method);
        if matches!(method, Method::Playbook | Method::Sweep) {
            return Err(invalid_field(
                "method",
                format!(
                    "{} starts from files of the task, not from a candidate",
                    method.as_str()
                ),
                "choose a method that asks models, or external",
            ));
        }
        request.method = method;
        request.start = None;
        if method.asks_models() {
            request.models = fork.models.unwrap_or(request.models);
            request.evolution = fork.evolution.unwrap_or(request.evolution);
        } else {
            request.models = fork.models.unwrap_or_default();
            request.evolution = fork.evolution.unwrap_or_default();
            (request.budget.tokens, request.budget.dollars) = (None, None);
            request.budget.gain_per_dollar = None;
        }
        if !method.shows_lessons() {
            request.lessons.clear();
        }
        request.budget = fork.budget.applied_to(request.budget);
        request.seed = fork.seed.unwrap_or(request.seed);
        let made = format!("{} from #{}", source.name, summary.ordinal);
        request.name = Some(fork.name.unwrap_or_else(|| intake::one_line(&made)));
        let task = self.task(self.store.content_of(run).await?).await?;
        let mut problems = intake::defects(&request, &task);
        problems.extend(model_choices::defects(&request, &self.models));
        refuse(problems)?;
        let origin = ForkOrigin {
            run,
            candidate: summary.id,
            ordinal: summary.ordinal,
        };
        let promotion = match &request.promotion {
            Some(target) => target.clone(),
            None => self.default_target()?,
        };
        let new = NewRun {
            request: &request,
            promotion: &promotion,
            idempotency_key,
            actor,
            fork: Some(origin),
        };
        let created = self.store.create_run(new, self.now()).await?;
        Ok(Created {
            run: created.run,
            fresh: created.fresh,
        })
    }

    /// Records a copy of the candidate that the run was forked from. It is not charged.
    pub(crate) async fn propose_origin(
        &self,
        snapshot: &Snapshot,
        task: &Task,
    ) -> Result<Option<NewCandidate>, EngineError> {
        let Some((origin, baseline)) = snapshot.forked_from.zip(snapshot.entries.first()) else {
            return Ok(None);
        };
        let record = self.record(origin.candidate).await?;
        let parsed = KernelSource::parse(&record.file, record.source.as_str());
        let (identity, configuration, verdict) = match parsed {
            Ok(source) => {
                let configuration = source.plan().default_configuration();
                let identity = source.identity(&configuration);
                (Some(identity), configuration, None)
            }
            Err(problems) => {
                let verdict = Box::new(intake::parse_rejected(task, problems));
                (None, Default::default(), Some(verdict))
            }
        };
        Ok(Some(NewCandidate {
            parent: Some(baseline.id),
            further_parents: Vec::new(),
            operator: Operator::Fork,
            generation: 1,
            proposer: record.summary.proposer.clone(),
            title: record.summary.title.clone(),
            file: record.file.clone(),
            source: record.source.clone(),
            identity,
            configuration,
            idea: record.idea.clone(),
            trial: false,
            verdict,
        }))
    }

    async fn view_of(&self, run: RunId) -> Result<RunView, EngineError> {
        let view = self.store.run(run).await?;
        Ok(view.ok_or_else(|| StoreError::Unknown {
            subject: "run",
            id: run.to_string(),
        })?)
    }

    /// A candidate of a run, or the one that it repeats.
    async fn original_of(
        &self,
        run: RunId,
        candidate: CandidateId,
    ) -> Result<CandidateSummary, EngineError> {
        self.store.outline(run).await?;
        let record = self.store.candidate(candidate).await?;
        let record = record.ok_or_else(|| StoreError::Unknown {
            subject: "candidate",
            id: candidate.to_string(),
        })?;
        if record.run != run {
            return Err(invalid(
                format!("{candidate} is a candidate of {}, not of {run}", record.run),
                format!(
                    "list the run's candidates: GET /api/v1/runs/{}/candidates",
                    run.uuid()
                ),
            ));
        }
        let CandidateState::Duplicate { of } = record.summary.state else {
            return Ok(record.summary);
        };
        let original = self.store.summary(of).await?;
        Ok(original.ok_or_else(|| StoreError::Unknown {
            subject: "candidate",
            id: of.to_string(),
        })?)
    }

    /// An accepted candidate of a run that is not banned.
    async fn accepted_of(
        &self,
        run: RunId,
        candidate: CandidateId,
    ) -> Result<CandidateSummary, EngineError> {
        let summary = self.original_of(run, candidate).await?;
        let ordinal = summary.ordinal;
        match summary.verdict {
            Some(VerdictKind::Accepted) => {}
            Some(kind) => {
                return Err(invalid(
                    format!("#{ordinal} was not accepted ({})", kind.as_str()),
                    "name an accepted candidate",
                ));
            }
            None => {
                return Err(invalid(
                    format!("#{ordinal} has no verdict yet"),
                    "wait until it is accepted",
                ));
            }
        }
        let steering = self.store.outline(run).await?.steering;
        if steering.banned.contains(&summary.id) {
            return Err(invalid(
                format!("#{ordinal} is banned"),
                "withdraw the ban first, or name another candidate",
            ));
        }
        Ok(summary)
    }
}

/// A text that people gave, as prompts can show it.
fn text(field: &str, given: &str, problems: &mut Vec<Problem>) -> String {
    let text = cleaning::clean_line(given, MAX_TEXT + 1);
    let length = text.chars().count();
    if text.is_empty() {
        let message = "the text is empty";
        problems.push(Problem::whole(field, message, "write a sentence"));
    } else if length > MAX_TEXT {
        let message = format!("the text is longer than {MAX_TEXT} characters");
        problems.push(Problem::whole(field, message, "shorten it"));
    }
    text
}

/// The limits of a change that are missing, or below what the run has used.
fn budget_defects(view: &RunView, change: &BudgetRequest) -> Vec<Problem> {
    let spend = &view.spend;
    let tokens = spend.usage.total() + spend.committed_tokens + spend.interrupted_tokens;
    let dollars = spend.dollars + spend.committed_dollars + spend.interrupted_dollars;
    let mut problems = Vec::new();
    let mut require = |field: &str, holds: bool, used: String| {
        if !holds {
            let message = format!("the run has used {used} already");
            let fix = format!("give {used} or more");
            problems.push(Problem::whole(&format!("budget.{field}"), message, fix));
        }
    };
    if let Some(trials) = change.trials {
        let used = view.trials.max(1);
        require("trials", trials >= used, used.to_string());
    }
    if let Some(seconds) = change.wall_seconds {
        let used = view.running_ms.div_ceil(1000).max(1);
        require("wall_seconds", seconds >= used, used.to_string());
    }
    if let Some(limit) = change.tokens {
        require("tokens", limit >= tokens, tokens.to_string());
    }
    if let Some(limit) = change.dollars {
        require("dollars", limit >= dollars, dollars.to_string());
    }
    if let Some(seconds) = change.device_seconds {
        let used = spend.device_ms.div_ceil(1000).max(1);
        require("device_seconds", seconds >= used, used.to_string());
    }
    if let Some(limit) = change.device_dollars {
        let used = spend.device_dollars;
        require("device_dollars", limit >= used, used.to_string());
    }
    if *change == BudgetRequest::default() {
        problems.push(Problem::whole(
            "budget",
            "no limit is given",
            "give trials, wall_seconds, tokens, dollars, device_seconds, device_dollars, \
             floor_percent, gain_per_dollar or trials_without_gain",
        ));
    }
    problems.extend(intake::floor_defect(&change.applied_to(view.budget)));
    problems
}

/// Returns true if a change of the setting that ended a run lets it go on.
fn goes_on(view: &RunView, change: &BudgetRequest, setting: &str) -> bool {
    let (before, after) = (view.budget, change.applied_to(view.budget));
    match setting {
        "trials" => after.trials > before.trials,
        "wall_seconds" => after.wall_seconds > before.wall_seconds,
        "tokens" => after.tokens > before.tokens,
        "dollars" => after.dollars > before.dollars,
        "device_dollars" => after.device_dollars > before.device_dollars,
        "floor_percent" => {
            after.floor_percent.is_none() || after.floor_percent > before.floor_percent
        }
        "trials_without_gain" => {
            after.trials_without_gain.is_none()
                || after.trials_without_gain > before.trials_without_gain
        }
        // None is less than any number.
        "gain_per_dollar" => after.gain_per_dollar < before.gain_per_dollar,
        _ => after.device_seconds > before.device_seconds,
    }
}

fn refuse(problems: Vec<Problem>) -> Result<(), EngineError> {
    if problems.is_empty() {
        Ok(())
    } else {
        Err(EngineError::Invalid(Problems(problems)))
    }
}

fn invalid(message: impl Into<String>, fix: impl Into<String>) -> EngineError {
    invalid_field("candidate", message, fix)
}

fn invalid_field(field: &str, message: impl Into<String>, fix: impl Into<String>) -> EngineError {
    EngineError::Invalid(Problems(vec![Problem::whole(field, message, fix)]))
}
