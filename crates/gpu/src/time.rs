//! The role that times an incumbent, a candidate and perhaps an anchor in turn, in one process on
//! one device.
//!
//! Buffers are made once, in several sets that take turns. What the cache holds when a batch begins
//! is made by us: nothing of it, or all of its buffers as far as they fit. Every execution starts
//! over poison of its own and leaves outputs whose digest goes into the reply, so that no time
//! counts whose outputs were not looked at. What the times mean is decided elsewhere.
//!
//! An answer has to be worked out each time. No two executions of a batch have the same inputs, and
//! between batches everything that executions leave is overwritten: what they wrote, and on a
//! device that does not prove that nobody reads it, shared memory, registers and stacks as well.

mod sample;
mod sets;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::role::{
    DeviceFault, Failure, Left, MoreRounds, Sample, TimeJob, TimeReply, TimedBlock,
};
use domain::statistics::{Order, PlannedBlock, TimedKernel, median, sample_order};
use rustix::time::{ClockId, clock_gettime};

use self::sets::{Before, Sets};
use crate::cache::{Flush, Reader};
use crate::cycles::Tachometer;
use crate::disturb::Disturber;
use crate::driver::{self, Gpu};
use crate::execute::Loaded;
use crate::fault::Fault;
use crate::line::Line;
use crate::run::{device_fault, read_image};

/// The share of device memory, as a divisor, that sets of buffers may take together.
const SHARE_OF_MEMORY: u64 = 2;

/// Does a job, and what is asked further; the supervisor is told of the moments before and after the
/// timed part of every batch that counts. Gives the last reply.
///
/// # Errors
/// A [`Fault`] where the surroundings fail; a refusal while a side runs is in the reply.
pub fn time_on(gpu: &Gpu, job: &TimeJob, line: &mut Line) -> Result<TimeReply, Fault> {
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
        left: Vec::new(),
        failure: None,
    };
    let mut images = BTreeMap::new();
    for (contender, side) in &job.sides {
        images.insert(*contender, read_image(gpu, &side.image)?);
    }
    let disturber = match &job.disturber {
        Some(side) => Some(Disturber::new(gpu, &read_image(gpu, &side.image)?)?),
        None => None,
    };
    let mut loaded = BTreeMap::new();
    for (contender, side) in &job.sides {
        match Loaded::new(gpu, &images[contender], &side.kernels) {
            Ok(image) => loaded.insert(*contender, image),
            Err(refusal) => {
                let failure = failure(*contender, 0, device_fault(&refusal));
                return Ok(TimeReply {
                    failure: Some(failure),
                    ..reply
                });
            }
        };
    }
    let reply = {
        let mut bench = Bench {
            gpu,
            job,
            images: &images,
            loaded: &loaded,
            disturber,
            cases: Vec::new(),
            flush: None,
            reader: None,
            tachometer: Tachometer::new(gpu)
                .map_err(|refusal| refusal.into_fault("prepare to count cycles"))?,
            line,
            executions: 0,
            reply,
            left: BTreeMap::new(),
        };
        bench.prepare()?;
        bench.reply.failure = bench.work()?.err();
        bench.reply
    };
    drop(loaded);
    // Buffers and modules are gone. An error in that is one of something that ran, so that no time
    // beside it can be believed.
    driver::releases().map_err(|refusal| refusal.into_fault("clear the device"))?;
    Ok(reply)
}

/// A job under way.
struct Bench<'a> {
    gpu: &'a Gpu,
    job: &'a TimeJob,
    images: &'a BTreeMap<TimedKernel, Vec<u8>>,
    loaded: &'a BTreeMap<TimedKernel, Loaded<'a>>,
    /// None where the device proves that nothing depends on what others leave.
    disturber: Option<Disturber<'a>>,
    cases: Vec<Sets>,
    /// None where times are modelled.
    flush: Option<Flush>,
    /// None where no case has a warm cache, or the driver cannot take its kernels.
    reader: Option<Reader>,
    /// None where the driver cannot take its kernel.
    tachometer: Option<Tachometer>,
    line: &'a mut Line,
    /// Executions so far, for the poison.
    executions: u64,
    reply: TimeReply,
    /// What executions left, by the number under which the replies have it.
    left: BTreeMap<Left, usize>,
}

impl<'a> Bench<'a> {
    /// Makes all buffers.
    fn prepare(&mut self) -> Result<(), Fault> {
        let emulated = self.gpu.emulator().is_some();
        // The emulated device's cache begins every launch as if it were empty.
        let l2_bytes = if emulated {
            0
        } else {
            self.reply.device.l2_bytes
        };
        let cases = self.job.cases.len().max(1) as u64;
        let room = self.reply.device.memory_bytes / SHARE_OF_MEMORY / cases;
        let (_, any) = self.loaded.first_key_value().ok_or_else(nobody)?;
        for case in &self.job.cases {
            let sets = Sets::place(case, any, self.job.poison, l2_bytes, room)?;
            let count = u32::try_from(sets.all.len()).unwrap_or(u32::MAX);
            self.reply.sets.push(count);
            self.cases.push(sets);
        }
        let wanted = |before: Before| self.cases.iter().any(|sets| sets.before == before);
        if wanted(Before::Flush) {
            self.flush = Some(Flush::new(l2_bytes)?);
        }
        if wanted(Before::Read) {
            self.reader =
                Reader::new().map_err(|refusal| refusal.into_fault("prepare to warm the cache"))?;
        }
        self.reply.warms = self.reader.is_some();
        self.gpu
            .set_nothing_aside()
            .map_err(|refusal| refusal.into_fault("have nothing persist in the cache"))
    }

    /// Warms up, then makes the rounds, and further ones as long as any are asked for, until time is
    /// up or something fails.
    fn work(&mut self) -> Result<Result<(), Failure>, Fault> {
        let job = self.job;
        let asked = job.rounds.iter().flatten().map(|block| block.case);
        let asked = asked.collect::<BTreeSet<_>>();
        for case in 0..self.cases.len() {
            if !asked.contains(&case) {
                self.reply.warm_up.push(0);
            } else if let Err(failure) = self.warm_up(case)? {
                return Ok(Err(failure));
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
                match self.round(planned)? {
                    Ok(blocks) => self.reply.rounds.push(blocks),
                    Err(failure) => return Ok(Err(failure)),
                }
            }
            self.note_clocks()?;
            let next: MoreRounds = self.line.ask(&self.reply)?;
            rounds = next.rounds;
            self.reply.rounds.clear();
            self.reply.left.clear();
        }
        Ok(Ok(()))
    }

    /// Writes into the samples of this reply how fast the clock ran before and after each.
    fn note_clocks(&mut self) -> Result<(), Fault> {
        let Some(tachometer) = &mut self.tachometer else {
            return Ok(());
        };
        let clocks = tachometer
            .read()
            .map_err(|refusal| refusal.into_fault("read how many cycles were counted"))?;
        let samples = self.reply.rounds.iter_mut().flatten();
        let samples = samples.flat_map(|block| &mut block.samples);
        for (sample, ends) in samples.zip(clocks.chunks_exact(2)) {
            sample.sm_mhz = ends[0].zip(ends[1]).map(|(before, after)| [before, after]);
        }
        Ok(())
    }

    fn round(
        &mut self,
        planned: &[PlannedBlock],
    ) -> Result<Result<Vec<TimedBlock>, Failure>, Fault> {
        let mut blocks = Vec::with_capacity(planned.len());
        for block in planned {
            match self.block(block.case, block.order, true)? {
                Ok(samples) => blocks.push(TimedBlock {
                    case: block.case,
                    order: block.order,
                    samples,
                }),
                Err(failure) => return Ok(Err(failure)),
            }
        }
        Ok(Ok(blocks))
    }

    /// The clock that bounds the rounds: the wall's on silicon. Emulated kernels are work of this
    /// process, and how much of the machine others take must not shorten the comparison.
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

    fn warm_up(&mut self, case: usize) -> Result<Result<(), Failure>, Fault> {
        let began = self.clock();
        let mut medians = Vec::new();
        loop {
            let elapsed = self.clock().saturating_sub(began).as_secs_f64() * 1e3;
            if self.job.warm_up.is_over(&medians, elapsed) {
                break;
            }
            match self.block(case, Order::IncumbentOutside, false)? {
                Ok(samples) => {
                    let times = samples.iter().map(|sample| sample.event_us);
                    let times = times.filter(|us| us.is_finite()).collect::<Vec<_>>();
                    medians.push(median(&times).unwrap_or(f64::NAN));
                }
                Err(failure) => return Ok(Err(failure)),
            }
        }
        let blocks = u32::try_from(medians.len()).unwrap_or(u32::MAX);
        self.reply.warm_up.push(blocks);
        Ok(Ok(()))
    }

    /// The samples of one block.
    fn block(
        &mut self,
        case: usize,
        order: Order,
        counts: bool,
    ) -> Result<Result<Vec<Sample>, Failure>, Fault> {
        let job = self.job;
        let anchored = job.sides.contains_key(&TimedKernel::Anchor);
        let sets = &self.cases[case];
        let (all, first) = (sets.all.len(), sets.next);
        let prepared = sets.before != Before::Nothing;
        // Where memory ends before a batch does, the batch is shorter.
        let executions = (job.cases[case].batch as usize).min(all);
        let mut samples = Vec::new();
        let mut own_turns = BTreeMap::<TimedKernel, usize>::new();
        let mut furthest = first;
        for (turn, contender) in sample_order(order, anchored).into_iter().enumerate() {
            let own_turn = own_turns.entry(contender).or_default();
            // Where the cache is prepared, the first turns of all have the same inputs, and so have
            // the second. Otherwise every turn has sets that nobody has touched for long.
            let start = first + if prepared { *own_turn } else { turn } * executions;
            *own_turn += 1;
            furthest = furthest.max(start + executions);
            let chosen = (start..start + executions)
                .map(|set| set % all)
                .collect::<Vec<_>>();
            match self.sample(case, contender, &chosen, counts)? {
                Ok(sample) => {
                    driver::releases().map_err(|refusal| refusal.into_fault("clear the device"))?;
                    samples.push(sample);
                }
                Err(fault) => return Ok(Err(failure(contender, case, fault))),
            }
        }
        self.cases[case].next = furthest % all;
        Ok(Ok(samples))
    }
}

fn failure(contender: TimedKernel, case: usize, fault: DeviceFault) -> Failure {
    Failure {
        contender,
        case,
        fault,
    }
}

fn nobody() -> Fault {
    Fault::Job("a contender has an image and no plan, or a plan and no image".to_owned())
}
