//! The export of a run as one file: JSON lines, comma-separated values, an HTML report, or a bundle.
//!
//! The file is written page by page while it is sent, so that memory does not grow with the run. An
//! export that fails breaks off, and the reader's connection with it; JSON lines, reports and bundles
//! also end with a mark of their own. Candidates of a run that still goes on may change meanwhile.

mod bundle;
mod csv;
mod curve;
mod html;
mod report;

use std::io;

use axum::body::Bytes;
use clap::ValueEnum;
use domain::api::{CandidateSummary, RunView};
use engine::{Engine, EngineError};
use futures::{Stream, stream};
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::StoreError;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;
use worker::evaluate::evidence::store::{EvidenceStore, EvidenceStoreError};

/// Candidates, or events, that one query reads.
pub const PAGE: u32 = 500;
/// Parts that wait for a reader who is slower than the database.
const WAITING_PARTS: usize = 2;

/// The forms of the export of a run.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum RunExportFormat {
    /// JSON lines: the run, each candidate, each event, and a last line with their numbers.
    #[default]
    Jsonl,
    /// Comma-separated values: one line for each candidate.
    Csv,
    /// An HTML report: one page that loads nothing.
    Html,
    /// A tar archive: run, task, candidates with sources, prompts and evidence, events and report.
    Bundle,
}

impl RunExportFormat {
    /// The name in requests.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
            Self::Html => "html",
            Self::Bundle => "bundle",
        }
    }

    /// The extension of files in this form.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Bundle => "tar",
            other => other.as_str(),
        }
    }

    /// The media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Jsonl => "application/jsonl",
            Self::Csv => "text/csv; charset=utf-8; header=present",
            Self::Html => "text/html; charset=utf-8",
            Self::Bundle => "application/x-tar",
        }
    }
}

/// The reasons why an export breaks off. Messages follow "failed to".
#[derive(Debug, thiserror::Error)]
enum ExportError {
    /// A query failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// An entry of the archive could not be made.
    #[error("write the archive")]
    Archive(#[from] io::Error),
    /// The evidence cannot be read.
    #[error(transparent)]
    Evidence(#[from] EvidenceStoreError),
    /// The reader has gone.
    #[error("send to a reader who has gone")]
    ReaderLeft,
    /// The service stops.
    #[error("export a run while the service stops")]
    Closing,
}

impl From<StoreError> for ExportError {
    fn from(error: StoreError) -> Self {
        Self::Engine(error.into())
    }
}

/// The records that exports are made from.
#[derive(Clone)]
pub struct Records {
    /// The engine with its store.
    pub engine: Engine,
    /// The bundles of evidence.
    pub evidence: EvidenceStore,
    /// Candidates, or events, that one query reads: [`PAGE`].
    pub page: u32,
    /// Cancelled when the service stops.
    pub closing: CancellationToken,
}

/// The parts of an export, in order. The last one is an error if the export broke off.
pub fn export(
    records: Records,
    run: RunView,
    format: RunExportFormat,
) -> impl Stream<Item = Result<Bytes, io::Error>> {
    let (sender, mut parts) = mpsc::channel(WAITING_PARTS);
    tokio::spawn(async move {
        let output = Output {
            sender: sender.clone(),
            closing: records.closing.clone(),
        };
        let id = run.id;
        match write(&records, &run, format, &output).await {
            Ok(()) | Err(ExportError::ReaderLeft) => {}
            Err(error) => {
                tracing::error!(run.id = %id, "failed to {error:#}; the export breaks off");
                let _reader_left = sender.send(Err(io::Error::other(error))).await;
            }
        }
    });
    stream::poll_fn(move |context| parts.poll_recv(context))
}

/// The way to the reader.
struct Output {
    sender: mpsc::Sender<Result<Bytes, io::Error>>,
    closing: CancellationToken,
}

impl Output {
    /// Sends a part, waiting until the reader has room for it.
    async fn send(&self, part: impl Into<Bytes>) -> Result<(), ExportError> {
        if self.closing.is_cancelled() {
            return Err(ExportError::Closing);
        }
        let sent = self.sender.send(Ok(part.into())).await;
        sent.map_err(|_| ExportError::ReaderLeft)
    }
}

async fn write(
    records: &Records,
    run: &RunView,
    format: RunExportFormat,
    output: &Output,
) -> Result<(), ExportError> {
    match format {
        RunExportFormat::Jsonl => json_lines(records, run, output).await,
        RunExportFormat::Csv => {
            output.send(csv::head()).await?;
            let mut pages = Pages::of(records, run);
            while let Some(candidates) = pages.next().await? {
                output
                    .send(candidates.iter().map(csv::row).collect::<String>())
                    .await?;
            }
            Ok(())
        }
        RunExportFormat::Html => {
            output
                .send(report::report(&records.engine, run).await?)
                .await
        }
        RunExportFormat::Bundle => bundle::write(records, run, output).await,
    }
}

async fn json_lines(records: &Records, run: &RunView, output: &Output) -> Result<(), ExportError> {
    output.send(format!("{}\n", json!({ "run": run }))).await?;
    let (mut candidates, mut events) = (0, 0);
    let mut pages = Pages::of(records, run);
    while let Some(page) = pages.next().await? {
        candidates += page.len();
        let lines = page.iter();
        let lines = lines.map(|candidate| format!("{}\n", json!({ "candidate": candidate })));
        output.send(lines.collect::<String>()).await?;
    }
    let mut after = 0;
    loop {
        let store = records.engine.store();
        let page = store.events_after(run.id, after, records.page).await?;
        let Some(last) = page.last() else { break };
        after = last.id;
        events += page.len();
        let lines = page.iter();
        let lines = lines.map(|event| format!("{}\n", json!({ "event": event })));
        output.send(lines.collect::<String>()).await?;
    }
    let end = json!({ "end": { "candidates": candidates, "events": events } });
    output.send(format!("{end}\n")).await
}

/// The candidates of a run by ordinal, a page at a time.
struct Pages<'a> {
    records: &'a Records,
    run: &'a RunView,
    after: Option<u32>,
    over: bool,
}

impl<'a> Pages<'a> {
    fn of(records: &'a Records, run: &'a RunView) -> Self {
        Self {
            records,
            run,
            after: None,
            over: false,
        }
    }

    /// The next page; none after the last.
    async fn next(&mut self) -> Result<Option<Vec<CandidateSummary>>, ExportError> {
        if self.over {
            return Ok(None);
        }
        let store = self.records.engine.store();
        let page = store
            .candidates(self.run.id, None, self.after, self.records.page)
            .await?;
        self.after = page.candidates.last().map(|last| last.ordinal);
        self.over = page.next.is_none();
        Ok(Some(page.candidates))
    }
}
