//! Views of failures: candidates with a bad verdict, counted by cause.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::{CandidateId, RunId};
use crate::verdict::VerdictKind;

/// Failed candidates that have one verdict and one cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FailureCluster {
    /// The verdict.
    pub verdict: VerdictKind,
    /// The rule that was broken or the message, without names and numbers; empty where the verdict
    /// says all, and for candidates that were judged before causes were recorded.
    pub cause: String,
    /// Candidates of the cluster; duplicates are not counted again.
    pub count: u32,
    /// Runs that they are of.
    pub runs: u32,
    /// The first verdict of the cluster.
    pub first_seen: DateTime<Utc>,
    /// The latest.
    pub last_seen: DateTime<Utc>,
    /// Candidates of the cluster in each of the page's spans of time, the earliest span first.
    #[serde(default)]
    pub trend: Vec<u32>,
    /// The operators that made them, the most frequent first; at most ten.
    pub operators: Vec<Share>,
    /// Their proposers, such as a model's name, the most frequent first; at most ten.
    pub proposers: Vec<Share>,
    /// The latest of them; at most three.
    pub examples: Vec<FailureMember>,
}

/// The number of candidates that something made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Share {
    /// The operator or the proposer.
    pub name: String,
    /// Candidates.
    pub count: u32,
}

/// One failed candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailureMember {
    /// The candidate.
    pub candidate: CandidateId,
    /// Its position in its run.
    pub ordinal: u32,
    /// A few words about it.
    pub title: String,
    /// Its run.
    pub run: RunId,
    /// The run's name.
    pub run_name: String,
    /// The verdict in one sentence.
    pub summary: String,
    /// The source line that the verdict blames.
    pub line: Option<u32>,
    /// The time of the verdict.
    pub at: DateTime<Utc>,
}

/// Equal spans of time, one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TrendSpans {
    /// The beginning of the first span: the first verdict of any cluster.
    pub from: DateTime<Utc>,
    /// The length of a span in microseconds.
    pub span_us: u64,
    /// The number of spans. The last one holds the latest verdict of any cluster.
    pub spans: u32,
}

/// One page of clusters, the largest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FailurePage {
    /// Failed candidates in all clusters.
    pub total: u32,
    /// The spans of time by which each cluster's trend counts; none where nothing failed.
    #[serde(default)]
    pub spans: Option<TrendSpans>,
    /// The clusters.
    pub clusters: Vec<FailureCluster>,
    /// Pass as `cursor` for the next page; absent on the last. Clusters that grew meanwhile may
    /// appear twice.
    pub next: Option<String>,
}

/// One page of a cluster's candidates, the latest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FailureMembers {
    /// The candidates.
    pub candidates: Vec<FailureMember>,
    /// Pass as `cursor` for the next page; absent on the last.
    pub next: Option<String>,
}
