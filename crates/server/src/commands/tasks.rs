//! `task list`, `task show` and `task upload`: the tasks of a service.

use domain::api::{TaskVersion, TaskView};
use serde::Serialize;

use super::address;
use super::follow::{print, print_json};
use crate::bundle;
use crate::cli::{TaskListArgs, TaskShowArgs, TaskUploadArgs};
use crate::outcome::{Ending, Failure, Outcome};
use crate::terminal::{columns, line, plain};

/// The result of `task show`.
#[derive(Serialize)]
struct Shown {
    task: TaskView,
    versions: Vec<TaskVersion>,
}

pub(super) async fn list(args: TaskListArgs) -> Ending {
    let tasks = address::client(&args.service)?.tasks().await?;
    if args.json {
        print_json(&tasks)?;
    } else {
        print(&table(&tasks))?;
    }
    Ok(Outcome::Accepted)
}

pub(super) async fn show(args: TaskShowArgs) -> Ending {
    let client = address::client(&args.service)?;
    let shown = Shown {
        task: client.task(&args.name).await?,
        versions: client.task_versions(&args.name).await?,
    };
    if args.json {
        print_json(&shown)?;
    } else {
        print(&text(&shown))?;
    }
    Ok(Outcome::Accepted)
}

pub(super) async fn upload(args: TaskUploadArgs) -> Ending {
    let bundle = bundle::read(&args.dir).map_err(Failure::input)?;
    let task = address::client(&args.service)?.upload(&bundle).await?;
    if args.json {
        print_json(&task)?;
    } else {
        print(&format!(
            "{}  version {}\n",
            plain(&task.name),
            task.version
        ))?;
    }
    Ok(Outcome::Accepted)
}

fn table(tasks: &[TaskView]) -> String {
    if tasks.is_empty() {
        return "no task; upload one: kernelwright task upload DIR\n".to_owned();
    }
    let head = ["name", "version", "stored", "cases", "title"].map(str::to_owned);
    let rows = tasks.iter().map(|task| {
        vec![
            line(&task.name, 40),
            task.version.short(),
            minute(task.created_at),
            task.cases.len().to_string(),
            line(&task.title, 60),
        ]
    });
    let rows: Vec<_> = std::iter::once(head.to_vec()).chain(rows).collect();
    columns(&rows, 0)
}

fn text(shown: &Shown) -> String {
    let task = &shown.task;
    let list = |names: &[String]| line(&names.join(", "), 400);
    let head = ["version", "files", "stored", "runs", "open", "last run"].map(str::to_owned);
    let rows = shown.versions.iter().map(|version| {
        vec![
            version.version.short(),
            version.content.short(),
            minute(version.stored_at),
            version.runs.to_string(),
            version.open_runs.to_string(),
            version
                .last_run_at
                .map_or_else(|| "never".to_owned(), minute),
        ]
    });
    let rows: Vec<_> = std::iter::once(head.to_vec()).chain(rows).collect();
    format!(
        "{}: {}\nversion    {}\ncases      {}\nplaybook   {}\n\n{}",
        plain(&task.name),
        plain(&task.title),
        task.version,
        list(&task.cases),
        if task.playbook.is_empty() {
            "none".to_owned()
        } else {
            list(&task.playbook)
        },
        columns(&rows, 0)
    )
}

fn minute(time: chrono::DateTime<chrono::Utc>) -> String {
    time.format("%Y-%m-%d %H:%M").to_string()
}
