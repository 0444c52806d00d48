//! The driver's state in safe Rust: the behaviour of the API, independent of the C interface.
//!
//! One [`Driver`] is one process's view of one emulated GPU. Methods correspond to API calls, take typed handles and
//! host slices, and return the documented errors. Work executes when it is enqueued. The API's asynchrony is visible
//! only in *when an error is reported*: a kernel's fault is reported by the next synchronising call and by every
//! later one, as on a device whose context is corrupted.

mod attributes;
mod context;
mod graph;
mod launch;
mod legacy_launch;
mod memory;
mod module;
mod timeline;
mod virtual_memory;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::thread::{self, ThreadId};

use ptx::Machine;
use ptx::device::Device;

use crate::code::Code;
use crate::emulator::Journal;
use crate::fault::Tamper;
use crate::handle::{
    ContextHandle, EventHandle, FunctionHandle, LibraryHandle, LinkHandle, ModuleHandle, PoolHandle,
};

pub use attributes::MOST_PERSISTING_WINDOW;
pub use context::ContextFlags;
pub use graph::{
    CaptureMode, CaptureState, CopyLocation, CopyWork, FillWork, GraphLaunch, HostWork, KernelWork,
    MemoryType, Mismatch, UpdateError, Work,
};
pub use launch::{Clock, Dimensions, LaunchRequest, Settings};
pub use memory::{MemoryKind, PoolAttribute};
pub use module::{Image, LinkOptions, ParameterSlot};
pub use timeline::EventFlags;
pub use virtual_memory::{GRANULE, Rights};

/// CUDA 13.0, in the encoding of `cuDriverGetVersion`.
pub const DRIVER_VERSION: u32 = 13_000;

/// Ordinal of the only device.
pub const ORDINAL: i32 = 0;

/// The driver of one process.
#[derive(Debug)]
pub struct Driver {
    device: Device,
    machine: Machine,
    settings: Settings,
    journal: Journal,
    /// The thread whose call is being served.
    thread: ThreadId,
    initialised: bool,
    /// A kernel's fault that no synchronising call has reported yet.
    pending: Option<Code>,
    /// A fault that was reported: the context is corrupted until the process ends.
    sticky: Option<Code>,
    serial: u64,
    primary: context::Primary,
    contexts: BTreeMap<ContextHandle, context::Context>,
    current: HashMap<ThreadId, Vec<ContextHandle>>,
    timeline: timeline::Timeline,
    events: BTreeMap<EventHandle, timeline::Event>,
    allocations: BTreeMap<u64, memory::Ownership>,
    /// Addresses from the first to the last that were ever device memory.
    device_address_span: Range<u64>,
    host_memory: BTreeMap<u64, memory::PageLocked>,
    virtual_memory: virtual_memory::VirtualMemory,
    pools: BTreeMap<PoolHandle, memory::Pool>,
    current_pool: Option<PoolHandle>,
    modules: BTreeMap<ModuleHandle, module::LoadedModule>,
    functions: BTreeMap<FunctionHandle, module::Function>,
    libraries: BTreeMap<LibraryHandle, module::Library>,
    links: BTreeMap<LinkHandle, module::Link>,
    graphs: graph::Graphs,
    tamper: Option<Tamper>,
    call_output: CallOutput,
}

/// Output and callbacks of a call, which the C layer handles after the call.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CallOutput {
    /// Text that kernels printed, for standard output.
    pub printed: String,
    /// Lines for standard error, for example why a launch was refused.
    pub remarks: Vec<String>,
    /// Destructors of user objects without references, to be called without holding the driver's lock.
    pub calls: Vec<HostWork>,
}

impl Driver {
    /// Creates a driver for this device, which uses at most `memory_bytes` of host memory for device memory.
    #[must_use]
    pub fn new(device: Device, memory_bytes: u64) -> Self {
        let limits = ptx::Limits {
            memory_bytes: memory_bytes.min(device.memory.bytes),
            ..ptx::Limits::default()
        };
        Self {
            machine: Machine::new(limits),
            settings: Settings::default(),
            journal: Journal::default(),
            thread: thread::current().id(),
            initialised: false,
            pending: None,
            sticky: None,
            serial: 0,
            primary: context::Primary::default(),
            contexts: BTreeMap::new(),
            current: HashMap::new(),
            timeline: timeline::Timeline::default(),
            events: BTreeMap::new(),
            allocations: BTreeMap::new(),
            device_address_span: 0..0,
            host_memory: BTreeMap::new(),
            virtual_memory: virtual_memory::VirtualMemory::default(),
            pools: BTreeMap::new(),
            current_pool: None,
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            libraries: BTreeMap::new(),
            links: BTreeMap::new(),
            graphs: graph::Graphs::default(),
            tamper: None,
            call_output: CallOutput::default(),
            device,
        }
    }

    /// Makes shared and local memory keep the values that earlier launches left there.
    pub fn keep_leftovers(&mut self) {
        self.machine.keep_leftovers();
    }

    /// Sets the calling thread of the next call, and how the fault plan falsifies its result.
    pub fn begin_call(&mut self, thread: ThreadId, tamper: Option<Tamper>) {
        self.thread = thread;
        self.tamper = tamper;
    }

    /// The answer to a query of the management library: `answer`, unless the fault plan replaces it.
    pub(crate) fn answer_or_planned(&mut self, answer: u64) -> u64 {
        match self.tamper.take() {
            Some(Tamper::Answer(other)) => other,
            _ => answer,
        }
    }

    /// Takes the output of the calls since the last time.
    pub fn take_output(&mut self) -> CallOutput {
        std::mem::take(&mut self.call_output)
    }

    /// The emulated device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    pub(crate) fn machine_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }

    pub(crate) fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn journal_mut(&mut self) -> &mut Journal {
        &mut self.journal
    }

    /// Initialises the driver (`cuInit`).
    ///
    /// # Errors
    /// When flags are given, because none is defined.
    pub fn initialise(&mut self, flags: u32) -> Result<(), Code> {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        self.initialised = true;
        Ok(())
    }

    /// Checks that the driver is initialised.
    ///
    /// # Errors
    /// `NOT_INITIALIZED` when it is not.
    pub fn check_initialised(&self) -> Result<(), Code> {
        if self.initialised {
            Ok(())
        } else {
            Err(Code::NOT_INITIALIZED)
        }
    }

    /// Checks that the ordinal names the device.
    ///
    /// # Errors
    /// When the driver is not initialised or there is no such device.
    pub fn check_device(&self, ordinal: i32) -> Result<(), Code> {
        self.check_initialised()?;
        if ordinal == ORDINAL {
            Ok(())
        } else {
            Err(Code::INVALID_DEVICE)
        }
    }

    /// The calling thread's context, if it can take work.
    fn usable_context(&self) -> Result<ContextHandle, Code> {
        self.check_initialised()?;
        let context = self.current_context().ok_or(Code::INVALID_CONTEXT)?;
        if !self.contexts.contains_key(&context) {
            return Err(Code::CONTEXT_IS_DESTROYED);
        }
        match self.sticky {
            Some(code) => Err(code),
            None => Ok(context),
        }
    }

    /// Checks a call that waits for the device and reports a pending fault. As [`Self::usable_context`], and the call
    /// is refused where a capture in progress forbids it, because a capture would not record it.
    fn check_synchronising_call(&mut self) -> Result<ContextHandle, Code> {
        self.usable_context()?;
        self.check_capture_modes()?;
        self.report_pending_fault()
    }

    /// Reports a pending fault. As [`Self::check_synchronising_call`], for calls that belong to a known stream.
    fn report_pending_fault(&mut self) -> Result<ContextHandle, Code> {
        let context = self.usable_context()?;
        match self.pending.take() {
            Some(code) => {
                self.sticky = Some(code);
                Err(code)
            }
            None => Ok(context),
        }
    }

    /// Marks the context as corrupted, for a failure that leaves the state unknown.
    pub fn corrupt(&mut self, code: Code) {
        self.sticky.get_or_insert(code);
    }

    /// Numbers of the objects that live in contexts, for tests of what a context's destruction leaves behind.
    #[cfg(test)]
    pub(crate) fn objects(&self) -> [usize; 5] {
        [
            self.allocations.len(),
            self.events.len(),
            self.timeline.stream_count(),
            self.modules.len() - self.libraries.len(),
            self.functions.len(),
        ]
    }

    /// Number of libraries, for the same tests.
    #[cfg(test)]
    pub(crate) fn library_count(&self) -> usize {
        self.libraries.len()
    }

    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }
}
