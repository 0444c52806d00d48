//! `preflight`: what this machine can do, found by doing it.

use domain::device::{Device, DeviceKind};
use serde::Serialize;

use super::eval;
use super::follow::{print, print_json};
use super::serve;
use crate::cli::PreflightArgs;
use crate::data::Data;
use crate::outcome::{Ending, Failure, Outcome};

#[derive(Serialize)]
struct Machine {
    version: &'static str,
    device: Device,
    toolchain: String,
    threads: u32,
    data: String,
}

pub(super) async fn preflight(args: PreflightArgs) -> Ending {
    let data = serve::open(&args.folder.data)?;
    let machine = look(&data).await?;
    if args.json {
        print_json(&machine)?;
    } else {
        print(&text(&machine))?;
    }
    Ok(Outcome::Accepted)
}

/// Fails where a worker could not evaluate, so that nobody waits for one.
pub(super) async fn require(data: &Data) -> Result<(), Failure> {
    look(data).await.map(drop)
}

async fn look(data: &Data) -> Result<Machine, Failure> {
    let host = eval::host(data, &eval::cancellation()?).await?;
    Ok(Machine {
        version: env!("CARGO_PKG_VERSION"),
        device: host.device().clone(),
        toolchain: host.toolchain().to_owned(),
        threads: host.threads(),
        data: data.root().display().to_string(),
    })
}

fn text(machine: &Machine) -> String {
    let times = match machine.device.kind {
        DeviceKind::Nvidia => "measured on silicon",
        DeviceKind::Emulated => "modelled: no NVIDIA driver works here, so kernels are emulated",
    };
    format!(
        "version    {}\ndevice     {}\ntimes      {times}\ntoolchain  {}\nthreads    {}\ndata       {}\n",
        machine.version, machine.device, machine.toolchain, machine.threads, machine.data
    )
}
