//! Answers that are made from all candidates of a run, kept until the run's next event.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use domain::id::RunId;

use crate::error::ErrorContext;
use crate::sql::query_scalar;
use crate::{Connection, StoreError};

/// Answers that are kept; more are made anew.
const MOST: usize = 64;

/// Answers by what they are about, each with the run's last event when it was made. Every change of a run's
/// candidates is committed with an event, so that an answer holds as long as its event is the last one.
#[derive(Debug)]
pub(crate) struct KeptAnswers<K, A>(Mutex<HashMap<K, (i64, A)>>);

impl<K, A> Default for KeptAnswers<K, A> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, A: Clone> KeptAnswers<K, A> {
    /// The answer that was made when the run had this last event.
    pub(crate) fn get(&self, key: &K, last_event: i64) -> Option<A> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (event, answer) = kept.get(key)?;
        (*event == last_event).then(|| answer.clone())
    }

    pub(crate) fn put(&self, key: K, last_event: i64, answer: A) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MOST {
            kept.clear();
        }
        kept.insert(key, (last_event, answer));
    }
}

/// The last event of a run, 0 before the first, as this view of the database has it.
pub(crate) async fn last_event(view: &mut Connection, run: RunId) -> Result<i64, StoreError> {
    query_scalar("SELECT COALESCE(MAX(id), 0) FROM events WHERE run = $1")
        .bind(run.uuid())
        .fetch_one(view)
        .await
        .context("find the last event of a run")
}
