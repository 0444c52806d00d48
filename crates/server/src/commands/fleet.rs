//! `worker list`, `worker hours` and `worker drain`: the workers of a service.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use domain::api::{DeviceMonth, WorkerView};
use domain::id::WorkerId;
use domain::lease::DeclinedWork;
use engine::{Clock as _, SystemClock};

use super::address;
use super::follow::{print, print_json};
use crate::cli::{WorkerDrainArgs, WorkerListArgs};
use crate::outcome::{Ending, Failure, Outcome};
use crate::terminal::{columns, line, plain};

pub(super) async fn list(args: WorkerListArgs) -> Ending {
    let workers = address::client(&args.service)?.workers().await?;
    if args.json {
        print_json(&workers)?;
    } else {
        print(&table(&workers, SystemClock.now()))?;
    }
    Ok(Outcome::Accepted)
}

pub(super) async fn hours(args: WorkerListArgs) -> Ending {
    let months = address::client(&args.service)?.device_months().await?;
    if args.json {
        print_json(&months)?;
    } else {
        print(&hours_table(&months))?;
    }
    Ok(Outcome::Accepted)
}

pub(super) async fn drain(args: WorkerDrainArgs) -> Ending {
    let client = address::client(&args.service)?;
    let drained = match args.worker.parse::<WorkerId>() {
        Ok(id) => vec![id],
        Err(_) => named(&client.workers().await?, &args.worker)?,
    };
    for id in &drained {
        client.drain(*id).await?;
        if !args.json {
            print(&format!("drained {id}; it leaves once it has reported\n"))?;
        }
    }
    if args.json {
        print_json(&serde_json::json!({ "drained": drained }))?;
    }
    Ok(Outcome::Accepted)
}

/// The workers of a name that are alive: those of one name on several machines are all meant.
fn named(workers: &[WorkerView], name: &str) -> Result<Vec<WorkerId>, Failure> {
    let found = workers
        .iter()
        .filter(|worker| worker.name == name && worker.alive);
    let found: Vec<_> = found.map(|worker| worker.id).collect();
    if found.is_empty() {
        return Err(Failure::input(anyhow::anyhow!(
            "drain {name:?}: no worker of this name is alive; `kernelwright worker list` shows the names and ids"
        )));
    }
    Ok(found)
}

fn hours_table(months: &[DeviceMonth]) -> String {
    if months.is_empty() {
        return "no worker has been attached yet; start one: kernelwright worker join URL\n"
            .to_owned();
    }
    let head = [
        "month",
        "worker",
        "device",
        "attached h",
        "evaluating h",
        "price",
    ];
    let rows = months.iter().map(|month| {
        vec![
            month.month.clone(),
            line(&month.worker, 40),
            line(&month.device, 40),
            format!("{:.2}", month.attached_hours),
            format!("{:.2}", month.evaluating_hours),
            month.dollars.to_string(),
        ]
    });
    let rows: Vec<_> = std::iter::once(head.map(str::to_owned).to_vec())
        .chain(rows)
        .collect();
    columns(&rows, 0)
}

fn table(workers: &[WorkerView], now: DateTime<Utc>) -> String {
    if workers.is_empty() {
        return "no worker was seen in the last hour; start one: kernelwright worker join URL\n"
            .to_owned();
    }
    let head = ["name", "id", "device", "state", "last request"].map(str::to_owned);
    let rows = workers.iter().map(|worker| {
        let state = match worker {
            worker if !worker.alive => "gone",
            worker if worker.draining => "draining",
            worker if worker.suspended_until.is_some() => "SUSPENDED",
            worker if worker.evaluating.is_some() => "evaluating",
            _ => "idle",
        };
        let age = (now - worker.seen_at).num_seconds().max(0);
        vec![
            line(&worker.name, 40),
            worker.id.to_string(),
            line(&worker.device.name, 40),
            state.to_owned(),
            format!("{age} s ago"),
        ]
    });
    let rows: Vec<_> = std::iter::once(head.to_vec()).chain(rows).collect();
    let mut text = columns(&rows, 0);
    for worker in workers.iter().filter(|worker| worker.alive) {
        for DeclinedWork { work, reason } in &worker.declined {
            let name = line(&worker.name, 40);
            let _infallible = writeln!(text, "{name} does not {work}: {}", plain(reason));
        }
    }
    text
}
