//! `webhook list`: the events that their endpoints did not take.

use domain::api::WebhookDelivery;

use super::address;
use super::follow::{print, print_json};
use crate::cli::{WebhookCommand, WebhookListArgs};
use crate::outcome::{Ending, Outcome};
use crate::terminal::{columns, line};

pub(super) async fn webhook(command: WebhookCommand) -> Ending {
    match command {
        WebhookCommand::List(args) => list(args).await,
    }
}

async fn list(args: WebhookListArgs) -> Ending {
    let events = address::client(&args.service)?
        .undelivered_webhooks()
        .await?;
    if args.json {
        print_json(&events)?;
    } else {
        print(&table(&events))?;
    }
    Ok(Outcome::Accepted)
}

fn table(events: &[WebhookDelivery]) -> String {
    if events.is_empty() {
        return "every event was delivered\n".to_owned();
    }
    let head = [
        "event",
        "endpoint",
        "type",
        "happened",
        "attempts",
        "next attempt",
        "last error",
    ];
    let rows = events.iter().map(|event| {
        let next = event.due_at.map_or_else(
            || "GIVEN UP".to_owned(),
            |at| at.format("%Y-%m-%d %H:%M:%S").to_string(),
        );
        vec![
            line(&event.event, 40),
            line(&event.endpoint, 40),
            event.kind.to_string(),
            event.created_at.format("%Y-%m-%d %H:%M:%S").to_string(),
            event.attempts.to_string(),
            next,
            line(event.last_error.as_deref().unwrap_or("-"), 80),
        ]
    });
    let rows: Vec<_> = std::iter::once(head.map(str::to_owned).to_vec())
        .chain(rows)
        .collect();
    columns(&rows, 0)
}
