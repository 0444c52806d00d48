//! `demo`: the whole main job with one command. Everything after the start goes over HTTP, as it
//! would from another machine.

use std::io::IsTerminal;
use std::net::SocketAddr;

use domain::api::{RunRequest, RunState, RunView, TaskView};
use domain::search::{Budget, Method};
use engine::llm::Models;
use uuid::Uuid;
use worker::host::Isolation;

use super::follow::{Style, Until, follow, hint_without_workers, print};
use super::serve::{self, Protection, Service, Setup};
use super::{preflight, run, show};
use crate::bundle;
use crate::cli::{DEFAULT_AUTHOR, DEFAULT_LISTEN, DemoArgs};
use crate::client::{Client, RunChange, RunsQuery};
use crate::credentials::Credentials;
use crate::data::Data;
use crate::http::guard;
use crate::local_worker::{Filter, WorkerOptions};
use crate::logging::Format;
use crate::outcome::{Ending, Failure};

/// Name of the demo's runs, by which a later call finds them.
const NAME: &str = "demo";

pub(super) async fn demo(args: DemoArgs, format: Format) -> Ending {
    let bundle = bundle::read(&args.task).map_err(Failure::input)?;
    let data = serve::open(&args.folder.data)?;
    preflight::require(&data).await?;
    let (client, own) = service(&args, &data, format).await?;

    let ending = perform(&args, &client, &bundle).await;
    let Some(own) = own else { return ending };
    if ending.is_ok() && std::io::stdout().is_terminal() {
        eprintln!("\nserving {}; Ctrl-C stops", client.address());
        serve::stop_requested().await?;
    }
    own.stop().await;
    ending
}

async fn perform(args: &DemoArgs, client: &Client, bundle: &domain::task::Bundle) -> Ending {
    let task = client.upload(bundle).await?;
    let run = find_or_launch(args, client, &task).await?;
    eprintln!("{} on {}  {}", run.id, run.task, client.run_page(run.id));
    let run = tokio::select! {
        run = follow(client, run, Style::Text, Until::OverOrPaused) => run?,
        stopped = serve::stop_requested() => {
            stopped?;
            return Err(Failure::infrastructure(anyhow::anyhow!(
                "finish the run: it was interrupted; the same command goes on where it stands"
            )));
        }
    };
    print(&show::report(client, &run).await?)?;
    match &run.state {
        RunState::Paused { reason } => Err(Failure::infrastructure(anyhow::anyhow!(
            "finish the run: it paused: {reason}; mend that, then the same command resumes it"
        ))),
        _ => Ok(run::outcome(&run)),
    }
}

/// The service that already works in the data folder, or a new one in this process.
async fn service(
    args: &DemoArgs,
    data: &Data,
    format: Format,
) -> Result<(Client, Option<Service>), Failure> {
    if let Some(url) = data.address() {
        let client = Client::with(
            &url,
            &Credentials::read(None, None).map_err(Failure::input)?,
        )?;
        if client.health().await.is_ok() {
            eprintln!("using the service that runs at {url}");
            hint_without_workers(&client).await?;
            return Ok((client, None));
        }
    }
    let service = Service::start(Setup {
        listen: guard::require_loopback(listen_address(args).await).map_err(Failure::input)?,
        protection: Protection::Loopback,
        data,
        shared: data,
        evidence: serve::evidence_folder(data)?,
        database: None,
        author_email: DEFAULT_AUTHOR,
        recheck_after: None,
        devices_per_person: None,
        keep_conversations: None,
        models: Models::none(),
        webhooks: None,
        local_worker: Some(WorkerOptions {
            format,
            filter: Filter::TroubleOnly,
            // Its kernels are this project's own.
            least_isolation: Some(Isolation::Reduced),
        }),
        collector: None,
        sso: None,
    })
    .await?;
    let client = Client::with(&service.url, &service.credentials)?;
    eprintln!("serving {} from {}", service.url, data.root().display());
    Ok((client, Some(service)))
}

async fn listen_address(args: &DemoArgs) -> SocketAddr {
    let default: SocketAddr = DEFAULT_LISTEN
        .parse()
        .expect("the constant is a socket address");
    match args.listen {
        Some(address) => address,
        None if serve::is_address_free(default).await => default,
        None => SocketAddr::new(default.ip(), 0),
    }
}

/// The newest demo of this very task; a new one where there is none or one was asked for.
async fn find_or_launch(
    args: &DemoArgs,
    client: &Client,
    task: &TaskView,
) -> Result<RunView, Failure> {
    if !args.new {
        let runs = client
            .runs(&RunsQuery {
                limit: 200,
                ..RunsQuery::default()
            })
            .await?
            .runs;
        let known = runs.into_iter().find(|run| {
            run.name == NAME && run.task == task.name && run.task_version == task.version
        });
        match known {
            Some(run) if matches!(run.state, RunState::Paused { .. }) => {
                eprintln!("resuming the paused run");
                return Ok(client.change_run(run.id, RunChange::Resume).await?);
            }
            Some(run) => {
                eprintln!(
                    "{}; --new starts another",
                    if run.state.is_over() {
                        "showing the finished run"
                    } else {
                        "going on with the unfinished run"
                    }
                );
                return Ok(run);
            }
            None => {}
        }
    }
    let request = RunRequest {
        name: Some(NAME.to_owned()),
        budget: Budget {
            trials: args.budget_trials.unwrap_or(Budget::default().trials),
            ..Budget::default()
        },
        ..RunRequest::new(&task.name, Method::Playbook)
    };
    let key = Uuid::now_v7().to_string();
    Ok(client.create(&request, &key).await?)
}
