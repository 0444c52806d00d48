//! One pass through a launch plan: buffers in, launches, buffers out.
//!
//! Candidates and references go through the same code, on either driver. Every buffer is an
//! allocation of its own with a secret pattern around it; nothing an earlier pass left on the
//! device can reach a later one. What the outcome means is decided elsewhere.

mod batch;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use domain::plan::{ResolvedArgument, ResolvedLaunch, ResolvedPlan, ResolvedStep};
use domain::role::{DeviceFault, Disturbance, KernelResources, Placement};

use crate::disturb::Disturber;
use crate::driver::emulator::LaunchReport;
use crate::driver::{self, Allocation, Gpu, Guard, Kernel, Module, Refusal, Shape, Stopwatch};
use crate::fault::Fault;
use crate::inputs;

pub use batch::{Batch, BufferSet};

/// Bytes of secret pattern on either side of a buffer on a device without bounds of its own.
const RED_ZONE: u64 = 4096;
/// No access of the emulated device is wider, so a stricter alignment cannot show there.
const WIDEST_ACCESS: u64 = 16;
/// What bases are multiples of under [`Placement::Shifted`].
const SHIFT: u64 = 128;
/// Dynamic shared memory that every kernel may have without being allowed more.
const SHARED_WITHOUT_ASKING: u32 = 48 << 10;

/// An image on a device, with what its kernels need.
#[derive(Debug)]
pub struct Loaded<'a> {
    gpu: &'a Gpu,
    module: Module,
    kernels: BTreeMap<&'a str, &'a KernelResources>,
}

/// A buffer to make before a pass.
#[derive(Debug)]
pub struct Buffer {
    /// Name in the plan.
    pub name: String,
    /// Size.
    pub bytes: u64,
    /// The address is a multiple of this.
    pub align: u64,
    /// What it holds before the first launch; none is poison.
    pub content: Option<Vec<u8>>,
    /// Whether no launch may change it.
    pub constant: bool,
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
}

/// A buffer on the device.
#[derive(Debug)]
pub struct Resident {
    /// What was asked for, without the content.
    pub name: String,
    allocation: Allocation,
    constant: bool,
    /// Where the buffer lies inside the allocation.
    inside: Range<usize>,
    /// The bytes of the whole allocation before the first launch.
    before: Vec<u8>,
}

/// A buffer's bytes after a pass, beside what they were.
#[derive(Debug)]
pub struct After {
    all: Vec<u8>,
    inside: Range<usize>,
    /// Whether the pattern around the buffer changed.
    pub overrun: bool,
    /// Whether the buffer itself changed.
    pub changed: bool,
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
            match self.place(buffer, manner)? {
                Ok(resident) => pass.buffers.push(resident),
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
                disturber.leave_garbage(manner.poison)?;
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

    /// Allocates and fills one buffer.
    fn place(&self, buffer: Buffer, manner: Manner) -> Result<Result<Resident, Refusal>, Fault> {
        let emulator = self.gpu.emulator();
        let Manner {
            poison, placement, ..
        } = manner;
        let Buffer {
            name,
            bytes,
            align,
            content,
            constant,
        } = buffer;
        if content
            .as_ref()
            .is_some_and(|content| content.len() as u64 != bytes)
        {
            return Err(Fault::Job(format!(
                "{name} has {bytes} bytes, its content has others"
            )));
        }
        let guard = guard(placement);
        let layout = match (emulator, guard) {
            (_, Some(guard)) => Layout::guarded(bytes, align, guard),
            (Some(_), None) => Layout::exact(bytes, align, placement),
            (None, None) => Layout::fenced(bytes, align, placement),
        };
        let allocated = usize::try_from(layout.allocated).map_err(|_| {
            Fault::Job(format!(
                "{name} has {bytes} bytes, more than can be addressed"
            ))
        })?;
        let made = match guard {
            Some(guard) => self.gpu.guarded(allocated, guard),
            None => Allocation::new(allocated),
        };
        let mut allocation = match made {
            Ok(allocation) => allocation,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let inside = layout.place(allocation.base());
        let zones = inputs::poison(poison, "red zone", &name, allocated - inside.len());
        let (front, back) = zones.split_at(inside.start);
        let held = match &content {
            Some(content) => content,
            None => &inputs::poison(poison, "content", &name, inside.len()),
        };
        let before = [front, held, back].concat();
        if let Err(refusal) = allocation.upload(&before) {
            return Ok(Err(refusal));
        }
        if let Some(emulator) = emulator {
            emulator.label(allocation.base(), &name)?;
            if content.is_none() {
                emulator.forget(allocation.base(), layout.allocated)?;
            } else if inside.start > 0 {
                // What lies in front of the content is nobody's to read.
                emulator.forget(allocation.base(), inside.start as u64)?;
            }
        }
        Ok(Ok(Resident {
            name,
            allocation,
            constant,
            inside,
            before,
        }))
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

/// The constant buffers that are not what they were.
fn changed(buffers: &[Resident]) -> Result<Vec<String>, Refusal> {
    let mut changed = Vec::new();
    for buffer in buffers.iter().filter(|buffer| buffer.constant) {
        if buffer.after()?.changed {
            changed.push(buffer.name.clone());
        }
    }
    Ok(changed)
}

/// A step with everything it names at hand.
enum Prepared<'s> {
    Fill { buffer: usize, byte: u8 },
    Launch(Launch<'s>),
}

/// A launch whose arguments are known to have the number and sizes of the entry's parameters.
struct Launch<'s> {
    planned: &'s ResolvedLaunch,
    kernel: Kernel<'s>,
    arguments: Vec<Vec<u8>>,
}

impl Launch<'_> {
    #[expect(unsafe_code, reason = "a launch trusts its arguments")]
    fn start(&self) -> Result<(), Refusal> {
        let shape = Shape {
            grid: self.planned.grid,
            block: self.planned.block,
            shared_bytes: self.planned.shared_bytes,
            cooperative: self.planned.cooperative,
        };
        // SAFETY: `Loaded::prepare` is the only maker of this type, and it has compared the
        // arguments with the entry's parameters in number and size.
        unsafe { self.kernel.launch(shape, &self.arguments) }
    }
}

impl Resident {
    /// The buffer's address.
    pub fn address(&self) -> u64 {
        self.allocation.base() + self.inside.start as u64
    }

    /// The buffer's size in bytes.
    pub fn bytes(&self) -> u64 {
        self.inside.len() as u64
    }

    /// How far into the device's allocation the buffer starts, bytes.
    pub fn start(&self) -> usize {
        self.allocation.lead() + self.inside.start
    }

    /// The poison or content that the buffer held before the pass.
    pub fn before(&self) -> &[u8] {
        &self.before[self.inside.clone()]
    }

    /// Reads the buffer and what surrounds it.
    ///
    /// # Errors
    /// The driver's refusal.
    pub fn after(&self) -> Result<After, Refusal> {
        let all = self.allocation.download()?;
        let Range { start, end } = self.inside;
        Ok(After {
            overrun: all[..start] != self.before[..start] || all[end..] != self.before[end..],
            changed: all[start..end] != self.before[start..end],
            all,
            inside: start..end,
        })
    }
}

impl After {
    /// The buffer's bytes.
    pub fn content(&self) -> &[u8] {
        &self.all[self.inside.clone()]
    }
}

/// Where a buffer goes inside its allocation.
struct Layout {
    allocated: u64,
    bytes: u64,
    align: u64,
    front: u64,
    /// Whether the base is moved back until it has exactly its alignment.
    exactly: bool,
}

impl Layout {
    /// Pattern on both sides, and room to move the base to exactly its alignment.
    fn fenced(bytes: u64, align: u64, placement: Placement) -> Self {
        let align = exactly(align, placement);
        Self {
            allocated: bytes.saturating_add(2 * RED_ZONE + 2 * align),
            bytes,
            align,
            front: RED_ZONE,
            exactly: true,
        }
    }

    /// Against a guard: nothing between it and the buffer but what the alignment demands, and
    /// pattern on the other side.
    fn guarded(bytes: u64, align: u64, guard: Guard) -> Self {
        let align = align.max(1);
        let held = bytes.next_multiple_of(align);
        Self {
            allocated: held.saturating_add(RED_ZONE),
            bytes,
            align,
            front: match guard {
                Guard::Before => 0,
                Guard::Behind => RED_ZONE,
            },
            exactly: false,
        }
    }

    /// For a device that knows where each allocation ends: no byte behind the buffer, and none
    /// before it unless its base is to have less than an allocation's alignment.
    fn exact(bytes: u64, align: u64, placement: Placement) -> Self {
        let align = exactly(align, placement);
        let front = match placement {
            Placement::Weakest | Placement::Shifted => align,
            _ if align < WIDEST_ACCESS => align,
            _ => 0,
        };
        Self {
            allocated: bytes.saturating_add(front),
            bytes,
            align,
            front,
            exactly: true,
        }
    }

    /// The part of an allocation at `base` that the buffer takes.
    fn place(&self, base: u64) -> Range<usize> {
        let latest = self.allocated - self.bytes;
        let weak = |start: &u64| {
            let address = base + start;
            address.is_multiple_of(self.align) && !address.is_multiple_of(2 * self.align)
        };
        let weakest = (self.front..=latest).find(weak);
        let start = weakest.filter(|_| self.exactly).unwrap_or(self.front);
        let index = |offset: u64| usize::try_from(offset).expect("the allocation was made");
        index(start)..index(start + self.bytes)
    }
}

/// The guard that a placement asks for.
fn guard(placement: Placement) -> Option<Guard> {
    match placement {
        Placement::GuardBehind => Some(Guard::Behind),
        Placement::GuardBefore => Some(Guard::Before),
        Placement::Ending | Placement::Weakest | Placement::Shifted => None,
    }
}

/// The alignment that a base has exactly, where a placement asks for one.
fn exactly(align: u64, placement: Placement) -> u64 {
    match placement {
        Placement::Shifted => align.max(SHIFT),
        _ => align.max(1),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fenced_buffer_has_exactly_its_alignment_and_pattern_on_both_sides() {
        for (align, placement) in [1, 2, 4, 16, 128, 256, 1024]
            .map(|align| (align, Placement::Weakest))
            .into_iter()
            .chain([(16, Placement::Shifted), (4, Placement::Ending)])
        {
            for base in [0x1000_0000_u64, 0x1000_0100, 0x1000_0200] {
                let layout = Layout::fenced(1000, align, placement);
                let align = exactly(align, placement);
                let inside = layout.place(base);
                let address = base + inside.start as u64;
                assert_eq!(address % align, 0);
                assert_ne!(address % (2 * align), 0);
                assert!(inside.start as u64 >= RED_ZONE);
                assert!(layout.allocated - inside.end as u64 >= RED_ZONE);
                assert_eq!(inside.len(), 1000);
            }
        }
    }

    #[test]
    fn a_guarded_buffer_touches_its_guard_as_far_as_its_alignment_allows() {
        const UNIT: u64 = 2 << 20;
        for (bytes, align) in [(1000, 16), (1000, 1), (1024, 256), (6, 4)] {
            // The allocation ends, or begins, at a multiple of the unit.
            let layout = Layout::guarded(bytes, align, Guard::Behind);
            let base = 8 * UNIT - layout.allocated;
            let inside = layout.place(base);
            let end = base + inside.end as u64;
            assert!((base + inside.start as u64).is_multiple_of(align));
            assert!(
                8 * UNIT - end < align,
                "{bytes} {align}: {}",
                8 * UNIT - end
            );
            assert_eq!(inside.start as u64, RED_ZONE);
            let layout = Layout::guarded(bytes, align, Guard::Before);
            let inside = layout.place(8 * UNIT);
            assert_eq!(inside.start, 0);
            assert!(layout.allocated - inside.end as u64 >= RED_ZONE);
        }
    }

    #[test]
    fn an_exact_buffer_ends_with_its_allocation() {
        for align in [1, 4, 8, 16, 256] {
            let layout = Layout::exact(1000, align, Placement::Ending);
            let inside = layout.place(0x1000_0000);
            assert_eq!(inside.end as u64, layout.allocated);
            assert_eq!(inside.start as u64 % align, 0);
        }
    }

    #[test]
    fn a_base_is_as_weak_as_asked_and_its_buffer_still_ends_with_the_allocation() {
        for (placement, align, start) in [
            (Placement::Ending, 16, 0),
            (Placement::Weakest, 4, 4),
            (Placement::Weakest, 16, 16),
            (Placement::Shifted, 16, 128),
            (Placement::Shifted, 256, 256),
        ] {
            let layout = Layout::exact(1000, align, placement);
            let inside = layout.place(0x1000_0000);
            assert_eq!(inside.start, start, "{placement:?} {align}");
            assert_eq!(inside.end as u64, layout.allocated);
        }
    }
}
