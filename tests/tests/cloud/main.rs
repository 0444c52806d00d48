//! Workers on machines of Google Cloud: the programs of `docker/gce` and `docker/start-workers`, and the notices with
//! which a machine is taken.
//!
//! They run against stand-ins for the cloud: its HTTP services ([`stand_in`]), its command line (`tests/cloud/gcloud`)
//! and a machine's own programs (`tests/cloud/machine`).

#![forbid(unsafe_code)]

mod group;
mod image;
mod machine;
mod stand_in;
mod worker;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use domain::api::{RunRequest, RunView};
use domain::search::Method;
use lab::{Finished, Lab};

/// The example's settings with other values, in a file.
fn settings(folder: &Path, values: &str) -> Result<PathBuf> {
    let example = lab::repository().join("docker/gce/settings.example");
    let own = "PROJECT=team\nREGION=here\nGROUP=workers\nMETRICS_TOKEN_FILE=\n";
    let path = folder.join("gce");
    std::fs::write(&path, std::fs::read_to_string(example)? + own + values)?;
    Ok(path)
}

/// Runs a program of the repository on another thread, so that a stand-in in this process can answer it.
async fn run(program: &str, environment: &[(&str, &str)], arguments: &[&str]) -> Result<Finished> {
    let program = if program.contains('/') {
        lab::repository().join(program)
    } else {
        program.into()
    };
    let owned = |text: &str| text.to_owned();
    let environment = environment
        .iter()
        .map(|(name, value)| (owned(name), owned(value)))
        .collect::<Vec<_>>();
    let arguments = arguments.iter().map(|&one| owned(one)).collect::<Vec<_>>();
    tokio::task::spawn_blocking(move || {
        let environment = environment
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect::<Vec<_>>();
        let arguments = arguments.iter().map(String::as_str).collect::<Vec<_>>();
        lab::program(&program, &environment, &arguments)
    })
    .await?
}

/// A path as an argument.
fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a UTF-8 path")
}

async fn launch(lab: &Lab) -> Result<RunView> {
    let request = RunRequest::new("softmax-f32", Method::Playbook);
    lab.launch(&lab::small_softmax()?, &request).await
}
