//! Counters that change with commits. Each is a hint to read the rows again, for those whom a commit
//! concerns.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::id::RunId;
use tokio::sync::watch;

use crate::Store;

/// The part of the records that a commit changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitScope {
    /// Rows of one run. No further job became available.
    Run(RunId),
    /// Rows of one run, with jobs that workers may take.
    Jobs(RunId),
    /// Rows of one run that pages show. The search decides nothing new.
    Shown(RunId),
    /// The same, with jobs that workers may take.
    ShownJobs(RunId),
    /// Rows that nobody waits for.
    Nothing,
    /// Anything else.
    Anything,
}

/// The counters.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changes {
    all: watch::Sender<u64>,
    jobs: watch::Sender<u64>,
    service: watch::Sender<u64>,
    /// Those of runs that someone waits for.
    runs: Arc<Mutex<HashMap<RunId, RunCounters>>>,
}

/// The counters of one run.
#[derive(Debug, Default)]
struct RunCounters {
    rows: watch::Sender<u64>,
    search: watch::Sender<u64>,
}

impl Changes {
    pub(crate) fn announce(&self, scope: CommitScope) {
        let count = |counter: &watch::Sender<u64>| {
            counter.send_modify(|count| *count = count.wrapping_add(1));
        };
        count(&self.all);
        match scope {
            CommitScope::Run(run)
            | CommitScope::Jobs(run)
            | CommitScope::Shown(run)
            | CommitScope::ShownJobs(run) => {
                if let Some(counters) = self.runs().get(&run) {
                    count(&counters.rows);
                    if matches!(scope, CommitScope::Run(_) | CommitScope::Jobs(_)) {
                        count(&counters.search);
                    }
                }
                if matches!(scope, CommitScope::Jobs(_) | CommitScope::ShownJobs(_)) {
                    count(&self.jobs);
                }
            }
            CommitScope::Nothing => {}
            CommitScope::Anything => {
                for counters in self.runs().values() {
                    count(&counters.rows);
                    count(&counters.search);
                }
                count(&self.jobs);
                count(&self.service);
            }
        }
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<RunId, RunCounters>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    /// A counter that changes with every commit through this value or a clone of it.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changes.all.subscribe()
    }

    /// A counter that changes with commits after which there may be another job for a worker.
    pub fn changed_jobs(&self) -> watch::Receiver<u64> {
        self.changes.jobs.subscribe()
    }

    /// A counter that changes with commits that may concern a run.
    pub fn changed_run(&self, run: RunId) -> watch::Receiver<u64> {
        self.subscribe(run, |counters| &counters.rows)
    }

    /// A counter that changes with commits after which the search may decide something new in a run.
    pub fn changed_search(&self, run: RunId) -> watch::Receiver<u64> {
        self.subscribe(run, |counters| &counters.search)
    }

    fn subscribe(
        &self,
        run: RunId,
        counter: impl Fn(&RunCounters) -> &watch::Sender<u64>,
    ) -> watch::Receiver<u64> {
        let mut runs = self.changes.runs();
        runs.retain(|_, counters| {
            counters.rows.receiver_count() + counters.search.receiver_count() > 0
        });
        counter(runs.entry(run).or_default()).subscribe()
    }

    /// A counter that changes with commits that are more than one step of one run: a run was created
    /// or changed its state, a confirmation ended, or a worker came or failed.
    pub fn changed_service(&self) -> watch::Receiver<u64> {
        self.changes.service.subscribe()
    }
}
