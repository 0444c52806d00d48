//! `export-run`: a run with its candidates as one file.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use tempfile::NamedTempFile;

use super::address;
use super::follow::{print, print_json};
use crate::cli::ExportRunArgs;
use crate::outcome::{Ending, Failure, Outcome};

pub(super) async fn export_run(args: ExportRunArgs) -> Ending {
    let client = address::client(&args.service)?;
    let to = args.to.unwrap_or_else(|| {
        let name = format!("run-{}.{}", args.run.uuid(), args.format.extension());
        PathBuf::from(name)
    });
    let name = to.display().to_string();
    if to.exists() {
        let message = format!("write {name}: it exists; remove it, or name another with --to");
        return Err(Failure::input(anyhow!(message)));
    }
    let folder = to.parent().filter(|folder| *folder != Path::new(""));
    // Under its name only once it is whole: an export that breaks off leaves nothing.
    let mut file = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))
        .with_context(|| format!("write {name}"))
        .map_err(Failure::input)?;
    let mut answer = client.export_run(args.run, args.format).await?;
    let mut bytes = 0;
    while let Some(part) = client.next_part(&mut answer).await? {
        bytes += part.len();
        file.write_all(&part)
            .with_context(|| format!("write {name}"))
            .map_err(Failure::infrastructure)?;
    }
    file.persist_noclobber(&to)
        .with_context(|| format!("write {name}"))
        .map_err(Failure::infrastructure)?;
    if args.json {
        print_json(&serde_json::json!({ "file": name, "bytes": bytes }))?;
    } else {
        print(&format!("wrote      {name} ({bytes} bytes)\n"))?;
    }
    Ok(Outcome::Accepted)
}
