//! Commands for the database of a service.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{DataFolder, DatabaseUrl};

/// Commands for the database of a service. All but `backup` need that the service does not run.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum DatabaseCommand {
    /// Bring the tables of a database up to this version of the program, as `serve` does when it starts.
    Migrate(DatabaseMigrateArgs),
    /// Copy the SQLite database of a data folder into a new, empty Postgres database, in one
    /// transaction. The SQLite database stays as it is.
    Copy(DatabaseCopyArgs),
    /// Write a copy of the SQLite database of a data folder into a new file, also while the service runs.
    Backup(DatabaseBackupArgs),
}

/// Arguments of `database backup`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct DatabaseBackupArgs {
    /// The new file.
    pub file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The data folder.
    #[command(flatten)]
    pub folder: DataFolder,
}

/// Arguments of `database migrate`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct DatabaseMigrateArgs {
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

/// Arguments of `database copy`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct DatabaseCopyArgs {
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
