//! The emulator's own interface, beyond CUDA's API: settings of the machine, and its reports about the kernels it
//! ran.
//!
//! Requests and replies are JSON through one exported symbol, so that a program that does not know the emulator is
//! not affected by it, and one that does needs no header. The evaluator recognises the emulated driver by that
//! symbol.

use std::collections::{BTreeMap, VecDeque};

use ptx::model::Modelled;
use ptx::report::{Finding, LaunchReport};
use ptx::{Checks, Fragments, HostAccessError, LaunchError, Schedule};
use serde::{Deserialize, Serialize};

use crate::peaks::Peaks;
use crate::state::{Clock, Driver};

/// Version of the requests and replies.
const VERSION: u32 = 1;
/// Most launches that the journal keeps until a `take` request; older ones are dropped and counted.
const KEPT: usize = 4096;

/// Launches since the last `take` request.
#[derive(Debug, Default)]
pub struct Journal {
    launches: VecDeque<JournalEntry>,
    dropped: u64,
    /// Time of the fills in stream order since the last launch.
    fills: FillTime,
}

/// Modelled time of fills, and the cost of launching them as a part of it, in microseconds.
#[derive(Debug, Clone, Copy, Default)]
struct FillTime {
    microseconds: f64,
    launch_microseconds: f64,
}

impl FillTime {
    fn add_to(self, time: &mut Modelled) {
        time.microseconds += self.microseconds;
        time.launch_microseconds += self.launch_microseconds;
    }
}

impl Journal {
    /// Records a fill. Its time is added to the launch that follows, because replies list launches only.
    pub(crate) fn record_fill(&mut self, time: &Modelled) {
        self.fills.microseconds += time.microseconds;
        self.fills.launch_microseconds += time.launch_microseconds;
    }

    /// Adds the time of fills that no launch follows to the last launch.
    fn settle_fills(&mut self) {
        let fills = std::mem::take(&mut self.fills);
        if let Some(entry) = self.launches.back_mut() {
            entry.add_fills(fills);
        }
    }

    pub(crate) fn record(&mut self, mut entry: JournalEntry) {
        entry.add_fills(std::mem::take(&mut self.fills));
        if self.launches.len() == KEPT {
            self.launches.pop_front();
            self.dropped += 1;
        }
        self.launches.push_back(entry);
    }
}

/// One launch, as the reply of `take` serialises it.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum JournalEntry {
    Ran {
        #[serde(flatten)]
        report: Box<LaunchReport>,
        modelled: Option<Box<Modelled>>,
        /// Time with a warm L2 cache, if the setting `read_before` says how many bytes were read before the launch.
        modelled_warm: Option<Box<Modelled>>,
    },
    Refused {
        kernel: String,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
        outcome: RefusedOutcome,
        findings: [Finding; 0],
        counters: Option<()>,
        modelled: Option<()>,
        modelled_warm: Option<()>,
    },
}

/// A launch that was refused before it started.
pub(crate) struct RefusedLaunch<'a> {
    pub kernel: String,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
    pub error: &'a LaunchError,
}

/// The reason why a launch did not start.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum RefusedOutcome {
    /// The emulated GPU does not implement an instruction; this says nothing against the kernel.
    Unsupported {
        opcode: String,
        ptx_line: u32,
        file: Option<String>,
        line: Option<u32>,
    },
    /// Any other reason.
    Refused { reason: String },
}

impl JournalEntry {
    /// The entry of a launch that ran. `times` holds the modelled times with a cold and with a warm cache, if the
    /// launch completed.
    pub(crate) fn ran(report: LaunchReport, times: Option<(Modelled, Option<Modelled>)>) -> Self {
        let (modelled, warm) = times.unzip();
        Self::Ran {
            report: Box::new(report),
            modelled: modelled.map(Box::new),
            modelled_warm: warm.flatten().map(Box::new),
        }
    }

    fn add_fills(&mut self, fills: FillTime) {
        if let Self::Ran {
            modelled,
            modelled_warm,
            ..
        } = self
        {
            for time in [modelled, modelled_warm].into_iter().flatten() {
                fills.add_to(time);
            }
        }
    }

    pub(crate) fn refused(refused: RefusedLaunch<'_>) -> Self {
        let outcome = match refused.error {
            LaunchError::Unsupported {
                opcode,
                ptx_line,
                source_line,
            } => RefusedOutcome::Unsupported {
                opcode: opcode.clone(),
                ptx_line: *ptx_line,
                file: source_line.as_ref().map(|line| line.file.clone()),
                line: source_line.as_ref().map(|line| line.line),
            },
            error => RefusedOutcome::Refused {
                reason: error.to_string(),
            },
        };
        Self::Refused {
            kernel: refused.kernel,
            grid: refused.grid,
            block: refused.block,
            shared_bytes: refused.shared_bytes,
            outcome,
            findings: [],
            counters: None,
            modelled: None,
            modelled_warm: None,
        }
    }
}

/// A request, by its field `do`.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
enum Request {
    Describe {},
    Label {
        pointer: u64,
        name: String,
    },
    /// Marks the start of a kernel's buffer inside its allocation: accesses to the bytes before it are out of bounds.
    Begin {
        pointer: u64,
    },
    /// Makes the allocation that holds the address read-only, for the host as well.
    Seal {
        pointer: u64,
    },
    Forget {
        pointer: u64,
        bytes: u64,
    },
    Written {
        pointer: u64,
        bytes: u64,
    },
    Configure {
        #[serde(default, deserialize_with = "given")]
        schedule: Option<Option<u64>>,
        fragments: Option<Fragments>,
        checks: Option<CheckLevel>,
        #[serde(default, deserialize_with = "given")]
        budget: Option<Option<u64>>,
        #[serde(default, deserialize_with = "given")]
        threads: Option<Option<usize>>,
        counters: Option<bool>,
        #[serde(default, deserialize_with = "given")]
        sample: Option<Option<u64>>,
        #[serde(default, deserialize_with = "given")]
        read_before: Option<Option<u64>>,
        clock: Option<Clock>,
        registers: Option<BTreeMap<String, u32>>,
        spills: Option<BTreeMap<String, u32>>,
    },
    /// Empties the L2 cache.
    Evict {},
    Take {},
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CheckLevel {
    Full,
    Bounds,
    Off,
}

/// Deserialises a field so that `null` (`Some(None)`) differs from an absent field (`None`).
fn given<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: serde::Deserializer<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// The reply to a request.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Reply<'a> {
    Described {
        version: u32,
        device: &'a str,
        label: &'a str,
        threads: usize,
        isa: &'static str,
        rates: Peaks,
    },
    Written {
        unwritten: u64,
        first: Option<u64>,
    },
    Taken {
        launches: &'a VecDeque<JournalEntry>,
        dropped: u64,
    },
    Done {},
    Failed {
        error: String,
    },
}

impl Reply<'_> {
    fn text(&self) -> String {
        serde_json::to_string(self).expect("replies hold only what JSON can say")
    }
}

/// The reply to one request, and its effects.
#[derive(Debug)]
pub struct Answer {
    /// The reply as JSON.
    pub json: String,
    /// True if the request was understood and carried out.
    pub accepted: bool,
    /// True if the launches are to be removed from the journal once the caller has the reply.
    pub takes: bool,
}

/// Answers one request. The journal keeps its launches until [`delivered`] is called, because the reply may not fit
/// into the caller's buffer.
pub fn answer(driver: &mut Driver, request: &[u8]) -> Answer {
    let request = match serde_json::from_slice(request) {
        Ok(request) => request,
        Err(error) => return failed(format!("read the request: {error}")),
    };
    let takes = matches!(request, Request::Take {});
    match carry_out(driver, request) {
        Ok(json) => Answer {
            json,
            accepted: true,
            takes,
        },
        Err(error) => failed(error.to_string()),
    }
}

/// Removes the launches of a reply that has reached its caller from the journal.
pub fn delivered(driver: &mut Driver, answer: &Answer) {
    if answer.takes {
        *driver.journal_mut() = Journal::default();
    }
}

fn failed(error: String) -> Answer {
    Answer {
        json: Reply::Failed { error }.text(),
        accepted: false,
        takes: false,
    }
}

fn carry_out(driver: &mut Driver, request: Request) -> Result<String, HostAccessError> {
    let done = Reply::Done {};
    let reply = match request {
        Request::Describe {} => Reply::Described {
            version: VERSION,
            device: &driver.device().id,
            label: &driver.device().label,
            threads: driver.settings().threads,
            isa: driver.machine().isa().name(),
            rates: Peaks::of(driver.device()),
        },
        Request::Label { pointer, name } => {
            driver.machine_mut().label(pointer, &name)?;
            done
        }
        Request::Begin { pointer } => {
            driver.machine_mut().begin_at(pointer)?;
            done
        }
        Request::Seal { pointer } => {
            driver.machine_mut().seal(pointer, true)?;
            done
        }
        Request::Forget { pointer, bytes } => {
            driver.machine_mut().forget(pointer, bytes)?;
            done
        }
        Request::Evict {} => {
            driver.machine_mut().evict();
            done
        }
        Request::Written { pointer, bytes } => {
            let unwritten = driver.machine_mut().unwritten(pointer, bytes)?;
            Reply::Written {
                unwritten: unwritten.count,
                first: unwritten.first,
            }
        }
        Request::Configure {
            schedule,
            fragments,
            checks,
            budget,
            threads,
            counters,
            sample,
            read_before,
            clock,
            registers,
            spills,
        } => {
            let defaults = crate::state::Settings::default();
            let settings = driver.settings_mut();
            if let Some(seed) = schedule {
                settings.schedule = seed.map_or(Schedule::Serial, Schedule::Seeded);
            }
            if let Some(fragments) = fragments {
                settings.fragments = fragments;
            }
            if let Some(level) = checks {
                settings.checks = match level {
                    CheckLevel::Full => Checks::Full,
                    CheckLevel::Bounds => Checks::Bounds,
                    CheckLevel::Off => Checks::Off,
                };
            }
            if let Some(budget) = budget {
                settings.budget = budget;
            }
            if let Some(threads) = threads {
                settings.threads = threads.map_or(defaults.threads, |threads| threads.max(1));
            }
            if let Some(counters) = counters {
                settings.counters = counters;
            }
            if let Some(sample) = sample {
                settings.sample = sample;
            }
            if let Some(read_before) = read_before {
                settings.read_before = read_before;
            }
            if let Some(clock) = clock {
                settings.clock = clock;
            }
            if let Some(registers) = registers {
                settings.registers = registers;
            }
            if let Some(spills) = spills {
                settings.spills = spills;
            }
            done
        }
        Request::Take {} => {
            let journal = driver.journal_mut();
            journal.settle_fills();
            Reply::Taken {
                launches: &journal.launches,
                dropped: journal.dropped,
            }
        }
    };
    Ok(reply.text())
}
