//! Jobs and replies of the role processes: what the supervisor asks of a child, and what the
//! child claims to have seen. Replies of a process that ran candidate code are claims; the
//! judge bounds them.

mod clocks;
mod compile;
pub mod experiment;
mod python;
mod run;
mod tensor;
mod time;
mod verify;
pub mod walls;
mod watch;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::device::Device;
use crate::digest::Digest;
use crate::health::HealthReadings;
use crate::statistics::Rates;

pub use clocks::{Clocks, ClocksJob, ClocksReply};
pub use compile::{
    CPP_STANDARD, CompileJob, CompileReply, Compiled, Contents, DisassembleJob, Disassembly,
    FeatureUse, Image, KernelCode, KernelResources, MOST_STACK_BYTES, Variable, VariableSpace,
};
pub use python::{Interpreter, PythonCall, PythonJob, PythonReply};
pub use run::{
    DeviceFault, Disturbance, Execution, ExecutionFacts, ExecutionPurpose, LaunchFacts,
    LaunchLines, LineCounters, Next, Placement, RunJob, RunReply, UnsupportedInstruction,
    UnwrittenOutput,
};
pub use tensor::{Alteration, Distribution, TensorData};
pub use time::{
    ExecutionOutcome, Failure, KeptExecution, NextRounds, OrderDependentOutputs, RunnableImage,
    Sample, TimeJob, TimeReply, TimedBlock, TimedCase, fingerprint,
};
pub use verify::{Check, OutputComparison, VerifyJob, VerifyReply};
pub use watch::{DeviceSample, NextWatch, WatchJob, WatchReply};

/// The largest reply a role may send, bytes.
pub const MAX_REPLY_BYTES: usize = 1 << 20;
/// The environment variable that tells a role process the number of its socket's descriptor.
/// Job and reply are an [`Envelope`] as JSON, preceded by its length as a little-endian u32. A role
/// first says that it is ready, with a length of 0, and is told its job only then. Some are told more
/// after a reply, with a nonce of its own, and reply again. Some have opened
/// the device by then: what a role may reach is in its working directory or named by its job.
pub const SOCKET_VARIABLE: &str = "KERNELWRIGHT_ROLE_FD";
/// The environment variable by which a role that opens a device is told to leave files open to itself
/// and its driver: it has the value [`OPEN_FILES`], or is not there.
pub const FILES_VARIABLE: &str = "KERNELWRIGHT_ROLE_FILES";
/// The value of [`FILES_VARIABLE`].
pub const OPEN_FILES: &str = "open";
/// The exit status of a role that could not do its job for a reason of its surroundings (no
/// toolchain, no driver, a full disk). It sends no reply, and the last line of its standard
/// error says what is wrong and how to fix it. Never used for what a candidate did.
pub const FAULT_STATUS: u8 = 3;

/// A job or reply with the nonce that binds a reply to its job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope<T> {
    /// Fresh for each job.
    pub nonce: String,
    /// The job or the reply.
    pub body: T,
}

/// A 256-bit key of the keyed generator that makes inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct Key(pub Digest);

impl Key {
    /// A key for one purpose, from which this key cannot be recovered.
    pub fn derive(&self, parts: &[&str]) -> Self {
        let own: &[u8] = self.0.bytes();
        Self(Digest::of_parts(
            std::iter::once(own).chain(parts.iter().map(|part| part.as_bytes())),
        ))
    }
}

/// Asks what the device is and whether it is well.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProbeJob {
    /// True if the device's best rates are measured, too.
    pub measure_rates: bool,
}

/// The reply of the health check.
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ProbeReply {
    /// A usable device.
    Ready {
        /// Its facts.
        device: Device,
        /// The compiler with its version, if it was found.
        toolchain: Option<String>,
        /// The best rates of the emulated device's model, as its driver knows them; none on
        /// silicon.
        rates: Option<Rates>,
        /// The best rates that the device showed just now; none unless they were asked for.
        measured_rates: Option<Rates>,
        /// The measured values.
        vitals: HealthReadings,
    },
    /// No driver, no device, or one that does not work.
    Unusable {
        /// The defect and its remedy.
        reason: String,
    },
}
