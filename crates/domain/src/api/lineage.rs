//! Long runs in columns: the lineage, its totals by generation, and the curve of the best. Entry `i` of
//! every list belongs to the same candidate or bucket, so that an answer about thousands of candidates
//! repeats no name.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::CandidateSummary;

/// The lineage graph of a run, with everything that lists show of a candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Lineage {
    /// Candidates by ordinal; edges are their `parents`.
    pub nodes: Vec<CandidateSummary>,
    /// True if the run has more candidates than are shown.
    pub truncated: bool,
}

/// A slice of a run's lineage in columns. Ordinals name candidates: `GET /runs/{id}/candidates` with
/// `ordinal` gives one of them in full.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LineageColumns {
    /// Candidates of the run.
    pub total: u32,
    /// The highest generation of the run.
    pub last_generation: u32,
    /// Ordinal of the run's best candidate, once one is accepted.
    pub best: Option<u32>,
    /// Ordinals, ascending.
    pub ordinals: Vec<u32>,
    /// Generations.
    pub generations: Vec<u32>,
    /// Islands, from 0; none for the baseline. Empty if the run's method keeps no islands.
    #[serde(default)]
    pub islands: Vec<Option<u8>>,
    /// Ordinals of the primary parents; none for the baseline.
    pub parents: Vec<Option<u32>>,
    /// Pairs of a candidate's ordinal and the ordinal of one of its parents after the primary one.
    pub further_parents: Vec<[u32; 2]>,
    /// Names of operators.
    pub operator_names: Vec<String>,
    /// Operators, as positions in `operator_names`.
    pub operators: Vec<u8>,
    /// Names of outcomes: kinds of verdicts, `pending` and `abandoned`.
    pub outcome_names: Vec<String>,
    /// Outcomes, as positions in `outcome_names`. A duplicate has that of the candidate it repeats.
    pub outcomes: Vec<u8>,
    /// Ordinals of the candidates that repeat another one's code.
    pub duplicates: Vec<u32>,
    /// Baseline's time over the candidate's, rounded to four decimals; only if accepted.
    pub speedups: Vec<Option<f64>>,
    /// Seconds from the run's creation to the verdict, or to the proposal if there is none.
    pub seconds: Vec<u32>,
    /// Pass as `cursor` for the next slice; absent on the last.
    pub next: Option<String>,
}

/// A run's lineage by generation, several generations to a bucket where the run has many.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LineageGenerations {
    /// Candidates of the run.
    pub total: u32,
    /// The highest generation of the run.
    pub last_generation: u32,
    /// Generations in each bucket.
    pub width: u32,
    /// First generations of the buckets, ascending. Buckets without a candidate are left out.
    pub generations: Vec<u32>,
    /// Lowest ordinals of the buckets' candidates.
    pub first: Vec<u32>,
    /// Highest ordinals of the buckets' candidates.
    pub last: Vec<u32>,
    /// Candidates.
    pub candidates: Vec<u32>,
    /// Candidates without a verdict: pending or abandoned.
    pub unjudged: Vec<u32>,
    /// Accepted candidates, duplicates of accepted ones included.
    pub accepted: Vec<u32>,
    /// Greatest speedups, rounded to four decimals; none where nothing is accepted.
    pub fastest: Vec<Option<f64>>,
    /// Primary parents between buckets: position of the parents' bucket, position of the children's
    /// bucket, number of children. At most 2,000, those with the most children.
    pub links: Vec<[u32; 3]>,
    /// Ordinals from the best candidate to the baseline along primary parents, at most 1,000.
    pub path: Vec<u32>,
}

/// The best speedup over the candidates of a run, several candidates to a bucket where there are many.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Curve {
    /// Candidates of the run.
    pub total: u32,
    /// Candidates in each bucket, by ordinal.
    pub width: u32,
    /// First ordinals of the buckets, ascending.
    pub ordinals: Vec<u32>,
    /// Accepted candidates.
    pub accepted: Vec<u32>,
    /// Greatest speedups, rounded to four decimals.
    pub fastest: Vec<Option<f64>>,
    /// Ordinals of the candidates with the greatest speedups.
    pub fastest_ordinals: Vec<Option<u32>>,
    /// Seconds from the run's creation to the verdicts of those candidates.
    pub fastest_seconds: Vec<Option<u32>>,
    /// Greatest speedups of this bucket and all before it.
    pub best: Vec<Option<f64>>,
}
