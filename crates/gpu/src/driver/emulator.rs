//! The emulated device's own interface: one exported function that takes and gives JSON.
//!
//! Its presence is what tells the emulated driver from NVIDIA's. The types here mirror what
//! the function sends and nothing more; what a finding means for a candidate is decided by
//! who reads it.

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

/// Its name.
const SYMBOL: &str = "kernelwrightEmulator";
/// The version of the interface that this module speaks.
const VERSION: u32 = 1;
/// Room for a reply at first; a longer one is asked for again with room enough.
const FIRST_CAPACITY: usize = 64 << 10;

/// The interface of the loaded driver.
#[derive(Debug, Clone, Copy)]
pub struct Emulator {
    entry: Entry,
}

/// What it is asked.
#[derive(Debug, Serialize)]
#[serde(tag = "do", rename_all = "lowercase")]
enum Request<'a> {
    Describe,
    Label { pointer: u64, name: &'a str },
    Begin { pointer: u64 },
    Forget { pointer: u64, bytes: u64 },
    Written { pointer: u64, bytes: u64 },
    Configure(&'a Configuration),
    Take,
}

/// How launches are carried out from now on.
#[derive(Debug, Clone, Serialize)]
pub struct Configuration {
    /// Seed of the schedule; none is the serial one.
    pub schedule: Option<u64>,
    /// Which lane holds which element of a `wmma` fragment.
    pub fragments: Fragments,
    /// What is proved of each launch.
    pub checks: Checks,
    /// Thread instructions that one launch may execute.
    pub budget: Option<u64>,
    /// Host threads.
    pub threads: Option<u32>,
    /// Whether work is counted and modelled.
    pub counters: bool,
    /// Blocks of a launch that run at most, for its counters only; none runs them all.
    pub sample: Option<u64>,
    /// Bytes that are taken to have been read just before each launch; with them launches are
    /// modelled with a warm cache, too.
    pub read_before: Option<u64>,
    /// The state of the cache whose modelled time launches take.
    pub clock: CacheState,
    /// Registers of a thread by kernel, for the time model.
    pub registers: std::collections::BTreeMap<String, u32>,
    /// Bytes that a thread's spills store and load, by kernel, for the same.
    pub spills: std::collections::BTreeMap<String, u32>,
}

/// The layout of `wmma` fragments, which CUDA leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fragments {
    /// That of the devices of today.
    Usual,
    /// Another, which no code can know.
    Turned,
}

/// How much is proved of each launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Checks {
    /// Everything: bounds, initialisation, races, barriers.
    Full,
    /// Bounds, alignment and initialisation.
    Bounds,
}

/// What the device says of itself.
#[derive(Debug, Clone, Deserialize)]
pub struct Description {
    version: u32,
    /// How far its times can be trusted.
    pub label: String,
    /// What its time model does at best; none of a driver that does not say.
    #[serde(default)]
    pub rates: Option<Rates>,
}

/// How much of a range nobody wrote.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Written {
    /// Bytes that nobody wrote.
    pub unwritten: u64,
    /// The first of them, counted from the start of the range.
    pub first: Option<u64>,
}

/// One launch.
#[derive(Debug, Clone, Deserialize)]
pub struct LaunchReport {
    /// The kernel.
    pub kernel: String,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// How it ended.
    pub outcome: LaunchOutcome,
    /// What was proved.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// How many more findings there were.
    #[serde(default)]
    pub findings_dropped: u64,
    /// What was counted.
    #[serde(default)]
    pub counters: Value,
    /// What the time model says.
    pub modelled: Option<Modelled>,
    /// What it says of a warm cache, where it was told what was read before.
    #[serde(default)]
    pub modelled_warm: Option<Modelled>,
}

/// How a launch ended.
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
    /// Whether the device lacks an instruction of the kernel.
    pub fn is_unsupported(&self) -> bool {
        self.kind == "unsupported"
    }

    /// Whether at least one instruction was executed.
    pub fn has_run(&self) -> bool {
        !self.is_unsupported() && self.kind != "refused"
    }
}

/// One thing that was proved.
#[derive(Debug, Clone, Deserialize)]
pub struct Finding {
    /// The kind, such as `out_of_bounds_read`.
    pub kind: String,
    /// Whether it stopped the launch.
    pub fatal: bool,
    /// The kernel.
    pub kernel: String,
    /// Where in the source.
    pub location: Location,
    /// The block.
    pub block: [u32; 3],
    /// The thread.
    pub thread: [u32; 3],
    /// The memory concerned.
    pub access: Option<Access>,
    /// The other side of a race.
    pub other: Option<Party>,
    /// How often.
    pub occurrences: u64,
    /// One sentence.
    pub message: String,
}

/// A place in the source.
#[derive(Debug, Clone, Deserialize)]
pub struct Location {
    /// The file as the compiler was told its name.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
}

/// The memory of an access.
#[derive(Debug, Clone, Deserialize)]
pub struct Access {
    /// The label of the buffer or the name of the variable.
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
    /// Its place, where known.
    pub location: Option<Location>,
}

/// What the time model says of a launch.
#[derive(Debug, Clone, Deserialize)]
pub struct Modelled {
    /// The time.
    pub microseconds: f64,
    /// What launching an empty kernel takes of it.
    pub launch_microseconds: f64,
    /// The term that dominates.
    pub bottleneck: String,
    /// Its share of the whole, 0 to 1.
    pub share: f64,
}

impl Emulator {
    /// The interface, if the loaded driver is the emulated one.
    pub(super) fn find() -> Option<Self> {
        symbol::<Entry>(SYMBOL).map(|(_, entry)| Self { entry })
    }

    /// What the device says of itself.
    ///
    /// # Errors
    /// A [`RoleError`] where the interface does not answer as agreed, as for all functions here.
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

    /// Names the allocation that holds an address, for findings.
    ///
    /// # Errors
    /// As for [`Self::describe`].
    pub fn label(&self, pointer: u64, name: &str) -> Result<(), RoleError> {
        self.tell("name a buffer", &Request::Label { pointer, name })
    }

    /// Says where a buffer begins inside the allocation that holds the address: kernels are out of
    /// bounds before it, and findings count from there.
    ///
    /// # Errors
    /// As for [`Self::describe`].
    pub fn begin(&self, pointer: u64) -> Result<(), RoleError> {
        self.tell("bound a buffer", &Request::Begin { pointer })
    }

    /// Marks a range as never written; its bytes stay.
    ///
    /// # Errors
    /// As for [`Self::describe`].
    pub fn forget(&self, pointer: u64, bytes: u64) -> Result<(), RoleError> {
        self.tell("forget a buffer", &Request::Forget { pointer, bytes })
    }

    /// How much of a range was not written since it was forgotten.
    ///
    /// # Errors
    /// As for [`Self::describe`].
    pub fn written(&self, pointer: u64, bytes: u64) -> Result<Written, RoleError> {
        self.ask(
            "tell what was written",
            &Request::Written { pointer, bytes },
        )
    }

    /// Sets how launches are carried out.
    ///
    /// # Errors
    /// As for [`Self::describe`].
    pub fn configure(&self, configuration: &Configuration) -> Result<(), RoleError> {
        self.tell("configure itself", &Request::Configure(configuration))
    }

    /// The launches since the last call, in order.
    ///
    /// # Errors
    /// As for [`Self::describe`].
    pub fn take(&self) -> Result<Vec<LaunchReport>, RoleError> {
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
            // SAFETY: the entry is the emulated driver's and has this type by agreement; both
            // buffers are as long as said and outlive the call.
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
