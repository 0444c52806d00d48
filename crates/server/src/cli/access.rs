//! Commands for access tokens.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use domain::access::{MAX_TOKEN_NAME_BYTES, Scope};

use super::number::whole;
use super::{DataFolder, DatabaseUrl};

/// Default of `--expires-days`.
const DEFAULT_EXPIRY_DAYS: u32 = 90;

/// Commands for access tokens. They work on the data folder of the service, so that the first token
/// needs no token and no secret crosses a network.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum TokenCommand {
    /// Create a token, and print it. It is shown once and stored nowhere.
    Create(TokenCreateArgs),
    /// List the tokens with scope, expiry and last use.
    List(TokenListArgs),
    /// Revoke a token, which ends its use and its sessions at once.
    Revoke(TokenRevokeArgs),
}

/// Arguments of `token create`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct TokenCreateArgs {
    /// Name of the token, such as that of its owner or machine.
    #[arg(long, value_parser = name)]
    pub name: String,
    /// The requests that it may send: viewer reads, user also uploads tasks and drives runs, admin
    /// also drains workers and lists changes, worker works on leases.
    #[arg(long)]
    pub scope: Scope,
    /// Days until it expires. 0 never does.
    #[arg(long, value_name = "DAYS", default_value_t = DEFAULT_EXPIRY_DAYS, allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub expires_days: u32,
    /// Write the token to this new file, which only its owner can read, instead of printing it.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The data folder.
    #[command(flatten)]
    pub folder: DataFolder,
    /// The database.
    #[command(flatten)]
    pub database: DatabaseUrl,
}

/// Arguments of `token list`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct TokenListArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The data folder.
    #[command(flatten)]
    pub folder: DataFolder,
    /// The database.
    #[command(flatten)]
    pub database: DatabaseUrl,
}

/// Arguments of `token revoke`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct TokenRevokeArgs {
    /// Id or name of the token.
    pub token: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The data folder.
    #[command(flatten)]
    pub folder: DataFolder,
    /// The database.
    #[command(flatten)]
    pub database: DatabaseUrl,
}

fn name(text: &str) -> Result<String, String> {
    let length = text.len();
    let printable = text.chars().all(|char| !char.is_control());
    if !(1..=MAX_TOKEN_NAME_BYTES).contains(&length) || !printable {
        return Err(format!(
            "give 1 to {MAX_TOKEN_NAME_BYTES} bytes without control characters"
        ));
    }
    Ok(text.to_owned())
}
