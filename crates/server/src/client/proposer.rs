//! Requests of outside proposers: the task's texts, other candidates, and the wait for a verdict.

use std::time::Duration;

use domain::api::{
    CandidateDetail, CandidatePage, CandidateState, Event, EventKind, TaskDefinition,
};
use domain::id::{CandidateId, RunId};
use reqwest::Url;

use super::stream::Events;
use super::{Client, ClientError, TIMEOUT, accepted};

/// Time without an event after which the candidate is read again.
const REPOLL_INTERVAL: Duration = Duration::from_secs(10);

impl Client {
    /// The definition of a task's newest version.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn definition(&self, task: &str) -> Result<TaskDefinition, ClientError> {
        let url = self.task_url(task, &["definition"]);
        self.send(self.http.get(url).timeout(TIMEOUT), "read the task")
            .await
    }

    /// The text of a file of a task's newest version.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn task_file(&self, task: &str, path: &str) -> Result<String, ClientError> {
        let mut url = self.task_url(task, &["file"]);
        url.query_pairs_mut().append_pair("path", path);
        let response = self.http.get(url).timeout(TIMEOUT).send().await;
        let response = response.map_err(|error| self.unreachable(error))?;
        let response = accepted(response, "read the task's file").await?;
        let text = response.text().await;
        text.map_err(|error| self.unreachable(error))
    }

    /// Candidates of a run by the query parameters of the list.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn candidates(
        &self,
        run: RunId,
        parameters: &[(&str, String)],
    ) -> Result<CandidatePage, ClientError> {
        let route = self.url(&format!("runs/{}/candidates", run.uuid()));
        let mut url = Url::parse(&route).expect("the base is an address");
        url.query_pairs_mut().extend_pairs(parameters);
        self.send(self.http.get(url).timeout(TIMEOUT), "search the candidates")
            .await
    }

    /// Waits until nothing more will happen to a candidate, and returns it.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn until_judged(
        &self,
        run: RunId,
        candidate: CandidateId,
    ) -> Result<CandidateDetail, ClientError> {
        let mut events = Events::after(self, run, 0);
        loop {
            let detail = self.candidate(candidate).await?;
            let waiting = matches!(
                detail.summary.state,
                CandidateState::Queued | CandidateState::Evaluating { .. }
            );
            // A duplicate of something pending has no verdict of its own yet.
            let undecided = detail.summary.verdict.is_none()
                && !matches!(detail.summary.state, CandidateState::Abandoned { .. });
            if !waiting && !undecided {
                return Ok(detail);
            }
            let news = async {
                loop {
                    let event = events.next().await?;
                    if is_news(&event, candidate) {
                        return Ok::<_, ClientError>(());
                    }
                }
            };
            match tokio::time::timeout(REPOLL_INTERVAL, news).await {
                Ok(news) => news?,
                Err(_elapsed) => {}
            }
        }
    }
}

fn is_news(event: &Event, candidate: CandidateId) -> bool {
    match &event.what {
        EventKind::Judged { candidate: of, .. } | EventKind::Requeued { candidate: of, .. } => {
            *of == candidate
        }
        _ => false,
    }
}
