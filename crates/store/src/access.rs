//! Access tokens, sessions of browsers, the list of changes, and which token a worker, a lease or a
//! bundle of evidence belongs to.

use crate::sql::{Flag, query, query_as, query_scalar};
use chrono::{DateTime, TimeDelta, Utc};
use domain::access::{Change, Scope, Secret, SecretKind, TokenView};
use domain::digest::Digest;
use domain::evaluation::EVALUATOR_VERSION;
use domain::id::{JobId, TokenId, WorkerId};
use rand::RngExt as _;
use uuid::Uuid;

use crate::changes::CommitScope;
use crate::error::ErrorContext;
use crate::rows::{RowRef, micros};
use crate::{Connection, Store, StoreError};

/// The least time between two records of a token's use, so that requests do not cause writes.
const USE_INTERVAL: TimeDelta = TimeDelta::minutes(1);
/// Time for which a browser stays signed in.
pub const SESSION_DURATION: TimeDelta = TimeDelta::hours(12);
/// The beginning of the names of tokens that belong to people who sign in elsewhere.
const PERSON: &str = "sso:";
/// The most changes of one page.
const MAX_CHANGES: u32 = 500;

const COLUMNS: &str =
    "t.id, t.name, t.scope, t.created_at, t.expires_at, t.last_used_at, t.revoked_at";

/// Result of looking a secret up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authentication {
    /// The secret of a usable token, or of a session of one.
    Usable(TokenView),
    /// No token and no session has this secret.
    Unknown,
    /// The token or the session expired then.
    Expired(DateTime<Utc>),
    /// The token was revoked then.
    Revoked(DateTime<Utc>),
}

/// A token to create.
#[derive(Debug, Clone)]
pub struct NewToken<'a> {
    /// Name for people.
    pub name: &'a str,
    /// The requests that it may send.
    pub scope: Scope,
    /// From when on it is refused.
    pub expires_at: Option<DateTime<Utc>>,
}

/// A change before it is made.
#[derive(Debug, Clone)]
pub struct NewChange<'a> {
    /// The token that was used.
    pub token: Option<TokenId>,
    /// The name of that token, or where the change comes from.
    pub actor: &'a str,
    /// The kind of request.
    pub request: &'a str,
    /// The path of the request, which names the run, task or worker to be changed.
    pub subject: &'a str,
}

#[derive(sqlx::FromRow)]
struct TokenRow {
    id: Uuid,
    name: String,
    scope: String,
    created_at: i64,
    expires_at: Option<i64>,
    last_used_at: Option<i64>,
    revoked_at: Option<i64>,
}

#[derive(sqlx::FromRow)]
struct ChangeRow {
    id: i64,
    at: i64,
    token: Option<Uuid>,
    actor: String,
    request: String,
    subject: String,
    status: Option<i64>,
}

impl TokenRow {
    fn view(self) -> Result<TokenView, StoreError> {
        let id = TokenId::from(self.id);
        let row_ref = RowRef::new("tokens", id);
        let time = |column, value: Option<i64>| {
            value.map(|micros| row_ref.time(column, micros)).transpose()
        };
        Ok(TokenView {
            id,
            scope: row_ref.word("scope", &self.scope)?,
            created_at: row_ref.time("created_at", self.created_at)?,
            expires_at: time("expires_at", self.expires_at)?,
            last_used_at: time("last_used_at", self.last_used_at)?,
            revoked_at: time("revoked_at", self.revoked_at)?,
            name: self.name,
        })
    }
}

impl Store {
    /// Creates a token and records the change. The secret is returned and stored nowhere.
    ///
    /// # Errors
    /// A usable token has this name, or the database fails.
    pub async fn create_token(
        &self,
        new: &NewToken<'_>,
        actor: &str,
        now: DateTime<Utc>,
    ) -> Result<(TokenView, Secret), StoreError> {
        let secret = Secret::new(SecretKind::Token, self.draw(|rng| rng.random()));
        let view = TokenView {
            id: self.draw(|rng| TokenId::generate(now, rng)),
            name: new.name.to_owned(),
            scope: new.scope,
            created_at: now,
            expires_at: new.expires_at,
            last_used_at: None,
            revoked_at: None,
        };
        let mut tx = self.begin().await?;
        let others: Vec<TokenRow> = query_as(sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM tokens t WHERE t.name = $1"
        )))
        .bind(new.name)
        .fetch_all(&mut *tx)
        .await
        .context("find tokens of a name")?;
        for other in others {
            if other.view()?.is_usable(now) {
                return Err(StoreError::TokenNameTaken {
                    name: new.name.to_owned(),
                });
            }
        }
        query(
            "INSERT INTO tokens (id, name, scope, digest, created_at, expires_at) \
             VALUES ($1, $2, $3, $4, $5, $6)",
        )
        .bind(view.id.uuid())
        .bind(&view.name)
        .bind(view.scope.as_str())
        .bind(secret.digest().to_string())
        .bind(micros(now))
        .bind(new.expires_at.map(micros))
        .execute(&mut *tx)
        .await
        .context("create a token")?;
        let change = NewChange {
            token: None,
            actor,
            request: "token create",
            subject: &format!("{} {:?}, scope {}", view.id, view.name, view.scope),
        };
        record(&mut tx, &change, Some(200), now).await?;
        self.commit_change(tx, CommitScope::Nothing).await?;
        Ok((view, secret))
    }

    /// The token of a person who signs in elsewhere; nobody knows its secret. One with another scope is
    /// revoked and replaced, which ends its sessions.
    ///
    /// # Errors
    /// The database fails, or others make and revoke tokens of this name all the time.
    pub async fn token_of_person(
        &self,
        person: &str,
        scope: Scope,
        now: DateTime<Utc>,
    ) -> Result<TokenId, StoreError> {
        const ACTOR: &str = "single sign-on";
        let name = format!("{PERSON}{person}");
        let new = NewToken {
            name: &name,
            scope,
            expires_at: None,
        };
        // Another request of the same person may be first.
        for _ in 0..3 {
            let tokens = self.tokens().await?;
            let mut usable = tokens.iter().filter(|token| token.is_usable(now));
            match usable.find(|token| token.name == name) {
                Some(token) if token.scope == scope => return Ok(token.id),
                Some(token) => {
                    let id = token.id.to_string();
                    self.revoke_token(&id, ACTOR, now).await?;
                }
                None => {}
            }
            match self.create_token(&new, ACTOR, now).await {
                Ok((token, _)) => return Ok(token.id),
                Err(StoreError::TokenNameTaken { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::TokenNameTaken { name })
    }

    /// Revokes the token with this id, or the usable one with this name, and ends its sessions.
    /// A token that was revoked before stays as it was.
    ///
    /// # Errors
    /// There is no such token, or the database fails.
    pub async fn revoke_token(
        &self,
        token: &str,
        actor: &str,
        now: DateTime<Utc>,
    ) -> Result<TokenView, StoreError> {
        let id = token.parse::<TokenId>().ok();
        let mut tx = self.begin().await?;
        let found: Option<TokenRow> = query_as(sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM tokens t WHERE t.id = $1 OR ($1 IS NULL AND t.name = $2) \
             ORDER BY t.revoked_at IS NULL DESC, t.created_at DESC LIMIT 1"
        )))
        .bind(id.map(TokenId::uuid))
        .bind(token)
        .fetch_optional(&mut *tx)
        .await
        .context("find a token")?;
        let mut view = found
            .ok_or_else(|| StoreError::Unknown {
                subject: "token",
                id: token.to_owned(),
            })?
            .view()?;
        if view.revoked_at.is_some() {
            return Ok(view);
        }
        view.revoked_at = Some(now);
        query("UPDATE tokens SET revoked_at = $2 WHERE id = $1")
            .bind(view.id.uuid())
            .bind(micros(now))
            .execute(&mut *tx)
            .await
            .context("revoke a token")?;
        query("DELETE FROM sessions WHERE token = $1")
            .bind(view.id.uuid())
            .execute(&mut *tx)
            .await
            .context("end a token's sessions")?;
        let change = NewChange {
            token: None,
            actor,
            request: "token revoke",
            subject: &format!("{} {:?}", view.id, view.name),
        };
        record(&mut tx, &change, Some(200), now).await?;
        self.commit_change(tx, CommitScope::Nothing).await?;
        Ok(view)
    }

    /// Every token, the latest first.
    ///
    /// # Errors
    /// The database fails.
    pub async fn tokens(&self) -> Result<Vec<TokenView>, StoreError> {
        let rows: Vec<TokenRow> = query_as(sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM tokens t ORDER BY t.created_at DESC, t.id DESC"
        )))
        .fetch_all(&self.read)
        .await
        .context("list the tokens")?;
        rows.into_iter().map(TokenRow::view).collect()
    }

    /// Looks up who a secret belongs to, and records the use at most once a minute.
    ///
    /// # Errors
    /// The database fails.
    pub async fn authenticate(
        &self,
        secret: &Secret,
        now: DateTime<Utc>,
    ) -> Result<Authentication, StoreError> {
        let digest = secret.digest().to_string();
        let found: Option<TokenRow> = match secret.kind() {
            SecretKind::Token => {
                query_as(sqlx::AssertSqlSafe(format!(
                    "SELECT {COLUMNS} FROM tokens t WHERE t.digest = $1"
                )))
                .bind(&digest)
                .fetch_optional(&self.read)
                .await
            }
            // A session expires with its token, or earlier.
            SecretKind::Session => {
                query_as(
                    "SELECT t.id, t.name, t.scope, t.created_at, CASE WHEN \
                     t.expires_at < s.expires_at THEN t.expires_at ELSE s.expires_at END \
                     AS expires_at, t.last_used_at, t.revoked_at FROM sessions s JOIN tokens t ON t.id = s.token \
                     WHERE s.digest = $1",
                )
                .bind(&digest)
                .fetch_optional(&self.read)
                .await
            }
        }
        .context("look up a token")?;
        let Some(row) = found else {
            return Ok(Authentication::Unknown);
        };
        let view = row.view()?;
        if let Some(at) = view.revoked_at {
            return Ok(Authentication::Revoked(at));
        }
        if let Some(at) = view.expires_at.filter(|at| *at <= now) {
            return Ok(Authentication::Expired(at));
        }
        if view.last_used_at.is_none_or(|at| now - at >= USE_INTERVAL) {
            // A concurrent request may have been first, and the clock may have been set back.
            query(
                "UPDATE tokens SET last_used_at = $2 WHERE id = $1 \
                 AND (last_used_at IS NULL OR last_used_at <= $3)",
            )
            .bind(view.id.uuid())
            .bind(micros(now))
            .bind(micros(now - USE_INTERVAL))
            .execute(&self.write)
            .await
            .context("record the use of a token")?;
        }
        Ok(Authentication::Usable(view))
    }

    /// Signs a browser in with a token. Expired sessions are deleted.
    ///
    /// # Errors
    /// The database fails.
    pub async fn open_session(
        &self,
        token: TokenId,
        now: DateTime<Utc>,
    ) -> Result<Secret, StoreError> {
        let secret = Secret::new(SecretKind::Session, self.draw(|rng| rng.random()));
        let mut tx = self.begin().await?;
        query("DELETE FROM sessions WHERE expires_at <= $1")
            .bind(micros(now))
            .execute(&mut *tx)
            .await
            .context("delete expired sessions")?;
        query("INSERT INTO sessions (digest, token, expires_at) VALUES ($1, $2, $3)")
            .bind(secret.digest().to_string())
            .bind(token.uuid())
            .bind(micros(now + SESSION_DURATION))
            .execute(&mut *tx)
            .await
            .context("open a session")?;
        self.commit_change(tx, CommitScope::Nothing).await?;
        Ok(secret)
    }

    /// Signs a browser out. An unknown session is none.
    ///
    /// # Errors
    /// The database fails.
    pub async fn close_session(&self, secret: &Secret) -> Result<(), StoreError> {
        query("DELETE FROM sessions WHERE digest = $1")
            .bind(secret.digest().to_string())
            .execute(&self.write)
            .await
            .context("close a session")?;
        Ok(())
    }

    /// Records a change before it is made, so that none is made without a record. Returns the
    /// record's id for [`Store::settle_change`].
    ///
    /// # Errors
    /// The database fails.
    pub async fn record_change(
        &self,
        change: &NewChange<'_>,
        now: DateTime<Utc>,
    ) -> Result<i64, StoreError> {
        let mut tx = self.begin().await?;
        let id = record(&mut tx, change, None, now).await?;
        self.commit_change(tx, CommitScope::Nothing).await?;
        Ok(id)
    }

    /// Records the answer to a change, and the address of what it made.
    ///
    /// # Errors
    /// The database fails.
    pub async fn settle_change(
        &self,
        id: i64,
        status: u16,
        made: Option<&str>,
    ) -> Result<(), StoreError> {
        query("UPDATE changes SET status = $2, subject = COALESCE($3, subject) WHERE id = $1")
            .bind(id)
            .bind(i64::from(status))
            .bind(made)
            .execute(&self.write)
            .await
            .context("record the answer to a change")?;
        Ok(())
    }

    /// Changes with an id below `before`, the latest first.
    ///
    /// # Errors
    /// The database fails.
    pub async fn changes(
        &self,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Change>, StoreError> {
        let rows: Vec<ChangeRow> = query_as(
            "SELECT id, at, token, actor, request, subject, status FROM changes \
             WHERE id < $1 ORDER BY id DESC LIMIT $2",
        )
        .bind(before.unwrap_or(i64::MAX))
        .bind(i64::from(limit.min(MAX_CHANGES)))
        .fetch_all(&self.read)
        .await
        .context("list the changes")?;
        rows.into_iter()
            .map(|row| {
                let row_ref = RowRef::new("changes", row.id);
                Ok(Change {
                    id: row.id,
                    at: row_ref.time("at", row.at)?,
                    token: row.token.map(TokenId::from),
                    actor: row.actor,
                    request: row.request,
                    subject: row.subject,
                    status: row
                        .status
                        .map(|status| row_ref.number("status", status))
                        .transpose()?,
                })
            })
            .collect()
    }

    /// Checks that a worker may send requests: it is known, it speaks this service's version of the
    /// protocol, and `owner` registered it. No owner is asked for where it is absent.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], [`StoreError::WrongEvaluator`] or [`StoreError::NotYours`]; or the
    /// database fails.
    pub async fn check_worker(
        &self,
        worker: WorkerId,
        owner: Option<&str>,
    ) -> Result<(), StoreError> {
        self.read_worker(worker, owner).await.map(drop)
    }

    /// Checks that a worker may take a lease: as [`Store::check_worker`], and it is not drained. Returns the name of
    /// its device.
    ///
    /// # Errors
    /// As [`Store::check_worker`], and [`StoreError::Drained`].
    pub async fn check_lease(
        &self,
        worker: WorkerId,
        owner: Option<&str>,
    ) -> Result<String, StoreError> {
        let (device, is_drained) = self.read_worker(worker, owner).await?;
        if is_drained {
            return Err(StoreError::Drained { worker });
        }
        Ok(device)
    }

    /// Returns the name of the worker's device, and true if it is to leave.
    async fn read_worker(
        &self,
        worker: WorkerId,
        owner: Option<&str>,
    ) -> Result<(String, bool), StoreError> {
        let row: Option<(Option<String>, i64, String, Flag)> =
            query_as("SELECT owner, evaluator, device_name, draining FROM workers WHERE id = $1")
                .bind(worker.uuid())
                .fetch_optional(&self.read)
                .await
                .context("find a worker")?;
        let Some((registered, evaluator, device, draining)) = row else {
            return Err(StoreError::Unknown {
                subject: "worker",
                id: worker.to_string(),
            });
        };
        if owner.is_some() && registered.as_deref() != owner {
            return Err(StoreError::NotYours {
                subject: "worker",
                id: worker.to_string(),
            });
        }
        // The worker was registered by an earlier release of this service.
        if evaluator != i64::from(EVALUATOR_VERSION) {
            let row_ref = RowRef::new("workers", worker);
            return Err(StoreError::WrongEvaluator {
                found: row_ref.number("evaluator", evaluator)?,
                wanted: EVALUATOR_VERSION,
            });
        }
        Ok((device, draining.into()))
    }

    /// Checks that a job's latest lease went to a worker of `owner`. A job that was never lent belongs
    /// to nobody.
    ///
    /// # Errors
    /// [`StoreError::NotYours`], or the database fails.
    pub async fn check_holder(&self, job: JobId, owner: &str) -> Result<(), StoreError> {
        let holder: Option<Option<String>> = query_scalar(
            "SELECT w.owner FROM jobs j JOIN workers w ON w.id = j.worker WHERE j.id = $1",
        )
        .bind(job.uuid())
        .fetch_optional(&self.read)
        .await
        .context("find the holder of a lease")?;
        match holder {
            Some(holder) if holder.as_deref() != Some(owner) => Err(StoreError::NotYours {
                subject: "lease",
                id: job.to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// Checks that a worker of `owner` reported an evaluation with this bundle of evidence.
    ///
    /// # Errors
    /// [`StoreError::NotYours`], or the database fails.
    pub async fn check_bundle(&self, bundle: Digest, owner: &str) -> Result<(), StoreError> {
        let reported: Option<i64> = query_scalar(
            "SELECT e.attempt FROM evaluations e JOIN workers w ON w.id = e.worker \
             WHERE e.bundle = $1 AND w.owner = $2 LIMIT 1",
        )
        .bind(bundle.to_string())
        .bind(owner)
        .fetch_optional(&self.read)
        .await
        .context("find the evaluation of a bundle")?;
        match reported {
            Some(_) => Ok(()),
            None => Err(StoreError::NotYours {
                subject: "evidence",
                id: bundle.to_string(),
            }),
        }
    }

    /// Has the worker take no further lease, and leave once it has reported the present one.
    ///
    /// # Errors
    /// The worker is unknown or the database fails.
    pub async fn drain_worker(&self, worker: WorkerId) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        let found = query("UPDATE workers SET draining = 1 WHERE id = $1")
            .bind(worker.uuid())
            .execute(&mut *tx)
            .await
            .context("drain a worker")?;
        if found == 0 {
            return Err(StoreError::Unknown {
                subject: "worker",
                id: worker.to_string(),
            });
        }
        self.commit(tx).await
    }
}

async fn record(
    tx: &mut Connection,
    change: &NewChange<'_>,
    status: Option<u16>,
    now: DateTime<Utc>,
) -> Result<i64, StoreError> {
    query_scalar(
        "INSERT INTO changes (at, token, actor, request, subject, status) \
         VALUES ($1, $2, $3, $4, $5, $6) RETURNING id",
    )
    .bind(micros(now))
    .bind(change.token.map(TokenId::uuid))
    .bind(change.actor)
    .bind(change.request)
    .bind(change.subject)
    .bind(status.map(i64::from))
    .fetch_one(tx)
    .await
    .context("record a change")
}
