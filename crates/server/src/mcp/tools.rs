//! The work of each tool: requests to the service, and the answer as text.

use anyhow::{Context as _, anyhow, bail};
use domain::api::{CandidateDetail, RunRequest, RunView, Submission};
use domain::id::{CandidateId, RunId};
use domain::patch;
use domain::search::Method;
use rmcp::model::{Implementation, JsonObject};
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use super::Session;
use super::answer;
use super::arguments::{
    AttemptOrder, BriefArguments, BriefPart, ListRunsArguments, ProfileArguments, SearchArguments,
    StartRunArguments, SubmitArguments, VerdictArguments, wait,
};
use crate::client::RunsQuery;

/// The most runs that `list_runs` examines; the newest.
const RUNS: u32 = 50;

impl Session {
    /// Calls a tool by its name.
    pub(super) async fn answer(
        &self,
        tool: &str,
        arguments: JsonObject,
        client: Option<&Implementation>,
    ) -> anyhow::Result<String> {
        match tool {
            "brief" => self.brief(read(tool, arguments)?).await,
            "submit" => self.submit(read(tool, arguments)?, client).await,
            "verdict" => self.verdict(read(tool, arguments)?).await,
            "profile" => self.profile(read(tool, arguments)?).await,
            "search_attempts" => self.search(read(tool, arguments)?).await,
            "list_runs" => self.list_runs(read(tool, arguments)?).await,
            "start_run" => self.start_run(read(tool, arguments)?).await,
            _ => bail!("call {tool:?}: there is no such tool; `tools/list` names all"),
        }
    }

    async fn brief(&self, arguments: BriefArguments) -> anyhow::Result<String> {
        let run = self.run(arguments.run)?;
        let brief = self.client.brief(run).await?;
        let state = async {
            let view = self.client.run(run).await?;
            anyhow::Ok(answer::state(&view, &brief))
        };
        Ok(match arguments.part {
            BriefPart::Rules => brief.prompt.system.clone(),
            BriefPart::State => state.await?,
            BriefPart::All => format!("{}\n{}", state.await?, brief.prompt.system),
        })
    }

    async fn submit(
        &self,
        arguments: SubmitArguments,
        client: Option<&Implementation>,
    ) -> anyhow::Result<String> {
        let run = self.run(arguments.run)?;
        let (source, parent) = match (arguments.source, arguments.edits) {
            (Some(source), None) => (source, arguments.parent),
            (None, Some(edits)) => {
                let (parent, base) = self.parent(run, arguments.parent).await?;
                (edited(&base, &edits, parent)?, Some(parent))
            }
            (Some(_), Some(_)) => bail!(
                "submit the kernel: `source` and `edits` are both given; pass the whole file, or edits of the parent"
            ),
            (None, None) => bail!(
                "submit the kernel: neither `source` nor `edits` is given; pass the whole file, or edits of the parent"
            ),
        };
        let submission = Submission {
            source,
            file: arguments.file,
            parent,
            proposer: self.proposer(client),
            hypothesis: Some(arguments.hypothesis),
        };
        let submitted = self.client.submit(run, &submission).await?;
        let limit = wait(arguments.wait_seconds);
        let judged = self.client.until_judged(run, submitted.id);
        let judged = tokio::time::timeout(limit, judged).await.ok();
        self.described(submitted.id, judged).await
    }

    /// The candidate that edits apply to, with its text.
    async fn parent(
        &self,
        run: RunId,
        named: Option<CandidateId>,
    ) -> anyhow::Result<(CandidateId, String)> {
        Ok(match named {
            Some(parent) => (parent, self.client.candidate(parent).await?.source),
            None => {
                let brief = self.client.brief(run).await?;
                (brief.parent, brief.parent_source)
            }
        })
    }

    async fn verdict(&self, arguments: VerdictArguments) -> anyhow::Result<String> {
        let detail = self.client.candidate(arguments.candidate).await?;
        let judged = self.client.until_judged(detail.run, arguments.candidate);
        let limit = wait(arguments.wait_seconds);
        let judged = tokio::time::timeout(limit, judged).await.ok();
        self.described(arguments.candidate, judged).await
    }

    /// The candidate as text; read again if the wait for its verdict ended without one (`judged` is `None`).
    async fn described(
        &self,
        candidate: CandidateId,
        judged: Option<Result<CandidateDetail, crate::client::ClientError>>,
    ) -> anyhow::Result<String> {
        let detail = match judged {
            Some(judged) => judged.with_context(|| {
                format!("wait for {candidate}; ask `verdict` for it, and do not submit it again")
            })?,
            None => self.client.candidate(candidate).await?,
        };
        let view = self.client.run(detail.run).await?;
        let mut text = answer::candidate(&detail, &view);
        if answer::is_waiting(&detail) && self.client.health().await?.workers == 0 {
            text.push_str("workers    none has joined the service, so that nothing is evaluated: ask whoever runs it to start one\n");
        }
        Ok(text)
    }

    async fn profile(&self, arguments: ProfileArguments) -> anyhow::Result<String> {
        let detail = self.client.candidate(arguments.candidate).await?;
        answer::profile(&detail)
    }

    async fn search(&self, arguments: SearchArguments) -> anyhow::Result<String> {
        let run = self.run(arguments.run)?;
        let order = match arguments.order {
            AttemptOrder::Newest => "newest",
            AttemptOrder::Fastest => "fastest",
        };
        let mut parameters = vec![
            ("limit", arguments.limit().to_string()),
            ("order", order.to_owned()),
        ];
        let given = [
            ("verdict", arguments.verdict.map(|kind| kind.to_string())),
            ("text", arguments.text),
            ("operator", arguments.operator),
            ("proposer", arguments.proposer),
            ("cursor", arguments.next),
        ];
        let given = given.into_iter();
        parameters.extend(given.filter_map(|(name, value)| Some((name, value?))));
        let page = self.client.candidates(run, &parameters).await?;
        let view = self.client.run(run).await?;
        Ok(answer::attempts(&page, &view))
    }

    async fn list_runs(&self, arguments: ListRunsArguments) -> anyhow::Result<String> {
        let query = RunsQuery {
            task: arguments.task,
            limit: RUNS,
            ..RunsQuery::default()
        };
        let page = self.client.runs(&query).await?;
        let is_wanted = |run: &&RunView| arguments.ended || !run.state.is_over();
        let runs: Vec<&RunView> = page.runs.iter().filter(is_wanted).collect();
        Ok(answer::runs(&runs))
    }

    async fn start_run(&self, arguments: StartRunArguments) -> anyhow::Result<String> {
        let mut request = RunRequest::new(arguments.task, Method::External);
        request.name = arguments.name;
        if let Some(trials) = arguments.trials {
            request.budget.trials = trials;
        }
        let key = Uuid::now_v7().to_string();
        let view = self.client.create(&request, &key).await?;
        self.set_run(view.id);
        Ok(format!(
            "{}is this session's run now; call `brief` next\n",
            answer::runs(&[&view])
        ))
    }
}

/// Reads a call's arguments.
fn read<A: DeserializeOwned>(tool: &str, arguments: JsonObject) -> anyhow::Result<A> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| {
        anyhow!("read the arguments of `{tool}`: {error}; `tools/list` has their schema")
    })
}

/// The parent's text with the edits applied.
fn edited(base: &str, edits: &str, parent: CandidateId) -> anyhow::Result<String> {
    let patched = if edits.contains("<<<<<<<") {
        patch::search_replace(base, edits)
    } else {
        patch::unified(base, edits)
    };
    let patched = patched.with_context(|| {
        format!(
            "apply the edits to {parent}, of which nothing was submitted; quote its lines exactly as they stand, or pass the whole file as `source`"
        )
    })?;
    Ok(patched.text)
}
