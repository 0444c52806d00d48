//! Resources: the files of a run's task that proposers may read, and sources of candidates.

use anyhow::{Context as _, anyhow};
use domain::id::{CandidateId, RunId};
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};

use crate::client::Client;
use crate::shown_task::ShownTask;

const SCHEME: &str = "kernelwright://";

/// The resources of the session's run; none without a run.
pub(super) async fn list(client: &Client, run: Option<RunId>) -> anyhow::Result<Vec<Resource>> {
    let Some(run) = run else {
        return Ok(Vec::new());
    };
    let view = client.run(run).await?;
    let task = ShownTask::of(client, &view).await?;
    let files = task.files().into_iter().map(|(path, bytes)| {
        Resource::new(format!("{SCHEME}{run}/task/{path}"), path)
            .with_description(format!("A file of the task {}", view.task))
            .with_mime_type("text/plain")
            .with_size(bytes)
    });
    let mut listed: Vec<_> = files.collect();
    if view.best.is_some() {
        listed.push(
            Resource::new(format!("{SCHEME}{run}/best.cu"), "best.cu")
                .with_description("The best kernel of the run so far")
                .with_mime_type("text/plain"),
        );
    }
    Ok(listed)
}

/// Forms of further addresses.
pub(super) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(format!("{SCHEME}{{run}}/task/{{path}}"), "task file")
            .with_description("A file of a run's task that proposers may read")
            .with_mime_type("text/plain"),
        ResourceTemplate::new(format!("{SCHEME}{{run}}/best.cu"), "best kernel")
            .with_description("The best kernel of a run so far")
            .with_mime_type("text/plain"),
        ResourceTemplate::new(
            format!("{SCHEME}candidate/{{candidate}}"),
            "candidate's source",
        )
        .with_description("The file of a candidate, such as a parent to edit")
        .with_mime_type("text/plain"),
    ]
}

/// The text at an address.
pub(super) async fn read(client: &Client, uri: &str) -> anyhow::Result<ReadResourceResult> {
    let text = text(client, uri).await?;
    let contents = vec![ResourceContents::text(text, uri)];
    Ok(ReadResourceResult::new(contents))
}

async fn text(client: &Client, uri: &str) -> anyhow::Result<String> {
    let wrong = || {
        anyhow!(
            "read {uri:?}: no such resource; `resources/list` and `resources/templates/list` have the forms"
        )
    };
    let rest = uri.strip_prefix(SCHEME).ok_or_else(wrong)?;
    let (owner, what) = rest.split_once('/').ok_or_else(wrong)?;
    if owner == "candidate" {
        let candidate: CandidateId = what.parse().with_context(|| format!("read {uri:?}"))?;
        return Ok(client.candidate(candidate).await?.source);
    }
    let run: RunId = owner.parse().with_context(|| format!("read {uri:?}"))?;
    let view = client.run(run).await?;
    if what == "best.cu" {
        let best = view.best.as_ref().ok_or_else(|| {
            anyhow!("read {uri:?}: the run has no accepted candidate yet, not even its baseline")
        })?;
        return Ok(client.candidate(best.candidate).await?.source);
    }
    let path = what.strip_prefix("task/").ok_or_else(wrong)?;
    let task = ShownTask::of(client, &view).await?;
    Ok(task.text(client, path).await?)
}
