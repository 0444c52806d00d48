//! The role that times an incumbent and a candidate in turn, in one process on one device.
//!
//! Every execution starts over poison of its own, finds the cache flushed, and leaves outputs
//! whose digest goes into the reply, so that no time counts whose outputs were not looked at.
//! What the times mean is decided elsewhere.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use domain::digest::Digest;
use domain::plan::ResolvedPlan;
use domain::role::{
    DeviceFault, Failure, Placement, Sample, Side, TensorData, TimeJob, TimeReply, TimedBlock,
    fingerprint, turns,
};
use domain::task::Role;

use crate::driver::emulator::{Checks, Configuration, Fragments};
use crate::driver::{self, Allocation, Gpu, Refusal};
use crate::execute::{Buffer, Loaded, Manner};
use crate::fault::Fault;
use crate::inputs;
use crate::run::{device_fault, read_image, registers, workspaces};

/// How often the second level cache is overwritten before an execution.
const FLUSHES: u64 = 2;

/// One end of the timed part of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Nothing is timed before the supervisor has noted it.
    Begin,
    /// Everything timed is over.
    End,
}

/// What happens around the timed part of an execution.
pub struct Surroundings {
    /// Memory that is overwritten to push everything else out of the cache, and its size; none
    /// where times are modelled.
    flush: RefCell<Option<(Allocation, usize)>>,
    /// Tells the supervisor that the timed part begins or is over.
    tick: RefCell<Box<dyn FnMut(Moment)>>,
}

impl std::fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").finish_non_exhaustive()
    }
}

impl Surroundings {
    fn new(gpu: &Gpu, l2_bytes: u64, tick: Box<dyn FnMut(Moment)>) -> Result<Self, Fault> {
        let flush = if gpu.emulator().is_some() {
            None
        } else {
            let bytes = usize::try_from(FLUSHES * l2_bytes)
                .map_err(|_| Fault::Job("the cache is larger than memory".to_owned()))?;
            let memory = Allocation::new(bytes)
                .map_err(|refusal| refusal.into_fault("make room to flush the cache"))?;
            Some((memory, bytes))
        };
        Ok(Self {
            flush: RefCell::new(flush),
            tick: RefCell::new(tick),
        })
    }

    /// Flushes the cache and marks the beginning.
    ///
    /// # Errors
    /// The driver's refusal.
    pub fn before(&self, gpu: &Gpu) -> Result<(), Refusal> {
        if let Some((memory, bytes)) = self.flush.borrow_mut().as_mut() {
            memory.fill(0, *bytes, 0x5a)?;
        }
        gpu.synchronize()?;
        (self.tick.borrow_mut())(Moment::Begin);
        Ok(())
    }

    /// Marks the end.
    pub fn after(&self) {
        (self.tick.borrow_mut())(Moment::End);
    }
}

/// Does a job; `tick` is called before and after the timed part of every execution.
///
/// # Errors
/// A [`Fault`] where the surroundings fail; a refusal while a side runs is in the reply.
pub fn time_on(gpu: &Gpu, job: &TimeJob, tick: Box<dyn FnMut(Moment)>) -> Result<TimeReply, Fault> {
    let device = gpu.describe()?;
    let model_label = match gpu.emulator() {
        Some(emulator) => Some(emulator.describe()?.label),
        None => None,
    };
    let surroundings = Surroundings::new(gpu, device.l2_bytes, tick)?;
    let mut reply = TimeReply {
        device,
        model_label,
        rounds: Vec::new(),
        failure: None,
    };
    let load = |side: &Side| read_image(gpu, &side.image);
    let images = [load(&job.incumbent)?, load(&job.candidate)?];
    let sides = [&job.incumbent, &job.candidate];
    let mut loaded = Vec::new();
    for (number, (side, image)) in sides.into_iter().zip(&images).enumerate() {
        match Loaded::new(gpu, image, &side.kernels) {
            Ok(side) => loaded.push(side.timed_within(&surroundings)),
            Err(refusal) => {
                reply.failure = Some(Failure {
                    candidate: number == 1,
                    case: 0,
                    fault: device_fault(&refusal),
                });
                return Ok(reply);
            }
        }
    }
    let contents = contents(job);
    let began = Instant::now();
    let enough = Duration::from_secs(u64::from(job.seconds));
    let mut executions = 0_u64;
    for (number, planned) in job.rounds.iter().enumerate() {
        if began.elapsed() >= enough {
            break;
        }
        let mut blocks = Vec::with_capacity(planned.len());
        for block in planned {
            let case = &job.cases[block.case];
            let mut samples = Vec::with_capacity(4);
            for (turn, candidate) in turns(block.order).into_iter().enumerate() {
                // Both sides of a pair get the same inputs, the next pair others.
                let draw = (2 * number + turn / 2) % case.draws.len();
                let side = usize::from(candidate);
                let plan = [&case.incumbent, &case.candidate][side];
                configure(gpu, job, sides[side])?;
                let poison = job.poison.wrapping_add(executions);
                executions += 1;
                let one = Execution {
                    plan,
                    tensors: &case.draws[draw],
                    contents: &contents[block.case][draw],
                    draw,
                    poison,
                };
                match one.sample(&loaded[side])? {
                    Ok(sample) => {
                        driver::releases()
                            .map_err(|refusal| refusal.into_fault("clear the device"))?;
                        samples.push(sample);
                    }
                    Err(fault) => {
                        reply.failure = Some(Failure {
                            candidate,
                            case: block.case,
                            fault,
                        });
                        return Ok(reply);
                    }
                }
            }
            blocks.push(TimedBlock {
                case: block.case,
                order: block.order,
                samples: samples.try_into().expect("a block has four turns"),
            });
        }
        reply.rounds.push(blocks);
    }
    Ok(reply)
}

/// The bytes of every case's inputs, by draw and tensor: made once, since making them takes longer
/// than most executions.
fn contents(job: &TimeJob) -> Vec<Vec<Vec<Option<Vec<u8>>>>> {
    let content = |tensor: &TensorData| (tensor.role != Role::Out).then(|| inputs::bytes(tensor));
    let draws = |draws: &Vec<Vec<TensorData>>| {
        draws
            .iter()
            .map(|tensors| tensors.iter().map(content).collect())
            .collect()
    };
    job.cases.iter().map(|case| draws(&case.draws)).collect()
}

fn configure(gpu: &Gpu, job: &TimeJob, side: &Side) -> Result<(), Fault> {
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
        registers: registers(&side.kernels),
    })
}

/// One execution to be timed.
struct Execution<'a> {
    plan: &'a ResolvedPlan,
    tensors: &'a [TensorData],
    contents: &'a [Option<Vec<u8>>],
    draw: usize,
    poison: u64,
}

impl Execution<'_> {
    fn sample(&self, loaded: &Loaded<'_>) -> Result<Result<Sample, DeviceFault>, Fault> {
        let tensors = self.tensors.iter().zip(self.contents);
        let buffers = tensors
            .map(|(tensor, content)| Buffer {
                name: tensor.name.clone(),
                bytes: tensor.elements() * tensor.dtype.bytes(),
                align: tensor.align,
                content: content.clone(),
                constant: tensor.role == Role::In,
            })
            .chain(workspaces(self.plan))
            .collect();
        let manner = Manner {
            poison: self.poison,
            placement: Placement::Weakest,
            timed: true,
        };
        let pass = loaded.pass(self.plan, buffers, manner)?;
        if let Some(fault) = pass.fault {
            return Ok(Err(fault));
        }
        let mut sample = Sample {
            event_us: pass.event_us.unwrap_or(f64::NAN),
            draw: self.draw,
            outputs: Digest::of(""),
            mutated: None,
            overrun: None,
        };
        let mut outputs = BTreeMap::new();
        let tensors = self.tensors.iter().map(Some);
        for (buffer, tensor) in pass
            .buffers
            .iter()
            .zip(tensors.chain(std::iter::repeat(None)))
        {
            let after = match buffer.after() {
                Ok(after) => after,
                Err(refusal) => return Ok(Err(device_fault(&refusal))),
            };
            if after.overrun {
                sample.overrun = Some(buffer.name.clone());
            }
            let Some(tensor) = tensor else { continue };
            if tensor.role != Role::In {
                outputs.insert(tensor.name.clone(), Digest::of(after.content()));
            } else if after.changed {
                sample.mutated = Some(tensor.name.clone());
            }
        }
        sample.outputs = fingerprint(&outputs);
        Ok(Ok(sample))
    }
}
