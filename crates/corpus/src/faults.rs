//! Kernels that a device must stop with an error. They have no expected results; the errors of two drivers are
//! compared.

use crate::Failure;
use crate::session::Arg::{I32 as I, Pointer as P};
use crate::session::Session;

/// Launches a kernel of `faults.cu` with one block and reads its output, because the driver may report the error as
/// late as that.
fn stopped(device: &Session<'_>, kernel: &str, shared_bytes: u32) -> Result<(), Failure> {
    let out = device.buffer("out", &[0i32; 32])?;
    let (grid, block) = ([1, 1, 1], [32, 1, 1]);
    device.launch_with(kernel, grid, block, &[P(out), I(1)], |launch| {
        launch.shared_bytes = shared_bytes;
    })?;
    device.read::<i32>(out, 32).map(drop)
}

pub(crate) fn a_read_far_outside(device: &Session<'_>) -> Result<(), Failure> {
    stopped(device, "far_read", 0)
}

pub(crate) fn a_write_far_outside(device: &Session<'_>) -> Result<(), Failure> {
    stopped(device, "far_write", 0)
}

pub(crate) fn a_write_through_null(device: &Session<'_>) -> Result<(), Failure> {
    stopped(device, "null_write", 0)
}

pub(crate) fn a_write_off_its_alignment(device: &Session<'_>) -> Result<(), Failure> {
    stopped(device, "misaligned", 0)
}

pub(crate) fn a_trap(device: &Session<'_>) -> Result<(), Failure> {
    stopped(device, "trapped", 0)
}

pub(crate) fn a_read_far_outside_shared_memory(device: &Session<'_>) -> Result<(), Failure> {
    stopped(device, "shared_overrun", 128)
}
