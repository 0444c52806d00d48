//! `token`: access tokens of the service that works in a data folder.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::Context;
use chrono::{DateTime, TimeDelta, Utc};
use domain::access::TokenView;
use engine::{Clock as _, SystemClock};
use serde::Serialize;
use store::{NewToken, Store, StoreError};

use super::follow::{print, print_json};
use super::serve;
use crate::cli::{DatabaseUrl, TokenCommand, TokenCreateArgs, TokenListArgs, TokenRevokeArgs};
use crate::data::Data;
use crate::outcome::{Ending, Failure, Outcome};
use crate::terminal::{columns, line, plain};

pub(super) async fn token(command: TokenCommand) -> Ending {
    match command {
        TokenCommand::Create(args) => create(&args).await,
        TokenCommand::List(args) => list(&args).await,
        TokenCommand::Revoke(args) => revoke(&args).await,
    }
}

/// The result of `token create`.
#[derive(Serialize)]
struct Created<'a> {
    #[serde(flatten)]
    view: &'a TokenView,
    /// The token itself, unless it was written to a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<&'a str>,
}

async fn create(args: &TokenCreateArgs) -> Ending {
    let data = serve::open(&args.folder.data)?;
    // The file is created first, so that no token is created that could not be written to it.
    let file = args.output.as_deref().map(new_file).transpose()?;
    let store = open(&data, &args.database).await?;
    let now = SystemClock.now();
    let new = NewToken {
        name: &args.name,
        scope: args.scope,
        expires_at: (args.expires_days > 0)
            .then(|| now.checked_add_signed(TimeDelta::days(args.expires_days.into())))
            .flatten(),
    };
    let (view, secret) = store
        .create_token(&new, &actor(), now)
        .await
        .map_err(failure)?;
    store.close().await;
    let text = format!("{}\n", secret.reveal());
    let printed = file.is_none();
    if let Some(mut file) = file {
        file.write_all(text.as_bytes())
            .context("write the token")
            .map_err(Failure::infrastructure)?;
    }
    if args.json {
        let secret = printed.then(|| secret.reveal());
        print_json(&Created {
            view: &view,
            secret,
        })?;
    } else if printed {
        print(&text)?;
    }
    eprintln!(
        "{} {}: scope {}, {}; it is stored nowhere else",
        view.id,
        plain(&view.name),
        view.scope,
        expiry(&view)
    );
    if data.address().is_some() {
        eprintln!("a service that was started without tokens asks for them after its next start");
    }
    Ok(Outcome::Accepted)
}

async fn list(args: &TokenListArgs) -> Ending {
    let data = serve::open_existing(&args.folder.data)?;
    let store = open(&data, &args.database).await?;
    let tokens = store.tokens().await.map_err(failure)?;
    store.close().await;
    if args.json {
        print_json(&tokens)?;
    } else {
        print(&table(&tokens, SystemClock.now()))?;
    }
    Ok(Outcome::Accepted)
}

async fn revoke(args: &TokenRevokeArgs) -> Ending {
    let data = serve::open_existing(&args.folder.data)?;
    let store = open(&data, &args.database).await?;
    let revoked = store
        .revoke_token(&args.token, &actor(), SystemClock.now())
        .await
        .map_err(failure)?;
    store.close().await;
    if args.json {
        print_json(&revoked)?;
    } else {
        let name = plain(&revoked.name);
        print(&format!("revoked {} {name}\n", revoked.id))?;
    }
    Ok(Outcome::Accepted)
}

async fn open(data: &Data, database: &DatabaseUrl) -> Result<Store, Failure> {
    data.open_store(database.database.as_deref())
        .await
        .map_err(Failure::infrastructure)
}

fn failure(error: StoreError) -> Failure {
    match error {
        StoreError::TokenNameTaken { .. } | StoreError::Unknown { .. } => Failure::input(error),
        other => Failure::infrastructure(other),
    }
}

/// Makes a file that only its owner can read. An existing one is left alone, because others may read
/// it.
fn new_file(path: &Path) -> Result<std::fs::File, Failure> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .with_context(|| {
            format!(
                "make the token file {}: name a file that does not exist, in a folder that does",
                path.display()
            )
        })
        .map_err(Failure::input)
}

/// The name under which changes from this command line are recorded: the user id of its process.
fn actor() -> String {
    match std::fs::metadata("/proc/self") {
        Ok(own) => format!("command line, user id {}", own.uid()),
        Err(_) => "command line".to_owned(),
    }
}

fn expiry(token: &TokenView) -> String {
    match token.expires_at {
        Some(at) => format!("expires {}", day(at)),
        None => "never expires".to_owned(),
    }
}

fn day(time: DateTime<Utc>) -> String {
    time.format("%Y-%m-%d").to_string()
}

fn table(tokens: &[TokenView], now: DateTime<Utc>) -> String {
    if tokens.is_empty() {
        return "no token exists; create one: kernelwright token create --name NAME --scope admin\n"
            .to_owned();
    }
    let head = ["id", "name", "scope", "state", "last used"].map(str::to_owned);
    let rows = tokens.iter().map(|token| {
        let state = match (token.revoked_at, token.expires_at) {
            (Some(at), _) => format!("revoked {}", day(at)),
            (None, Some(at)) if at <= now => format!("EXPIRED {}", day(at)),
            (None, _) => expiry(token),
        };
        let used = token.last_used_at;
        vec![
            token.id.to_string(),
            line(&token.name, 40),
            token.scope.to_string(),
            state,
            used.map_or_else(
                || "never".to_owned(),
                |at| at.format("%Y-%m-%d %H:%M").to_string(),
            ),
        ]
    });
    let rows: Vec<_> = std::iter::once(head.to_vec()).chain(rows).collect();
    columns(&rows, 0)
}
