//! The bundle of a run: a tar archive with everything that the service has of it.

use std::collections::{BTreeMap, BTreeSet};

use axum::body::Bytes;
use domain::api::{CandidateDetail, RunView};
use domain::digest::Digest;
use serde::Deserialize;
use serde_json::{Value, json};
use tar::{Builder, Header};
use worker::evaluate::evidence::store::EvidenceStoreError;

use super::{ExportError, Output, Pages, Records, csv, report};

/// The form of the archive, which its first file names.
const FORM: &str = "kernelwright run 1";
const README: &str = "\
A run of Kernelwright with its records.

run.json                      the run and its request, with the form of this archive
task/                         the task's files, as the run used them
candidates/N/kernel.cu        source of candidate N
candidates/N/candidate.json   verdict, evidence, difference to the parent, prompts and replies
table/N.csv                   candidates from N on as a table; each file begins with the names of its columns
events/N.jsonl                events in order, one JSON value a line
evidence/DIGEST/              evidence of the best candidate and of its confirmation, where the
                              service has it
report.html                   summary; loads nothing
";

/// Writes the archive, an entry at a time. At most one candidate is in memory, or one file of
/// evidence.
pub(super) async fn write(
    records: &Records,
    run: &RunView,
    output: &Output,
) -> Result<(), ExportError> {
    let mut archive = Archive::of(run);
    let store = records.engine.store();
    let request = store.request(run.id).await?;
    let about = json!({ "form": FORM, "run": run, "request": request });
    archive.add("run.json", pretty(&about).as_bytes())?;
    archive.add("README.txt", README.as_bytes())?;
    let report = report::report(&records.engine, run).await?;
    archive.add("report.html", report.as_bytes())?;
    output.send(archive.take()).await?;
    let task = store.bundle(store.content_of(run.id).await?).await?;
    for (path, text) in &task.files {
        archive.add(&format!("task/{path}"), text.as_bytes())?;
    }
    output.send(archive.take()).await?;
    let mut evidence = BTreeSet::new();
    let mut pages = Pages::of(records, run);
    while let Some(page) = pages.next().await? {
        if let Some(first) = page.first() {
            let rows = page.iter().map(csv::row);
            let table = std::iter::once(csv::head()).chain(rows).collect::<String>();
            let path = format!("table/{:06}.csv", first.ordinal);
            archive.add(&path, table.as_bytes())?;
        }
        for summary in page {
            let Some(detail) = records.engine.candidate(summary.id).await? else {
                continue;
            };
            if run
                .best
                .as_ref()
                .is_some_and(|best| best.candidate == summary.id)
            {
                evidence = bundles_of(&detail);
            }
            let folder = format!("candidates/{:06}", summary.ordinal);
            if !detail.source.is_empty() {
                archive.add(&format!("{folder}/kernel.cu"), detail.source.as_bytes())?;
            }
            let text = pretty(&json!(detail));
            archive.add(&format!("{folder}/candidate.json"), text.as_bytes())?;
            output.send(archive.take()).await?;
        }
    }
    events(records, run, &mut archive, output).await?;
    for digest in evidence {
        add_evidence(records, digest, &mut archive, output).await?;
    }
    output.send(archive.finish()?).await
}

/// The bundles of evidence that a candidate's evaluations name.
fn bundles_of(detail: &CandidateDetail) -> BTreeSet<Digest> {
    let evaluations = [&detail.evaluation, &detail.confirmation];
    let evaluations = evaluations.into_iter().flatten();
    evaluations
        .filter_map(|evaluation| evaluation.evidence)
        .collect()
}

async fn events(
    records: &Records,
    run: &RunView,
    archive: &mut Archive,
    output: &Output,
) -> Result<(), ExportError> {
    let mut after = 0;
    for number in 0.. {
        let store = records.engine.store();
        let page = store.events_after(run.id, after, records.page).await?;
        let Some(last) = page.last() else { break };
        after = last.id;
        let lines = page.iter().map(|event| format!("{}\n", json!(event)));
        let lines = lines.collect::<String>();
        archive.add(&format!("events/{number:06}.jsonl"), lines.as_bytes())?;
        output.send(archive.take()).await?;
    }
    Ok(())
}

/// The names of a bundle's files.
#[derive(Deserialize)]
struct Files {
    files: BTreeMap<String, Value>,
}

/// Adds a bundle of evidence. A part that is not here is left out: the candidate's record names it.
async fn add_evidence(
    records: &Records,
    digest: Digest,
    archive: &mut Archive,
    output: &Output,
) -> Result<(), ExportError> {
    let Some(manifest) = part(records, digest, None).await? else {
        return Ok(());
    };
    let names = serde_json::from_slice::<Files>(&manifest).map(|manifest| manifest.files);
    archive.add(&format!("evidence/{digest}/manifest.json"), &manifest)?;
    for name in names.unwrap_or_default().into_keys() {
        if let Some(bytes) = part(records, digest, Some(&name)).await? {
            archive.add(&format!("evidence/{digest}/{name}"), &bytes)?;
            output.send(archive.take()).await?;
        }
    }
    Ok(())
}

/// A file of a bundle, or its manifest; none if it is not here or damaged.
async fn part(
    records: &Records,
    digest: Digest,
    name: Option<&str>,
) -> Result<Option<Bytes>, ExportError> {
    match records.evidence.read_part(digest, name).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(EvidenceStoreError::Missing { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn pretty(value: &Value) -> String {
    let text = serde_json::to_string_pretty(value).expect("a JSON value has only text keys");
    format!("{text}\n")
}

/// A tar archive whose finished part is taken away.
struct Archive {
    builder: Builder<Vec<u8>>,
    /// Seconds since 1970 that entries carry, the same for each, so that one state of the records
    /// always gives one archive.
    at: u64,
}

impl Archive {
    fn of(run: &RunView) -> Self {
        Self {
            builder: Builder::new(Vec::new()),
            at: u64::try_from(run.updated_at.timestamp()).unwrap_or(0),
        }
    }

    fn add(&mut self, path: &str, content: &[u8]) -> Result<(), ExportError> {
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(self.at);
        Ok(self.builder.append_data(&mut header, path, content)?)
    }

    /// The part that was written since the last call.
    fn take(&mut self) -> Vec<u8> {
        std::mem::take(self.builder.get_mut())
    }

    /// The rest, with the mark of the end.
    fn finish(self) -> Result<Vec<u8>, ExportError> {
        Ok(self.builder.into_inner()?)
    }
}
