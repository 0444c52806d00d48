//! The emulated device's own interface: one exported function that takes and returns JSON.
//!
//! Its presence distinguishes the emulated driver from NVIDIA's. The types here mirror the function's messages and
//! nothing more; `launch_facts` and `domain::judge` decide what a finding means for a candidate.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};

use domain::statistics::Rates;
use domain::timing::CacheState;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::symbol;
use crate::role_error::RoleError;

/// The exported function: request, its length, reply buffer, its capacity, length of the reply.
type Entry = unsafe extern "C" fn(*const c_char, usize, *mut c_char, usize, *mut usize) -> c_int;

/// Name of the symbol.
const SYMBOL: &str = "kernelwrightEmulator";
/// The version of the interface that this module supports.
const VERSION: u32 = 1;
/// First capacity of the reply buffer in bytes; a longer reply is requested again with a larger buffer.
const FIRST_CAPACITY: usize = 64 << 10;

/// The interface of the loaded driver.
#[derive(Debug, Clone, Copy)]
pub struct Emulator {
    entry: Entry,
}

/// A request to the emulated device.
#[derive(Debug, Serialize)]
#[serde(tag = "do", rename_all = "lowercase")]
enum Request<'a> {
    Describe,
    Label { pointer: u64, name: &'a str },
    Begin { pointer: u64 },
    Seal { pointer: u64 },
    Forget { pointer: u64, bytes: u64 },
    Written { pointer: u64, bytes: u64 },
    Configure(&'a Configuration),
    Evict,
    Take,
}

/// Settings of the launches that follow.
#[derive(Debug, Clone, Serialize)]
pub struct Configuration {
    /// Seed of the schedule of warps; none for the serial schedule.
    pub schedule: Option<u64>,
    /// The assignment of `wmma` fragment elements to lanes.
    pub fragments: Fragments,
    /// The checks of each launch.
    pub checks: Checks,
    /// Most thread instructions of one launch.
    pub budget: Option<u64>,
    /// Number of host threads.
    pub threads: Option<u32>,
    /// True if work is counted and modelled.
    pub counters: bool,
    /// The fewest blocks of a launch that are executed, for counters only; none executes all.
    pub sample: Option<u64>,
    /// Bytes that are assumed to have been read just before each launch. With it, launches are also modelled with a
    /// warm cache.
    pub read_before: Option<u64>,
    /// The cache state whose modelled time launches take.
    pub clock: CacheState,
    /// Registers per thread by kernel, for the time model.
    pub registers: std::collections::BTreeMap<String, u32>,
    /// Bytes that a thread's spills store and load, by kernel, for the time model.
    pub spills: std::collections::BTreeMap<String, u32>,
}

/// The layout of `wmma` fragments, which CUDA leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fragments {
    /// The layout of current devices.
    Usual,
    /// Another layout, on which no correct code can depend.
    Turned,
}

/// The checks of each launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Checks {
    /// All: bounds, initialisation, races, barriers.
    Full,
    /// Bounds, alignment and initialisation.
    Bounds,
}

/// The device's description of itself.
#[derive(Debug, Clone, Deserialize)]
pub struct Description {
    version: u32,
    /// The reliability of its modelled times, as a label.
    pub label: String,
    /// The peak rates of its time model; none if the driver does not report them.
    #[serde(default)]
    pub rates: Option<Rates>,
}

/// The unwritten bytes of a range.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Written {
    /// Number of bytes that were not written.
    pub unwritten: u64,
    /// Offset of the first of them from the start of the range.
    pub first: Option<u64>,
}

/// Report on one launch.
#[derive(Debug, Clone, Deserialize)]
pub struct LaunchReport {
    /// The kernel.
    pub kernel: String,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// The outcome.
    pub outcome: LaunchOutcome,
    /// The proved violations.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// Number of further findings that were dropped.
    #[serde(default)]
    pub findings_dropped: u64,
    /// The counters.
    #[serde(default)]
    pub counters: Value,
    /// Modelled time with a cold cache.
    pub modelled: Option<Modelled>,
    /// Modelled time with a warm cache, if the bytes read before are configured.
    #[serde(default)]
    pub modelled_warm: Option<Modelled>,
}

/// The outcome of a launch.
#[derive(Debug, Clone, Deserialize)]
pub struct LaunchOutcome {
    /// The kind, such as `completed`.
    kind: String,
    /// Of an unsupported instruction: its text.
    pub opcode: Option<String>,
    /// Of an unsupported instruction: the source file.
    pub file: Option<String>,
    /// Of an unsupported instruction: the source line.
    pub line: Option<u32>,
}

impl LaunchOutcome {
    /// Returns true if the device does not implement an instruction of the kernel.
    pub fn is_unsupported(&self) -> bool {
        self.kind == "unsupported"
    }

    /// Returns true if at least one instruction was executed.
    pub fn has_run(&self) -> bool {
        !self.is_unsupported() && self.kind != "refused"
    }
}

/// One proved violation.
#[derive(Debug, Clone, Deserialize)]
pub struct Finding {
    /// The kind, such as `out_of_bounds_read`.
    pub kind: String,
    /// True if it stopped the launch.
    pub fatal: bool,
    /// The kernel.
    pub kernel: String,
    /// Location in the source.
    pub location: Location,
    /// The block.
    pub block: [u32; 3],
    /// The thread.
    pub thread: [u32; 3],
    /// The memory access, if there is one.
    pub access: Option<Access>,
    /// The other side of a race.
    pub other: Option<Party>,
    /// Number of occurrences.
    pub occurrences: u64,
    /// A description in one sentence.
    pub message: String,
}

/// A location in the source.
#[derive(Debug, Clone, Deserialize)]
pub struct Location {
    /// The file name, as passed to the compiler.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
}

/// A memory access.
#[derive(Debug, Clone, Deserialize)]
pub struct Access {
    /// Label of the buffer or name of the variable.
    pub buffer: Option<String>,
    /// Byte offset from the start of the allocation.
    pub offset: i64,
}

/// The other side of a race.
#[derive(Debug, Clone, Deserialize)]
pub struct Party {
    /// Its block.
    pub block: [u32; 3],
    /// Its thread, where one thread is known.
    pub thread: Option<[u32; 3]>,
    /// Its location, if known.
    pub location: Option<Location>,
}

/// Modelled time of a launch.
#[derive(Debug, Clone, Deserialize)]
pub struct Modelled {
    /// The time in microseconds.
    pub microseconds: f64,
    /// The part of it that an empty launch takes, in microseconds.
    pub launch_microseconds: f64,
    /// The dominant term of the model.
    pub bottleneck: String,
    /// Share of the dominant term in the whole, 0 to 1.
    pub share: f64,
    /// Each term's time in microseconds.
    pub terms: BTreeMap<String, f64>,
}

impl Emulator {
    /// The interface, if the emulated driver is loaded.
    pub(super) fn find() -> Option<Self> {
        symbol::<Entry>(SYMBOL).map(|(_, entry)| Self { entry })
    }

    /// The device's description of itself.
    ///
    /// # Errors
    /// A [`RoleError`] where the interface does not answer as specified; this holds for all functions here.
    pub fn describe(&self) -> Result<Description, RoleError> {
        let description: Description = self.ask("describe itself", &Request::Describe)?;
        if description.version == VERSION {
            Ok(description)
        } else {
            Err(RoleError::Emulator {
                request: "describe itself",
                reason: format!(
                    "it speaks version {}, this program version {VERSION}",
                    description.version
                ),
            })
        }
    }

    /// Sets the name of the allocation that holds an address, for findings.
    ///
    /// # Errors
    /// As for [`Self::describe`].
    pub fn label(&self, pointer: u64, name: &str) -> Result<(), RoleError> {
        self.tell("name a buffer", &Request::Label { pointer, name })
    }

    /// Sets the start of a buffer inside the allocation that holds the address. Accesses before it are out of bounds,
    /// and findings count offsets from it.
    ///
    /// # Errors
    /// As for [`Self::describe`].
    pub fn set_buffer_start(&self, pointer: u64) -> Result<(), RoleError> {
        self.tell("bound a buffer", &Request::Begin { pointer })
    }

    /// Makes the allocation that holds the address read-only, for the host as well.
    ///
    /// # Errors
    /// As for [`Self::describe`].
    pub fn seal(&self, pointer: u64) -> Result<(), RoleError> {
        self.tell("seal a buffer", &Request::Seal { pointer })
    }

    /// Marks a range as never written; its bytes do not change.
    ///
    /// # Errors
    /// As for [`Self::describe`].
    pub fn mark_unwritten(&self, pointer: u64, bytes: u64) -> Result<(), RoleError> {
        self.tell("forget a buffer", &Request::Forget { pointer, bytes })
    }

    /// The number of bytes of a range that were not written since it was marked.
    ///
    /// # Errors
    /// As for [`Self::describe`].
    pub fn unwritten_bytes(&self, pointer: u64, bytes: u64) -> Result<Written, RoleError> {
        self.ask(
            "tell what was written",
            &Request::Written { pointer, bytes },
        )
    }

    /// Configures the launches that follow.
    ///
    /// # Errors
    /// As for [`Self::describe`].
    pub fn configure(&self, configuration: &Configuration) -> Result<(), RoleError> {
        self.tell("configure itself", &Request::Configure(configuration))
    }

    /// Empties the second level cache.
    ///
    /// # Errors
    /// A [`RoleError`] where the driver refuses.
    pub fn empty_cache(&self) -> Result<(), RoleError> {
        self.tell("empty its cache", &Request::Evict)
    }

    /// Takes the reports of the launches since the last call, in order.
    ///
    /// # Errors
    /// As for [`Self::describe`].
    pub fn take_reports(&self) -> Result<Vec<LaunchReport>, RoleError> {
        #[derive(Deserialize)]
        struct Taken {
            launches: Vec<LaunchReport>,
        }
        let taken: Taken = self.ask("report its launches", &Request::Take)?;
        Ok(taken.launches)
    }

    fn tell(&self, what: &'static str, request: &Request<'_>) -> Result<(), RoleError> {
        self.ask::<Value>(what, request).map(drop)
    }

    fn ask<T: DeserializeOwned>(
        &self,
        what: &'static str,
        request: &Request<'_>,
    ) -> Result<T, RoleError> {
        let fault = |reason: String| RoleError::Emulator {
            request: what,
            reason,
        };
        let request = serde_json::to_vec(request).expect("requests hold numbers and names only");
        let mut reply = vec![0_u8; FIRST_CAPACITY];
        loop {
            let mut length = 0;
            // SAFETY: the entry is the emulated driver's and has this type by specification; both buffers have the
            // given sizes and outlive the call.
            let code = unsafe {
                (self.entry)(
                    request.as_ptr().cast(),
                    request.len(),
                    reply.as_mut_ptr().cast(),
                    reply.len(),
                    &raw mut length,
                )
            };
            match code {
                0 if length <= reply.len() => {
                    return serde_json::from_slice(&reply[..length])
                        .map_err(|error| fault(format!("its reply is malformed: {error}")));
                }
                1 if length > reply.len() => reply.resize(length, 0),
                _ => {
                    let end = length.min(reply.len()).min(1000);
                    let text = String::from_utf8_lossy(&reply[..end]).into_owned();
                    return Err(fault(format!("it answered {code}: {text}")));
                }
            }
        }
    }
}
