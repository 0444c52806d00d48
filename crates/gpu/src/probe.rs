//! The role `probe`: describes the device and checks its health. The device must keep data that is written to it and
//! compute a known result bit for bit. The probe also reports free memory and copy speed; the supervisor, which
//! remembers earlier values, judges those two. On request it measures the device's peak rates.

mod rates;

use domain::health::HealthReadings;
use domain::role::{ProbeJob, ProbeReply};

use tensors::inputs;

use crate::driver::emulator::Emulator;
use crate::driver::{Allocation, DriverError, Gpu, Module, Shape, Stopwatch};
use crate::nvrtc::Toolchain;
use crate::role_error::RoleError;

/// Bytes written to the device and read back.
const PATTERN_BYTES: usize = 64 << 20;
/// Bytes written and read back on the emulated device, whose memory is host memory.
const EMULATED_PATTERN_BYTES: usize = 4 << 20;
/// The kernel whose result is known.
const KERNEL: &str = include_str!("probe/known_answer.ptx");
/// Rows and columns of its matrices.
const SIDE: usize = 64;
const THREADS: u32 = 256;
/// Error codes of a driver that cannot compile PTX: it has no compiler, an older one, or may not use it. They say
/// nothing about the device.
const NO_COMPILER: [u32; 3] = [221, 222, 223];

/// Probes the loaded driver's first device and the loaded compiler.
///
/// # Errors
/// None for anything that a probe examines: an unusable device is a reply.
pub fn probe(job: &ProbeJob) -> Result<ProbeReply, RoleError> {
    Ok(match Gpu::open() {
        Ok(gpu) => probe_on(&gpu, job),
        Err(fault) => unusable(&fault),
    })
}

pub(crate) fn probe_on(gpu: &Gpu, job: &ProbeJob) -> ProbeReply {
    let vitals = match check_health(gpu) {
        Ok(vitals) => vitals,
        Err(Defect::Refused(action, refusal)) => {
            return unusable(&refusal.into_role_error(action));
        }
        Err(Defect::Wrong(reason)) => {
            return ProbeReply::Unusable {
                reason: format!("{reason}: reset the GPU"),
            };
        }
    };
    let rates = match gpu.emulator().map(Emulator::describe) {
        Some(Ok(description)) => description.rates,
        Some(Err(fault)) => return unusable(&fault),
        None => None,
    };
    let measured_rates = if job.measure_rates {
        match rates::rates(gpu) {
            Ok(measured) => measured,
            Err(refusal) => {
                return unusable(&refusal.into_role_error("measure what the device does at best"));
            }
        }
    } else {
        None
    };
    match gpu.describe() {
        Ok(device) => ProbeReply::Ready {
            device,
            rates,
            measured_rates,
            toolchain: Toolchain::load()
                .ok()
                .map(|toolchain| toolchain.to_string()),
            vitals,
        },
        Err(fault) => unusable(&fault),
    }
}

pub(crate) fn unusable(fault: &RoleError) -> ProbeReply {
    ProbeReply::Unusable {
        reason: format!("failed to {fault}"),
    }
}

/// A defect of a device.
enum Defect {
    /// It refuses an action.
    Refused(&'static str, DriverError),
    /// It performs an action wrongly.
    Wrong(&'static str),
}

fn check_health(gpu: &Gpu) -> Result<HealthReadings, Defect> {
    let refused = |action| move |refusal| Defect::Refused(action, refusal);
    let free_bytes = gpu
        .free_memory()
        .map_err(refused("ask for free device memory"))?;
    let bytes = if gpu.emulator().is_some() {
        EMULATED_PATTERN_BYTES
    } else {
        PATTERN_BYTES
    };
    let copied = time_pattern_copy(bytes).map_err(refused("write and read device memory"))?;
    let Some(microseconds) = copied else {
        return Err(Defect::Wrong(
            "device memory does not keep what is written to it",
        ));
    };
    let computed = match computes_known_product() {
        Ok(true) => true,
        Ok(false) => {
            return Err(Defect::Wrong(
                "the device computes a matrix product that is not the known one",
            ));
        }
        // The emulated driver can always compile PTX.
        Err(refusal) if NO_COMPILER.contains(&refusal.code) && gpu.emulator().is_none() => false,
        Err(refusal) => return Err(refused("run a kernel whose answer is known")(refusal)),
    };
    Ok(HealthReadings {
        computed,
        free_bytes,
        // Twice the bytes, for both directions; bytes per microsecond are megabytes per second.
        copy_gigabytes_per_second: 2.0 * bytes as f64 / microseconds / 1e3,
    })
}

/// Writes a pattern that no earlier process can have left, and reads it back. Returns the device's time for both in
/// microseconds, or none if the bytes differ.
fn time_pattern_copy(bytes: usize) -> Result<Option<f64>, DriverError> {
    let seed = u64::from(std::process::id());
    let pattern = inputs::poison(seed, "probe", "pattern", bytes);
    let mut allocation = Allocation::new(bytes)?;
    // The first copy of a process includes initialisation.
    allocation.upload(&pattern[..1])?;
    let watch = Stopwatch::start()?;
    allocation.upload(&pattern)?;
    let back = allocation.download()?;
    let microseconds = watch.stop()?;
    Ok((back == pattern).then_some(microseconds))
}

/// Returns true if the device's product of two matrices equals the known result.
fn computes_known_product() -> Result<bool, DriverError> {
    let (left, right) = (factor(1), factor(2));
    let module = Module::load(KERNEL.as_bytes())?;
    let kernel = module.kernel("known_answer")?;
    let place = |content: &[f32]| -> Result<Allocation, DriverError> {
        let bytes = bytes_of(content);
        let mut allocation = Allocation::new(bytes.len())?;
        allocation.upload(&bytes)?;
        Ok(allocation)
    };
    let buffers = [
        place(&left)?,
        place(&right)?,
        place(&vec![0.0; SIDE * SIDE])?,
    ];
    let arguments: Vec<Vec<u8>> = buffers
        .iter()
        .map(|buffer| buffer.base().to_le_bytes().to_vec())
        .collect();
    let blocks = (SIDE * SIDE) as u32 / THREADS;
    let shape = Shape {
        grid: [blocks, 1, 1],
        block: [THREADS, 1, 1],
        shared_bytes: 0,
        cooperative: false,
    };
    kernel.launch(shape, &arguments)?;
    Ok(buffers[2].download()? == bytes_of(&product(&left, &right)))
}

/// A matrix of numbers with full mantissas between -1 and 1, so that every rounding affects the product.
fn factor(seed: u32) -> Vec<f32> {
    let mut state = seed;
    let elements = 0..SIDE * SIDE;
    elements
        .map(|_| {
            // A full-period linear congruential generator, as in "Numerical Recipes".
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 8_388_608.0 - 1.0
        })
        .collect()
}

/// The product, with the roundings of the kernel.
fn product(left: &[f32], right: &[f32]) -> Vec<f32> {
    (0..SIDE * SIDE)
        .map(|element| {
            let (row, column) = (element / SIDE, element % SIDE);
            (0..SIDE).fold(0.0_f32, |sum, step| {
                left[row * SIDE + step].mul_add(right[step * SIDE + column], sum)
            })
        })
        .collect()
}

fn bytes_of(content: &[f32]) -> Vec<u8> {
    content
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_answer_depends_on_every_rounding() {
        let (left, right) = (factor(1), factor(2));
        let fused = product(&left, &right);
        let split: f32 = (0..SIDE).fold(0.0, |sum, step| sum + left[step] * right[step * SIDE]);
        let exact: f64 = (0..SIDE)
            .map(|step| f64::from(left[step]) * f64::from(right[step * SIDE]))
            .sum();
        assert!((f64::from(fused[0]) - exact).abs() < 1e-4);
        assert_ne!(fused[0].to_bits(), split.to_bits());
        assert!(left.iter().all(|value| (-1.0..1.0).contains(value)));
    }
}
