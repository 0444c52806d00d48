//! The tools with their arguments. A tool's schema is derived from the type that reads its
//! arguments, so that both cannot differ.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use domain::id::{CandidateId, RunId};
use domain::verdict::VerdictKind;
use rmcp::handler::server::common::schema_for_type;
use rmcp::model::{Tool, ToolAnnotations};
use rmcp::schemars::{self, JsonSchema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Seconds that `submit` and `verdict` wait where a call does not say. Many agents give up on a tool
/// after 60 seconds.
const DEFAULT_WAIT_S: u32 = 45;
/// The most seconds that they wait.
const MAX_WAIT_S: u32 = 300;
/// Attempts that `search_attempts` lists where a call does not say.
const DEFAULT_ATTEMPTS: u32 = 10;
/// The most attempts that it lists.
const MAX_ATTEMPTS: u32 = 50;

/// Arguments of `brief`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BriefArguments {
    /// Id of the run. By default the session's run.
    #[schemars(with = "Option<String>")]
    #[serde(default, deserialize_with = "optional_id")]
    pub(super) run: Option<RunId>,
    /// The part to return: `all`; `rules`, which stay the same during a run (task, device, form of
    /// the file); or `state`, which changes (best kernel, feedback, attempts, trials left).
    #[serde(default)]
    pub(super) part: BriefPart,
}

/// A part of the brief.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum BriefPart {
    #[default]
    All,
    Rules,
    State,
}

/// Arguments of `submit`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SubmitArguments {
    /// Id of the run. By default the session's run.
    #[schemars(with = "Option<String>")]
    #[serde(default, deserialize_with = "optional_id")]
    pub(super) run: Option<RunId>,
    /// The whole `.cu` file, front matter included. Give this or `edits`.
    #[serde(default)]
    pub(super) source: Option<String>,
    /// Edits of the parent's file instead of a whole file: SEARCH/REPLACE blocks, whose first half
    /// stands in the parent exactly once, or one unified diff.
    #[serde(default)]
    pub(super) edits: Option<String>,
    /// The reason why the kernel should be faster than its parent, in a sentence or two.
    pub(super) hypothesis: String,
    /// Id of the candidate that it was made from. By default the best of the run.
    #[schemars(with = "Option<String>")]
    #[serde(default, deserialize_with = "optional_id")]
    pub(super) parent: Option<CandidateId>,
    /// Name of the file in messages, such as `wide_loads.cu`.
    #[serde(default)]
    pub(super) file: Option<String>,
    /// Seconds to wait for the verdict, at most 300. By default 45.
    #[serde(default)]
    pub(super) wait_seconds: Option<u32>,
}

/// Arguments of `verdict`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct VerdictArguments {
    /// Id of the candidate.
    #[schemars(with = "String")]
    #[serde(deserialize_with = "id")]
    pub(super) candidate: CandidateId,
    /// Seconds to wait for the verdict, at most 300. By default 45; 0 returns at once.
    #[serde(default)]
    pub(super) wait_seconds: Option<u32>,
}

/// Arguments of `profile`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProfileArguments {
    /// Id of the candidate.
    #[schemars(with = "String")]
    #[serde(deserialize_with = "id")]
    pub(super) candidate: CandidateId,
}

/// Arguments of `search_attempts`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchArguments {
    /// Id of the run. By default the session's run.
    #[schemars(with = "Option<String>")]
    #[serde(default, deserialize_with = "optional_id")]
    pub(super) run: Option<RunId>,
    /// Only attempts with this verdict, such as `accepted`, `incorrect_output` or `data_race`.
    #[schemars(with = "Option<String>")]
    #[serde(default)]
    pub(super) verdict: Option<VerdictKind>,
    /// Only attempts whose title or hypothesis contains this text.
    #[serde(default)]
    pub(super) text: Option<String>,
    /// Only attempts made by this operator, such as `submit`, `step`, `mutation` or `repair`.
    #[serde(default)]
    pub(super) operator: Option<String>,
    /// Only attempts of this proposer.
    #[serde(default)]
    pub(super) proposer: Option<String>,
    /// The order. By default the newest first.
    #[serde(default)]
    pub(super) order: AttemptOrder,
    /// The number of attempts, at most 50. By default 10.
    #[serde(default)]
    pub(super) limit: Option<u32>,
    /// The `next` of the answer before, to continue it.
    #[serde(default)]
    pub(super) next: Option<String>,
}

impl SearchArguments {
    pub(super) fn limit(&self) -> u32 {
        self.limit
            .unwrap_or(DEFAULT_ATTEMPTS)
            .clamp(1, MAX_ATTEMPTS)
    }
}

/// The orders of attempts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum AttemptOrder {
    #[default]
    Newest,
    Fastest,
}

/// Arguments of `list_runs`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListRunsArguments {
    /// Only runs of this task.
    #[serde(default)]
    pub(super) task: Option<String>,
    /// Also list runs that have ended.
    #[serde(default)]
    pub(super) ended: bool,
}

/// Arguments of `start_run`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StartRunArguments {
    /// Name of a task that the service has.
    pub(super) task: String,
    /// Name of the run. By default made from the task.
    #[serde(default)]
    pub(super) name: Option<String>,
    /// The most candidates besides the baseline. By default 45.
    #[serde(default)]
    pub(super) trials: Option<u32>,
}

/// Reads an id with or without its prefix: answers print it with the prefix.
fn id<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(D::Error::custom)
}

/// The same where there may be none.
fn optional_id<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    let text = Option::<String>::deserialize(deserializer)?;
    let parsed = text.map(|text| text.parse().map_err(D::Error::custom));
    parsed.transpose()
}

/// The time that a call waits.
pub(super) fn wait(seconds: Option<u32>) -> Duration {
    let seconds = seconds.unwrap_or(DEFAULT_WAIT_S).min(MAX_WAIT_S);
    Duration::from_secs(seconds.into())
}

/// Every tool.
pub(super) fn tools() -> Vec<Tool> {
    vec![
        reads::<BriefArguments>(
            "brief",
            "Returns what you need to write the next kernel of a run: the task and its rules, the device, the form of a candidate's file, the best kernel so far with its times, floor and bottleneck, earlier attempts, insights, directions of people, and the trials left. Call it first, and again with part `state` before each attempt.",
        ),
        changes::<SubmitArguments>(
            "submit",
            "Submits a kernel to a run and waits for its verdict. Pass the whole file as `source`, or `edits` of the parent. Costs one trial, also for code that the run has seen, which the answer then names. If there is no verdict in time, the answer says so: ask `verdict`.",
        ),
        reads::<VerdictArguments>(
            "verdict",
            "Returns the verdict on a candidate: accepted with its times against the baseline and the best before it, or the reason for its rejection with source lines, messages of the compiler and the most wrong element. Failures on hidden inputs show their kind only.",
        ),
        reads::<ProfileArguments>(
            "profile",
            "Returns the profile of an accepted candidate: time, bottleneck and floor of each case, launches, registers, spills, occupancy and memory traffic of each kernel. Says for each time if it was measured on a GPU or modelled.",
        ),
        reads::<SearchArguments>(
            "search_attempts",
            "Searches the candidates of a run, by whomever they were proposed, with their outcomes. Use it to see what was tried before you submit.",
        ),
        reads::<ListRunsArguments>(
            "list_runs",
            "Lists the newest runs of the service with their tasks, states and best kernels.",
        ),
        changes::<StartRunArguments>(
            "start_run",
            "Starts a run that takes submissions on a task that the service has, and makes it the session's run.",
        ),
    ]
}

/// A tool that changes nothing.
fn reads<A: JsonSchema + 'static>(name: &'static str, description: &'static str) -> Tool {
    let hints = ToolAnnotations::new().read_only(true).open_world(false);
    Tool::new(name, description, schema_for_type::<A>()).with_annotations(hints)
}

/// A tool that adds something and removes nothing.
fn changes<A: JsonSchema + 'static>(name: &'static str, description: &'static str) -> Tool {
    let hints = ToolAnnotations::new()
        .read_only(false)
        .destructive(false)
        .open_world(false);
    Tool::new(name, description, schema_for_type::<A>()).with_annotations(hints)
}
