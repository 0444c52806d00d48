//! `runs`: lists the runs of a service, and changes their states.

use domain::api::{RunPage, RunState, RunView};

use super::address;
use super::follow::{print, print_json};
use crate::cli::{RunsChangeArgs, RunsCommand, RunsListArgs, RunsTagArgs};
use crate::client::{RunChange, RunsQuery};
use crate::outcome::{Ending, Outcome};
use crate::terminal::{columns, line, plain};

/// The most runs that are asked for at once.
const PAGE: u32 = 200;

pub(super) async fn runs(command: RunsCommand) -> Ending {
    match command {
        RunsCommand::List(args) => list(args).await,
        RunsCommand::Pause(args) => change(args, RunChange::Pause).await,
        RunsCommand::Resume(args) => change(args, RunChange::Resume).await,
        RunsCommand::Finish(args) => change(args, RunChange::Finish).await,
        RunsCommand::Cancel(args) => change(args, RunChange::Cancel).await,
        RunsCommand::Tag(args) => tag(args).await,
    }
}

async fn list(args: RunsListArgs) -> Ending {
    let client = address::client(&args.service)?;
    let mut query = RunsQuery {
        task: args.task,
        state: args.state,
        tag: args.tag,
        cursor: args.cursor,
        limit: 0,
    };
    let mut runs: Vec<RunView> = Vec::new();
    loop {
        let left = args
            .limit
            .saturating_sub(u32::try_from(runs.len()).unwrap_or(u32::MAX));
        if left == 0 {
            break;
        }
        query.limit = left.min(PAGE);
        let page = client.runs(&query).await?;
        runs.extend(page.runs);
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    let page = RunPage {
        runs,
        next: query.cursor,
    };
    if args.json {
        print_json(&page)?;
        return Ok(Outcome::Accepted);
    }
    print(&table(&page.runs))?;
    if let Some(next) = &page.next {
        eprintln!("there are more: --cursor {next}");
    }
    Ok(Outcome::Accepted)
}

async fn change(args: RunsChangeArgs, change: RunChange) -> Ending {
    let client = address::client(&args.service)?;
    let run = client.change_run(args.run, change).await?;
    if args.json {
        print_json(&run)?;
        return Ok(Outcome::Accepted);
    }
    print(&format!("{}  {}\n", run.id, plain(&run.state.to_string())))?;
    if change == RunChange::Finish && matches!(run.state, RunState::Paused { .. }) {
        eprintln!(
            "it is paused, and finishes once it is resumed: kernelwright runs resume {}",
            run.id
        );
    }
    Ok(Outcome::Accepted)
}

async fn tag(args: RunsTagArgs) -> Ending {
    let client = address::client(&args.service)?;
    let run = client.set_tags(args.run, args.tags).await?;
    if args.json {
        print_json(&run)?;
    } else {
        print(&format!("{}  {}\n", run.id, tags(&run)))?;
    }
    Ok(Outcome::Accepted)
}

/// The tags of a run as a table's cell.
fn tags(run: &RunView) -> String {
    if run.tags.is_empty() {
        "-".to_owned()
    } else {
        line(&run.tags.join(", "), 60)
    }
}

fn table(runs: &[RunView]) -> String {
    if runs.is_empty() {
        return "no run; start one: kernelwright run TASK\n".to_owned();
    }
    let head = ["id", "name", "task", "trials", "best", "tags", "state"].map(str::to_owned);
    let rows = runs.iter().map(|run| {
        let best = run.best.as_ref().map_or_else(
            || "-".to_owned(),
            |best| {
                let kind = if best.modelled {
                    "modelled"
                } else {
                    "measured"
                };
                let interval = best.interval.map_or_else(String::new, |[low, high]| {
                    format!(" ({low:.2} to {high:.2})")
                });
                format!("{:.2}x{interval} {kind}", best.speedup)
            },
        );
        vec![
            run.id.to_string(),
            line(&run.name, 40),
            line(&run.task, 40),
            format!("{} of {}", run.trials, run.budget.trials),
            best,
            tags(run),
            line(&run.state.to_string(), 80),
        ]
    });
    let rows: Vec<_> = std::iter::once(head.to_vec()).chain(rows).collect();
    columns(&rows, 0)
}
