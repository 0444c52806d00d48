//! Performs the actions that `domain::search` decides: proposes, confirms, promotes and ends runs.
//! Serves the requests that need more than rows: leases, briefs and submissions.
//!
//! Level-triggered: every action derives from rows, and a notification only wakes the loop early. A
//! process that is started after a kill continues from the rows. The crate knows neither CUDA nor
//! SQL, and only `llm` uses HTTP.

#![forbid(unsafe_code)]

mod clock;
mod compare;
pub mod configured;
pub mod diff;
mod draft;
mod error;
mod estimate;
mod evaluation_request;
mod external_brief;
mod intake;
mod lessons;
pub mod llm;
mod model_calls;
mod model_choices;
pub mod promote;
pub mod prompt;
mod recording;
mod steering;
mod step;
mod task_definition;
mod unpromoted;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};
use domain::api::CandidateDetail;
use domain::candidate::Edit;
use domain::digest::Digest;
use domain::id::{CandidateId, PromotionId, RunId, WorkerId};
use domain::lease::Lease;
use domain::search::{Entry, Totals, Tunables};
use domain::task::Task;
use domain::trace::traceparent;
use store::{CandidateRecord, Duties, Store, StoreError};

use llm::Models;
use model_calls::CallsInProgress;

pub use clock::{Clock, ManualClock, SteadyClock, SystemClock};
pub use error::EngineError;
pub use evaluation_request::evaluation_request;
pub use intake::Created;

/// Tasks kept in memory; more are read again.
const KEPT_TASKS: usize = 64;
/// Records of candidates kept in memory; more are read again.
const KEPT_RECORDS: usize = 64;
/// Candidates of a run whose tunables are kept in memory, more than an elite has; more are read again.
const KEPT_TUNABLES: usize = 16;
/// Candidates of a run whose edits are kept in memory, more than are edited at a time; more are read again.
const KEPT_EDITS: usize = 8;

/// Settings of the engine.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The bare repository that winners go to unless a run names another; made when missing.
    pub default_repository: PathBuf,
    /// The e-mail address that commits carry.
    pub author_email: String,
    /// The time after a champion's last check at which it is checked again; never if none.
    pub recheck_after: Option<TimeDelta>,
    /// The most devices that evaluate for the runs of one person at a time; no limit if none.
    pub devices_per_person: Option<u32>,
}

/// A run as its last step saw it. Only what changed since is read and added up again.
#[derive(Default)]
struct Progress {
    entries: Vec<Entry>,
    /// Number of entries before the first pending one.
    settled: usize,
    totals: Totals,
    /// Tunables that the search asked for.
    tunables: Arc<BTreeMap<CandidateId, Tunables>>,
    /// Edits that the search asked for.
    edits: Arc<BTreeMap<CandidateId, Vec<Edit>>>,
}

/// The engine. Clones share everything.
#[derive(Clone)]
pub struct Engine {
    store: Store,
    clock: Arc<dyn Clock>,
    settings: Arc<Settings>,
    models: Models,
    calls_in_progress: CallsInProgress,
    tasks: Arc<Mutex<HashMap<Digest, Arc<Task>>>>,
    /// The work that the database last gave to this service.
    duties: Arc<Mutex<Duties>>,
    /// The active runs as their last steps saw them.
    progress: Arc<Mutex<HashMap<RunId, Progress>>>,
    /// Records of judged candidates, as prompts show them.
    records: Arc<Mutex<HashMap<CandidateId, Arc<CandidateRecord>>>>,
    /// Reverts that git refused, with when to try again.
    postponed: Arc<Mutex<HashMap<PromotionId, DateTime<Utc>>>>,
}

impl Engine {
    /// An engine on a store. It does nothing by itself before [`Engine::run_forever`].
    pub fn new(store: Store, clock: Arc<dyn Clock>, settings: Settings, models: Models) -> Self {
        Self {
            store,
            clock,
            settings: Arc::new(settings),
            models,
            calls_in_progress: CallsInProgress::default(),
            tasks: Arc::default(),
            duties: Arc::default(),
            progress: Arc::default(),
            records: Arc::default(),
            postponed: Arc::default(),
        }
    }

    /// The records.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The models that runs may name.
    pub fn models(&self) -> &Models {
        &self.models
    }

    /// The time.
    pub fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// Lends a worker the next job that its device may take, with the request it answers. Does
    /// not wait.
    ///
    /// # Errors
    /// The worker is unknown or the database fails.
    pub async fn lease(&self, worker: WorkerId) -> Result<Option<Lease>, EngineError> {
        let quota = self.settings.devices_per_person;
        let leased = self.store.lease(worker, quota, self.now()).await?;
        Ok(leased.map(|leased| Lease {
            job: leased.job,
            attempt: leased.attempt,
            run: leased.run,
            candidate: leased.candidate,
            traceparent: Some(traceparent(leased.candidate)),
            request: evaluation_request(leased),
        }))
    }

    /// Everything about a candidate, with the difference to its parent.
    ///
    /// # Errors
    /// The database fails.
    pub async fn candidate(
        &self,
        candidate: CandidateId,
    ) -> Result<Option<CandidateDetail>, EngineError> {
        let Some(record) = self.store.candidate(candidate).await? else {
            return Ok(None);
        };
        let relatives = self.store.relatives(candidate).await?;
        let diff = relatives
            .parent_source
            .as_deref()
            .map(|parent| diff::lines(parent, &record.source))
            .unwrap_or_default();
        Ok(Some(CandidateDetail {
            run: record.run,
            task: record.task,
            summary: record.summary,
            file: record.file,
            source: record.source,
            idea: record.idea,
            digest: record.digest,
            evaluation: record.evaluation,
            confirmation: record.confirmation,
            diff,
            children: relatives.children,
            calls: self.store.calls(candidate).await?,
        }))
    }

    /// A stored task, checked once and kept.
    async fn task(&self, content: Digest) -> Result<Arc<Task>, EngineError> {
        if let Some(task) = self.task_cache().get(&content) {
            return Ok(Arc::clone(task));
        }
        let bundle = self.store.bundle(content).await?;
        let task = Arc::new(Task::load(&bundle).map_err(EngineError::Task)?);
        let mut kept = self.task_cache();
        if kept.len() >= KEPT_TASKS {
            kept.clear();
        }
        kept.insert(content, Arc::clone(&task));
        Ok(task)
    }

    /// The record of a candidate. One that has a verdict is kept, because nothing of it that a prompt
    /// shows changes any more.
    async fn record(&self, id: CandidateId) -> Result<Arc<CandidateRecord>, EngineError> {
        if let Some(record) = self.records().get(&id) {
            return Ok(Arc::clone(record));
        }
        let record = self.store.candidate(id).await?;
        let record = Arc::new(record.ok_or_else(|| StoreError::Unknown {
            subject: "candidate",
            id: id.to_string(),
        })?);
        if record.evaluation.is_some() {
            let mut kept = self.records();
            if kept.len() >= KEPT_RECORDS {
                kept.clear();
            }
            kept.insert(id, Arc::clone(&record));
        }
        Ok(record)
    }

    fn records(&self) -> std::sync::MutexGuard<'_, HashMap<CandidateId, Arc<CandidateRecord>>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn duties(&self) -> std::sync::MutexGuard<'_, Duties> {
        self.duties.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn progress(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, Progress>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn task_cache(&self) -> std::sync::MutexGuard<'_, HashMap<Digest, Arc<Task>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
