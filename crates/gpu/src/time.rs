//! The role `time`: times an incumbent, a candidate and perhaps an anchor alternately, in one process on one device.
//!
//! Buffers are allocated once, in several sets that are used in rotation. The role prepares the cache before each
//! batch: it holds none of the batch's buffers, or all of them as far as they fit. Every execution starts with
//! different poison in its outputs, and the digest of its outputs is part of the reply, so that every time belongs to
//! outputs that were checked. `domain::judge` decides about times.
//!
//! Every execution has to compute its result. No two executions of a batch have the same inputs, and between batches
//! all results of executions are overwritten: the buffers that they wrote, and on a GPU also shared memory, registers
//! and stacks. The emulated device detects reads of such leftovers by itself.

mod keep;
mod sample;
mod sets;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::role::{
    DeviceFault, ExecutionOutcome, Failure, NextRounds, Sample, TimeJob, TimeReply, TimedBlock,
};
use domain::statistics::{PlannedBlock, SampleOrder, TimedKernel, median, sample_order};
use rustix::time::{ClockId, clock_gettime};

use self::keep::OutputKeeper;
use self::sets::{CachePreparation, Sets};
use crate::cache::{Flush, Reader};
use crate::connection::Connection;
use crate::cycles::ClockMeter;
use crate::disturb::Disturber;
use crate::driver::{self, Gpu};
use crate::execute::{ExecuteError, LoadedImage, device_fault};
use crate::role_error::RoleError;
use crate::run::read_image;

/// The divisor of device memory that gives the share which all sets of buffers may use together.
const SHARE_OF_MEMORY: u64 = 2;

/// Times the rounds of a job and further rounds that the supervisor asks for, and returns the last
/// reply. The supervisor is notified before and after the timed part of every batch that counts.
///
/// # Errors
/// A [`RoleError`] where the environment fails; a refusal while an image runs is part of the reply.
pub fn time_on(
    gpu: &Gpu,
    job: &TimeJob,
    connection: &mut Connection,
) -> Result<TimeReply, RoleError> {
    let device = gpu.describe()?;
    let model_label = match gpu.emulator() {
        Some(emulator) => Some(emulator.describe()?.label),
        None => None,
    };
    let reply = TimeReply {
        device,
        model_label,
        warms: false,
        sets: Vec::new(),
        warm_up: Vec::new(),
        rounds: Vec::new(),
        outcomes: Vec::new(),
        kept: Vec::new(),
        failure: None,
    };
    let mut images = BTreeMap::new();
    for (contender, image) in &job.images {
        images.insert(*contender, read_image(gpu, &image.image)?);
    }
    let disturber = match &job.disturber {
        Some(image) => Some(Disturber::new(gpu, &read_image(gpu, &image.image)?)?),
        None => None,
    };
    let mut loaded = BTreeMap::new();
    for (contender, image) in &job.images {
        match LoadedImage::new(gpu, &images[contender], &image.kernels) {
            Ok(image) => loaded.insert(*contender, image),
            Err(refusal) => {
                let failure = failure(*contender, 0, device_fault(refusal, None));
                return Ok(TimeReply {
                    failure: Some(failure),
                    ..reply
                });
            }
        };
    }
    let reply = {
        let mut bench = TimingSession {
            gpu,
            job,
            images: &images,
            loaded: &loaded,
            disturber,
            cases: Vec::new(),
            flush: None,
            reader: None,
            clock_meter: ClockMeter::new(gpu)
                .map_err(|refusal| refusal.into_role_error("prepare to count cycles"))?,
            connection,
            executions: 0,
            reply,
            outcomes: BTreeMap::new(),
            keeper: job
                .order_dependent
                .as_ref()
                .map(|outputs| OutputKeeper::new(outputs, job.poison)),
        };
        bench.prepare()?;
        bench.reply.failure = match bench.time_rounds() {
            Ok(()) => None,
            Err(TimeError::Device(failure)) => Some(failure),
            Err(TimeError::Role(error)) => return Err(error),
        };
        bench.reply
    };
    drop(loaded);
    // Buffers and modules are dropped. An error of their release belongs to something that ran, so that no time of
    // this process can be trusted.
    driver::take_release_error().map_err(|refusal| refusal.into_role_error("clear the device"))?;
    Ok(reply)
}

/// Error of the timed part of a job.
enum TimeError {
    /// The device stopped a contender. It belongs in the reply.
    Device(Failure),
    /// The role cannot do its job. There is no reply.
    Role(RoleError),
}

impl From<RoleError> for TimeError {
    fn from(error: RoleError) -> Self {
        Self::Role(error)
    }
}

/// A job in progress.
struct TimingSession<'a> {
    gpu: &'a Gpu,
    job: &'a TimeJob,
    images: &'a BTreeMap<TimedKernel, Vec<u8>>,
    loaded: &'a BTreeMap<TimedKernel, LoadedImage<'a>>,
    /// None if the device proves that no execution depends on leftovers of others.
    disturber: Option<Disturber<'a>>,
    cases: Vec<Sets>,
    /// None if times are modelled.
    flush: Option<Flush>,
    /// None if no case has a warm cache, or the driver cannot compile the kernels.
    reader: Option<Reader>,
    /// None if the driver cannot compile the kernel.
    clock_meter: Option<ClockMeter>,
    connection: &'a mut Connection,
    /// Number of executions so far, for the seed of the poison.
    executions: u64,
    reply: TimeReply,
    /// Results of executions, with the number that refers to them in the replies.
    outcomes: BTreeMap<ExecutionOutcome, usize>,
    /// None if the bytes of all outputs are compared.
    keeper: Option<OutputKeeper<'a>>,
}

impl<'a> TimingSession<'a> {
    /// Allocates all buffers, and the memory and kernels that prepare the cache.
    fn prepare(&mut self) -> Result<(), RoleError> {
        let emulated = self.gpu.emulator().is_some();
        // The emulated device's cache is emptied by a request.
        let l2_bytes = if emulated {
            0
        } else {
            self.reply.device.l2_bytes
        };
        let cases = self.job.cases.len().max(1) as u64;
        let room = self.reply.device.memory_bytes / SHARE_OF_MEMORY / cases;
        let (_, any) = self
            .loaded
            .first_key_value()
            .ok_or_else(contender_mismatch)?;
        for case in &self.job.cases {
            let sets = Sets::allocate(case, any, self.job.poison, l2_bytes, room)?;
            let count = u32::try_from(sets.all.len()).unwrap_or(u32::MAX);
            self.reply.sets.push(count);
            self.cases.push(sets);
        }
        let wanted = |before: CachePreparation| self.cases.iter().any(|sets| sets.before == before);
        if wanted(CachePreparation::Flush) {
            self.flush = Some(Flush::new(l2_bytes)?);
        }
        if wanted(CachePreparation::Read) {
            self.reader = Reader::new()
                .map_err(|refusal| refusal.into_role_error("prepare to warm the cache"))?;
        }
        self.reply.warms = self.reader.is_some();
        self.gpu
            .set_persisting_cache(0)
            .map_err(|refusal| refusal.into_role_error("have nothing persist in the cache"))
    }

    /// Warms up, then times the rounds of the job and those asked for later, until the job's time is
    /// used up or something fails.
    fn time_rounds(&mut self) -> Result<(), TimeError> {
        let job = self.job;
        let asked = job.rounds.iter().flatten().map(|block| block.case);
        let asked = asked.collect::<BTreeSet<_>>();
        for case in 0..self.cases.len() {
            if !asked.contains(&case) {
                self.reply.warm_up.push(0);
            } else {
                self.warm_up(case)?;
            }
        }
        let began = self.clock();
        let enough = Duration::from_secs(u64::from(job.seconds));
        let mut rounds = job.rounds.clone();
        while !rounds.is_empty() {
            for planned in &rounds {
                if self.clock().saturating_sub(began) >= enough {
                    break;
                }
                let blocks = self.round(planned)?;
                self.reply.rounds.push(blocks);
            }
            self.record_clock_rates()?;
            let next: NextRounds = self.connection.ask(&self.reply)?;
            rounds = next.rounds;
            self.reply.rounds.clear();
            self.reply.outcomes.clear();
        }
        Ok(())
    }

    /// Writes the clock rates before and after each sample of this reply into it, megahertz.
    fn record_clock_rates(&mut self) -> Result<(), RoleError> {
        let Some(clock_meter) = &mut self.clock_meter else {
            return Ok(());
        };
        let clocks = clock_meter
            .read()
            .map_err(|refusal| refusal.into_role_error("read how many cycles were counted"))?;
        let samples = self.reply.rounds.iter_mut().flatten();
        let samples = samples.flat_map(|block| &mut block.samples);
        for (sample, ends) in samples.zip(clocks.chunks_exact(2)) {
            sample.sm_mhz = ends[0].zip(ends[1]).map(|(before, after)| [before, after]);
        }
        Ok(())
    }

    fn round(&mut self, planned: &[PlannedBlock]) -> Result<Vec<TimedBlock>, TimeError> {
        let mut blocks = Vec::with_capacity(planned.len());
        for block in planned {
            blocks.push(TimedBlock {
                case: block.case,
                order: block.order,
                samples: self.block(block.case, block.order, true)?,
            });
        }
        Ok(blocks)
    }

    /// The clock that limits the rounds: wall time on a GPU. Emulated kernels are work of this process, and load from
    /// other processes must not shorten the comparison.
    fn clock(&self) -> Duration {
        let clock = match self.gpu.emulator() {
            Some(_) => ClockId::ProcessCPUTime,
            None => ClockId::Monotonic,
        };
        let time = clock_gettime(clock);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
        Duration::new(seconds, nanoseconds)
    }

    fn warm_up(&mut self, case: usize) -> Result<(), TimeError> {
        let began = self.clock();
        let mut medians = Vec::new();
        loop {
            let elapsed = self.clock().saturating_sub(began).as_secs_f64() * 1e3;
            if self.job.warm_up.is_over(&medians, elapsed) {
                break;
            }
            let samples = self.block(case, SampleOrder::IncumbentOutside, false)?;
            let times = samples.iter().map(|sample| sample.event_us);
            let times = times.filter(|us| us.is_finite()).collect::<Vec<_>>();
            medians.push(median(&times).unwrap_or(f64::NAN));
        }
        let blocks = u32::try_from(medians.len()).unwrap_or(u32::MAX);
        self.reply.warm_up.push(blocks);
        Ok(())
    }

    /// The samples of one block.
    fn block(
        &mut self,
        case: usize,
        order: SampleOrder,
        counts: bool,
    ) -> Result<Vec<Sample>, TimeError> {
        let job = self.job;
        let anchored = job.images.contains_key(&TimedKernel::Anchor);
        let sets = &self.cases[case];
        let (all, first) = (sets.all.len(), sets.next);
        let prepared = sets.before != CachePreparation::Nothing;
        // A batch is shorter if there was not enough memory for that many sets.
        let executions = (job.cases[case].batch as usize).min(all);
        let mut samples = Vec::new();
        let mut own_turns = BTreeMap::<TimedKernel, usize>::new();
        let mut furthest = first;
        for (turn, contender) in sample_order(order, anchored).into_iter().enumerate() {
            let own_turn = own_turns.entry(contender).or_default();
            // If the cache is prepared, all contenders' first turns have the same inputs, and so have their second
            // turns. Otherwise every turn uses the sets that were not accessed for the longest time.
            let start = first + if prepared { *own_turn } else { turn } * executions;
            *own_turn += 1;
            furthest = furthest.max(start + executions);
            let chosen = (start..start + executions)
                .map(|set| set % all)
                .collect::<Vec<_>>();
            match self.sample(case, contender, &chosen, counts) {
                Ok(sample) => {
                    driver::take_release_error()
                        .map_err(|refusal| refusal.into_role_error("clear the device"))?;
                    samples.push(sample);
                }
                Err(ExecuteError::Device(fault)) => {
                    return Err(TimeError::Device(failure(contender, case, fault)));
                }
                Err(ExecuteError::Role(error)) => return Err(TimeError::Role(error)),
            }
        }
        self.cases[case].next = furthest % all;
        Ok(samples)
    }
}

fn failure(contender: TimedKernel, case: usize, fault: DeviceFault) -> Failure {
    Failure {
        contender,
        case,
        fault,
    }
}

fn contender_mismatch() -> RoleError {
    RoleError::Job("a contender has an image and no plan, or a plan and no image".to_owned())
}
