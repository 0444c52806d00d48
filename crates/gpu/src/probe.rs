//! The role that says what the device is and whether it is well.

use domain::role::{ProbeJob, ProbeReply};

use crate::driver::emulator::Emulator;
use crate::driver::{Allocation, Gpu, Refusal};
use crate::fault::Fault;
use crate::inputs;
use crate::nvrtc::Toolchain;

/// Bytes written to the device and read back: enough to touch more than one page of it.
const PATTERN_BYTES: usize = 4 << 20;

/// Probes the loaded driver's first device and the loaded compiler.
///
/// # Errors
/// None of what a probe looks for: an unusable device is a reply.
pub fn probe(_job: &ProbeJob) -> Result<ProbeReply, Fault> {
    Ok(match Gpu::open() {
        Ok(gpu) => probe_on(&gpu),
        Err(fault) => unusable(&fault),
    })
}

pub(crate) fn probe_on(gpu: &Gpu) -> ProbeReply {
    match keeps_a_pattern() {
        Ok(true) => {}
        Ok(false) => {
            return ProbeReply::Unusable {
                reason: "device memory does not keep what is written to it: reset the GPU"
                    .to_owned(),
            };
        }
        Err(refusal) => return unusable(&refusal.into_fault("write and read device memory")),
    }
    let rates = match gpu.emulator().map(Emulator::describe) {
        Some(Ok(description)) => description.rates,
        Some(Err(fault)) => return unusable(&fault),
        None => None,
    };
    match gpu.describe() {
        Ok(device) => ProbeReply::Ready {
            device,
            rates,
            toolchain: Toolchain::load()
                .ok()
                .map(|toolchain| toolchain.to_string()),
        },
        Err(fault) => unusable(&fault),
    }
}

pub(crate) fn unusable(fault: &Fault) -> ProbeReply {
    ProbeReply::Unusable {
        reason: format!("failed to {fault}"),
    }
}

/// Writes a pattern that no earlier process can have left, and reads it back.
fn keeps_a_pattern() -> Result<bool, Refusal> {
    let seed = u64::from(std::process::id());
    let pattern = inputs::poison(seed, "probe", "pattern", PATTERN_BYTES);
    let mut allocation = Allocation::new(PATTERN_BYTES)?;
    allocation.upload(&pattern)?;
    Ok(allocation.download()? == pattern)
}
