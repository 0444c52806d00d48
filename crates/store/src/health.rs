//! Health of the fleet: quarantined devices, the results of their controls, and candidates that broke
//! so many devices that they are not run again.

use std::collections::BTreeMap;

use crate::sql::{query, query_as, query_scalar};
use chrono::{DateTime, Utc};
use domain::api::{DeviceView, FleetHealth, PoisonView, UnwellDevice};
use domain::control::{ControlResult, ControlTally};
use domain::device::Device;
use domain::digest::Digest;
use domain::evaluation::EVALUATOR_VERSION;
use domain::health::{Condition, HealthReport, QUARANTINE_BREAKS};
use domain::id::WorkerId;

use crate::error::ErrorContext;
use crate::rows::{RowRef, micros};
use crate::{Connection, Store, StoreError, webhooks};

/// The most broken devices that one health report may name; a worker's record has few.
const MOST_BREAKS: usize = 1000;

#[derive(sqlx::FromRow)]
struct DeviceRow {
    worker: String,
    uuid: String,
    name: String,
    device: String,
    state: String,
    reason: String,
    since: i64,
    told_at: i64,
}

/// The number of a device's controls with one result.
#[derive(sqlx::FromRow)]
struct ControlRow {
    worker: String,
    uuid: String,
    control: String,
    count: i64,
}

impl Store {
    /// Records a worker's report on the health of its device.
    ///
    /// # Errors
    /// The worker is unknown or the database fails.
    pub async fn note_health(
        &self,
        worker: WorkerId,
        report: &HealthReport,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        let known: Option<(String, String, String)> =
            query_as("SELECT name, device_uuid, device_name FROM workers WHERE id = $1")
                .bind(worker.uuid())
                .fetch_optional(&mut *tx)
                .await
                .context("find a worker")?;
        let (name, uuid, device) = known.ok_or_else(|| StoreError::Unknown {
            subject: "worker",
            id: worker.to_string(),
        })?;
        let (state, reason) = match &report.condition {
            Condition::Well => ("well", ""),
            Condition::Quarantined { reason } => ("quarantined", reason.as_str()),
        };
        query(
            "INSERT INTO devices (worker, uuid, name, state, reason, since, told_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $6) ON CONFLICT (worker, uuid) DO UPDATE SET \
             name = excluded.name, told_at = excluded.told_at, since = CASE \
             WHEN devices.state = excluded.state THEN devices.since ELSE excluded.since END, \
             state = excluded.state, reason = excluded.reason",
        )
        .bind(&name)
        .bind(&uuid)
        .bind(&device)
        .bind(state)
        .bind(reason)
        .bind(micros(now))
        .execute(&mut *tx)
        .await
        .context("record how a device fares")?;
        if let Condition::Quarantined { reason } = &report.condition {
            let since: i64 =
                query_scalar("SELECT since FROM devices WHERE worker = $1 AND uuid = $2")
                    .bind(&name)
                    .bind(&uuid)
                    .fetch_one(&mut *tx)
                    .await
                    .context("read since when a device is quarantined")?;
            let device = UnwellDevice {
                worker: name.clone(),
                uuid: uuid.clone(),
                name: device.clone(),
                reason: reason.clone(),
            };
            webhooks::announce_device(&mut tx, device, since, now).await?;
        }
        let breaks = report
            .breaks
            .iter()
            .flat_map(|(candidate, devices)| devices.iter().map(move |device| (candidate, device)));
        let breaks = breaks.take(MOST_BREAKS).collect::<Vec<_>>();
        for (candidate, device) in breaks {
            query(
                "INSERT INTO breaks (candidate, worker, device, told_at) VALUES ($1, $2, $3, $4) \
                 ON CONFLICT (candidate, worker, device) DO NOTHING",
            )
            .bind(candidate.to_string())
            .bind(&name)
            .bind(device)
            .bind(micros(now))
            .execute(&mut *tx)
            .await
            .context("record what broke a device")?;
        }
        self.commit(tx).await
    }

    /// Every device that a worker has reported, by worker, and the candidates that no worker gets;
    /// at most 500 of each.
    ///
    /// # Errors
    /// The database fails.
    pub async fn fleet_health(&self) -> Result<FleetHealth, StoreError> {
        let mut view = self.view().await?;
        let rows: Vec<DeviceRow> = query_as(
            "SELECT worker, uuid, name, state, reason, since, told_at, (SELECT device FROM workers \
             WHERE workers.name = devices.worker AND workers.device_uuid = devices.uuid \
             ORDER BY registered_at DESC LIMIT 1) AS device FROM devices \
             ORDER BY worker, uuid LIMIT 500",
        )
        .fetch_all(&mut *view)
        .await
        .context("list the devices")?;
        let mut controls = controls(&mut view).await?;
        let devices = rows
            .into_iter()
            .map(|row| {
                let row_ref = RowRef::new("devices", &row.uuid);
                let own = (row.worker.clone(), row.uuid.clone());
                let device: Device = row_ref.json("device", &row.device)?;
                Ok(DeviceView {
                    kind: device.kind,
                    controls: ControlTally::of(controls.remove(&own).unwrap_or_default()),
                    condition: match row.state.as_str() {
                        "well" => Condition::Well,
                        _ => Condition::Quarantined { reason: row.reason },
                    },
                    since: row_ref.time("since", row.since)?,
                    told_at: row_ref.time("told_at", row.told_at)?,
                    worker: row.worker,
                    uuid: row.uuid,
                    name: row.name,
                })
            })
            .collect::<Result<_, StoreError>>()?;
        let rows: Vec<(String, i64)> = query_as(
            "SELECT candidate, COUNT(*) FROM breaks GROUP BY candidate \
             HAVING COUNT(*) >= $1 ORDER BY candidate LIMIT 500",
        )
        .bind(breaks_of_poison())
        .fetch_all(&mut *view)
        .await
        .context("list the poisonous candidates")?;
        let poison = rows
            .into_iter()
            .map(|(candidate, broke)| {
                let row_ref = RowRef::new("breaks", &candidate);
                Ok(PoisonView {
                    candidate: candidate.parse().map_err(
                        |error: domain::digest::DigestError| row_ref.wrong("candidate", error),
                    )?,
                    broke: row_ref.number("count", broke)?,
                })
            })
            .collect::<Result<_, StoreError>>()?;
        Ok(FleetHealth { devices, poison })
    }
}

/// A worker's name and its device's identity.
type Identity = (String, String);

/// Counts the controls of each device by result. Controls of other protocol versions are left out,
/// because other rules judged them.
async fn controls(
    view: &mut Connection,
) -> Result<BTreeMap<Identity, Vec<(ControlResult, u32)>>, StoreError> {
    let rows: Vec<ControlRow> = query_as(
        "SELECT w.name AS worker, w.device_uuid AS uuid, e.control, COUNT(*) AS count \
         FROM evaluations e JOIN workers w ON w.id = e.worker \
         WHERE e.control IS NOT NULL AND w.evaluator = $1 \
         GROUP BY w.name, w.device_uuid, e.control",
    )
    .bind(i64::from(EVALUATOR_VERSION))
    .fetch_all(view)
    .await
    .context("count the controls")?;
    let mut controls = BTreeMap::<Identity, Vec<_>>::new();
    for row in rows {
        let row_ref = RowRef::new("evaluations", &row.uuid);
        let result = row_ref.word("control", &row.control)?;
        let count = row_ref.number("count", row.count)?;
        let own = controls.entry((row.worker, row.uuid)).or_default();
        own.push((result, count));
    }
    Ok(controls)
}

/// Returns true if the candidate with this content broke so many devices that it is not run again.
pub(crate) async fn is_candidate_quarantined(
    tx: &mut Connection,
    content: Digest,
) -> Result<bool, StoreError> {
    let broke: i64 = query_scalar("SELECT COUNT(*) FROM breaks WHERE candidate = $1")
        .bind(content.to_string())
        .fetch_one(tx)
        .await
        .context("ask what a candidate broke")?;
    Ok(broke >= breaks_of_poison())
}

fn breaks_of_poison() -> i64 {
    i64::try_from(QUARANTINE_BREAKS).expect("a small number")
}
