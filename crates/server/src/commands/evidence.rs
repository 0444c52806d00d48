//! `evidence`: shows, repeats and fetches evidence bundles.

use domain::digest::Digest;
use domain::evaluation::{EVALUATOR_VERSION, Evaluation};
use domain::verdict::VerdictKind;
use serde::Serialize;
use worker::evaluate::evidence::store::EvidenceStore;
use worker::evaluate::evidence::{Evidence, EvidenceError, Manifest};

use super::address;
use super::eval::LocalEvaluator;
use super::follow::{print, print_json};
use super::serve;
use crate::cli::{EvidenceArgs, EvidenceCommand, FetchArgs};
use crate::data::Data;
use crate::evaluation_text;
use crate::outcome::{Ending, Failure, Outcome};
use crate::report::{Report, SCHEMA, TaskIdentity};
use crate::terminal::plain;

/// The fewest digits of a digest that name a bundle.
const LEAST_DIGITS: usize = 6;

/// The result of `evidence show`.
#[derive(Serialize)]
struct Shown<'a> {
    digest: Digest,
    folder: String,
    manifest: &'a Manifest,
    evaluation: &'a Evaluation,
}

/// The result of `evidence replay`.
#[derive(Serialize)]
struct Replayed {
    digest: Digest,
    then: VerdictKind,
    now: VerdictKind,
    same: bool,
    evaluation: Evaluation,
}

pub(super) async fn evidence(command: EvidenceCommand) -> Ending {
    match command {
        EvidenceCommand::Show(args) => show(&args),
        EvidenceCommand::Replay(args) => replay(&args).await,
        EvidenceCommand::Fetch(args) => fetch(&args).await,
    }
}

fn show(args: &EvidenceArgs) -> Ending {
    let data = serve::open_existing(&args.folder.data)?;
    let found = find(&data, &args.digest)?;
    let shown = Shown {
        digest: found.digest,
        folder: found.folder.display().to_string(),
        manifest: &found.manifest,
        evaluation: &found.evaluation,
    };
    if args.json {
        print_json(&report("evidence show", &found, true, &shown))?;
    } else {
        print(&text(&shown))?;
    }
    Ok(Outcome::Accepted)
}

/// Brings a bundle here as a worker brings one to a service: every byte is checked on arrival.
async fn fetch(args: &FetchArgs) -> Ending {
    let data = serve::open(&args.service.folder.data)?;
    let refuse = |error: String| Failure::input(anyhow::anyhow!("fetch the evidence: {error}"));
    let digest: Digest = args
        .digest
        .parse()
        .map_err(|_| refuse("name it by its whole digest, 64 digits".to_owned()))?;
    let client = address::client(&args.service)?;
    let manifest = client.evidence(digest, None).await?;
    let store = EvidenceStore::in_folder(data.root(), None).map_err(Failure::infrastructure)?;
    let taken = store.receive_manifest(digest, manifest.into()).await;
    for name in taken.map_err(Failure::infrastructure)? {
        let file = client.evidence(digest, Some(&name)).await?;
        let taken = store.receive_file(digest, &name, file.into()).await;
        taken.map_err(Failure::infrastructure)?;
    }
    let found = Evidence::open(data.root(), digest).map_err(Failure::infrastructure)?;
    let folder = found.folder.display().to_string();
    if args.json {
        print_json(&serde_json::json!({ "digest": found.digest, "folder": folder }))?;
    } else {
        print(&format!(
            "evidence   {}\nin         {}\n",
            found.digest,
            plain(&folder)
        ))?;
    }
    Ok(Outcome::Accepted)
}

/// Evaluates a bundle's candidate again, on the inputs that the bundle commits to.
async fn replay(args: &EvidenceArgs) -> Ending {
    let data = serve::open_existing(&args.folder.data)?;
    let found = find(&data, &args.digest)?;
    let key = found.read_key(data.root()).ok_or_else(|| {
        Failure::infrastructure(anyhow::anyhow!(
            "replay {}: the key of its inputs is not in this data folder; keys do not travel, so replay it where it was made",
            found.digest.short()
        ))
    })?;
    let evaluator = LocalEvaluator::open(&args.folder.data, None).await?;
    let differences = found.differences(evaluator.evaluator().host());
    if !differences.is_empty() {
        return Err(Failure::infrastructure(anyhow::anyhow!(
            "replay {}: this is not what judged it: {}; a verdict from here would prove nothing",
            found.digest.short(),
            differences.join("; ")
        )));
    }
    let evaluation = evaluator.evaluate(found.request(key)).await?;
    let replayed = Replayed {
        digest: found.digest,
        then: found.manifest.verdict,
        now: evaluation.verdict.kind(),
        same: found.manifest.verdict == evaluation.verdict.kind(),
        evaluation,
    };
    if args.json {
        let report = report("evidence replay", &found, replayed.same, &replayed);
        print_json(&report)?;
    } else {
        let word = if replayed.same {
            "the same verdict"
        } else {
            "ANOTHER VERDICT"
        };
        print(&format!(
            "{}replay     {word}: {} then, {} now\n",
            evaluation_text::evaluation(&replayed.evaluation),
            replayed.then,
            replayed.now
        ))?;
    }
    Ok(if replayed.same {
        Outcome::Accepted
    } else {
        Outcome::NotAccepted
    })
}

/// The bundle whose name begins so.
fn find(data: &Data, name: &str) -> Result<Evidence, Failure> {
    let refuse = |what: String| Failure::input(anyhow::anyhow!("find the evidence {name}: {what}"));
    if name.len() < LEAST_DIGITS || !name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(refuse(format!(
            "name it by its digest, {LEAST_DIGITS} digits or more"
        )));
    }
    let digest = match Evidence::names(data.root(), &name.to_lowercase()).as_slice() {
        [digest] => *digest,
        [] => {
            let folder = data.root().display();
            return Err(refuse(format!(
                "there is none in {folder}; `kernelwright evidence fetch` brings it from a service"
            )));
        }
        [_, _, ..] => return Err(refuse("several begin so; give more digits".to_owned())),
    };
    match Evidence::open(data.root(), digest) {
        Ok(found) => Ok(found),
        Err(error @ EvidenceError::Missing { .. }) => Err(Failure::input(error)),
        Err(error) => Err(Failure::infrastructure(error)),
    }
}

fn report<'a, T>(verb: &'static str, found: &Evidence, ok: bool, result: &'a T) -> Report<&'a T> {
    Report {
        schema: SCHEMA,
        verb,
        ok,
        file: Some(found.manifest.file.clone()),
        task: Some(TaskIdentity {
            name: found.manifest.task.clone(),
            version: found.manifest.task_version,
        }),
        evaluator: EVALUATOR_VERSION,
        device: Some(found.manifest.device.clone()),
        result,
    }
}

fn text(shown: &Shown<'_>) -> String {
    let manifest = shown.manifest;
    let mut text = format!(
        "evidence   {}\nin         {}\nkernel     {}\ntask       {}, version {}\njudged by  {}, evaluation protocol {}, {}\non         {}\ninputs     key {} (sealed)\n",
        shown.digest,
        plain(&shown.folder),
        plain(&manifest.file),
        plain(&manifest.task),
        manifest.task_version.short(),
        plain(&manifest.program),
        manifest.evaluator,
        plain(&manifest.toolchain),
        plain(&manifest.device.to_string()),
        manifest.key.short()
    );
    for (name, value) in &manifest.configuration {
        text.push_str(&format!("set        {}={value}\n", plain(name)));
    }
    for (name, part) in &manifest.files {
        text.push_str(&format!(
            "file       {} {} bytes, {}\n",
            part.digest.short(),
            part.bytes,
            plain(name)
        ));
    }
    for (name, why) in &manifest.left_out {
        text.push_str(&format!("left out   {}: {}\n", plain(name), plain(why)));
    }
    text.push_str(&evaluation_text::evaluation(shown.evaluation));
    text
}
