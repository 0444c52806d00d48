//! Several passes through a plan between two events, over sets of buffers that are made once.
//!
//! What a time is made of happens between the two events and nothing else does: buffers are
//! allocated and filled before, and looked at afterwards.

use std::collections::BTreeMap;

use domain::plan::ResolvedPlan;
use domain::role::{DeviceFault, Placement};
use domain::statistics::TimedKernel;

use super::{Buffer, Loaded, Manner, Prepared, Resident, device_fault};
use crate::driver::{Gpu, Refusal, Stopwatch};
use crate::fault::Fault;
use crate::inputs;

/// One set of buffers: the tensors of a case, and the workspaces of each contender's plan.
#[derive(Debug)]
pub struct BufferSet {
    tensors: Vec<Placed>,
    workspaces: BTreeMap<TimedKernel, Vec<Placed>>,
}

/// A buffer with what is needed to make it as it was.
#[derive(Debug)]
struct Placed {
    resident: Resident,
    /// Whether it holds poison before each execution.
    poisoned: bool,
}

impl BufferSet {
    /// Allocates and fills the buffers of one set.
    ///
    /// # Errors
    /// A [`Fault`] for buffers that contradict themselves; the driver's refusal of memory.
    pub fn place(
        loaded: &Loaded<'_>,
        tensors: Vec<Buffer>,
        workspaces: BTreeMap<TimedKernel, Vec<Buffer>>,
        poison: u64,
    ) -> Result<Result<Self, Refusal>, Fault> {
        let manner = Manner {
            poison,
            placement: Placement::Ending,
            timed: true,
        };
        let place = |buffers: Vec<Buffer>| -> Result<Result<Vec<Placed>, Refusal>, Fault> {
            let mut placed = Vec::with_capacity(buffers.len());
            for buffer in buffers {
                let poisoned = buffer.content.is_none();
                match loaded.place(buffer, manner)? {
                    Ok(resident) => placed.push(Placed { resident, poisoned }),
                    Err(refusal) => return Ok(Err(refusal)),
                }
            }
            Ok(Ok(placed))
        };
        let mut set = Self {
            tensors: match place(tensors)? {
                Ok(tensors) => tensors,
                Err(refusal) => return Ok(Err(refusal)),
            },
            workspaces: BTreeMap::new(),
        };
        for (contender, buffers) in workspaces {
            match place(buffers)? {
                Ok(placed) => set.workspaces.insert(contender, placed),
                Err(refusal) => return Ok(Err(refusal)),
            };
        }
        Ok(Ok(set))
    }

    /// The tensors, then the workspaces of one contender.
    pub fn buffers(&self, contender: TimedKernel) -> impl Iterator<Item = &Resident> {
        let own = self.workspaces.get(&contender).into_iter().flatten();
        self.tensors
            .iter()
            .chain(own)
            .map(|placed| &placed.resident)
    }

    /// Overwrites a buffer, by its place among the contender's.
    fn fill(&mut self, contender: TimedKernel, buffer: usize, byte: u8) -> Result<(), Refusal> {
        let own = self.workspaces.get_mut(&contender);
        let mut all = self.tensors.iter_mut().chain(own.into_iter().flatten());
        let placed = all.nth(buffer).expect("a place among these buffers");
        placed.fill(byte)
    }

    /// Overwrites everything that an execution of this contender may have written and that is nobody's
    /// input, so that no answer of its is left for another to find.
    ///
    /// # Errors
    /// The driver's refusal.
    pub fn wipe(&mut self, contender: TimedKernel, byte: u8) -> Result<(), Refusal> {
        let own = self.workspaces.get_mut(&contender);
        let written = self.tensors.iter_mut().chain(own.into_iter().flatten());
        let mut written = written.filter(|placed| !placed.resident.constant);
        written.try_for_each(|placed| placed.fill(byte))
    }

    /// Puts everything back that an execution of this contender may write: fresh poison, or the
    /// first content. Inputs are left as they are, since whoever changes one has lost.
    fn renew(
        &mut self,
        gpu: &Gpu,
        contender: TimedKernel,
        poison: u64,
    ) -> Result<Result<(), Refusal>, Fault> {
        let own = self.workspaces.get_mut(&contender);
        let written = self.tensors.iter_mut().chain(own.into_iter().flatten());
        for placed in written.filter(|placed| !placed.resident.constant) {
            if let Err(refusal) = placed.renew(gpu, poison)? {
                return Ok(Err(refusal));
            }
        }
        Ok(Ok(()))
    }
}

impl Placed {
    fn fill(&mut self, byte: u8) -> Result<(), Refusal> {
        let inside = self.resident.inside.clone();
        let allocation = &mut self.resident.allocation;
        allocation.fill(inside.start, inside.len(), byte)
    }

    fn renew(&mut self, gpu: &Gpu, poison: u64) -> Result<Result<(), Refusal>, Fault> {
        let resident = &mut self.resident;
        if self.poisoned {
            let inside = resident.inside.clone();
            let fresh = inputs::poison(poison, "content", &resident.name, inside.len());
            resident.before[inside].copy_from_slice(&fresh);
        }
        if let Err(refusal) = resident.allocation.upload(&resident.before) {
            return Ok(Err(refusal));
        }
        if let Some(emulator) = gpu.emulator().filter(|_| self.poisoned) {
            let whole = resident.before.len() as u64;
            emulator.forget(resident.allocation.base(), whole)?;
        }
        Ok(Ok(()))
    }
}

/// One batch.
pub struct Batch<'b> {
    /// Whose.
    pub contender: TimedKernel,
    /// The plan of every execution.
    pub plan: &'b ResolvedPlan,
    /// Seed of the first execution's poison; each has its own.
    pub poison: u64,
}

impl Loaded<'_> {
    /// Executes the plan once on each of the sets named, all between two events: the time between
    /// them in microseconds. `begin` is called when everything is ready, `end` when all is over.
    ///
    /// # Errors
    /// A [`Fault`] for a plan that contradicts the buffers or kernels, and for trouble with the
    /// emulated device's interface; the driver's refusal.
    pub fn batch(
        &self,
        batch: &Batch<'_>,
        sets: &mut [BufferSet],
        chosen: &[usize],
        begin: impl FnOnce(&Gpu) -> Result<Result<(), Refusal>, Fault>,
        end: impl FnOnce(),
    ) -> Result<Result<f64, DeviceFault>, Fault> {
        let refused = |refusal: Refusal| Ok(Err(device_fault(refusal, None)));
        for (poison, set) in (batch.poison..).zip(chosen) {
            let renewed = sets[*set].renew(self.gpu, batch.contender, poison)?;
            if let Err(refusal) = renewed {
                return refused(refusal);
            }
        }
        // Look-ups happen before the first launch, so that none of them is timed.
        let mut steps = Vec::new();
        for set in chosen {
            let buffers = sets[*set].buffers(batch.contender).collect::<Vec<_>>();
            for step in &batch.plan.steps {
                match self.prepare(step, &buffers)? {
                    Ok(prepared) => steps.push((*set, prepared)),
                    Err(refusal) => return refused(refusal),
                }
            }
        }
        let watch = match begin(self.gpu)?.and_then(|()| Stopwatch::start()) {
            Ok(watch) => watch,
            Err(refusal) => return refused(refusal),
        };
        let mut launched = 0_usize;
        for (set, step) in &steps {
            let done = match step {
                Prepared::Fill { buffer, byte } => sets[*set].fill(batch.contender, *buffer, *byte),
                Prepared::Launch(launch) => {
                    let started = launch.start();
                    launched += usize::from(started.is_ok());
                    started
                }
            };
            if let Err(refusal) = done {
                let number = u32::try_from(launched).ok();
                return Ok(Err(device_fault(refusal, number)));
            }
        }
        let ended = watch.stop();
        end();
        if let Some(emulator) = self.gpu.emulator() {
            let reports = emulator.take()?;
            let ran = reports.iter().filter(|report| report.outcome.has_run());
            let ran = ran.count();
            if ran != launched {
                // A launch without an account would be a launch that nothing was proved of.
                return Err(Fault::Emulator {
                    request: "report its launches",
                    reason: format!("it took {launched} launches and tells of {ran}"),
                });
            }
        }
        Ok(ended.map_err(|refusal| device_fault(refusal, None)))
    }
}
