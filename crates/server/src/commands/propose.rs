//! `context` prints the brief of a run, and `submit` submits a kernel to it.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use domain::api::{Brief, CandidateDetail, CandidateState, Event, EventKind, Submission};
use domain::candidate::{KernelSource, MAX_SOURCE_BYTES};
use domain::id::CandidateId;
use domain::verdict::VerdictKind;

use super::address;
use super::follow::{hint_without_workers, print, print_json};
use crate::cli::{ContextArgs, SubmitArgs};
use crate::client::Client;
use crate::client::stream::Events;
use crate::evaluation_text;
use crate::outcome::{Ending, Failure, Outcome};
use crate::terminal::line;

/// The most bytes that are read of a kernel's file, because a device file has no end. A file that is
/// a little too long is sent, so that it gets a verdict that says so.
const MOST_READ: u64 = 4 * MAX_SOURCE_BYTES as u64;

/// Time without an event after which the candidate is read again.
const REPOLL_INTERVAL: Duration = Duration::from_secs(10);

/// Prints a run's brief.
pub(super) async fn context(args: ContextArgs) -> Ending {
    let client = address::client(&args.service)?;
    let brief = client.brief(args.run).await?;
    if args.json {
        print_json(&brief)?;
    } else {
        print(&brief_text(&brief))?;
    }
    Ok(Outcome::Accepted)
}

/// Proposes a kernel, and waits for its verdict if asked.
pub(super) async fn submit(args: SubmitArgs) -> Ending {
    let client = address::client(&args.service)?;
    let source = source(&args.file)?;
    print_notes(&args.file, &source);
    let submission = Submission {
        source,
        file: args
            .file
            .file_name()
            .map(|name| name.to_string_lossy().into_owned()),
        parent: args.parent,
        proposer: args.proposer.clone(),
        hypothesis: args.hypothesis.clone(),
    };
    let submitted = client.submit(args.run, &submission).await?;
    if !args.wait {
        if args.json {
            print_json(&submitted)?;
        } else {
            print(&format!("{}\n", submitted.id))?;
        }
        return Ok(Outcome::Accepted);
    }
    hint_without_workers(&client).await?;
    let events = Events::after(&client, args.run, 0);
    let detail = judged(&client, submitted.id, events).await?;
    if args.json {
        print_json(&detail)?;
    } else {
        print(&verdict_text(&detail))?;
    }
    match (&detail.summary.state, detail.summary.verdict) {
        (CandidateState::Abandoned { message }, _) => Err(Failure::infrastructure(
            anyhow::anyhow!("evaluate the kernel: {}", line(message, 400)),
        )),
        (_, Some(VerdictKind::Accepted)) => Ok(Outcome::Accepted),
        _ => Ok(Outcome::NotAccepted),
    }
}

/// Prints, to standard error, where a kernel's plan departs from the documented form.
pub(super) fn print_notes(file: &Path, source: &str) {
    let name = file.display().to_string();
    if let Ok(parsed) = KernelSource::parse(&name, source) {
        for note in parsed.notes() {
            eprintln!("{}: {}", line(&name, 200), line(note, 400));
        }
    }
}

/// A kernel's text.
pub(super) fn source(file: &Path) -> Result<String, Failure> {
    let name = file.display();
    if file.is_dir() {
        return Err(Failure::input(anyhow::anyhow!(
            "read {name}: it is a folder, and a kernel is one file; name a file such as {}",
            file.join("baseline.cu").display()
        )));
    }
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|file| file.take(MOST_READ).read_to_end(&mut bytes))
        .with_context(|| format!("read {name}"))
        .map_err(Failure::input)?;
    if bytes.len() as u64 == MOST_READ {
        return Err(Failure::input(anyhow::anyhow!(
            "read {name}: it is longer than any kernel, which has at most {MAX_SOURCE_BYTES} bytes"
        )));
    }
    String::from_utf8(bytes)
        .map_err(|_| Failure::input(anyhow::anyhow!("read {name}: a kernel must be UTF-8 text")))
}

/// The candidate once nothing more will happen to it.
async fn judged(
    client: &Client,
    candidate: CandidateId,
    mut events: Events,
) -> Result<CandidateDetail, Failure> {
    loop {
        let detail = client.candidate(candidate).await?;
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
                    return Ok(());
                }
            }
        };
        match tokio::time::timeout(REPOLL_INTERVAL, news).await {
            Ok(news) => news.map_err(|error: crate::client::ClientError| Failure::from(error))?,
            Err(_elapsed) => {}
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

fn verdict_text(detail: &CandidateDetail) -> String {
    let summary = &detail.summary;
    let mut text = format!(
        "#{} {} ({})\n",
        summary.ordinal,
        line(&summary.title, 80),
        summary.id
    );
    if let Some(speedup) = summary.speedup {
        let _infallible = writeln!(text, "speedup    {speedup:.2}x over the baseline");
    }
    match (&detail.evaluation, &summary.summary) {
        (Some(evaluation), _) => text.push_str(&evaluation_text::evaluation(evaluation)),
        (None, Some(sentence)) => {
            let _infallible = writeln!(text, "verdict    {}", line(sentence, 400));
        }
        (None, None) => {}
    }
    text
}

/// The brief as one text that a person reads and a model can be given. It goes to files and
/// prompts, so it is the service's own text, not cleaned for a terminal.
fn brief_text(brief: &Brief) -> String {
    let messages = brief.prompt.messages.iter();
    let messages = messages.map(|message| message.text.as_str());
    let parts = std::iter::once(brief.prompt.system.as_str()).chain(messages);
    parts.collect::<Vec<_>>().join("\n")
}
