//! One pass through a launch plan: buffers in, launches, buffers out.
//!
//! Candidates and references go through the same code, on either driver. Every buffer is an
//! allocation of its own with a secret pattern around it; nothing an earlier pass left on the
//! device can reach a later one. What the outcome means is decided elsewhere.

mod batch;
mod layout;
mod resident;

use std::collections::{BTreeMap, BTreeSet};

use domain::plan::{ResolvedArgument, ResolvedLaunch, ResolvedPlan, ResolvedStep};
use domain::role::{DeviceFault, Disturbance, KernelResources, Placement};

use crate::disturb::Disturber;
use crate::driver::emulator::LaunchReport;
use crate::driver::{self, Gpu, Kernel, Module, Refusal, Shape, Stopwatch};
use crate::fault::Fault;
use resident::changed;

pub use batch::{Batch, BufferSet};
pub use resident::{Buffer, Resident};

/// Dynamic shared memory that every kernel may have without being allowed more.
const SHARED_WITHOUT_ASKING: u32 = 48 << 10;

/// An image on a device, with what its kernels need.
#[derive(Debug)]
pub struct Loaded<'a> {
    gpu: &'a Gpu,
    module: Module,
    kernels: BTreeMap<&'a str, &'a KernelResources>,
}

/// How a pass is carried out.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// Seed of poison and red zones.
    pub poison: u64,
    /// Where buffers lie.
    pub placement: Placement,
    /// Whether to time the plan as a whole between two events. Otherwise the device is waited
    /// for after every launch, so that a fault names its launch.
    pub timed: bool,
}

/// What happens around a pass.
#[derive(Debug)]
pub struct Around<'d, 'g> {
    /// Who does it.
    pub disturber: &'d mut Disturber<'g>,
    /// What is asked.
    pub disturbance: Disturbance,
}

/// A pass that is over.
#[derive(Debug, Default)]
pub struct Pass {
    /// The buffers in the order they were asked for; empty if they could not be made.
    pub buffers: Vec<Resident>,
    /// Launches that the driver took, as the plan has them.
    pub launched: Vec<ResolvedLaunch>,
    /// The emulated device's account of them.
    pub reports: Vec<LaunchReport>,
    /// The first refusal, which ended the pass.
    pub fault: Option<DeviceFault>,
    /// Constant buffers that a launch changed, even if a later one put back what was there.
    pub changed: BTreeSet<String>,
    /// Time between events around the plan, microseconds.
    pub event_us: Option<f64>,
    /// Whether it ended only after the blocks beside it had given up waiting for its end.
    pub outlasted: bool,
    /// Whether constant buffers beside guards could be written to: the driver maps no memory for
    /// reading alone.
    pub unprotected: bool,
}

impl<'a> Loaded<'a> {
    /// Loads an image.
    ///
    /// # Errors
    /// The driver's refusal of the image.
    pub fn new(
        gpu: &'a Gpu,
        image: &[u8],
        kernels: &'a [KernelResources],
    ) -> Result<Self, Refusal> {
        Ok(Self {
            gpu,
            module: Module::load(image)?,
            kernels: kernels
                .iter()
                .map(|kernel| (kernel.kernel.as_str(), kernel))
                .collect(),
        })
    }

    /// Bytes of the longest stack of its kernels.
    pub fn stack_bytes(&self) -> u32 {
        let stacks = self.kernels.values().map(|kernel| kernel.stack_bytes);
        stacks.max().unwrap_or_default()
    }

    /// Makes the buffers and goes through the plan once.
    ///
    /// # Errors
    /// A [`Fault`] for a plan that contradicts the buffers or kernels, and for trouble with the
    /// emulated device's interface. A refusal of the driver is part of the pass.
    pub fn pass(
        &self,
        plan: &ResolvedPlan,
        buffers: Vec<Buffer>,
        manner: Manner,
        around: Option<Around<'_, '_>>,
    ) -> Result<Pass, Fault> {
        let mut pass = Pass::default();
        for buffer in buffers {
            match self.place_for(plan, buffer, manner)? {
                Ok((resident, may_be_written)) => {
                    pass.unprotected |= may_be_written;
                    pass.buffers.push(resident);
                }
                Err(refusal) => {
                    pass.buffers.clear();
                    pass.fault = Some(device_fault(refusal, None));
                    return Ok(pass);
                }
            }
        }
        let mut company = None;
        if let Some(Around {
            disturber,
            disturbance,
        }) = around
        {
            if disturbance.garbage {
                disturber.leave_garbage(manner.poison, self.stack_bytes())?;
            }
            if disturbance.company {
                company = disturber.accompany(manner.poison)?;
            }
        }
        let waiting = match (&company, manner.timed) {
            (_, true) => Waiting::Events,
            (None, false) => Waiting::Device,
            // The company ends only when it is told to.
            (Some(_), false) => Waiting::OwnStream,
        };
        if let Err(fault) = self.go_through(plan, &mut pass, waiting)? {
            pass.fault = Some(fault);
        }
        if let Some(company) = company {
            pass.outlasted = company.is_gone();
            let left = company.leave();
            // After a fault of the candidate's everything else is refused as well.
            if let (Err(refusal), None) = (left, &pass.fault) {
                return Err(refusal.into_fault("end the blocks beside a candidate's"));
            }
        }
        if let Some(emulator) = self.gpu.emulator() {
            pass.reports = emulator.take()?;
            let ran = pass
                .reports
                .iter()
                .filter(|report| report.outcome.has_run());
            let (ran, launched) = (ran.count(), pass.launched.len());
            if ran != launched {
                // A launch without an account would be a launch that nothing was proved of.
                return Err(Fault::Emulator {
                    request: "report its launches",
                    reason: format!("it took {launched} launches and tells of {ran}"),
                });
            }
        }
        Ok(pass)
    }

    fn go_through(
        &self,
        plan: &ResolvedPlan,
        pass: &mut Pass,
        waiting: Waiting,
    ) -> Result<Result<(), DeviceFault>, Fault> {
        let timed = waiting == Waiting::Events;
        // Look-ups happen before the first launch, so that none of them is timed.
        let mut steps = Vec::new();
        let buffers = pass.buffers.iter().collect::<Vec<_>>();
        for step in &plan.steps {
            match self.prepare(step, &buffers)? {
                Ok(prepared) => steps.push(prepared),
                Err(refusal) => return Ok(Err(device_fault(refusal, None))),
            }
        }
        let watch = if timed {
            match Stopwatch::start() {
                Ok(watch) => Some(watch),
                Err(refusal) => return Ok(Err(device_fault(refusal, None))),
            }
        } else {
            None
        };
        for step in &steps {
            let done = match step {
                Prepared::Fill { buffer, byte } => {
                    let resident = &mut pass.buffers[*buffer];
                    let inside = resident.inside.clone();
                    resident
                        .allocation
                        .fill(inside.start, inside.len(), *byte)
                        .map_err(|refusal| device_fault(refusal, None))
                }
                Prepared::Launch(launch) => {
                    let number = u32::try_from(pass.launched.len()).ok();
                    let launched = launch.start();
                    if launched.is_ok() {
                        pass.launched.push(launch.planned.clone());
                    }
                    let settled = launched.and_then(|()| match waiting {
                        Waiting::Events => Ok(()),
                        Waiting::Device => self.gpu.synchronize(),
                        Waiting::OwnStream => driver::settle(),
                    });
                    settled.map_err(|refusal| device_fault(refusal, number))
                }
            };
            if let Err(fault) = done {
                return Ok(Err(fault));
            }
            // What several launches leave is looked at after each, unless that would be timed.
            if !timed && steps.len() > 1 {
                match changed(&pass.buffers) {
                    Ok(changed) => pass.changed.extend(changed),
                    Err(refusal) => return Ok(Err(device_fault(refusal, None))),
                }
            }
        }
        let ended = match watch {
            Some(watch) => watch.stop().map(|time| pass.event_us = Some(time)),
            None if waiting == Waiting::OwnStream => driver::settle(),
            None => self.gpu.synchronize(),
        };
        Ok(ended.map_err(|refusal| device_fault(refusal, None)))
    }

    /// Finds what a step names.
    fn prepare<'s>(
        &'s self,
        step: &'s ResolvedStep,
        buffers: &[&Resident],
    ) -> Result<Result<Prepared<'s>, Refusal>, Fault> {
        let planned = match step {
            ResolvedStep::Kernel(planned) => planned,
            ResolvedStep::Memset { buffer, byte } => {
                return Ok(Ok(Prepared::Fill {
                    buffer: find(buffers, buffer)?,
                    byte: *byte,
                }));
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
            return Err(Fault::Job(format!(
                "the plan gives {} arguments of {wanted:?} bytes, the entry takes {sizes:?}",
                planned.kernel
            )));
        }
        let arguments = planned
            .arguments
            .iter()
            .map(|argument| encode(argument, buffers))
            .collect::<Result<Vec<_>, _>>()?;
        let static_bytes = needs.map_or(0, |kernel| kernel.static_shared_bytes);
        let kernel = self.module.kernel(&planned.kernel).and_then(|kernel| {
            if planned.shared_bytes.saturating_add(static_bytes) > SHARED_WITHOUT_ASKING {
                kernel.allow_shared(planned.shared_bytes)?;
            }
            Ok(kernel)
        });
        Ok(kernel.map(|kernel| {
            Prepared::Launch(Launch {
                planned,
                kernel,
                arguments,
            })
        }))
    }
}

/// How the end of a launch is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    /// Not at all: events around the plan tell when it is over.
    Events,
    /// Until the device has nothing left to do.
    Device,
    /// Until nothing is left on the stream that candidates are launched on.
    OwnStream,
}

/// A step with everything it names at hand.
enum Prepared<'s> {
    Fill { buffer: usize, byte: u8 },
    Launch(Launch<'s>),
}

/// A launch with its arguments. [`Kernel::launch`] compares them with the image's parameters.
struct Launch<'s> {
    planned: &'s ResolvedLaunch,
    kernel: Kernel<'s>,
    arguments: Vec<Vec<u8>>,
}

impl Launch<'_> {
    fn start(&self) -> Result<(), Refusal> {
        let shape = Shape {
            grid: self.planned.grid,
            block: self.planned.block,
            shared_bytes: self.planned.shared_bytes,
            cooperative: self.planned.cooperative,
        };
        self.kernel.launch(shape, &self.arguments)
    }
}

/// The bytes of one argument.
fn encode(argument: &ResolvedArgument, buffers: &[&Resident]) -> Result<Vec<u8>, Fault> {
    Ok(match argument {
        ResolvedArgument::Buffer(name) => {
            let address = buffers[find(buffers, name)?].address();
            address.to_le_bytes().to_vec()
        }
        ResolvedArgument::I32(value) => value.to_le_bytes().to_vec(),
        ResolvedArgument::I64(value) => value.to_le_bytes().to_vec(),
        ResolvedArgument::F32(value) => value.to_le_bytes().to_vec(),
        ResolvedArgument::F64(value) => value.to_le_bytes().to_vec(),
    })
}

/// The position of the only buffer of a name.
fn find(buffers: &[&Resident], name: &str) -> Result<usize, Fault> {
    let mut named = buffers
        .iter()
        .enumerate()
        .filter(|(_, resident)| resident.name == name)
        .map(|(position, _)| position);
    match (named.next(), named.next()) {
        (Some(position), None) => Ok(position),
        (None, _) => Err(Fault::Job(format!(
            "the plan names the buffer {name}, the job has none"
        ))),
        (Some(_), Some(_)) => Err(Fault::Job(format!("the job has two buffers named {name}"))),
    }
}

fn device_fault(refusal: Refusal, launch: Option<u32>) -> DeviceFault {
    DeviceFault {
        code: refusal.code,
        name: refusal.name,
        call: refusal.call.to_owned(),
        launch,
    }
}
