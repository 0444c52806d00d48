//! `context` prints the brief of a run or writes it as a folder, and `submit` submits a kernel.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::Context;
use domain::api::{Brief, CandidateDetail, CandidateState, CandidateSummary, Submission};
use domain::candidate::{KernelSource, MAX_SOURCE_BYTES};
use domain::verdict::VerdictKind;

use super::address;
use super::follow::{hint_without_workers, print, print_json};
use super::pack;
use crate::cli::{ContextArgs, SubmitArgs};
use crate::evaluation_text;
use crate::outcome::{Ending, Failure, Outcome};
use crate::terminal::line;

/// The most bytes that are read of a kernel's file, because a device file has no end. A file that is
/// a little too long is sent, so that it gets a verdict that says so.
const MOST_READ: u64 = 4 * MAX_SOURCE_BYTES as u64;

/// Prints a run's brief, or writes its pack.
pub(super) async fn context(args: ContextArgs) -> Ending {
    let client = address::client(&args.service)?;
    if let Some(folder) = &args.pack {
        return pack::write(&client, &args.service, args.run, folder).await;
    }
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
            eprint!("{}", same_code(&submitted));
        }
        return Ok(Outcome::Accepted);
    }
    hint_without_workers(&client).await?;
    let detail = client.until_judged(args.run, submitted.id).await?;
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

/// A line that names the candidate whose code a candidate has; empty if there is none.
fn same_code(summary: &CandidateSummary) -> String {
    match (&summary.state, summary.verdict_of) {
        (CandidateState::Duplicate { of }, _) => format!("duplicate  of {of}, the same code\n"),
        (_, Some(of)) => format!("verdict    of {of}, the same code in another run\n"),
        _ => String::new(),
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
    text.push_str(&same_code(summary));
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
pub(super) fn brief_text(brief: &Brief) -> String {
    let messages = brief.prompt.messages.iter();
    let messages = messages.map(|message| message.text.as_str());
    let parts = std::iter::once(brief.prompt.system.as_str()).chain(messages);
    parts.collect::<Vec<_>>().join("\n")
}
