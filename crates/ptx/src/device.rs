//! Data of real GPUs: properties and throughput of each model, with the source of each constant.
//!
//! Each GPU has a file in `devices/`, which is part of the binary; others can be parsed from text. A file with a
//! constant that has no source is an error. This module knows no kernel and computes no time.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::config::Latencies;

/// The files that are part of the binary, by identifier.
const EMBEDDED: [(&str, &str); 8] = [
    ("l4", include_str!("../devices/l4.toml")),
    ("a4000", include_str!("../devices/a4000.toml")),
    ("a6000", include_str!("../devices/a6000.toml")),
    ("a100", include_str!("../devices/a100.toml")),
    ("h100", include_str!("../devices/h100.toml")),
    ("h200", include_str!("../devices/h200.toml")),
    ("rtx4090", include_str!("../devices/rtx4090.toml")),
    ("rtxpro6000", include_str!("../devices/rtxpro6000.toml")),
];

/// One GPU model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Short identifier, such as `l4`.
    pub id: String,
    /// The model's name without its maker.
    pub name: String,
    /// Major and minor compute capability.
    pub compute_capability: [u32; 2],
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Calibration of modelled times: `uncalibrated` until compared with measurements.
    pub label: String,
    /// Clocks.
    pub clocks: Clocks,
    /// Memory and caches.
    pub memory: MemoryFacts,
    /// The limits of a launch and the capacities of a multiprocessor.
    pub limits: DeviceLimits,
    /// Throughput per multiprocessor.
    pub rates: Rates,
    /// Cycles until a dependent instruction can issue.
    pub latencies: Latencies,
    /// Fixed costs.
    pub launch: LaunchCosts,
    /// The source of each constant: by dotted path, or by section for all constants without a source of their own.
    sources: BTreeMap<String, String>,
}

/// Clocks in megahertz.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clocks {
    /// Multiprocessor clock that modelled times use.
    pub core_mhz: u32,
    /// Memory clock as the driver reports it (half the data rate of double-rate memory).
    pub memory_mhz: u32,
}

/// Memory and caches.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryFacts {
    /// Device memory in bytes.
    pub bytes: u64,
    /// Width of the memory bus in bits.
    pub bus_bits: u32,
    /// Nominal DRAM bandwidth in 10^9 bytes per second.
    pub dram_gigabytes_per_second: f64,
    /// Share of it that well-written code reaches.
    pub dram_efficiency: f64,
    /// Second level cache in bytes.
    pub l2_bytes: u64,
    /// The most of it that can be set aside for persisting accesses, in bytes.
    pub l2_persisting_bytes: u64,
    /// Bytes per core clock that the whole second level cache delivers.
    pub l2_bytes_per_clock: f64,
    /// Bytes per core clock that one multiprocessor can draw from it.
    pub l2_bytes_per_clock_per_multiprocessor: f64,
    /// Atomics on one word that L2 executes per clock.
    pub atomics_per_clock_on_one_word: f64,
    /// First level cache and shared memory of one multiprocessor together, in bytes.
    pub l1_bytes: u64,
    /// Bytes per core clock that one first level cache delivers.
    pub l1_bytes_per_clock: f64,
    /// Bandwidth between host and device in 10^9 bytes per second.
    pub host_gigabytes_per_second: f64,
}

/// The limits of a launch and the capacities of a multiprocessor. Shared memory in bytes, registers of 32 bits.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceLimits {
    /// Threads of one block.
    pub threads_per_block: u32,
    /// Threads of one block per axis.
    pub block: [u32; 3],
    /// Blocks of one grid per axis.
    pub grid: [u32; 3],
    /// Shared memory of one block without asking for more.
    pub shared_per_block: u32,
    /// Shared memory of one block at most, after setting the function's attribute.
    pub shared_per_block_optin: u32,
    /// Shared memory of one multiprocessor.
    pub shared_per_multiprocessor: u32,
    /// Shared memory the driver keeps of each resident block.
    pub shared_reserved_per_block: u32,
    /// Shared memory is granted in multiples of this.
    pub shared_granularity: u32,
    /// Registers of one block.
    pub registers_per_block: u32,
    /// Registers of one multiprocessor.
    pub registers_per_multiprocessor: u32,
    /// Registers of one thread.
    pub registers_per_thread: u32,
    /// A warp's registers are granted in multiples of this.
    pub registers_granularity: u32,
    /// Resident warps of one multiprocessor.
    pub warps_per_multiprocessor: u32,
    /// Resident blocks of one multiprocessor.
    pub blocks_per_multiprocessor: u32,
}

/// Throughput of one multiprocessor per clock: lanes (results), unless the field says otherwise.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Warp instructions all its schedulers issue together.
    pub warp_instructions: f64,
    /// Single precision.
    pub fp32: f64,
    /// Half precision; a packed pair occupies one lane.
    pub fp16: f64,
    /// Double precision.
    pub fp64: f64,
    /// Integer and logic.
    pub integer: f64,
    /// Approximate reciprocal, root, exponential, sine.
    pub special: f64,
    /// Conversions between types of at most 32 bits.
    pub conversion: f64,
    /// Conversions between floating point and integers of which one has 64 bits.
    pub wide_conversion: f64,
    /// Addresses of loads and stores.
    pub load_store: f64,
    /// Shuffles.
    pub shuffle: f64,
    /// Dense half precision multiply-adds on tensor cores.
    pub tensor_macs: f64,
    /// Passes through the shared memory banks.
    pub shared_wavefronts: f64,
    /// Different addresses of constants.
    pub constant_addresses: f64,
}

/// Fixed costs in microseconds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchCosts {
    /// Of one kernel launch on a busy stream.
    pub microseconds: f64,
    /// Of one copy between host and device.
    pub copy_microseconds: f64,
}

/// The reasons why a device file is refused.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The text is not TOML, lacks a constant or has one too many.
    #[error("read the device file: {0}")]
    Format(#[from] toml::de::Error),
    /// A constant has no source.
    #[error(
        "accept the device file: `{path}` has no source; add `\"{path}\" = \"...\"` under [sources]"
    )]
    Unsourced {
        /// Dotted path of the constant.
        path: String,
    },
    /// A source is given for something that is not in the file.
    #[error("accept the device file: [sources] names `{path}`, which the file does not hold")]
    StraySource {
        /// Dotted path as written.
        path: String,
    },
    /// A constant that must be positive is not.
    #[error("accept the device file: `{path}` must be above zero")]
    NotPositive {
        /// Dotted path of the constant.
        path: String,
    },
    /// No embedded file has this identifier.
    #[error("find the device `{id}`: known are {known}")]
    Unknown {
        /// The identifier asked for.
        id: String,
        /// All identifiers, comma-separated.
        known: String,
    },
}

impl Device {
    /// The embedded device of this identifier.
    ///
    /// # Errors
    /// When there is none.
    pub fn embedded(id: &str) -> Result<Self, DeviceError> {
        match EMBEDDED.iter().find(|(known, _)| *known == id) {
            Some((_, text)) => Self::from_toml(text),
            None => Err(DeviceError::Unknown {
                id: id.to_owned(),
                known: Self::embedded_ids().collect::<Vec<_>>().join(", "),
            }),
        }
    }

    /// The identifiers of all embedded devices.
    pub fn embedded_ids() -> impl Iterator<Item = &'static str> {
        EMBEDDED.iter().map(|(id, _)| *id)
    }

    /// Reads a device file.
    ///
    /// # Errors
    /// When a constant is missing, unknown, not positive or without a source.
    pub fn from_toml(text: &str) -> Result<Self, DeviceError> {
        let device: Self = toml::from_str(text)?;
        let tree: toml::Table = toml::from_str(text)?;
        let mut paths = Vec::new();
        collect_numbers(&tree, "", &mut paths);
        for (path, positive) in &paths {
            if device.source_of(path).is_none() {
                return Err(DeviceError::Unsourced { path: path.clone() });
            }
            if !positive {
                return Err(DeviceError::NotPositive { path: path.clone() });
            }
        }
        let stray = device.sources.keys().find(|source| {
            !paths
                .iter()
                .any(|(path, _)| path == *source || section_of(path) == Some(source))
        });
        match stray {
            Some(path) => Err(DeviceError::StraySource { path: path.clone() }),
            None => Ok(device),
        }
    }

    /// The source of a constant, by its dotted path in the file, such as `memory.l2_bytes`.
    #[must_use]
    pub fn source_of(&self, path: &str) -> Option<&str> {
        self.sources
            .get(path)
            .or_else(|| self.sources.get(section_of(path)?))
            .map(String::as_str)
    }

    /// The architecture that kernels are compiled for, such as 89.
    #[must_use]
    pub fn architecture(&self) -> u32 {
        self.compute_capability[0] * 10 + self.compute_capability[1]
    }

    /// Core clocks per microsecond.
    #[must_use]
    pub fn cycles_per_microsecond(&self) -> f64 {
        f64::from(self.clocks.core_mhz)
    }
}

fn section_of(path: &str) -> Option<&str> {
    path.split_once('.').map(|(section, _)| section)
}

/// Lists every number of the tree by dotted path, and whether it is above zero. An array counts as one constant;
/// a minor compute capability of zero is a fact, so arrays only need a positive first element.
fn collect_numbers(table: &toml::Table, prefix: &str, paths: &mut Vec<(String, bool)>) {
    let positive = |value: &toml::Value| match value {
        toml::Value::Integer(number) => *number > 0,
        toml::Value::Float(number) => *number > 0.0,
        _ => true,
    };
    for (key, value) in table {
        let path = if prefix.is_empty() {
            key.clone()
        } else {
            format!("{prefix}.{key}")
        };
        match value {
            toml::Value::Table(inner) if path != "sources" => {
                collect_numbers(inner, &path, paths);
            }
            toml::Value::Integer(_) | toml::Value::Float(_) => paths.push((path, positive(value))),
            toml::Value::Array(values) => paths.push((path, values.first().is_some_and(positive))),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_file_reads_and_carries_its_own_identifier() {
        for id in Device::embedded_ids() {
            let device = Device::embedded(id).unwrap_or_else(|error| panic!("{id}: {error}"));
            assert_eq!(device.id, id);
            assert!(
                device
                    .source_of("memory.dram_gigabytes_per_second")
                    .is_some()
            );
        }
    }

    /// The derived peaks must be the ones the data sheets print: this catches a wrong clock, count or rate.
    #[test]
    fn derived_peaks_match_the_data_sheets() {
        // Identifier, single precision TFLOP/s, dense half precision tensor TFLOP/s.
        let sheets = [
            ("l4", 30.3, 121.0),
            ("a4000", 19.2, 76.7),
            ("a6000", 38.7, 154.8),
            ("a100", 19.5, 312.0),
            ("rtx4090", 82.6, 165.2),
            // An eighth of the 4000 TOPS of sparse FP4.
            ("rtxpro6000", 125.0, 500.0),
            // The sheet prints 67 for single precision, at 1980 MHz; the file holds the tensor cores' clock.
            ("h200", 61.8, 989.0),
        ];
        for (id, single, tensor) in sheets {
            let device = Device::embedded(id).expect("embedded");
            let tera = |lanes: f64| {
                lanes
                    * 2.0
                    * f64::from(device.multiprocessors)
                    * f64::from(device.clocks.core_mhz)
                    * 1e-6
            };
            assert!(
                (tera(device.rates.fp32) / single - 1.0).abs() < 0.01,
                "{id}"
            );
            assert!(
                (tera(device.rates.tensor_macs) / tensor - 1.0).abs() < 0.01,
                "{id}"
            );
        }
    }

    #[test]
    fn memory_clock_and_bus_give_the_bandwidth() {
        for id in Device::embedded_ids() {
            let device = Device::embedded(id).expect("embedded");
            let memory = &device.memory;
            let derived =
                f64::from(device.clocks.memory_mhz) * 2.0 * f64::from(memory.bus_bits) / 8.0 * 1e-3;
            assert!(
                (derived / memory.dram_gigabytes_per_second - 1.0).abs() < 0.03,
                "{id}: {derived}"
            );
        }
    }

    #[test]
    fn a_constant_without_a_source_is_refused() {
        let text = include_str!("../devices/l4.toml")
            .lines()
            .filter(|line| !line.starts_with("\"memory.l2_bytes\""))
            .collect::<Vec<_>>()
            .join("\n");
        let refused = Device::from_toml(&text).expect_err("the source is gone");
        assert!(matches!(refused, DeviceError::Unsourced { path } if path == "memory.l2_bytes"));
    }

    #[test]
    fn a_source_of_nothing_and_a_zero_are_refused() {
        let file = include_str!("../devices/l4.toml");
        let stray = format!("{file}\n\"memory.l3_bytes\" = \"nowhere\"\n");
        assert!(matches!(
            Device::from_toml(&stray),
            Err(DeviceError::StraySource { .. })
        ));
        let zero = file.replace("core_mhz = 2040", "core_mhz = 0");
        assert!(matches!(
            Device::from_toml(&zero),
            Err(DeviceError::NotPositive { .. })
        ));
    }
}
