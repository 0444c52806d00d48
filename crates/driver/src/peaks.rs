//! Peak rates of the emulated device: the rates at which it would work if one resource were busy all the time and
//! nothing else limited it. No modelled time is shorter than the kernel's work at these rates.

use std::collections::BTreeMap;

use ptx::device::Device;
use serde::Serialize;

/// Floating-point operations of one multiply-add.
const OPERATIONS: f64 = 2.0;

/// The best rates of a device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Peaks {
    /// Bytes per microsecond from and to DRAM.
    pub bytes_per_us: f64,
    /// Operations per microsecond by unit: `f64`, `f32`, and `f16` on tensor cores.
    pub operations_per_us: BTreeMap<&'static str, f64>,
    /// Time of an empty launch in microseconds.
    pub launch_us: f64,
    /// Capacity of the L2 cache in bytes: the most that can be dirty in it when a launch ends.
    pub l2_bytes: f64,
}

impl Peaks {
    /// The peak rates that bound the model's times on a device.
    pub fn of(device: &Device) -> Self {
        let all = f64::from(device.multiprocessors) * device.cycles_per_microsecond() * OPERATIONS;
        let rates = &device.rates;
        Self {
            bytes_per_us: device.memory.dram_gigabytes_per_second
                * 1e3
                * device.memory.dram_efficiency,
            operations_per_us: BTreeMap::from([
                ("f64", all * rates.fp64),
                ("f32", all * rates.fp32),
                ("f16", all * rates.tensor_macs),
            ]),
            launch_us: device.launch.microseconds,
            l2_bytes: device.memory.l2_bytes as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_of_an_l4_are_those_of_its_data_sheet() {
        let peaks = Peaks::of(&Device::embedded("l4").unwrap());
        let teraflops = |name| peaks.operations_per_us[name] * 1e-6;
        assert!((teraflops("f32") - 30.3).abs() < 0.1, "{peaks:?}");
        assert!((teraflops("f16") - 121.0).abs() < 1.0, "{peaks:?}");
        assert!(peaks.bytes_per_us <= 300e3 && peaks.launch_us > 0.0);
    }
}
