//! Execution of a launch plan: allocation of its buffers, its launches, and the state of the buffers afterwards.
//!
//! Candidates and references are executed by the same code, on either driver. Every buffer is a separate allocation
//! with a secret pattern around it, so that nothing that an earlier execution left on the device can reach a later
//! one. `domain::judge` decides about the outcome.

mod batch;
mod error;
mod layout;
mod resident;

use std::collections::{BTreeMap, BTreeSet};

use domain::plan::{ResolvedArgument, ResolvedLaunch, ResolvedPlan, ResolvedStep};
use domain::role::{DeviceFault, Disturbance, KernelResources, Placement};

use crate::disturb::Disturber;
use crate::driver::emulator::LaunchReport;
use crate::driver::{self, DriverError, Gpu, Kernel, Module, PersistingWindow, Shape, Stopwatch};
use crate::role_error::RoleError;
use resident::changed_constants;

pub use batch::{Batch, BufferSet};
pub use error::{ExecuteError, device_fault};
pub use resident::{Buffer, DeviceBuffer};

/// Dynamic shared memory in bytes that every kernel may use without raising its limit.
const SHARED_WITHOUT_ASKING: u32 = 48 << 10;

/// An image on a device, with the resources of its kernels.
#[derive(Debug)]
pub struct LoadedImage<'a> {
    gpu: &'a Gpu,
    module: Module,
    kernels: BTreeMap<&'a str, &'a KernelResources>,
}

/// Parameters of a pass.
#[derive(Debug, Clone, Copy)]
pub struct PassOptions {
    /// Seed of poison and red zones.
    pub poison: u64,
    /// Placement of buffers in their allocations.
    pub placement: Placement,
    /// True if the plan is timed as a whole between two events. Otherwise the host waits for the device after every
    /// launch, so that a fault can be assigned to its launch.
    pub timed: bool,
}

/// Disturbance of the device around a pass.
#[derive(Debug)]
pub struct DisturbanceRequest<'d, 'g> {
    /// Performs the disturbance.
    pub disturber: &'d mut Disturber<'g>,
    /// The disturbance that the job asks for.
    pub disturbance: Disturbance,
}

/// Outcome of one pass through a plan.
#[derive(Debug, Default)]
pub struct PassOutcome {
    /// The buffers in the order of the request; empty if they could not be allocated.
    pub buffers: Vec<DeviceBuffer>,
    /// Launches that the driver accepted, as the plan states them.
    pub launched: Vec<ResolvedLaunch>,
    /// The emulated device's report on each launch.
    pub reports: Vec<LaunchReport>,
    /// The first error of the device, which ended the pass.
    pub fault: Option<DeviceFault>,
    /// Constant buffers that a launch changed, even if a later launch restored their content.
    pub changed: BTreeSet<String>,
    /// Time between events around the plan, microseconds.
    pub event_us: Option<f64>,
    /// True if the pass ended only after the concurrent blocks had given up waiting for its end.
    pub outlasted: bool,
    /// True if constant buffers next to guards were writable, because the driver maps no memory for reading only.
    pub unprotected: bool,
}

impl<'a> LoadedImage<'a> {
    /// Loads an image.
    ///
    /// # Errors
    /// The driver's error of the image.
    pub fn new(
        gpu: &'a Gpu,
        image: &[u8],
        kernels: &'a [KernelResources],
    ) -> Result<Self, DriverError> {
        Ok(Self {
            gpu,
            module: Module::load(image)?,
            kernels: kernels
                .iter()
                .map(|kernel| (kernel.kernel.as_str(), kernel))
                .collect(),
        })
    }

    /// Largest stack of its kernels in bytes.
    pub fn stack_bytes(&self) -> u32 {
        let stacks = self.kernels.values().map(|kernel| kernel.stack_bytes);
        stacks.max().unwrap_or_default()
    }

    /// Allocates the buffers and executes the plan once.
    ///
    /// # Errors
    /// A [`RoleError`] for a plan that contradicts the buffers or kernels, and for a failure of the emulated device's
    /// interface. A refusal of the driver is part of the pass.
    pub fn execute_plan(
        &self,
        plan: &ResolvedPlan,
        buffers: Vec<Buffer>,
        options: PassOptions,
        disturbance_request: Option<DisturbanceRequest<'_, '_>>,
    ) -> Result<PassOutcome, RoleError> {
        let mut pass = PassOutcome::default();
        for buffer in buffers {
            match self.allocate_for_plan(plan, buffer, options) {
                Ok((resident, may_be_written)) => {
                    pass.unprotected |= may_be_written;
                    pass.buffers.push(resident);
                }
                Err(ExecuteError::Device(fault)) => {
                    pass.buffers.clear();
                    pass.fault = Some(fault);
                    return Ok(pass);
                }
                Err(ExecuteError::Role(error)) => return Err(error),
            }
        }
        let mut concurrent = None;
        if let Some(DisturbanceRequest {
            disturber,
            disturbance,
        }) = disturbance_request
        {
            if disturbance.garbage {
                disturber.leave_garbage(options.poison, self.stack_bytes())?;
            }
            if disturbance.company {
                concurrent = disturber.start_concurrent_blocks(options.poison)?;
            }
        }
        if let Some(emulator) = self.gpu.emulator() {
            // What was on the device before, such as the work of a disturber, is none of the plan's.
            emulator.empty_cache()?;
        }
        let waiting = match (&concurrent, options.timed) {
            (_, true) => Waiting::Events,
            (None, false) => Waiting::Device,
            // The concurrent blocks end only on request.
            (Some(_), false) => Waiting::OwnStream,
        };
        // The driver may wait for all work before it sets aside a part of the cache, and concurrent blocks end only on
        // request. Results do not depend on it.
        let persisting = concurrent.is_none() && self.set_aside(plan)?;
        let ran = self.run_steps(plan, &mut pass, waiting);
        let ended = self.end_persisting(persisting);
        match ran.and(ended) {
            Ok(()) => {}
            Err(ExecuteError::Device(fault)) => pass.fault = Some(fault),
            Err(ExecuteError::Role(error)) => return Err(error),
        }
        if let Some(concurrent) = concurrent {
            pass.outlasted = concurrent.have_ended();
            let left = concurrent.stop();
            // After a fault of the candidate all further calls are refused as well.
            if let (Err(refusal), None) = (left, &pass.fault) {
                return Err(refusal.into_role_error("end the blocks beside a candidate's"));
            }
        }
        if let Some(emulator) = self.gpu.emulator() {
            pass.reports = emulator.take_reports()?;
            let ran = pass
                .reports
                .iter()
                .filter(|report| report.outcome.has_run());
            let (ran, launched) = (ran.count(), pass.launched.len());
            if ran != launched {
                // A launch without a report would be a launch without any checks.
                return Err(RoleError::Emulator {
                    request: "report its launches",
                    reason: format!("it took {launched} launches and tells of {ran}"),
                });
            }
        }
        Ok(pass)
    }

    /// Sets aside the part of the L2 cache that the plan's windows ask for, and returns true if they ask for any.
    fn set_aside(&self, plan: &ResolvedPlan) -> Result<bool, RoleError> {
        let bytes = plan.persisting_bytes();
        if bytes > 0 {
            let set = self.gpu.set_persisting_cache(bytes);
            set.map_err(|refusal| refusal.into_role_error("set aside a part of the cache"))?;
        }
        Ok(bytes > 0)
    }

    /// Leaves nothing of a plan in the L2 cache that persists, so that no other execution finds it or has less room.
    fn end_persisting(&self, persisting: bool) -> Result<(), ExecuteError> {
        if persisting {
            // Resetting alone leaves the part that is set aside, setting the part to nothing leaves what is in it.
            self.gpu.set_persisting_cache(0)?;
            self.gpu.reset_persisting_cache()?;
        }
        Ok(())
    }

    /// Executes the steps of a plan in order and waits for their end.
    fn run_steps(
        &self,
        plan: &ResolvedPlan,
        pass: &mut PassOutcome,
        waiting: Waiting,
    ) -> Result<(), ExecuteError> {
        let timed = waiting == Waiting::Events;
        // All look-ups happen before the first launch, so that they are not timed.
        let mut steps = Vec::new();
        let buffers = pass.buffers.iter().collect::<Vec<_>>();
        for step in &plan.steps {
            steps.push(self.prepare_step(step, &buffers)?);
        }
        let watch = if timed {
            Some(Stopwatch::start()?)
        } else {
            None
        };
        for step in &steps {
            match step {
                PreparedStep::Fill { buffer, byte } => {
                    let resident = &mut pass.buffers[*buffer];
                    let inside = resident.inside.clone();
                    resident
                        .allocation
                        .fill_in_order(inside.start, inside.len(), *byte)?;
                }
                PreparedStep::Launch(launch) => {
                    let number = u32::try_from(pass.launched.len()).ok();
                    let launched = launch.start();
                    if launched.is_ok() {
                        pass.launched.push(launch.planned.clone());
                    }
                    let settled = launched.and_then(|()| match waiting {
                        Waiting::Events => Ok(()),
                        Waiting::Device => self.gpu.synchronize(),
                        Waiting::OwnStream => driver::synchronize_own_stream(),
                    });
                    settled.map_err(|error| ExecuteError::Device(device_fault(error, number)))?;
                }
            }
            // The constant buffers are compared after each of several launches, unless that would be timed.
            if !timed && steps.len() > 1 {
                pass.changed.extend(changed_constants(&pass.buffers)?);
            }
        }
        match watch {
            Some(watch) => pass.event_us = Some(watch.stop()?),
            None if waiting == Waiting::OwnStream => driver::synchronize_own_stream()?,
            None => self.gpu.synchronize()?,
        }
        Ok(())
    }

    /// Looks up the kernel and the buffers that a step names.
    fn prepare_step<'s>(
        &'s self,
        step: &'s ResolvedStep,
        buffers: &[&DeviceBuffer],
    ) -> Result<PreparedStep<'s>, ExecuteError> {
        let planned = match step {
            ResolvedStep::Kernel(planned) => planned,
            ResolvedStep::Memset { buffer, byte } => {
                return Ok(PreparedStep::Fill {
                    buffer: find_buffer(buffers, buffer)?,
                    byte: *byte,
                });
            }
        };
        let needs = self.kernels.get(planned.kernel.as_str());
        let sizes = needs.map(|kernel| kernel.parameters.as_slice());
        let wanted: Option<Vec<u32>> = planned
            .arguments
            .iter()
            .map(|argument| u32::try_from(argument.bytes()).ok())
            .collect();
        if sizes != wanted.as_deref() {
            let reason = format!(
                "the plan gives {} arguments of {wanted:?} bytes, the entry takes {sizes:?}",
                planned.kernel
            );
            return Err(RoleError::Job(reason).into());
        }
        let arguments = planned
            .arguments
            .iter()
            .map(|argument| encode_argument(argument, buffers))
            .collect::<Result<Vec<_>, _>>()?;
        let static_bytes = needs.map_or(0, |kernel| kernel.static_shared_bytes);
        let kernel = self.module.kernel(&planned.kernel)?;
        if planned.shared_bytes.saturating_add(static_bytes) > SHARED_WITHOUT_ASKING {
            kernel.allow_shared(planned.shared_bytes)?;
        }
        let window = match &planned.l2_persist {
            Some(window) => {
                let buffer = buffers[find_buffer(buffers, &window.buffer)?];
                let largest = self.gpu.largest_persisting_window();
                let bytes = window.bytes.min(buffer.bytes()).min(largest);
                (bytes > 0).then(|| PersistingWindow {
                    address: buffer.address(),
                    bytes,
                    hit_ratio: window.hit_ratio,
                })
            }
            None => None,
        };
        Ok(PreparedStep::Launch(Launch {
            planned,
            kernel,
            arguments,
            window,
        }))
    }
}

/// The way in which the host waits for the end of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    /// It does not wait; events around the plan determine the end.
    Events,
    /// It waits until the device is idle.
    Device,
    /// It waits until the stream of the candidate's launches is idle.
    OwnStream,
}

/// A step whose kernel and buffers were looked up.
enum PreparedStep<'s> {
    Fill { buffer: usize, byte: u8 },
    Launch(Launch<'s>),
}

/// A launch with its arguments. [`Kernel::launch`] compares them with the image's parameters.
struct Launch<'s> {
    planned: &'s ResolvedLaunch,
    kernel: Kernel<'s>,
    arguments: Vec<Vec<u8>>,
    /// None too where nothing can persist in the device's cache.
    window: Option<PersistingWindow>,
}

impl Launch<'_> {
    fn start(&self) -> Result<(), DriverError> {
        let shape = Shape {
            grid: self.planned.grid,
            block: self.planned.block,
            shared_bytes: self.planned.shared_bytes,
            cooperative: self.planned.cooperative,
        };
        match self.window {
            Some(window) => self
                .kernel
                .launch_with_window(shape, &self.arguments, window),
            None => self.kernel.launch(shape, &self.arguments),
        }
    }
}

/// The bytes of one argument.
fn encode_argument(
    argument: &ResolvedArgument,
    buffers: &[&DeviceBuffer],
) -> Result<Vec<u8>, RoleError> {
    Ok(match argument {
        ResolvedArgument::Buffer(name) => {
            let address = buffers[find_buffer(buffers, name)?].address();
            address.to_le_bytes().to_vec()
        }
        ResolvedArgument::I32(value) => value.to_le_bytes().to_vec(),
        ResolvedArgument::I64(value) => value.to_le_bytes().to_vec(),
        ResolvedArgument::F32(value) => value.to_le_bytes().to_vec(),
        ResolvedArgument::F64(value) => value.to_le_bytes().to_vec(),
    })
}

/// The position of the only buffer of a name.
fn find_buffer(buffers: &[&DeviceBuffer], name: &str) -> Result<usize, RoleError> {
    let mut named = buffers
        .iter()
        .enumerate()
        .filter(|(_, resident)| resident.name == name)
        .map(|(position, _)| position);
    match (named.next(), named.next()) {
        (Some(position), None) => Ok(position),
        (None, _) => Err(RoleError::Job(format!(
            "the plan names the buffer {name}, the job has none"
        ))),
        (Some(_), Some(_)) => Err(RoleError::Job(format!(
            "the job has two buffers named {name}"
        ))),
    }
}
