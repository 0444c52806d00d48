//! Jobs and replies of the role that `gpu-check` uses: a case of the corpus on one driver, or a
//! measurement that answers a question about the device. Nothing here judges a candidate.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::device::Device;

/// The job of the role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExperimentJob {
    /// The file to load: machine code on silicon, PTX on the emulated device.
    pub image: PathBuf,
    /// Host threads the emulated device may use.
    pub threads: u32,
    /// The experiment.
    pub experiment: Experiment,
}

/// The experiments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Experiment {
    /// Run a case of the corpus.
    Case {
        /// Its name.
        case: String,
        /// The number of repetitions, each with the module loaded anew.
        repeats: u32,
        /// The file for everything that came back, as a [`CaseRecord`].
        record: PathBuf,
    },
    /// Measure something of the device.
    Measure {
        /// The quantity to measure.
        what: Measure,
    },
}

/// The quantities that are measured. Each is measured in a process of its own, because several end
/// the process's use of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// The last element of a buffer that ends where nothing is mapped.
    GuardInside,
    /// A read one element behind it.
    GuardRead,
    /// A write one element behind it.
    GuardWrite,
    /// A write to a buffer that is mapped for reading only.
    GuardReadOnly,
    /// A write to memory of the process that no CUDA call has seen.
    ReachPageable,
    /// A write to page-locked memory through its host address.
    ReachPinned,
    /// A write to managed memory.
    ReachManaged,
    /// A kernel without an end, to be killed.
    Endless,
    /// A small known answer.
    Usable,
    /// The part of a buffer that stays in the second level cache while it is flushed.
    CacheSurvival,
    /// The same kernel timed against itself.
    Noise,
    /// Kernel times from an idle device on.
    SpinUp,
    /// A kernel of known length by every clock.
    Clocks,
    /// Errors of matrix products in several precisions.
    Precision,
}

/// The role's reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExperimentReply {
    /// The device.
    pub device: Device,
    /// The end of the experiment.
    pub end: End,
    /// A sentence with the first difference, refusal or finding.
    pub message: Option<String>,
    /// A case's launches, in order.
    pub launches: Vec<CaseLaunch>,
    /// True if repetitions gave different bytes.
    pub varies: bool,
    /// Series of a measurement by name; units are in the names.
    pub series: BTreeMap<String, Vec<f64>>,
}

/// The ends of an experiment, on which two drivers must agree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum End {
    /// Everything ran, and the answer is right.
    Completed,
    /// Everything ran, and the answer is wrong.
    Wrong,
    /// The driver answered with an error.
    Refused {
        /// Its code.
        code: u32,
    },
    /// The emulated device proved something against the kernel.
    Found {
        /// The finding.
        finding: String,
    },
    /// The emulated device lacks an instruction.
    Unsupported,
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Completed => f.write_str("completed"),
            Self::Wrong => f.write_str("wrong answer"),
            Self::Refused { code } => write!(f, "error {code}"),
            Self::Found { finding } => write!(f, "finding {finding}"),
            Self::Unsupported => f.write_str("unsupported"),
        }
    }
}

/// One launch of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseLaunch {
    /// The kernel.
    pub kernel: String,
    /// The shortest time between events around it, microseconds; on silicon only.
    pub event_us: Option<f64>,
    /// The model's time; on the emulated device only.
    pub modelled_us: Option<f64>,
}

/// Everything that came back in a case, as a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseRecord {
    /// Contents as they were read.
    pub reads: Vec<ReadBack>,
    /// Numbers compared with a tolerance.
    pub compared: Vec<ComparedNumbers>,
}

/// A range of memory as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadBack {
    /// The buffer or variable.
    pub buffer: String,
    /// Bytes of one element.
    pub element: usize,
    /// The content in hexadecimal digits.
    pub bytes: String,
}

/// Numbers held against a reference. They are kept as bits, so that NaN survives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparedNumbers {
    /// The meaning of the numbers.
    pub what: String,
    /// The largest error allowed, absolutely or relative to a reference above 1, as bits.
    pub tolerance: u64,
    /// The largest error found, as bits.
    pub worst: u64,
    /// The numbers, as bits.
    pub values: Vec<u64>,
}
