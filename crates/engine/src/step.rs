//! The engine's loop: read the rows, perform the actions that follow from them, wait for a change or
//! one second.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use convert::edit::{self, Donor};
use domain::api::RunState;
use domain::candidate::{Edit, KernelSource};
use domain::id::{CandidateId, RunId};
use domain::search::{
    Action, Draft, EntryState, Operator, Proposal, RunSnapshot, StopReason, Totals, Tunables,
    next_actions,
};
use domain::task::Task;
use store::{Duties, NewCandidate, Snapshot, StoreError};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, error, info, info_span, warn};

use crate::configured::{can_write_values, with_values};
use crate::draft::Planned;
use crate::promote::branch_name;
use crate::unpromoted::why_unpromoted;
use crate::{Engine, EngineError, KEPT_EDITS, KEPT_TUNABLES, Progress};

/// The loop's wait between two rounds if nothing was committed.
const IDLE: Duration = Duration::from_secs(1);
/// The longest wait after failures.
const MAX_BACK_OFF: Duration = Duration::from_secs(30);
/// The interval at which the runs' running time is recorded.
const TIME_KEEPING: TimeDelta = TimeDelta::seconds(5);

/// The task that takes the steps of a run.
struct Driven {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl Engine {
    /// Drives every run that this service owns until `shutdown`, each by a task of its own, so that a run with many
    /// candidates does not stop its neighbours. They take turns at writing, in the order in which they ask for it.
    /// Failures are logged and tried again, later each time.
    pub async fn run_forever(&self, shutdown: CancellationToken) {
        let mut hint = self.store.changed_service();
        let mut driven = HashMap::<RunId, Driven>::new();
        let mut started = false;
        let mut kept: Option<DateTime<Utc>> = None;
        let mut wait = IDLE;
        loop {
            hint.borrow_and_update();
            let worked = async {
                let now = self.now();
                if !started {
                    self.store.extend_leases(now).await?;
                    started = true;
                }
                let duties = self.take_duties().await?;
                if kept.is_none_or(|kept| now - kept >= TIME_KEEPING) {
                    self.store.keep_time(now).await?;
                    kept = Some(now);
                }
                let settled = self.settle_expired_and_confirmed(&duties).await;
                driven.retain(|_, driven| !driven.task.is_finished());
                for (run, driven) in &driven {
                    if duties.runs_of_others.contains(run) && !driven.stop.is_cancelled() {
                        info!("another service goes on with run {run}");
                        driven.stop.cancel();
                    }
                }
                for run in duties.runs {
                    driven
                        .entry(run)
                        .or_insert_with(|| self.begin_driving(run, &shutdown));
                }
                settled
            }
            .await;
            if pause(worked, &mut wait, &mut hint, &shutdown).await {
                break;
            }
        }
        for (run, driven) in driven {
            if let Err(error) = driven.task.await {
                error!("the task of run {run} ended: {error}");
            }
        }
        let ended = async {
            self.store.keep_time(self.now()).await?;
            self.store.end_duties().await
        };
        if let Err(error) = ended.await {
            warn!("failed to {error}; other services wait until this one's lease ends");
        }
    }

    fn begin_driving(&self, run: RunId, shutdown: &CancellationToken) -> Driven {
        let stop = shutdown.child_token();
        let (engine, token) = (self.clone(), stop.clone());
        let span = info_span!("run", run.id = %run);
        let task = tokio::spawn(async move { engine.drive(run, token).await }.instrument(span));
        Driven { task, stop }
    }

    /// Takes the steps of one run until it is paused or over, or until `stop`.
    async fn drive(&self, run: RunId, stop: CancellationToken) {
        let mut hint = self.store.changed_search(run);
        let mut wait = IDLE;
        loop {
            hint.borrow_and_update();
            let worked = async {
                // The database may have given the run to another service meanwhile.
                if !self.duties().hold() {
                    return Ok(true);
                }
                let active = self.step_if(run, Snapshot::is_active).await?;
                self.ask_models(Some(run)).await?;
                Ok(active)
            };
            let worked = match worked.await {
                Ok(true) => Ok(()),
                Ok(false) => break,
                Err(error) => Err(error),
            };
            if pause(worked, &mut wait, &mut hint, &stop).await {
                break;
            }
        }
        // After the last step, which may have begun further calls.
        if stop.is_cancelled() {
            self.stop_asking(run);
        }
        self.progress().remove(&run);
    }

    /// One round of everything: what [`Engine::run_forever`] does at once, one after the other. An error
    /// of one run does not stop the others.
    ///
    /// # Errors
    /// The first failure, after everything was tried.
    pub async fn tick(&self) -> Result<(), EngineError> {
        let duties = self.take_duties().await?;
        let mut worked = self.settle_expired_and_confirmed(&duties).await;
        self.progress().retain(|run, _| duties.runs.contains(run));
        for run in duties.runs {
            let step = self
                .step(run)
                .instrument(info_span!("run", run.id = %run))
                .await;
            worked = worked.and(step);
        }
        worked.and(self.ask_models(None).await)
    }

    async fn take_duties(&self) -> Result<Duties, EngineError> {
        let duties = self.store.take_duties(self.now()).await?;
        self.clock.follow(duties.database_time);
        self.duties().clone_from(&duties);
        Ok(duties)
    }

    /// Returns expired leases to the queue, promotes confirmed champions, and re-checks old ones.
    async fn settle_expired_and_confirmed(&self, duties: &Duties) -> Result<(), EngineError> {
        let late = self.store.expire_leases(self.now()).await?;
        if late > 0 {
            warn!(jobs = late, "took back the leases of silent workers");
        }
        if !duties.shared_work {
            return Ok(());
        }
        let worked = self.settle_promotions().await;
        worked.and(self.recheck_champions().await)
    }

    /// Takes the next step of one run, if it has one.
    pub(crate) async fn step(&self, run: RunId) -> Result<(), EngineError> {
        self.step_if(run, |_| true).await.map(drop)
    }

    /// Takes the next step of one run if its state is as wanted. Returns true if it is.
    async fn step_if(
        &self,
        run: RunId,
        wanted: impl Fn(&Snapshot) -> bool,
    ) -> Result<bool, EngineError> {
        // The progress is removed while it is used, so that a second step of the run at the same time reads everything itself.
        let known = self.progress().remove(&run).unwrap_or_default();
        let snapshot = self
            .store
            .snapshot_after(run, known.entries, known.settled)
            .await?;
        if !wanted(&snapshot) {
            return Ok(false);
        }
        let mut decision = Decision {
            snapshot: Arc::new(snapshot),
            totals: known.totals,
            tunables: known.tunables,
            edits: known.edits,
            actions: Vec::new(),
        };
        let stepped = self.step_from(&mut decision).await;
        // Nothing else has it, unless a decision is still being made that was waited for in vain.
        if let Ok(snapshot) = Arc::try_unwrap(decision.snapshot) {
            let progress = Progress {
                entries: snapshot.entries,
                settled: snapshot.settled,
                totals: decision.totals,
                tunables: decision.tunables,
                edits: decision.edits,
            };
            self.progress().insert(run, progress);
        }
        stepped.map(|()| true)
    }

    async fn step_from(&self, decision: &mut Decision) -> Result<(), EngineError> {
        let snapshot = Arc::clone(&decision.snapshot);
        let run = snapshot.run;
        let task = match self.task(snapshot.content).await {
            Ok(task) => task,
            Err(EngineError::Task(problems)) => {
                let reason = format!("its task no longer reads: {problems}");
                return self.fail(run, reason).await;
            }
            Err(error) => return Err(error),
        };
        let reached = match snapshot.entries.first().map(|baseline| &baseline.state) {
            Some(EntryState::Pending) => Some(RunState::CheckingBaseline),
            Some(EntryState::Accepted { .. }) => Some(RunState::Running),
            Some(EntryState::Rejected(_) | EntryState::Abandoned { .. }) | None => None,
        };
        if let Some(reached) = reached.filter(|reached| *reached != snapshot.state) {
            self.store.advance(run, &reached, self.now()).await?;
        }
        decision.decide(&task, None).await?;
        loop {
            match decision.actions[..] {
                [Action::ReadTunables(candidate)] => {
                    self.read_tunables(decision, &task, candidate).await?;
                }
                [Action::ReadEdits(candidate)] => {
                    self.read_edits(decision, &task, candidate).await?;
                }
                _ => break,
            }
            decision.decide(&task, None).await?;
        }
        let drafts = drafts(&decision.actions);
        if !drafts.is_empty() {
            match self.plan_drafts(&snapshot, &task, &drafts).await? {
                Planned::Done => return Ok(()),
                Planned::Short(reason) => decision.decide(&task, Some(reason)).await?,
                Planned::Stuck(reason) => {
                    warn!("run {run} is paused: {reason}");
                    self.store.pause(run, &reason, self.now()).await?;
                    return Ok(());
                }
            }
        }
        let mut proposals = Vec::new();
        for action in std::mem::take(&mut decision.actions) {
            match action {
                Action::Propose(proposal) => proposals.push(proposal),
                Action::ProposeOrigin => {
                    if let Some(origin) = self.propose_origin(&snapshot, &task).await? {
                        return self.record_all(run, &[origin]).await;
                    }
                }
                // Planned above, as long as the budget covers them.
                Action::Draft(_) | Action::ReadTunables(_) | Action::ReadEdits(_) => {}
                Action::AbandonDrafts => {
                    let why = "the run ended before a model had written it";
                    self.store.abandon_drafts(run, why, self.now()).await?;
                }
                Action::Promote(candidate) => {
                    let modelled = match self.store.summary(candidate).await? {
                        Some(summary) => summary.modelled,
                        None => continue,
                    };
                    let branch = branch_name(&task.name, run, modelled);
                    self.store
                        .begin_promotion(run, candidate, &branch, self.now())
                        .await?;
                    info!(candidate.id = %candidate, "confirming candidate {candidate}");
                }
                Action::Finish(reason) => {
                    let unpromoted =
                        why_unpromoted(&decision.view(&task, None), snapshot.refused.len());
                    self.store
                        .finish(run, reason, unpromoted.as_deref(), self.now())
                        .await?;
                    info!("run {run} completed: {reason}");
                }
                Action::Fail(reason) => return self.fail(run, reason).await,
            }
        }
        self.propose(decision, &task, &proposals).await
    }

    /// Reads the tunables of a candidate for the decision, on a thread for long computations, because up to
    /// 4096 configurations are compared with the device's limits.
    async fn read_tunables(
        &self,
        decision: &mut Decision,
        task: &Arc<Task>,
        candidate: CandidateId,
    ) -> Result<(), EngineError> {
        let baseline = match decision.snapshot.entries.first() {
            Some(entry) => self.record(entry.id).await?.evaluation.clone(),
            None => None,
        };
        let device = baseline.and_then(|evaluation| evaluation.device);
        let limits = device.map(|device| device.limits);
        let (record, task) = (self.record(candidate).await?, Arc::clone(task));
        let read = tokio::task::spawn_blocking(move || {
            let read = Tunables::read(&task, &record.file, &record.source, limits.as_ref());
            let is_writable = |source: &KernelSource| can_write_values(&record.file, source);
            Some(read).filter(|read| read.source().is_some_and(is_writable))
        });
        let read = read.await.map_err(EngineError::Interrupted)?;
        let read = read.unwrap_or_default();
        let kept = Arc::make_mut(&mut decision.tunables);
        if kept.len() >= KEPT_TUNABLES {
            kept.clear();
        }
        kept.insert(candidate, read);
        Ok(())
    }

    /// Finds the edits of a candidate for the decision, on a thread for long computations.
    async fn read_edits(
        &self,
        decision: &mut Decision,
        task: &Arc<Task>,
        candidate: CandidateId,
    ) -> Result<(), EngineError> {
        let (record, task) = (self.record(candidate).await?, Arc::clone(task));
        let found = tokio::task::spawn_blocking(move || {
            let Ok(source) = KernelSource::parse(&record.file, record.source.as_str()) else {
                return Vec::new();
            };
            let playbook = task.playbook.iter();
            let playbook = playbook.map(|(name, source)| Donor {
                name: name.as_str(),
                source,
            });
            let baseline = Donor {
                name: "baseline.cu",
                source: &task.baseline,
            };
            let donors: Vec<Donor<'_>> = std::iter::once(baseline).chain(playbook).collect();
            edit::edits(&record.file, &source, &donors)
        });
        let found = found.await.map_err(EngineError::Interrupted)?;
        let kept = Arc::make_mut(&mut decision.edits);
        if kept.len() >= KEPT_EDITS {
            kept.clear();
        }
        kept.insert(candidate, found);
        Ok(())
    }

    async fn propose(
        &self,
        decision: &Decision,
        task: &Task,
        proposals: &[Proposal],
    ) -> Result<(), EngineError> {
        if proposals.is_empty() {
            return Ok(());
        }
        let run = decision.snapshot.run;
        let mut candidates = Vec::with_capacity(proposals.len());
        for proposal in proposals {
            let parent = proposal
                .parent
                .filter(|_| proposal.operator == Operator::Sweep);
            let tunables = parent.and_then(|parent| decision.tunables.get(&parent));
            let source = tunables
                .and_then(Tunables::source)
                .or_else(|| decision.edited(proposal))
                .or_else(|| source(task, &proposal.file));
            match candidate(source, proposal) {
                Ok(candidate) => candidates.push(candidate),
                Err(reason) => return self.fail(run, reason).await,
            }
        }
        self.record_all(run, &candidates).await
    }

    async fn record_all(&self, run: RunId, candidates: &[NewCandidate]) -> Result<(), EngineError> {
        match self.store.propose_all(run, candidates, self.now()).await {
            Ok(proposed) => {
                info!(candidates = proposed.len(), "proposed candidates");
                Ok(())
            }
            // Someone ended the run since it was read.
            Err(StoreError::WrongState { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn fail(&self, run: RunId, reason: String) -> Result<(), EngineError> {
        warn!("run {run} failed: {reason}");
        Ok(self.store.fail(run, reason, self.now()).await?)
    }
}

/// A run's snapshot with what is decided from it.
struct Decision {
    snapshot: Arc<Snapshot>,
    totals: Totals,
    tunables: Arc<BTreeMap<CandidateId, Tunables>>,
    edits: Arc<BTreeMap<CandidateId, Vec<Edit>>>,
    actions: Vec<Action>,
}

impl Decision {
    /// Decides the next actions on a thread for long computations, because the first decision about a
    /// long run adds up all of its candidates.
    async fn decide(
        &mut self,
        task: &Arc<Task>,
        short_of: Option<StopReason>,
    ) -> Result<(), EngineError> {
        let (snapshot, task) = (Arc::clone(&self.snapshot), Arc::clone(task));
        let (tunables, edits) = (Arc::clone(&self.tunables), Arc::clone(&self.edits));
        let mut totals = std::mem::take(&mut self.totals);
        let decided = tokio::task::spawn_blocking(move || {
            let run = view(&snapshot, &task, &tunables, &edits, short_of);
            let actions = next_actions(&run, &mut totals);
            (actions, totals)
        });
        (self.actions, self.totals) = decided.await.map_err(EngineError::Interrupted)?;
        Ok(())
    }

    /// The run as the search sees it.
    fn view<'a>(&'a self, task: &'a Task, short_of: Option<StopReason>) -> RunSnapshot<'a> {
        view(&self.snapshot, task, &self.tunables, &self.edits, short_of)
    }

    /// The source of a proposal that is an edit.
    fn edited(&self, proposal: &Proposal) -> Option<&KernelSource> {
        let Operator::Edit { edit } = &proposal.operator else {
            return None;
        };
        let mut edits = self.edits.get(&proposal.parent?)?.iter();
        edits
            .find(|known| known.name == *edit)
            .map(|known| &known.source)
    }
}

/// Waits for a hint or for a while: [`IDLE`], or longer after each failure. Returns true if the service
/// shuts down.
async fn pause(
    worked: Result<(), EngineError>,
    wait: &mut Duration,
    hint: &mut watch::Receiver<u64>,
    shutdown: &CancellationToken,
) -> bool {
    // After a failure a hint does not shorten the wait: what failed writes hints too.
    let failed = worked.is_err();
    if let Err(error) = worked {
        *wait = (*wait * 2).min(MAX_BACK_OFF);
        error!(
            error = &error as &dyn std::error::Error,
            "failed to {error}; trying again in {} s",
            wait.as_secs()
        );
    } else {
        *wait = IDLE;
    }
    tokio::select! {
        () = shutdown.cancelled() => true,
        _ = hint.changed(), if !failed => false,
        () = sleep(*wait) => false,
    }
}

fn drafts(actions: &[Action]) -> Vec<Draft> {
    let draft = |action: &Action| match action {
        Action::Draft(draft) => Some(draft.clone()),
        _ => None,
    };
    actions.iter().filter_map(draft).collect()
}

fn view<'a>(
    snapshot: &'a Snapshot,
    task: &'a Task,
    tunables: &'a BTreeMap<CandidateId, Tunables>,
    edits: &'a BTreeMap<CandidateId, Vec<Edit>>,
    short_of: Option<StopReason>,
) -> RunSnapshot<'a> {
    RunSnapshot {
        task,
        method: snapshot.request.method,
        budget: snapshot.request.budget,
        seed: snapshot.request.seed,
        start: snapshot.request.start.as_deref(),
        evolution: &snapshot.request.evolution,
        models: &snapshot.request.models,
        spend: snapshot.spend,
        short_of,
        elapsed: snapshot.elapsed,
        finish_requested: snapshot.finish_requested,
        candidates: &snapshot.entries,
        promotion: snapshot.promotion,
        excluded: &snapshot.excluded,
        steering: &snapshot.steering,
        is_fork: snapshot.forked_from.is_some(),
        tunables,
        edits,
    }
}

/// The candidate a proposal asks for: its source with the configuration written into it.
fn candidate(source: Option<&KernelSource>, proposal: &Proposal) -> Result<NewCandidate, String> {
    let source = source.ok_or_else(|| format!("its task has no file {}", proposal.file))?;
    let source = with_values(&proposal.file, source, &proposal.configuration)
        .map_err(|problems| format!("a configuration cannot be written down: {problems}"))?;
    let proposer = match &proposal.operator {
        Operator::Baseline => "task",
        Operator::Step { .. } => "playbook",
        other => other.as_str(),
    };
    Ok(NewCandidate {
        parent: proposal.parent,
        further_parents: Vec::new(),
        operator: proposal.operator.clone(),
        generation: proposal.generation,
        proposer: proposer.to_owned(),
        title: proposal.title.clone(),
        file: proposal.file.clone(),
        identity: Some(source.identity(&proposal.configuration)),
        idea: source
            .idea()
            // The idea of an edit is its name, and its parent's thought is about another change.
            .filter(|_| !matches!(proposal.operator, Operator::Sweep | Operator::Edit { .. }))
            .cloned(),
        source: source.text().to_owned(),
        configuration: proposal.configuration.clone(),
        trial: proposal.trial,
        verdict: None,
    })
}

fn source<'a>(task: &'a Task, file: &str) -> Option<&'a KernelSource> {
    if file == "baseline.cu" {
        return Some(&task.baseline);
    }
    let step = task.playbook.iter().find(|(own, _)| own == file);
    step.map(|(_, source)| source)
}
