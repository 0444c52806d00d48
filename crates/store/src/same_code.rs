//! Candidates of the same code: within a run by their text and by what they are compiled to, in another
//! run by their text.

use domain::candidate::Identity;
use domain::device::Device;
use domain::digest::Digest;
use domain::evaluation::{EVALUATOR_VERSION, Evaluation};
use domain::id::{CandidateId, RunId};
use uuid::Uuid;

use crate::error::ErrorContext;
use crate::rows::{RowRef, json};
use crate::sql::{query, query_as, query_scalar};
use crate::texts::{self, TextId};
use crate::{Connection, StoreError, judgements};

/// Evaluations of the same code that are looked at for one whose verdict holds again.
const LOOKED_AT: i64 = 8;

/// A verdict that another run reached about the same code.
pub(crate) struct KnownVerdict {
    /// The candidate of the other run.
    pub(crate) candidate: CandidateId,
    /// Its evaluation.
    pub(crate) evaluation: Evaluation,
    /// The time of this run's baseline over the candidate's, if it was accepted.
    pub(crate) speedup: Option<f64>,
}

/// The run's first candidate with this text, of those with an ordinal below `before`, that has or awaits
/// a verdict of its own. Comments, layout and names of locals do not count, except where the text itself was rejected.
pub(crate) async fn original(
    tx: &mut Connection,
    run: RunId,
    identity: Option<&Identity>,
    before: i64,
) -> Result<Option<Uuid>, StoreError> {
    let Some(identity) = identity else {
        return Ok(None);
    };
    query_scalar(
        "SELECT id FROM candidates WHERE text_digest = $2 AND run = $1 AND ordinal < $4 \
         AND state IN ('pending', 'evaluated') AND (digest = $3 OR verdict IS NULL \
         OR verdict NOT IN ('parse_rejected', 'policy_rejected')) ORDER BY ordinal LIMIT 1",
    )
    .bind(run.uuid())
    .bind(identity.text.to_string())
    .bind(identity.digest.to_string())
    .bind(before)
    .fetch_optional(tx)
    .await
    .context("look for the same code")
}

/// Makes later candidates with the text of a candidate repetitions of it. A model may have answered for
/// them first, and the order of answers must change nothing in a run.
pub(crate) fn mark_later_copies(
    tx: &mut Connection,
    run: RunId,
    candidate: CandidateId,
    ordinal: i64,
    identity: &Identity,
) {
    query(
        "UPDATE candidates SET repeats = $5 WHERE text_digest = $2 AND run = $1 AND ordinal > $4 \
         AND state IN ('pending', 'evaluated') AND (digest = $3 OR verdict IS NULL \
         OR verdict NOT IN ('parse_rejected', 'policy_rejected'))",
    )
    .bind(run.uuid())
    .bind(identity.text.to_string())
    .bind(identity.digest.to_string())
    .bind(ordinal)
    .bind(candidate.uuid())
    .defer(tx);
}

/// A verdict that holds for this code in this run, because another run reached it under the same
/// conditions. None before the run's baseline was evaluated.
pub(crate) async fn known_verdict(
    tx: &mut Connection,
    run: RunId,
    identity: Option<&Identity>,
) -> Result<Option<KnownVerdict>, StoreError> {
    let Some(identity) = identity else {
        return Ok(None);
    };
    let found: Vec<(Uuid, String, i64, TextId)> = query_as(
        "SELECT e.candidate, e.verdict, e.modelled, e.evidence_text FROM candidates c \
         JOIN evaluations e ON e.candidate = c.id AND e.stage = 'search' \
         WHERE c.text_digest = $2 AND c.run <> $1 AND e.conditions = \
         (SELECT b.conditions FROM evaluations b WHERE b.run = $1 AND b.stage = 'baseline' LIMIT 1) \
         ORDER BY e.created_at, e.id LIMIT $3",
    )
    .bind(run.uuid())
    .bind(identity.text.to_string())
    .bind(LOOKED_AT)
    .fetch_all(&mut *tx)
    .await
    .context("look for the same code in other runs")?;
    for (candidate, verdict, modelled, evidence) in found {
        let candidate = CandidateId::from(candidate);
        let row_ref = RowRef::new("evaluations", candidate);
        let verdict: domain::verdict::VerdictKind = row_ref.word("verdict", &verdict)?;
        if !verdict.holds_again(modelled == 1) {
            continue;
        }
        let evidence = texts::get(tx, evidence).await?;
        let evaluation: Evaluation = row_ref.json("evidence_text", &evidence)?;
        let speedup = match evaluation.verdict.acceptance() {
            None => None,
            Some(acceptance) => {
                let baseline = match judgements::baseline(tx, run).await? {
                    Some(baseline) => judgements::timing(tx, baseline).await?,
                    None => None,
                };
                let speedup =
                    baseline.and_then(|baseline| acceptance.timing.speedup_over(&baseline));
                if speedup.is_none() {
                    continue;
                }
                speedup
            }
        };
        return Ok(Some(KnownVerdict {
            candidate,
            evaluation,
            speedup,
        }));
    }
    Ok(None)
}

/// The digest of everything besides a candidate's code and its inputs on which a verdict depends: the
/// task's version, the baseline's code, the device, the compiler and the evaluation protocol. The card is
/// not part of it, only its kind.
pub(crate) fn conditions(
    version: &str,
    baseline: &str,
    device: &Device,
    toolchain: &str,
) -> Digest {
    let kind = Device {
        uuid: String::new(),
        ..device.clone()
    };
    let (kind, protocol) = (json(&kind), EVALUATOR_VERSION.to_string());
    Digest::of_parts([version, baseline, &kind, toolchain, &protocol].map(str::as_bytes))
}

/// Records what a candidate was compiled to. Of the run's candidates that execute the same, all but the
/// first become repetitions of it, in whatever order their verdicts arrive.
pub(crate) fn record_compiled(
    tx: &mut Connection,
    run: RunId,
    candidate: CandidateId,
    image: Digest,
    launches: Digest,
) {
    let executed = [image, launches].map(|digest| digest.to_string());
    let executed = Digest::of_parts(executed.iter().map(String::as_bytes)).to_string();
    query("UPDATE candidates SET executed = $2 WHERE id = $1")
        .bind(candidate.uuid())
        .bind(&executed)
        .defer(tx);
    query(
        "UPDATE candidates SET repeats = f.id FROM (SELECT id, ordinal FROM candidates \
         WHERE run = $1 AND executed = $2 ORDER BY ordinal LIMIT 1) AS f \
         WHERE candidates.run = $1 AND candidates.executed = $2 \
         AND candidates.ordinal > f.ordinal AND candidates.repeats IS DISTINCT FROM f.id",
    )
    .bind(run.uuid())
    .bind(executed)
    .defer(tx);
}
