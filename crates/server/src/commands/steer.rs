//! `steer`: gives a run directions, and lists them.

use domain::api::{
    BanRequest, BudgetRequest, CandidateRequest, ForkRequest, HintRequest, InsightRequest,
    ModelRequest, SteeringEntry, WithdrawRequest,
};
use domain::id::{CandidateId, RunId};
use serde::Serialize;
use uuid::Uuid;

use super::address;
use super::follow::{print, print_json};
use crate::cli::{Limits, SteerCommand, SteeredRun};
use crate::client::Client;
use crate::outcome::{Ending, Failure, Outcome};
use crate::progress::describe_steer;
use crate::terminal::line;

pub(super) async fn steer(command: SteerCommand) -> Ending {
    match command {
        SteerCommand::List(args) => list(&args.run).await,
        SteerCommand::Hint(args) => {
            let request = HintRequest {
                text: args.text,
                prompts: args.prompts,
            };
            direct(&args.run, "hint", &request).await
        }
        SteerCommand::Pin(args) => {
            let candidate = named(&args.run, &args.candidate).await?;
            direct(&args.run, "pin", &CandidateRequest { candidate }).await
        }
        SteerCommand::Ban(args) => {
            let request = BanRequest {
                candidate: Some(named(&args.run, &args.candidate).await?),
                descendants: args.descendants,
                idea: None,
            };
            direct(&args.run, "ban", &request).await
        }
        SteerCommand::Avoid(args) => {
            let request = BanRequest {
                idea: Some(args.idea),
                ..BanRequest::default()
            };
            direct(&args.run, "ban", &request).await
        }
        SteerCommand::Insight(args) => {
            let request = InsightRequest {
                candidate: named(&args.run, &args.candidate).await?,
                text: args.text,
            };
            direct(&args.run, "insight", &request).await
        }
        SteerCommand::Withdraw(args) => {
            let request = WithdrawRequest { entry: args.entry };
            direct(&args.run, "withdraw", &request).await
        }
        SteerCommand::Budget(args) => direct(&args.run, "budget", &budget(&args.limits)).await,
        SteerCommand::Model(args) => {
            let request = ModelRequest {
                from: args.from,
                to: args.to,
            };
            direct(&args.run, "model", &request).await
        }
        SteerCommand::Fork(args) => {
            let request = ForkRequest {
                candidate: named(&args.run, &args.candidate).await?,
                method: args.method.map(Into::into),
                models: Some(args.models).filter(|models| !models.is_empty()),
                budget: budget(&args.limits),
                evolution: None,
                seed: args.seed,
                name: args.name,
            };
            fork(&args.run, &request).await
        }
        SteerCommand::Reevaluate(args) => {
            let candidate = named(&args.run, &args.candidate).await?;
            direct(&args.run, "reevaluate", &CandidateRequest { candidate }).await
        }
        SteerCommand::Promote(args) => {
            let candidate = named(&args.run, &args.candidate).await?;
            promote(&args.run, candidate).await
        }
    }
}

async fn list(of: &SteeredRun) -> Ending {
    let entries = address::client(&of.service)?.steering(of.run).await?;
    if of.json {
        print_json(&entries)?;
    } else {
        print(&entries.iter().map(entry_line).collect::<String>())?;
    }
    Ok(Outcome::Accepted)
}

async fn direct(of: &SteeredRun, action: &str, request: &impl Serialize) -> Ending {
    let client = address::client(&of.service)?;
    let entry: SteeringEntry = client.steer(of.run, action, request).await?;
    if of.json {
        print_json(&entry)?;
    } else {
        print(&entry_line(&entry))?;
    }
    Ok(Outcome::Accepted)
}

async fn fork(of: &SteeredRun, request: &ForkRequest) -> Ending {
    let client = address::client(&of.service)?;
    let key = Uuid::now_v7().to_string();
    let forked = client.fork(of.run, request, &key).await?;
    if of.json {
        print_json(&forked)?;
    } else {
        print(&format!("{}\n{}\n", forked.id, client.run_page(forked.id)))?;
    }
    Ok(Outcome::Accepted)
}

async fn promote(of: &SteeredRun, candidate: CandidateId) -> Ending {
    let client = address::client(&of.service)?;
    let promotion = client.promote(of.run, candidate).await?;
    if of.json {
        print_json(&promotion)?;
    } else {
        let branch = line(&promotion.branch, 200);
        print(&format!(
            "confirming {candidate}; if it holds, it is committed on {branch}\n"
        ))?;
        if let Some(reason) = &promotion.waits {
            print(&format!("it waits: {}\n", line(reason, 400)))?;
        }
    }
    Ok(Outcome::Accepted)
}

/// A candidate by its id or by its number in the run, such as `7` or `#7`.
async fn named(of: &SteeredRun, name: &str) -> Result<CandidateId, Failure> {
    if let Ok(ordinal) = name.trim_start_matches('#').parse::<u32>() {
        let client = address::client(&of.service)?;
        return at(&client, of.run, ordinal).await;
    }
    name.parse().map_err(|_| {
        Failure::input(anyhow::anyhow!(
            "find the candidate {name:?}: give its id, or its number in the run, such as 7"
        ))
    })
}

async fn at(client: &Client, run: RunId, ordinal: u32) -> Result<CandidateId, Failure> {
    let page = client.candidates_at(run, ordinal).await?;
    let found = page.candidates.first().map(|candidate| candidate.id);
    found.ok_or_else(|| {
        Failure::input(anyhow::anyhow!(
            "find candidate #{ordinal}: the run has none of this number; `kernelwright show {run}` lists \
             them"
        ))
    })
}

fn budget(limits: &Limits) -> BudgetRequest {
    BudgetRequest {
        trials: limits.budget_trials,
        wall_seconds: limits.budget_seconds,
        tokens: limits.budget_tokens,
        dollars: limits.budget_dollars,
        device_seconds: limits.budget_device_seconds,
        device_dollars: limits.budget_device_dollars,
        floor_percent: limits.floor_percent,
        gain_per_dollar: limits.gain_per_dollar,
        trials_without_gain: limits.trials_without_gain,
    }
}

fn entry_line(entry: &SteeringEntry) -> String {
    let withdrawn = entry
        .withdrawn_by
        .map_or_else(String::new, |by| format!(" (withdrawn by {by})"));
    format!(
        "{:>3}  {}  from #{}  {}: {}{withdrawn}\n",
        entry.entry,
        entry.at.format("%Y-%m-%d %H:%M:%S"),
        entry.since,
        line(&entry.actor, 40),
        describe_steer(&entry.what)
    )
}
