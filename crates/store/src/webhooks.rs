//! Events for other services. Each is recorded in the transaction of the change that it tells of, once
//! for each endpoint that wants its kind, so that a killed service neither loses nor doubles one.

use chrono::{DateTime, TimeDelta, Utc};
use domain::api::{
    RunState, RunView, UnwellDevice, WebhookBody, WebhookData, WebhookDelivery, WebhookKind,
};
use domain::digest::Digest;
use domain::id::{PromotionId, RunId};
use serde_json::Value;
use std::time::Duration;

use crate::changes::CommitScope;
use crate::error::ErrorContext;
use crate::rows::{RowRef, json, micros};
use crate::sql::{Flag, query, query_as, query_scalar};
use crate::{Connection, Store, StoreError, views};

/// Shares of a limit that are events, percent.
const BUDGET_SHARES: [u32; 3] = [50, 80, 100];
/// Time for which an event that was given up is listed.
const GIVEN_UP_LISTED: TimeDelta = TimeDelta::days(30);

/// An event that is due at an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueWebhook {
    /// Id of the event.
    pub event: String,
    /// The body.
    pub body: String,
    /// Attempts so far.
    pub attempts: u32,
}

/// The result of an attempt to deliver an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookAttempt {
    /// The endpoint took it.
    Delivered,
    /// The endpoint did not take it.
    Failed {
        /// The reason.
        error: String,
        /// The time of the next attempt; none gives the event up.
        again: Option<DateTime<Utc>>,
    },
}

#[derive(sqlx::FromRow)]
struct DeliveryRow {
    event: String,
    endpoint: String,
    kind: String,
    created_at: i64,
    attempts: i64,
    due_at: Option<i64>,
    last_error: Option<String>,
}

impl Store {
    /// Replaces the endpoints with the kinds of events that each gets. Events for endpoints that are no
    /// longer among them are given up.
    ///
    /// # Errors
    /// The database fails.
    pub async fn subscribe_webhooks(
        &self,
        endpoints: &[(String, Vec<WebhookKind>)],
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        query("DELETE FROM webhook_subscriptions")
            .execute(&mut *tx)
            .await
            .context("replace the endpoints of webhooks")?;
        for (endpoint, kinds) in endpoints {
            for kind in kinds {
                query(
                    "INSERT INTO webhook_subscriptions (endpoint, kind) VALUES ($1, $2) \
                     ON CONFLICT (endpoint, kind) DO NOTHING",
                )
                .bind(endpoint)
                .bind(kind.as_str())
                .execute(&mut *tx)
                .await
                .context("replace the endpoints of webhooks")?;
            }
        }
        query(
            "UPDATE webhook_deliveries SET due_at = NULL, \
             last_error = 'the endpoint is no longer configured' WHERE due_at IS NOT NULL \
             AND endpoint NOT IN (SELECT endpoint FROM webhook_subscriptions)",
        )
        .execute(&mut *tx)
        .await
        .context("give up events of former endpoints")?;
        query(
            "DELETE FROM webhook_deliveries WHERE delivered_at IS NULL AND due_at IS NULL \
             AND created_at < $1",
        )
        .bind(micros(now - GIVEN_UP_LISTED))
        .execute(&mut *tx)
        .await
        .context("delete old events that were given up")?;
        self.commit_change(tx, CommitScope::Nothing).await
    }

    /// The events that are due at an endpoint, the oldest first.
    ///
    /// # Errors
    /// The database fails.
    pub async fn due_webhooks(
        &self,
        endpoint: &str,
        now: DateTime<Utc>,
        limit: u32,
    ) -> Result<Vec<DueWebhook>, StoreError> {
        let rows: Vec<(String, String, i64)> = query_as(
            "SELECT event, body, attempts FROM webhook_deliveries \
             WHERE endpoint = $1 AND due_at <= $2 ORDER BY created_at, event LIMIT $3",
        )
        .bind(endpoint)
        .bind(micros(now))
        .bind(i64::from(limit))
        .fetch_all(&self.read)
        .await
        .context("list the events that are due")?;
        let due = rows.into_iter().map(|(event, body, attempts)| {
            let attempts =
                RowRef::new("webhook_deliveries", &event).number("attempts", attempts)?;
            Ok(DueWebhook {
                event,
                body,
                attempts,
            })
        });
        due.collect()
    }

    /// The time at which an endpoint's next event is due; none if there is no event.
    ///
    /// # Errors
    /// The database fails.
    pub async fn next_webhook(&self, endpoint: &str) -> Result<Option<DateTime<Utc>>, StoreError> {
        let due: Option<i64> = query_scalar(
            "SELECT MIN(due_at) FROM webhook_deliveries WHERE endpoint = $1 AND due_at IS NOT NULL",
        )
        .bind(endpoint)
        .fetch_one(&self.read)
        .await
        .context("find the next event that is due")?;
        let row_ref = RowRef::new("webhook_deliveries", endpoint);
        due.map(|at| row_ref.time("due_at", at)).transpose()
    }

    /// Records the result of an attempt.
    ///
    /// # Errors
    /// The database fails.
    pub async fn note_webhook(
        &self,
        event: &str,
        endpoint: &str,
        attempt: &WebhookAttempt,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        let statement = match attempt {
            WebhookAttempt::Delivered => query(
                "UPDATE webhook_deliveries SET due_at = NULL, delivered_at = $3, body = '' \
                 WHERE event = $1 AND endpoint = $2",
            )
            .bind(event)
            .bind(endpoint)
            .bind(micros(now)),
            WebhookAttempt::Failed { error, again } => query(
                "UPDATE webhook_deliveries SET due_at = $3, attempts = attempts + 1, last_error = $4 \
                 WHERE event = $1 AND endpoint = $2",
            )
            .bind(event)
            .bind(endpoint)
            .bind(again.map(micros))
            .bind(error),
        };
        statement
            .execute(&mut *tx)
            .await
            .context("record an attempt to deliver an event")?;
        self.commit_change(tx, CommitScope::Nothing).await
    }

    /// The events that no endpoint took, the newest first: those that are tried again and those that
    /// were given up in the last 30 days.
    ///
    /// # Errors
    /// The database fails.
    pub async fn undelivered_webhooks(
        &self,
        limit: u32,
    ) -> Result<Vec<WebhookDelivery>, StoreError> {
        let rows: Vec<DeliveryRow> = query_as(
            "SELECT event, endpoint, kind, created_at, attempts, due_at, last_error \
             FROM webhook_deliveries WHERE delivered_at IS NULL \
             ORDER BY created_at DESC, event, endpoint LIMIT $1",
        )
        .bind(i64::from(limit))
        .fetch_all(&self.read)
        .await
        .context("list the events that were not delivered")?;
        let deliveries = rows.into_iter().map(|row| {
            let row_ref = RowRef::new("webhook_deliveries", &row.event);
            let due_at = row.due_at.map(|at| row_ref.time("due_at", at));
            Ok(WebhookDelivery {
                endpoint: row.endpoint,
                kind: row_ref.word("kind", &row.kind)?,
                created_at: row_ref.time("created_at", row.created_at)?,
                attempts: row_ref.number("attempts", row.attempts)?,
                due_at: due_at.transpose()?,
                last_error: row.last_error,
                event: row.event,
            })
        });
        deliveries.collect()
    }

    /// Records an event for each share of a limit that an active run has reached. What a run has used
    /// is in its rows, and an event is recorded once, so that none is lost or doubled whenever this is
    /// called. It is called as the runs' time is kept, and when a run ends.
    ///
    /// # Errors
    /// The database fails.
    pub(crate) async fn announce_budgets(&self, now: DateTime<Utc>) -> Result<(), StoreError> {
        let mut missing = Vec::new();
        {
            let mut view = self.view().await?;
            if !is_wanted(&mut view, WebhookKind::BudgetReached).await? {
                return Ok(());
            }
            let runs: Vec<uuid::Uuid> = query_scalar(
                "SELECT id FROM runs WHERE state IN ('checking_baseline', 'running') ORDER BY id",
            )
            .fetch_all(&mut *view)
            .await
            .context("list the active runs")?;
            for run in runs {
                let run = views::run_view(&mut view, RunId::from(run)).await?;
                for (limit, percent) in reached(&run) {
                    let event = budget_event(&run, limit, percent);
                    if is_missing(&mut view, WebhookKind::BudgetReached, &event).await? {
                        missing.push((run.clone(), limit, percent));
                    }
                }
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let mut tx = self.begin().await?;
        for (run, limit, percent) in missing {
            announce_budget(&mut tx, run, limit, percent, now).await?;
        }
        self.commit(tx).await
    }
}

/// Records the event of a run's new state, if that is one, with the limits that it has reached.
pub(crate) async fn announce_state(
    tx: &mut Connection,
    run: RunId,
    state: &RunState,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let kind = match state {
        RunState::Paused { .. } => WebhookKind::RunPaused,
        state if state.is_over() => WebhookKind::RunFinished,
        _ => return Ok(()),
    };
    let budget = is_wanted(tx, WebhookKind::BudgetReached).await?;
    let wanted = is_wanted(tx, kind).await?;
    if !budget && !wanted {
        return Ok(());
    }
    let view = views::run_view(tx, run).await?;
    if budget {
        let ended = match state {
            RunState::Completed { reason } => reason.limit().map(|limit| (limit, 100)),
            _ => None,
        };
        // The calls or the device time that are left may not cover another candidate, so that a limit
        // ends the run before it is used up.
        for (limit, percent) in reached(&view).into_iter().chain(ended) {
            announce_budget(tx, view.clone(), limit, percent, now).await?;
        }
    }
    if wanted {
        // A run that goes on and ends again is a further event.
        let event = event_id(&format!("{kind} {run} {}", micros(now)));
        let data = WebhookData::Run {
            run: Box::new(view),
        };
        announce(tx, &event, kind, data, now).await?;
    }
    Ok(())
}

/// Records the event of a winner's commit, or of the commit that takes it back.
pub(crate) async fn announce_winner(
    tx: &mut Connection,
    run: RunId,
    promotion: PromotionId,
    kind: WebhookKind,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    if !is_wanted(tx, kind).await? {
        return Ok(());
    }
    let run = Box::new(views::run_view(tx, run).await?);
    let event = event_id(&format!("{kind} {promotion}"));
    announce(tx, &event, kind, WebhookData::Run { run }, now).await
}

/// Records the event of a device's quarantine, which began at `since`.
pub(crate) async fn announce_device(
    tx: &mut Connection,
    device: UnwellDevice,
    since: i64,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let kind = WebhookKind::DeviceUnwell;
    let event = event_id(&format!("{kind} {} {} {since}", device.worker, device.uuid));
    announce(tx, &event, kind, WebhookData::Device { device }, now).await
}

async fn announce_budget(
    tx: &mut Connection,
    run: RunView,
    limit: &str,
    percent: u32,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let event = budget_event(&run, limit, percent);
    let data = WebhookData::Budget {
        run: Box::new(run),
        limit: limit.to_owned(),
        percent,
    };
    announce(tx, &event, WebhookKind::BudgetReached, data, now).await
}

/// The shares of limits that a run has reached, as pairs of the limit and the percent.
fn reached(run: &RunView) -> Vec<(&'static str, u32)> {
    let running = Duration::from_millis(run.running_ms);
    let used = run.budget.used_percent(run.trials, running, &run.spend);
    let shares = used.into_iter().flat_map(|(limit, used)| {
        let shares = BUDGET_SHARES.into_iter();
        shares.filter_map(move |share| (used >= share).then_some((limit, share)))
    });
    shares.collect()
}

/// A limit that was raised has shares of its own.
fn budget_event(run: &RunView, limit: &str, percent: u32) -> String {
    let budget = serde_json::to_value(run.budget).expect("the domain's values have text keys");
    let value = budget.get(limit).unwrap_or(&Value::Null);
    let kind = WebhookKind::BudgetReached;
    event_id(&format!("{kind} {} {limit} {value} {percent}", run.id))
}

/// The id of an event: of the same happening always the same.
fn event_id(happening: &str) -> String {
    let digest = Digest::of(happening.as_bytes()).to_string();
    format!("evt_{}", digest.get(..32).unwrap_or(&digest))
}

/// Returns true if an endpoint gets events of a kind.
async fn is_wanted(connection: &mut Connection, kind: WebhookKind) -> Result<bool, StoreError> {
    query_scalar("SELECT EXISTS (SELECT 1 FROM webhook_subscriptions WHERE kind = $1)")
        .bind(kind.as_str())
        .fetch_one(connection)
        .await
        .map(|Flag(wanted)| wanted)
        .context("look for endpoints of webhooks")
}

/// Returns true if an event is not recorded for every endpoint that wants it.
async fn is_missing(
    connection: &mut Connection,
    kind: WebhookKind,
    event: &str,
) -> Result<bool, StoreError> {
    query_scalar(
        "SELECT EXISTS (SELECT 1 FROM webhook_subscriptions s WHERE s.kind = $1 AND NOT EXISTS \
         (SELECT 1 FROM webhook_deliveries d WHERE d.event = $2 AND d.endpoint = s.endpoint))",
    )
    .bind(kind.as_str())
    .bind(event)
    .fetch_one(connection)
    .await
    .map(|Flag(missing)| missing)
    .context("look for an event")
}

/// Records an event for every endpoint that wants it, unless it is recorded.
async fn announce(
    tx: &mut Connection,
    event: &str,
    kind: WebhookKind,
    data: WebhookData,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let body = WebhookBody {
        kind,
        timestamp: now,
        data,
    };
    query(
        "INSERT INTO webhook_deliveries (event, endpoint, kind, body, created_at, due_at) \
         SELECT $1, endpoint, kind, $3, $4, $4 FROM webhook_subscriptions WHERE kind = $2 \
         ON CONFLICT (event, endpoint) DO NOTHING",
    )
    .bind(event)
    .bind(kind.as_str())
    .bind(json(&body))
    .bind(micros(now))
    .execute(tx)
    .await
    .context("record an event for webhooks")?;
    Ok(())
}
