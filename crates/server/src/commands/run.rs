//! `run`: launches a run on a service, and follows it if asked.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;
use domain::api::{Estimated, PromotionState, PromotionTarget, RunRequest, RunView};
use domain::id::RunId;
use domain::plan::Configuration;
use domain::search::Budget;
use domain::task::Task;
use uuid::Uuid;

use super::follow::{Style, Until, follow, hint_without_workers, print, print_json};
use super::{address, show};
use crate::bundle::{self, BundleError};
use crate::cli::{LessonsArgs, RunArgs, Teacher};
use crate::client::{Client, RunsQuery};
use crate::outcome::{Ending, Failure, Outcome};
use crate::terminal::{counted, plain};

/// The number of configurations that one run takes over from another.
const FIRST_CONFIGURATIONS: usize = 8;

pub(super) async fn run(args: RunArgs) -> Ending {
    let start = start(&args)?;
    let client = address::client(&args.service)?;
    let task = task_name(&client, &args.task).await?;
    let lessons = read_lessons(&client, &args, &task).await?;
    let mut evolution = args.asking.evolution();
    if let Some(run) = args.asking.configurations_of {
        evolution.first_configurations = fastest_configurations(&client, run).await?;
    }
    let request = RunRequest {
        task,
        method: args.search_method(),
        name: args.name.clone(),
        budget: Budget {
            trials: args.budget_trials.unwrap_or(Budget::default().trials),
            wall_seconds: args.budget_seconds,
            tokens: args.asking.budget_tokens,
            dollars: args.asking.budget_dollars,
            device_seconds: args.budget_device_seconds,
            device_dollars: args.budget_device_dollars,
            floor_percent: args.floor_percent,
            gain_per_dollar: args.asking.gain_per_dollar,
            trials_without_gain: args.trials_without_gain,
        },
        seed: args.seed,
        start,
        device: args.device.clone(),
        promotion: promotion(&args)?,
        models: args.asking.models.clone(),
        evolution,
        lessons,
        tags: args.tags.clone(),
    };
    if args.estimate {
        return estimate(&client, &request, args.json).await;
    }
    if args.asking.preview {
        return preview(&client, &request, args.json).await;
    }
    let key = args
        .idempotency_key
        .clone()
        .unwrap_or_else(|| Uuid::now_v7().to_string());
    let launched = client.create(&request, &key).await?;
    if !args.follow {
        if args.json {
            print_json(&launched)?;
        } else {
            print(&format!(
                "{}\n{}\n",
                launched.id,
                client.run_page(launched.id)
            ))?;
        }
        return Ok(Outcome::Accepted);
    }
    let style = if args.json { Style::Json } else { Style::Text };
    if style == Style::Text {
        eprintln!("{}  {}", launched.id, client.run_page(launched.id));
    }
    hint_without_workers(&client).await?;
    let run = follow(&client, launched, style, Until::Over).await?;
    match style {
        Style::Json => print_json(&run)?,
        Style::Text => print(&show::report(&client, &run).await?)?,
    }
    Ok(outcome(&run))
}

/// Prints the lessons of a run.
pub(super) async fn lessons(args: LessonsArgs) -> Ending {
    let client = address::client(&args.service)?;
    let text = client.lessons(args.run).await?;
    if text.is_empty() {
        eprintln!(
            "run {} has no lessons yet: no candidate with a thought has a verdict",
            args.run
        );
    }
    print(&text)?;
    Ok(Outcome::Accepted)
}

/// The configurations of the fastest accepted candidates of a run, the fastest first.
async fn fastest_configurations(
    client: &Client,
    run: RunId,
) -> Result<Vec<Configuration>, Failure> {
    let mut nodes = client.lineage(run).await?.nodes;
    nodes.retain(|node| node.speedup.is_some() && !node.configuration.is_empty());
    nodes.sort_by(|one, other| {
        other
            .speedup
            .partial_cmp(&one.speedup)
            .unwrap_or(Ordering::Equal)
    });
    let mut fastest: Vec<Configuration> = Vec::new();
    for node in nodes {
        if fastest.len() < FIRST_CONFIGURATIONS && !fastest.contains(&node.configuration) {
            fastest.push(node.configuration);
        }
    }
    if fastest.is_empty() {
        return Err(Failure::input(anyhow::anyhow!(
            "take the configurations of run {run}: no accepted candidate of it has tunables; leave out \
             --configurations-of {run}"
        )));
    }
    Ok(fastest)
}

/// The text of the lessons file and the lessons of the named runs.
async fn read_lessons(client: &Client, args: &RunArgs, task: &str) -> Result<String, Failure> {
    let mut parts = Vec::new();
    if let Some(file) = &args.lessons {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("read the lessons in {}", file.display()))
            .map_err(Failure::input)?;
        parts.push(text);
    }
    for teacher in &args.lessons_of {
        parts.push(match teacher {
            Teacher::Latest => {
                let tasks = BTreeSet::from([task.to_owned()]);
                newest_lessons(client, "latest", &tasks, args.device.as_deref()).await?
            }
            Teacher::Family => {
                let tasks = family(client, task).await?;
                newest_lessons(client, "family", &tasks, args.device.as_deref()).await?
            }
            Teacher::Run(run) => {
                let text = client.lessons(*run).await?;
                if text.is_empty() {
                    return Err(Failure::input(anyhow::anyhow!(
                        "take the lessons of run {run}: no candidate of it with a thought has a verdict; \
                         leave out --lessons-of {run}"
                    )));
                }
                text
            }
        });
    }
    Ok(parts.join("\n"))
}

/// The tasks of a task's operator family, itself among them.
async fn family(client: &Client, task: &str) -> Result<BTreeSet<String>, Failure> {
    let tasks = client.tasks().await?;
    let family = tasks
        .iter()
        .find(|it| it.name == task)
        .and_then(|it| it.family.clone());
    let Some(family) = family else {
        let task = plain(task);
        return Err(Failure::input(anyhow::anyhow!(
            "take the lessons of the family of {task}: its task.toml names no family; write family = \"NAME\" there \
             and in the task.toml of its kin, or leave out --lessons-of family"
        )));
    };
    let kin = tasks
        .into_iter()
        .filter(|it| it.family.as_ref() == Some(&family));
    Ok(kin.map(|it| it.name).collect())
}

/// The lessons of the newest run of these tasks that has some, of those on the device if one is named. `teacher` is
/// the word that asks for it.
async fn newest_lessons(
    client: &Client,
    teacher: &str,
    tasks: &BTreeSet<String>,
    device: Option<&str>,
) -> Result<String, Failure> {
    let alone = tasks.first().filter(|_| tasks.len() == 1);
    let mut query = RunsQuery {
        task: alone.cloned(),
        limit: 200,
        ..RunsQuery::default()
    };
    loop {
        let page = client.runs(&query).await?;
        let fits = |run: &RunView| {
            tasks.contains(&run.task)
                && device.is_none_or(|name| run.device.as_deref() == Some(name))
        };
        for run in page.runs.iter().filter(|run| fits(run)) {
            let text = client.lessons(run.id).await?;
            if !text.is_empty() {
                let (task, name) = (plain(&run.task), plain(&run.name));
                eprintln!("with the lessons of {} ({name}, of {task})", run.id);
                return Ok(text);
            }
        }
        if page.next.is_none() {
            let tasks: Vec<_> = tasks.iter().map(|task| plain(task)).collect();
            let tasks = tasks.join(", ");
            let on = device.map_or(String::new(), |name| format!(" on {}", plain(name)));
            return Err(Failure::input(anyhow::anyhow!(
                "take the lessons of the {teacher}: no run of {tasks}{on} has any; leave out --lessons-of {teacher}"
            )));
        }
        query.cursor = page.next;
    }
}

/// Shows what a run will take by ended runs like it, without starting it.
async fn estimate(client: &Client, request: &RunRequest, json: bool) -> Ending {
    let found = client.estimate(request).await?;
    if json {
        print_json(&found)?;
        return Ok(Outcome::Accepted);
    }
    let (task, method) = (plain(&request.task), request.method.as_str());
    let with = if request.models.is_empty() {
        ""
    } else {
        " with these models"
    };
    if found.past_runs == 0 {
        print(&format!(
            "no ended run of {task} by {method}{with} is stored here, so that nothing is estimated\n"
        ))?;
        return Ok(Outcome::Accepted);
    }
    let mut text = format!(
        "{} trials of {task} by {method}{with}, by {}; the middle half took:\n",
        found.trials,
        counted(u64::from(found.past_runs), "ended run", "ended runs"),
    );
    for (name, quantity, digits) in [
        ("calls", found.calls, 0),
        ("tokens", found.tokens, 0),
        ("dollars", found.dollars, 2),
        ("minutes", found.minutes, 1),
        ("device seconds", found.device_seconds, 0),
    ] {
        let line = quantity.map_or_else(
            || "unknown".to_owned(),
            |Estimated { low, median, high }| {
                format!("{low:.digits$} to {high:.digits$}, median {median:.digits$}")
            },
        );
        text.push_str(&format!("{name:<15} {line}\n"));
    }
    print(&text)?;
    Ok(Outcome::Accepted)
}

/// Shows the first prompt of a run and its estimated cost, without starting it.
async fn preview(client: &Client, request: &RunRequest, json: bool) -> Ending {
    let preview = client.preview(request).await?;
    if json {
        print_json(&preview)?;
        return Ok(Outcome::Accepted);
    }
    let mut text = String::new();
    let mut say = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    say(format!("--- system ---\n{}", preview.prompt.system));
    for message in &preview.prompt.messages {
        say(format!("--- {} ---\n{}", message.speaker, message.text));
    }
    say(format!(
        "--- to {}: template {}, at most {} tokens, {} calls, at most {} ---",
        plain(&preview.model),
        preview.template,
        preview.prompt_tokens,
        preview.calls,
        preview.most_dollars.map_or_else(
            || "an unknown price".to_owned(),
            |dollars| dollars.to_string()
        ),
    ));
    for (label, items) in [
        ("left out for lack of room", &preview.dropped),
        ("not known before a first run", &preview.unknown),
    ] {
        if !items.is_empty() {
            say(format!("{label}: {}", items.join(", ")));
        }
    }
    print(&text)?;
    Ok(Outcome::Accepted)
}

/// A folder is uploaded and gives its task's name; anything else is a name already.
pub(super) async fn task_name(client: &Client, task: &str) -> Result<String, Failure> {
    let dir = Path::new(task);
    if !dir.is_dir() {
        let looks_like_a_path = task.contains('/');
        return if looks_like_a_path {
            Err(Failure::input(BundleError::NoTask(dir.to_owned())))
        } else {
            Ok(task.to_owned())
        };
    }
    let bundle = bundle::read(dir).map_err(Failure::input)?;
    Ok(client.upload(&bundle).await?.name)
}

/// A run succeeds when its winner stands in git.
pub(super) fn outcome(run: &RunView) -> Outcome {
    let committed = run
        .promotion
        .as_ref()
        .is_some_and(|promotion| matches!(promotion.state, PromotionState::Committed { .. }));
    if committed {
        Outcome::Accepted
    } else {
        Outcome::NotAccepted
    }
}

/// The start file of a sweep by its name in the task. A file of the task's folder may also be given
/// by its path from the current folder.
fn start(args: &RunArgs) -> Result<Option<String>, Failure> {
    let (Some(start), folder) = (&args.start, Path::new(&args.task)) else {
        return Ok(None);
    };
    if !folder.is_dir() {
        // The service knows the files of a task that is given by its name.
        return Ok(Some(start.clone()));
    }
    let bundle = bundle::read(folder).map_err(Failure::input)?;
    let names = bundle.files.keys().map(String::as_str);
    let names = names.filter(|name| {
        *name == "baseline.cu" || (name.starts_with("playbook/") && name.ends_with(".cu"))
    });
    let names = names.collect::<Vec<_>>();
    let inside = || {
        let (path, folder) = (Path::new(start).canonicalize(), folder.canonicalize());
        let path = path.ok()?.strip_prefix(folder.ok()?).ok()?.to_owned();
        path.into_os_string().into_string().ok()
    };
    let name = match names.contains(&start.as_str()) {
        true => Some(start.clone()),
        false => inside().filter(|name| names.contains(&name.as_str())),
    };
    let Some(name) = name else {
        let why = match Path::new(start).is_file() && inside().is_none() {
            true => format!("{start} is not in the task folder {}", folder.display()),
            false => format!("the task has no such start file: {start}"),
        };
        return Err(Failure::input(anyhow::anyhow!(
            "choose the start of the sweep: {why}; a sweep starts from the baseline or from a file of \
             the playbook, so copy it into playbook/ or name one of: {}",
            names.join(", ")
        )));
    };
    Ok(Some(name))
}

/// The repository that the options name; without them the one that the task's folder names.
fn promotion(args: &RunArgs) -> Result<Option<PromotionTarget>, Failure> {
    if let Some(repository) = &args.promote_to {
        let problem = "name an existing git repository, bare or not";
        return Ok(Some(PromotionTarget {
            repository: absolute(repository, problem)?,
            base: args.promote_base.clone(),
            path: args.promote_path.clone(),
            region: args.promote_region.clone(),
        }));
    }
    let folder = Path::new(&args.task);
    if !folder.is_dir() {
        return Ok(None);
    }
    let bundle = bundle::read(folder).map_err(Failure::input)?;
    // The service reports a task that does not load.
    let stated = Task::load(&bundle).ok().and_then(|task| task.promotion);
    let Some(stated) = stated else {
        return Ok(None);
    };
    let problem = "correct [promotion] of the task, or name a git repository with --promote-to";
    Ok(Some(PromotionTarget {
        repository: absolute(&folder.join(&stated.repository), problem)?,
        base: stated.base,
        path: Some(stated.path),
        region: stated.region,
    }))
}

/// The absolute path of a repository, because the service has a working directory of its own.
fn absolute(repository: &Path, fix: &str) -> Result<String, Failure> {
    let absolute = repository
        .canonicalize()
        .with_context(|| format!("find the repository {}: {fix}", repository.display()))
        .map_err(Failure::input)?;
    absolute.into_os_string().into_string().map_err(|path| {
        Failure::input(anyhow::anyhow!(
            "use the repository {}: its path must be UTF-8",
            path.display()
        ))
    })
}
