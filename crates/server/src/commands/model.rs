//! `model`: which models runs may name, and whether one answers.

use std::time::Duration;

use anyhow::anyhow;
use domain::causes::with_causes;
use domain::model::{Dollars, Message, ModelView, Prompt, Speaker, Usage};
use engine::llm::{CallRequest, Models, Position, Reply, ReplyEnd};
use serde::Serialize;

use super::follow::{print, print_json};
use crate::cli::{ModelCheckArgs, ModelListArgs};
use crate::models;
use crate::outcome::{Ending, Failure, Outcome};
use crate::terminal::{columns, line};

/// Room for the answer and for what some models think before it.
const MAX_OUTPUT_TOKENS: u64 = 4096;

#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    view: ModelView,
    /// The reason why its key is not available; none if it is, or if none is needed.
    key_problem: Option<String>,
}

#[derive(Serialize)]
struct ModelCheck<'a> {
    name: &'a str,
    answers: bool,
    #[serde(flatten)]
    outcome: CheckedOutcome<'a>,
    learned: Vec<String>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum CheckedOutcome<'a> {
    Answered(Answered<'a>),
    Failed(Failed),
}

#[derive(Serialize)]
struct Answered<'a> {
    model: &'a str,
    text: &'a str,
    end: ReplyEnd,
    first_token_s: Option<f64>,
    total_s: f64,
    usage: Usage,
    usage_estimated: bool,
    tokens_per_s: Option<f64>,
    cost: Option<Dollars>,
    attempts: u32,
    request_id: Option<&'a str>,
}

#[derive(Serialize)]
struct Failed {
    reason: &'static str,
    /// True if a repetition can only succeed after a change of the configuration or the account.
    permanent: bool,
    message: String,
}

pub(super) fn list(args: &ModelListArgs) -> Ending {
    let models = models::open(&args.file)?;
    let listed: Vec<Listed> = models
        .views()
        .into_iter()
        .map(|view| Listed {
            key_problem: models.key_problem(&view.name),
            view,
        })
        .collect();
    if args.json {
        print_json(&listed)?;
    } else if listed.is_empty() {
        print(
            "no models: write a models.toml into the data folder or the current one, \
             starting from models.example.toml\n",
        )?;
    } else {
        print(&table(&listed))?;
    }
    Ok(Outcome::Accepted)
}

fn table(listed: &[Listed]) -> String {
    let head = [
        "name", "api", "model", "host", "in $/M", "out $/M", "context", "calls", "key",
    ];
    let rows = listed.iter().map(|Listed { view, key_problem }| {
        let price = |part: fn(&domain::model::Price) -> Dollars| {
            let known = view.price.as_ref().map(part);
            known.map_or("?".to_owned(), |dollars| dollars.as_f64().to_string())
        };
        vec![
            view.name.clone(),
            view.api.clone(),
            line(&view.model, 40),
            view.host.clone().unwrap_or_else(|| "-".to_owned()),
            price(|price| price.input),
            price(|price| price.output),
            view.context_tokens.to_string(),
            view.concurrency.to_string(),
            key_problem.clone().unwrap_or_else(|| "ok".to_owned()),
        ]
    });
    let head = head.map(str::to_owned).to_vec();
    columns(&std::iter::once(head).chain(rows).collect::<Vec<_>>(), 0)
}

pub(super) async fn check(args: ModelCheckArgs) -> Ending {
    let models = models::open(&args.file)?;
    let name = args.name.as_str();
    let (Some(view), Some(llm)) = (models.view(name), models.llm(name)) else {
        return Err(Failure::input(unknown(name, &models)));
    };
    if view.api == "cassette" {
        return recording(name, args.json);
    }
    let request = question();
    let answer = llm.complete(&request).await;
    let checked = ModelCheck {
        name,
        answers: answer.is_ok(),
        outcome: match &answer {
            Ok(reply) => CheckedOutcome::Answered(answered(&view, reply)),
            Err(error) => CheckedOutcome::Failed(Failed {
                reason: error.kind(),
                permanent: error.is_permanent(),
                message: with_causes(error),
            }),
        },
        learned: models.learned(name),
    };
    if args.json {
        print_json(&checked)?;
    } else if let CheckedOutcome::Answered(answered) = &checked.outcome {
        print(&report(&view, answered, &checked.learned))?;
    }
    match answer {
        Ok(_) => Ok(Outcome::Accepted),
        Err(error) if error.is_permanent() => Err(Failure::input(error)),
        Err(error) => Err(Failure::infrastructure(error)),
    }
}

fn recording(name: &str, json: bool) -> Ending {
    if json {
        print_json(&serde_json::json!({ "name": name, "answers": true, "recording": true }))?;
    } else {
        print(&format!(
            "{name} is a recording, and reads without a defect; there is nothing to ask it\n"
        ))?;
    }
    Ok(Outcome::Accepted)
}

fn unknown(name: &str, models: &Models) -> anyhow::Error {
    let known: Vec<_> = models.views().into_iter().map(|view| view.name).collect();
    if known.is_empty() {
        anyhow!(
            "find the model {name:?}: no file names any; write a models.toml into the data folder or the current one, or name one with --models"
        )
    } else {
        let known = known.join(", ");
        anyhow!("find the model {name:?}: the file of models names {known}")
    }
}

/// A request with every field that a run sends, so that the check finds the fields that the server
/// refuses.
fn question() -> CallRequest {
    CallRequest {
        prompt: Prompt {
            system: "You answer in one short line.".to_owned(),
            messages: vec![Message {
                speaker: Speaker::User,
                text: "Say that you are ready.".to_owned(),
            }],
        },
        temperature: Some(1.0),
        max_output_tokens: Some(MAX_OUTPUT_TOKENS),
        seed: Some(1),
        position: Position {
            ordinal: 0,
            turn: 0,
        },
    }
}

fn answered<'a>(view: &ModelView, reply: &'a Reply) -> Answered<'a> {
    // The time before the first token is the prompt's.
    let writing = reply.total - reply.first_token.unwrap_or_default();
    let rate = reply.usage.output as f64 / writing.as_secs_f64();
    Answered {
        model: &reply.model,
        text: &reply.text,
        end: reply.end,
        first_token_s: reply.first_token.as_ref().map(Duration::as_secs_f64),
        total_s: reply.total.as_secs_f64(),
        usage: reply.usage,
        usage_estimated: reply.usage_estimated,
        tokens_per_s: rate.is_finite().then_some(rate),
        cost: view.price.map(|price| price.of(reply.usage)),
        attempts: reply.attempts,
        request_id: reply.request_id.as_deref(),
    }
}

fn report(view: &ModelView, answered: &Answered<'_>, learned: &[String]) -> String {
    let usage = answered.usage;
    let estimated = if answered.usage_estimated {
        ", estimated: the server does not count"
    } else {
        ""
    };
    let cached = match usage.cached + usage.cache_written {
        0 => String::new(),
        tokens => format!(" and {tokens} through its cache"),
    };
    let host = view.host.as_deref().unwrap_or_default();
    let mut rows = vec![
        (
            "model",
            format!("{} ({} at {host})", view.name, line(answered.model, 80)),
        ),
        (
            "answers",
            match answered.end {
                ReplyEnd::Complete => line(answered.text, 80),
                ReplyEnd::Length => format!("{} (cut off at its limit)", line(answered.text, 80)),
            },
        ),
        (
            "first token",
            answered
                .first_token_s
                .map_or("not streamed".to_owned(), |s| format!("{s:.3} s")),
        ),
        ("total", format!("{:.3} s", answered.total_s)),
        (
            "tokens",
            format!(
                "{} read{cached}, {} written{estimated}",
                usage.input, usage.output
            ),
        ),
        (
            "speed",
            answered
                .tokens_per_s
                .map_or("too short to tell".to_owned(), |rate| {
                    format!("{rate:.0} tokens/s")
                }),
        ),
        (
            "cost",
            answered.cost.map_or(
                "unknown: add price to its entry for budgets in dollars".to_owned(),
                |cost| cost.to_string(),
            ),
        ),
    ];
    if answered.attempts > 1 {
        rows.push(("attempts", answered.attempts.to_string()));
    }
    if !learned.is_empty() {
        rows.push(("learned", learned.join("; ")));
    }
    if let Some(id) = answered.request_id {
        rows.push(("request", line(id, 80)));
    }
    let rows: Vec<_> = rows
        .into_iter()
        .map(|(label, value)| vec![label.to_owned(), value])
        .collect();
    columns(&rows, 0)
}
