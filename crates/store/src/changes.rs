//! Counters that change with commits. Each is a hint to read the rows again, for those whom a commit
//! concerns.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::id::RunId;
use tokio::sync::watch;
use uuid::Uuid;

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

impl CommitScope {
    /// The scope as one service tells another, after the service's identity.
    pub(crate) fn write(self, sender: Uuid) -> String {
        let (word, run) = match self {
            Self::Run(run) => ("run", Some(run)),
            Self::Jobs(run) => ("jobs", Some(run)),
            Self::Shown(run) => ("shown", Some(run)),
            Self::ShownJobs(run) => ("shown-jobs", Some(run)),
            Self::Nothing => ("nothing", None),
            Self::Anything => ("anything", None),
        };
        let run = run.map(|run| format!(" {}", run.uuid()));
        format!("{sender} {word}{}", run.unwrap_or_default())
    }

    /// Reads what [`CommitScope::write`] wrote: the sender and the scope. None for any other text.
    pub(crate) fn read(text: &str) -> Option<(Uuid, Self)> {
        let words = text.split(' ').collect::<Vec<_>>();
        let (sender, word, run) = match words[..] {
            [sender, word] => (sender, word, None),
            [sender, word, run] => (sender, word, Some(RunId::from(run.parse::<Uuid>().ok()?))),
            _ => return None,
        };
        let scope = match (word, run) {
            ("run", Some(run)) => Self::Run(run),
            ("jobs", Some(run)) => Self::Jobs(run),
            ("shown", Some(run)) => Self::Shown(run),
            ("shown-jobs", Some(run)) => Self::ShownJobs(run),
            ("nothing", None) => Self::Nothing,
            ("anything", None) => Self::Anything,
            _ => return None,
        };
        Some((sender.parse().ok()?, scope))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scope_is_read_as_it_was_written() {
        let run = RunId::from(Uuid::from_u128(7));
        for scope in [
            CommitScope::Run(run),
            CommitScope::Jobs(run),
            CommitScope::Shown(run),
            CommitScope::ShownJobs(run),
            CommitScope::Nothing,
            CommitScope::Anything,
        ] {
            let sender = Uuid::from_u128(9);
            let written = scope.write(sender);
            assert_eq!(
                CommitScope::read(&written),
                Some((sender, scope)),
                "{written}"
            );
        }
        for unknown in ["", "anything", "x anything", "x run y z"] {
            assert_eq!(CommitScope::read(unknown), None, "{unknown}");
        }
    }
}
