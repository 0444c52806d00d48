//! One timed batch of executions: preparation, measurement, and digests of the outputs.

use std::collections::BTreeMap;

use domain::digest::Digest;
use domain::role::{
    ExecutionOutcome, KeptExecution, RunnableImage, Sample, TensorData, TimeJob, fingerprint,
};
use domain::statistics::TimedKernel;
use domain::task::Role;
use domain::timing::CacheState;

use super::sets::CachePreparation;
use super::{TimingSession, contender_mismatch};
use crate::connection::TimingMark;
use crate::driver::emulator::{Checks, Configuration, Fragments};
use crate::driver::{DriverError, Gpu};
use crate::execute::{Batch, BufferSet, ExecuteError, LoadedImage};
use crate::role_error::RoleError;
use crate::run::{registers, spills};

impl TimingSession<'_> {
    /// Prepares and times one batch, reads its outputs, and overwrites everything that it wrote.
    pub(super) fn sample(
        &mut self,
        case: usize,
        contender: TimedKernel,
        chosen: &[usize],
        counts: bool,
    ) -> Result<Sample, ExecuteError> {
        let (job, loaded) = (self.job, self.loaded);
        let timed = &job.cases[case];
        let image = job.images.get(&contender).ok_or_else(contender_mismatch)?;
        let renewed = match image.stateful {
            true => Some(LoadedImage::new(
                self.gpu,
                &self.images[&contender],
                &image.kernels,
            )?),
            false => None,
        };
        let module = renewed.as_ref().unwrap_or(&loaded[&contender]);
        if let Some(disturber) = &mut self.disturber {
            let seed = job.poison.wrapping_add(self.executions);
            disturber.leave_garbage(seed, module.stack_bytes())?;
        }
        let sets = &mut self.cases[case];
        let ranges = sets.ranges(contender, chosen);
        configure(self.gpu, job, image, timed.cache, &ranges)?;
        let batch = Batch {
            contender,
            plan: timed.plans.get(&contender).ok_or_else(contender_mismatch)?,
            poison: job.poison.wrapping_add(self.executions),
        };
        let launches = chosen.len() * batch.plan.steps.len();
        self.executions += chosen.len() as u64;
        let before = sets.before;
        let (mut flush, reader) = (self.flush.as_mut(), self.reader.as_ref());
        let connection = std::cell::RefCell::new(&mut *self.connection);
        let mut clock_meter = self.clock_meter.as_mut().filter(|_| counts);
        let begin = |gpu: &Gpu| -> Result<(), ExecuteError> {
            if let Some(clock_meter) = &mut clock_meter {
                clock_meter.start(gpu)?;
            }
            gpu.reset_persisting_cache()?;
            gpu.synchronize()?;
            let reader = match before {
                CachePreparation::Read => Some(reader.ok_or(RoleError::NoPtx("warm the cache"))?),
                CachePreparation::Nothing | CachePreparation::Flush => None,
            };
            if let Some(reader) = reader {
                reader.read(gpu, &ranges)?;
            } else if let Some(emulator) = gpu.emulator() {
                emulator.empty_cache()?;
            }
            if counts {
                connection.borrow_mut().mark(TimingMark::Begin);
            }
            // The host does not wait for the following work. While the device is busy with it the launches are
            // queued, so that the time between the events is that of the device and not that of queueing.
            if let Some(reader) = reader {
                return reader.hold(gpu, launches);
            }
            if let Some(flush) = flush.as_mut().filter(|_| before == CachePreparation::Flush) {
                flush.begin()?;
            }
            Ok(())
        };
        let end = || {
            if counts {
                connection.borrow_mut().mark(TimingMark::End);
            }
        };
        let event_us = module.batch(&batch, &mut sets.all, chosen, begin, end)?;
        let mut sample = Sample {
            event_us,
            sm_mhz: None,
            outcomes: BTreeMap::new(),
        };
        if counts {
            if let Some(clock_meter) = &mut self.clock_meter {
                clock_meter.start(self.gpu)?;
            }
            sample.outcomes = self.count_results(case, contender, chosen)?;
        }
        let [byte, ..] = batch.poison.to_le_bytes();
        let sets = &mut self.cases[case].all;
        for set in chosen {
            sets[*set].overwrite_written(contender, byte)?;
        }
        Ok(sample)
    }

    /// Counts the distinct results that the executions on these sets left, by their number in the
    /// replies.
    fn count_results(
        &mut self,
        case: usize,
        contender: TimedKernel,
        chosen: &[usize],
    ) -> Result<BTreeMap<usize, u32>, ExecuteError> {
        let draws = &self.job.cases[case].draws;
        let order_dependent = self.job.order_dependent.as_ref();
        let order_dependent = order_dependent.map(|outputs| outputs.tensors.as_slice());
        let mut found = BTreeMap::new();
        for set in chosen {
            let draw = set % draws.len();
            let set = &self.cases[case].all[*set];
            let (outcome, outputs) =
                read_outcome(set, contender, draw, &draws[draw], order_dependent)?;
            if let Some(keeper) = &mut self.keeper {
                let execution = KeptExecution {
                    case,
                    contender,
                    draw,
                };
                keeper.keep(execution, &outputs, &mut self.reply.kept)?;
            }
            let next = self.outcomes.len();
            let number = *self.outcomes.entry(outcome.clone()).or_insert(next);
            if number == next {
                self.reply.outcomes.push(outcome);
            }
            *found.entry(number).or_default() += 1;
        }
        Ok(found)
    }
}

/// Configures the emulated device for launches on these ranges, and the state of the cache that its
/// time model assumes.
fn configure(
    gpu: &Gpu,
    job: &TimeJob,
    image: &RunnableImage,
    cache: CacheState,
    ranges: &[(u64, u64)],
) -> Result<(), RoleError> {
    let Some(emulator) = gpu.emulator() else {
        return Ok(());
    };
    emulator.configure(&Configuration {
        schedule: None,
        fragments: Fragments::Usual,
        checks: Checks::Bounds,
        budget: job.instruction_budget,
        threads: Some(job.threads),
        counters: true,
        sample: None,
        read_before: Some(ranges.iter().map(|(_, bytes)| bytes).sum()),
        clock: cache,
        registers: registers(&image.kernels),
        spills: spills(&image.kernels),
    })
}

/// The bytes of an execution's outputs by name.
pub(super) type OutputBytes = Vec<(String, Vec<u8>)>;

/// Reads the result that an execution left in a set of buffers, and where outputs may depend on an order, the bytes of
/// all outputs.
fn read_outcome(
    set: &BufferSet,
    contender: TimedKernel,
    draw: usize,
    tensors: &[TensorData],
    order_dependent: Option<&[String]>,
) -> Result<(ExecutionOutcome, OutputBytes), DriverError> {
    let mut outcome = ExecutionOutcome {
        draw,
        outputs: Digest::of(""),
        mutated: None,
        overrun: None,
    };
    let mut outputs = BTreeMap::new();
    let mut bytes = OutputBytes::new();
    let tensors = tensors.iter().map(Some).chain(std::iter::repeat(None));
    for (buffer, tensor) in set.buffers(contender).zip(tensors) {
        let after = buffer.read_back()?;
        if after.overrun {
            outcome.overrun = Some(buffer.name.clone());
        }
        let Some(tensor) = tensor else { continue };
        if tensor.role != Role::In {
            outputs.insert(tensor.name.clone(), Digest::of(after.content()));
            if order_dependent.is_some() {
                bytes.push((tensor.name.clone(), after.content().to_vec()));
            }
        } else if after.changed {
            outcome.mutated = Some(tensor.name.clone());
        }
    }
    outcome.outputs = fingerprint(&outputs, order_dependent.unwrap_or_default());
    Ok((outcome, bytes))
}
