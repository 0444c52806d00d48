//! `gpu-check`: the corpus, the suite and the open questions on this machine's GPU.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;

use super::eval::{blocking, cancellation};
use super::follow::{print, print_json};
use super::serve;
use crate::cli::GpuCheckArgs;
use crate::gpu_check::{
    self, ARCHITECTURES, CheckError, GpuCheckReport, Options, Pack, Part, Preparation,
};
use crate::outcome::{Ending, Failure, Outcome};

pub(super) async fn gpu_check(args: GpuCheckArgs) -> Ending {
    let cancellation = cancellation()?;
    let interrupted = cancellation.clone();
    tokio::spawn(async move {
        if serve::stop_requested().await.is_ok() {
            interrupted.cancel();
        }
    });
    let progress = |what: &str| eprintln!("{what}");
    if let Some(folder) = args.prepare {
        let wanted = Preparation {
            folder,
            tasks: args.tasks,
            architectures: if args.architectures.is_empty() {
                ARCHITECTURES.map(str::to_owned).to_vec()
            } else {
                args.architectures
            },
            only: args.only,
        };
        let made = blocking(move || gpu_check::prepare(&wanted, &progress, &cancellation))
            .await?
            .map_err(failure)?;
        if args.json {
            print_json(&made)?;
        } else {
            print(&made.text())?;
        }
        return Ok(Outcome::Accepted);
    }
    let pack = match args.pack {
        Some(folder) => Some(Pack::open(&folder).map_err(Failure::input)?),
        None => std::env::current_exe()
            .ok()
            .and_then(|executable| Pack::around(&executable)),
    };
    let parts = if args.parts.is_empty() {
        vec![Part::Corpus, Part::Suite, Part::Questions]
    } else {
        args.parts
    };
    let options = Options {
        out: args.out,
        pack,
        tasks: args.tasks,
        emulated: args.emulated,
        only: args.only,
        parts,
    };
    let out = options.out.clone();
    let report = blocking(move || gpu_check::check(&options, &progress, &cancellation))
        .await?
        .map_err(failure)?;
    let kept = keep(&report, &out)?;
    if args.json {
        print_json(&report)?;
    } else {
        print(&report.text())?;
        eprintln!("the report is in {}", kept.display());
    }
    let is_clean = report.disagreements == 0 && report.failures == 0;
    Ok(if is_clean {
        Outcome::Accepted
    } else {
        Outcome::NotAccepted
    })
}

/// Writes the report in its three forms; answers with the one for the record.
fn keep(report: &GpuCheckReport, out: &std::path::Path) -> Result<PathBuf, Failure> {
    let json = serde_json::to_string_pretty(report)
        .context("write the report down")
        .map_err(Failure::infrastructure)?;
    let record = out.join(report.file_name());
    let files = [
        (out.join("report.txt"), report.text()),
        (out.join("report.json"), json),
        (record.clone(), report.markdown()),
    ];
    for (path, text) in files {
        fs::write(&path, text)
            .with_context(|| format!("write {}", path.display()))
            .map_err(Failure::infrastructure)?;
    }
    Ok(record)
}

/// A pack of another version is a failure of the input; any other error is one of the infrastructure.
fn failure(error: CheckError) -> Failure {
    match error {
        CheckError::Pack(error) => Failure::input(error),
        other => Failure::infrastructure(other),
    }
}
