//! Batches: several executions of a plan between two events, on sets of buffers that are allocated once.
//!
//! Only the launches and fills of the plan happen between the two events. Buffers are allocated and filled before the
//! first event and read after the second, so that the time contains nothing else.

use std::collections::BTreeMap;

use domain::plan::ResolvedPlan;
use domain::role::Placement;
use domain::statistics::TimedKernel;

use super::{
    Buffer, DeviceBuffer, ExecuteError, LoadedImage, PassOptions, PreparedStep, device_fault,
};
use tensors::inputs;

use crate::driver::{DriverError, Gpu, Stopwatch};
use crate::role_error::RoleError;

/// One set of buffers: the tensors of a case, and the workspaces of each contender's plan.
#[derive(Debug)]
pub struct BufferSet {
    tensors: Vec<SetBuffer>,
    workspaces: BTreeMap<TimedKernel, Vec<SetBuffer>>,
}

/// A buffer of a set.
#[derive(Debug)]
struct SetBuffer {
    resident: DeviceBuffer,
    /// True if it is filled with poison before each execution.
    poisoned: bool,
}

impl BufferSet {
    /// Allocates and fills the buffers of one set.
    ///
    /// # Errors
    /// [`ExecuteError::Role`] for buffers that contradict themselves; [`ExecuteError::Device`] where
    /// there is no memory for them.
    pub fn allocate(
        loaded: &LoadedImage<'_>,
        tensors: Vec<Buffer>,
        workspaces: BTreeMap<TimedKernel, Vec<Buffer>>,
        poison: u64,
    ) -> Result<Self, ExecuteError> {
        let options = PassOptions {
            poison,
            placement: Placement::Ending,
            timed: true,
        };
        let allocate = |buffers: Vec<Buffer>| -> Result<Vec<SetBuffer>, ExecuteError> {
            let mut placed = Vec::with_capacity(buffers.len());
            for buffer in buffers {
                let poisoned = buffer.content.is_none();
                let resident = loaded.allocate(buffer, options)?;
                placed.push(SetBuffer { resident, poisoned });
            }
            Ok(placed)
        };
        let mut set = Self {
            tensors: allocate(tensors)?,
            workspaces: BTreeMap::new(),
        };
        for (contender, buffers) in workspaces {
            set.workspaces.insert(contender, allocate(buffers)?);
        }
        Ok(set)
    }

    /// The tensors, then the workspaces of one contender.
    pub fn buffers(&self, contender: TimedKernel) -> impl Iterator<Item = &DeviceBuffer> {
        let own = self.workspaces.get(&contender).into_iter().flatten();
        self.tensors
            .iter()
            .chain(own)
            .map(|placed| &placed.resident)
    }

    /// Overwrites a buffer, given by its index among the contender's buffers.
    fn fill(&mut self, contender: TimedKernel, buffer: usize, byte: u8) -> Result<(), DriverError> {
        let own = self.workspaces.get_mut(&contender);
        let mut all = self.tensors.iter_mut().chain(own.into_iter().flatten());
        let placed = all.nth(buffer).expect("an index among these buffers");
        placed.fill(byte)
    }

    /// Overwrites every buffer that an execution of this contender may have written, except inputs, so that another
    /// execution finds no result of it.
    ///
    /// # Errors
    /// The driver's error.
    pub fn overwrite_written(
        &mut self,
        contender: TimedKernel,
        byte: u8,
    ) -> Result<(), DriverError> {
        let own = self.workspaces.get_mut(&contender);
        let written = self.tensors.iter_mut().chain(own.into_iter().flatten());
        let mut written = written.filter(|placed| !placed.resident.constant);
        written.try_for_each(|placed| placed.fill(byte))
    }

    /// Restores every buffer that an execution of this contender may write, with fresh poison or the first content.
    /// Inputs are not restored, because a contender that changes one is refused.
    fn restore(
        &mut self,
        gpu: &Gpu,
        contender: TimedKernel,
        poison: u64,
    ) -> Result<(), ExecuteError> {
        let own = self.workspaces.get_mut(&contender);
        let written = self.tensors.iter_mut().chain(own.into_iter().flatten());
        for placed in written.filter(|placed| !placed.resident.constant) {
            placed.restore(gpu, poison)?;
        }
        Ok(())
    }
}

impl SetBuffer {
    fn fill(&mut self, byte: u8) -> Result<(), DriverError> {
        let inside = self.resident.inside.clone();
        let allocation = &mut self.resident.allocation;
        allocation.fill(inside.start, inside.len(), byte)
    }

    fn restore(&mut self, gpu: &Gpu, poison: u64) -> Result<(), ExecuteError> {
        let resident = &mut self.resident;
        if self.poisoned {
            let inside = resident.inside.clone();
            let fresh = inputs::poison(poison, "content", &resident.name, inside.len());
            resident.before[inside].copy_from_slice(&fresh);
        }
        resident.allocation.upload(&resident.before)?;
        if let Some(emulator) = gpu.emulator().filter(|_| self.poisoned) {
            let whole = resident.before.len() as u64;
            emulator.mark_unwritten(resident.allocation.base(), whole)?;
        }
        Ok(())
    }
}

/// One batch.
pub struct Batch<'b> {
    /// The contender whose plan is executed.
    pub contender: TimedKernel,
    /// The plan of every execution.
    pub plan: &'b ResolvedPlan,
    /// Seed of the first execution's poison; each execution has its own seed.
    pub poison: u64,
}

impl LoadedImage<'_> {
    /// Executes the plan once on each of the chosen sets, all between two events, and returns the time between the
    /// events in microseconds. `begin` is called when everything is ready, `end` when all work has ended.
    ///
    /// # Errors
    /// A [`RoleError`] for a plan that contradicts the buffers or kernels, and for a failure of the emulated device's
    /// interface; the driver's error.
    pub fn batch(
        &self,
        batch: &Batch<'_>,
        sets: &mut [BufferSet],
        chosen: &[usize],
        begin: impl FnOnce(&Gpu) -> Result<(), ExecuteError>,
        end: impl FnOnce(),
    ) -> Result<f64, ExecuteError> {
        for (poison, set) in (batch.poison..).zip(chosen) {
            sets[*set].restore(self.gpu, batch.contender, poison)?;
        }
        // All look-ups happen before the first launch, so that they are not timed.
        let mut steps = Vec::new();
        for set in chosen {
            let buffers = sets[*set].buffers(batch.contender).collect::<Vec<_>>();
            for step in &batch.plan.steps {
                steps.push((*set, self.prepare_step(step, &buffers)?));
            }
        }
        let persisting = self.set_aside(batch.plan)?;
        begin(self.gpu)?;
        let watch = Stopwatch::start()?;
        let mut launched = 0_usize;
        for (set, step) in &steps {
            let done = match step {
                PreparedStep::Fill { buffer, byte } => {
                    sets[*set].fill(batch.contender, *buffer, *byte)
                }
                PreparedStep::Launch(launch) => {
                    let started = launch.start();
                    launched += usize::from(started.is_ok());
                    started
                }
            };
            let number = u32::try_from(launched).ok();
            done.map_err(|error| ExecuteError::Device(device_fault(error, number)))?;
        }
        let ended = watch.stop();
        end();
        let reset = self.end_persisting(persisting);
        if let Some(emulator) = self.gpu.emulator() {
            let reports = emulator.take_reports()?;
            let ran = reports.iter().filter(|report| report.outcome.has_run());
            let ran = ran.count();
            if ran != launched {
                // A launch without a report would be a launch without any checks.
                return Err(ExecuteError::Role(RoleError::Emulator {
                    request: "report its launches",
                    reason: format!("it took {launched} launches and tells of {ran}"),
                }));
            }
        }
        let microseconds = ended?;
        reset?;
        Ok(microseconds)
    }
}
