//! `preflight`: tests of this machine's capabilities, each with the remedy where it fails.

use domain::device::{Device, DeviceKind};
use domain::evaluation::EVALUATOR_VERSION;
use serde::Serialize;
use worker::host::Isolation;
use worker::preflight::{Check, Status};

use super::eval;
use super::follow::{print, print_json};
use super::serve;
use crate::cli::PreflightArgs;
use crate::data::Data;
use crate::outcome::{Ending, Failure, Outcome};
use crate::report::{Report, SCHEMA};
use crate::terminal::{columns, plain};

#[derive(Serialize)]
struct Machine {
    version: &'static str,
    times: DeviceKind,
    toolchain: String,
    threads: u32,
    data: String,
    isolation: Isolation,
    checks: Vec<Check>,
}

pub(super) async fn preflight(args: PreflightArgs) -> Ending {
    let folder = serve::open_work_folder(&args.folder.data)?;
    let cancellation = eval::cancellation()?;
    let host = eval::host(folder.data(), &cancellation).await?;
    let device = host.device().clone();
    let machine = eval::blocking(move || {
        let checks = worker::preflight::run_checks(&host, &cancellation);
        Machine {
            version: env!("CARGO_PKG_VERSION"),
            times: host.device().kind,
            toolchain: host.toolchain().to_owned(),
            threads: host.threads(),
            data: host.data().display().to_string(),
            isolation: host.confinement_report().level(),
            checks,
        }
    })
    .await?;
    let failed = machine
        .checks
        .iter()
        .filter(|check| check.status == Status::Fail)
        .map(|check| check.name)
        .collect::<Vec<_>>();
    if args.json {
        print_json(&Report {
            schema: SCHEMA,
            verb: "preflight",
            ok: failed.is_empty(),
            file: None,
            task: None,
            evaluator: EVALUATOR_VERSION,
            device: Some(device),
            result: &machine,
        })?;
    } else {
        print(&text(&machine, &device))?;
    }
    if failed.is_empty() {
        return Ok(Outcome::Accepted);
    }
    Err(Failure::infrastructure(anyhow::anyhow!(
        "evaluate on this machine: {} failed; the fix is above",
        failed.join(", ")
    )))
}

/// Fails if a worker could not evaluate on this machine, so that no run waits for one.
pub(super) async fn require(data: &Data) -> Result<(), Failure> {
    eval::host(data, &eval::cancellation()?).await.map(drop)
}

fn text(machine: &Machine, device: &Device) -> String {
    let times = match machine.times {
        DeviceKind::Nvidia => "measured on silicon",
        DeviceKind::Emulated => "modelled: no NVIDIA driver works here, so kernels are emulated",
    };
    let mut text = format!(
        "version    {}\ndevice     {device}\ntimes      {times}\ntoolchain  {}\nthreads    {}\ndata       {}\nisolation  {}\n",
        machine.version,
        machine.toolchain,
        machine.threads,
        machine.data,
        machine.isolation.as_str()
    );
    let rows = machine.checks.iter().map(|check| {
        vec![
            check.status.as_str().to_owned(),
            check.name.replace('_', " "),
            plain(&check.found),
        ]
    });
    text.push_str("checks\n");
    text.push_str(&columns(&rows.collect::<Vec<_>>(), 2));
    for check in &machine.checks {
        if let Some(fix) = &check.fix {
            let name = check.name.replace('_', " ");
            text.push_str(&format!("fix        {name}: {}\n", plain(fix)));
        }
    }
    text
}
