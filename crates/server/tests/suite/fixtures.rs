//! Values that tests of several subjects start from.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use domain::api::{BestCandidate, CandidateState, CandidateSummary, RunState, RunView};
use domain::digest::Digest;
use domain::id::{CandidateId, RunId};
use domain::search::{Budget, Evolution, Method, Operator, Spend};
use domain::task::Bundle;
use domain::verdict::VerdictKind;

/// The candidate id whose number is `n`.
pub fn candidate_id(n: u128) -> CandidateId {
    format!("00000000-0000-7000-8000-{n:012x}")
        .parse()
        .expect("a UUID")
}

/// The time all fixtures were made.
pub fn then() -> DateTime<Utc> {
    DateTime::from_timestamp(1_790_000_000, 0).expect("in range")
}

/// A running run with three judged candidates.
pub fn run() -> RunView {
    RunView {
        id: run_id(),
        name: "demo".to_owned(),
        tags: Vec::new(),
        task: "attention-f16".to_owned(),
        task_version: Digest::of("task"),
        method: Method::Playbook,
        device: None,
        state: RunState::Running,
        budget: Budget::default(),
        trials: 3,
        models: Vec::new(),
        evolution: Evolution::default(),
        spend: Spend::default(),
        running_ms: 0,
        verdicts: [(VerdictKind::Accepted, 2), (VerdictKind::DataRace, 1)].into(),
        pending: 1,
        best: Some(BestCandidate {
            candidate: candidate_id(2),
            title: "KV split".to_owned(),
            speedup: 6.5,
            interval: None,
            time_us: 12.25,
            modelled: true,
        }),
        forked_from: None,
        promotion: None,
        unpromoted: None,
        last_event: 0,
        seed: 0,
        created_at: then(),
        updated_at: then(),
    }
}

/// The id of [`run`].
pub fn run_id() -> RunId {
    "01938e5a-0000-7000-8000-00000000000a".parse().unwrap()
}

/// An accepted candidate, `speedup` times as fast as a baseline of 100 us.
pub fn accepted(ordinal: u32, parent: Option<u32>, title: &str, speedup: f64) -> CandidateSummary {
    CandidateSummary {
        id: candidate_id(ordinal.into()),
        ordinal,
        generation: ordinal,
        island: None,
        parents: parent
            .map(|parent| candidate_id(parent.into()))
            .into_iter()
            .collect(),
        operator: match parent {
            None => Operator::Baseline,
            Some(_) => Operator::Step {
                file: format!("playbook/{title}.cu"),
            },
        },
        proposer: "playbook".to_owned(),
        title: title.to_owned(),
        configuration: BTreeMap::new(),
        state: CandidateState::Evaluated,
        verdict: Some(VerdictKind::Accepted),
        summary: Some("accepted".to_owned()),
        line: None,
        speedup: Some(speedup),
        time_us: Some(100.0 / speedup),
        modelled: true,
        unmet_gates: Vec::new(),
        best: false,
        verdict_of: None,
        promotion: None,
        cost: None,
        created_at: then(),
        judged_at: Some(then()),
    }
}

/// A candidate with another verdict.
pub fn rejected(
    ordinal: u32,
    parent: u32,
    title: &str,
    verdict: VerdictKind,
    summary: &str,
) -> CandidateSummary {
    CandidateSummary {
        verdict: Some(verdict),
        summary: Some(summary.to_owned()),
        speedup: None,
        time_us: None,
        ..accepted(ordinal, Some(parent), title, 1.0)
    }
}

const TASK: &str = r#"name = "scale"
title = "Doubles a vector"
[dims]
N = {}
[[tensor]]
name = "x"
dtype = "f32"
shape = ["N"]
role = "in"
[[tensor]]
name = "y"
dtype = "f32"
shape = ["N"]
role = "out"
[tolerance]
class = "f32"
[[case]]
name = "small"
dims = { N = 64 }
use = ["check", "score"]
"#;

/// The text of a kernel with a `FACTOR` tunable's value.
pub fn kernel(title: &str, block: u32) -> String {
    format!(
        r#"/*---
[idea]
title = "{title}"
[[launch]]
kernel = "scale"
grid = ["cdiv(N, {block})"]
block = ["{block}"]
args = ["x", "y", "N"]
---*/
extern "C" __global__ void scale(const float *x, float *y, int n) {{
    int i = blockIdx.x * {block} + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}}
"#
    )
}

const REFERENCE: &str = r#"/*---
[[launch]]
kernel = "scale"
grid = ["cdiv(N, 128)"]
block = ["128"]
args = ["x", "y", "N"]
---*/
extern "C" __global__ void scale(const float *x, double *y, int n) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i < n) y[i] = 2.0 * (double)x[i];
}
"#;

/// A small task that reads.
pub fn task() -> Bundle {
    let files = [
        ("task.toml", TASK.to_owned()),
        ("reference.cu", REFERENCE.to_owned()),
        ("check.cu", REFERENCE.to_owned()),
        ("baseline.cu", kernel("baseline", 128)),
        ("context.md", "Doubles a vector.\n".to_owned()),
        ("insights.md", String::new()),
    ];
    let files = files.map(|(name, text)| (name.to_owned(), text));
    Bundle {
        files: files.into(),
    }
}
