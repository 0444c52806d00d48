//! `recording` and `replay`: a run's calls as a file, and the run again from that file.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use domain::model::ModelView;
use engine::llm::cassette::{Origin, Prompts, RecordedModel, Recording};
use engine::llm::{Llm, Models};
use uuid::Uuid;

use super::follow::{Style, Until, follow, print, print_json};
use super::run::outcome;
use super::serve::{self, Protection, Service, Setup};
use super::{address, show};
use crate::bundle;
use crate::cli::{DEFAULT_AUTHOR, RecordingArgs, ReplayArgs};
use crate::client::Client;
use crate::http::guard;
use crate::local_worker::{Filter, WorkerOptions};
use crate::logging::Format;
use crate::outcome::{Ending, Failure, Outcome};

/// Tokens that no prompt has: a recording that was written by hand names no limit.
const NO_LIMIT: u64 = 1 << 40;

pub(super) async fn recording(args: RecordingArgs) -> Ending {
    let client = address::client(&args.service)?;
    print(&client.recording(args.run).await?)?;
    Ok(Outcome::Accepted)
}

/// Runs the recorded request again in a service of its own, with the recording in the models'
/// place.
pub(super) async fn replay(args: ReplayArgs, format: Format) -> Ending {
    let name = args.file.display().to_string();
    let text = std::fs::read_to_string(&args.file)
        .with_context(|| format!("read the recording {name}"))
        .map_err(Failure::input)?;
    let recording = Recording::parse(&name, &text).map_err(Failure::input)?;
    let header = recording.header().clone();
    let bundle = bundle::read(&args.task).map_err(Failure::input)?;
    // Replies that a person wrote were never the answer to any prompt.
    let prompts = if args.lenient || header.origin == Origin::ByHand {
        Prompts::Any
    } else {
        Prompts::Recorded
    };
    let models = models(&recording, prompts);

    let data = serve::open(&args.folder.data)?;
    let service = Service::start(Setup {
        listen: guard::require_loopback(args.listen).map_err(Failure::input)?,
        protection: Protection::Loopback,
        data: &data,
        shared: &data,
        evidence: serve::evidence_folder(&data)?,
        database: None,
        author_email: DEFAULT_AUTHOR,
        recheck_after: None,
        devices_per_person: None,
        keep_conversations: None,
        models,
        webhooks: None,
        local_worker: Some(WorkerOptions {
            format,
            filter: Filter::TroubleOnly,
            least_isolation: None,
        }),
        collector: None,
        sso: None,
    })
    .await?;
    let client = Client::with(&service.url, &service.credentials)?;
    let ended = launch(&client, &args, &bundle, &header).await;
    service.stop().await;
    ended
}

async fn launch(
    client: &Client,
    args: &ReplayArgs,
    bundle: &domain::task::Bundle,
    header: &engine::llm::cassette::Header,
) -> Ending {
    let task = client.upload(bundle).await?;
    if task.name != header.task {
        let folder = Path::display(&args.task);
        return Err(Failure::input(anyhow!(
            "replay {} on the task in {folder}: the recording is of {:?}, the folder holds {:?}",
            args.file.display(),
            header.task,
            task.name
        )));
    }
    if task.version != header.task_version {
        eprintln!("the task has changed since the recording: verdicts may differ");
    }
    if header.origin == Origin::ByHand {
        eprintln!("the replies were written by hand: they say nothing about any model");
    }
    let mut request = header.run.clone();
    // Wherever the recorded run put its winner: a replay keeps its own to itself.
    request.promotion = None;
    let launched = client.create(&request, &Uuid::now_v7().to_string()).await?;
    let style = if args.json { Style::Json } else { Style::Text };
    let run = follow(client, launched, style, Until::OverOrPaused).await?;
    match style {
        Style::Json => print_json(&run)?,
        Style::Text => print(&show::report(client, &run).await?)?,
    }
    Ok(outcome(&run))
}

/// The recording under every name that its run asks, with the limits and prices of the models
/// that were asked: they shape prompts and budgets.
fn models(recording: &Recording, prompts: Prompts) -> Models {
    let header = recording.header();
    let named = header.run.models.iter().map(|choice| {
        let recorded = header.models.iter().find(|view| view.name == choice.name);
        let view = recorded.cloned().unwrap_or_else(|| ModelView {
            name: choice.name.clone(),
            api: String::new(),
            model: choice.name.clone(),
            host: None,
            price: None,
            context_tokens: NO_LIMIT,
            max_output_tokens: 1,
            concurrency: 1,
        });
        let view = ModelView {
            api: "cassette".to_owned(),
            host: None,
            ..view
        };
        let player = RecordedModel::new(choice.name.clone(), recording.clone(), prompts);
        let llm: Arc<dyn Llm> = Arc::new(player);
        (view, llm)
    });
    Models::of(named)
}
