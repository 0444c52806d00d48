//! The role that runs a candidate: every execution of its job, in order, on one device.
//!
//! From the first launch on this process counts as hostile; what it reports is a claim. It
//! holds no reference answer and no secret but the keys of inputs it has already been given.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cudarc::driver::sys::CUresult;
use domain::digest::Digest;
use domain::role::{
    Execution, ExecutionFacts, ExecutionPurpose, Image, KernelResources, LaunchLines, Next,
    Placement, RunJob, RunReply, TensorData, Unwritten,
};
use domain::task::Role;
use domain::timing::CacheState;

use crate::disturb::Disturber;
use crate::driver::emulator::{Checks, Configuration, Fragments};
use crate::driver::{self, DriverError, Gpu};
use crate::execute::{Around, Buffer, ExecuteError, Loaded, Manner, Pass, Resident, device_fault};
use crate::line::Line;
use crate::role_error::RoleError;
use crate::{inputs, observe};

/// Alignment of workspaces: what CUDA promises of every allocation, and no more.
const WORKSPACE_ALIGN: u64 = 256;

/// Refusals of an image that no source can provoke: built for another architecture, or newer
/// than the driver.
const UNFIT_IMAGE: [u32; 2] = [
    CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU as u32,
    CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION as u32,
];

/// Which elements of an output still held their poison, by case and tensor, in the execution
/// before. On silicon an element counts as unwritten when that happens twice, with different
/// poison: a written value may equal one pattern by chance.
type Suspects = BTreeMap<(String, String), Survivors>;

/// Runs a job on the loaded driver's first device.
///
/// # Errors
/// A [`RoleError`] where the surroundings fail; what the candidate did is in the reply.
pub fn run(job: &RunJob) -> Result<RunReply, RoleError> {
    run_on(&Gpu::open()?, job)
}

pub(crate) fn run_on(gpu: &Gpu, job: &RunJob) -> Result<RunReply, RoleError> {
    run_telling(gpu, job, |_| Ok(Next::Execution))
}

/// The same where each reply but the last is told, and answered with what to do, if the job asks
/// for that.
pub(crate) fn run_on_line(gpu: &Gpu, job: &RunJob, line: &mut Line) -> Result<RunReply, RoleError> {
    run_telling(gpu, job, |reply| {
        if !job.one_by_one {
            return Ok(Next::Execution);
        }
        let next = line.ask(reply)?;
        reply.executions.clear();
        reply.lines.clear();
        Ok(next)
    })
}

/// Makes the executions, and calls `tell` behind each with what was not told yet.
fn run_telling(
    gpu: &Gpu,
    job: &RunJob,
    mut tell: impl FnMut(&mut RunReply) -> Result<Next, RoleError>,
) -> Result<RunReply, RoleError> {
    let model_label = match gpu.emulator() {
        Some(emulator) => Some(emulator.describe()?.label),
        None => None,
    };
    let mut reply = RunReply {
        device: gpu.describe()?,
        model_label,
        executions: Vec::new(),
        lines: Vec::new(),
    };
    let image = read_image(gpu, &job.image)?;
    let mut disturber = match &job.disturber {
        Some(side) => Some(Disturber::new(gpu, &read_image(gpu, &side.image)?)?),
        None => None,
    };
    let mut suspects = Suspects::new();
    let mut warm: Option<Loaded<'_>> = None;
    for execution in &job.executions {
        // Every execution finds its module's variables as the source initialises them, so that
        // nothing an earlier one left there can answer for it. Only one timed execution after
        // another keeps the module, since a cold one would be timed with its loading.
        let timed = is_timed(gpu, execution);
        let module = match warm.take().filter(|_| timed) {
            Some(module) => Ok(module),
            None => Loaded::new(gpu, &image, &job.kernels),
        };
        let loaded = match module {
            Ok(loaded) => loaded,
            Err(refusal) if UNFIT_IMAGE.contains(&refusal.code) => {
                let action = "load the image; compile it with this driver's toolchain";
                return Err(refusal.into_role_error(action));
            }
            Err(refusal) => {
                reply.executions.push(refused(execution, &refusal));
                tell(&mut reply)?;
                break;
            }
        };
        let around = disturber.as_mut();
        let (facts, lines) = execute(gpu, &loaded, job, execution, around, &mut suspects)?;
        reply.lines.extend(lines);
        let over = facts.fault.is_some();
        reply.executions.push(facts);
        if !over {
            warm = timed.then_some(loaded);
            // The pass and, unless it is kept, the module are gone. An error in that is an error of
            // something that ran, so that what it left cannot be believed.
            driver::releases().map_err(|refusal| refusal.into_role_error("clear the device"))?;
        }
        // An error of the device stays with the process, so nothing after it counts.
        if tell(&mut reply)? == Next::Nothing || over {
            break;
        }
    }
    Ok(reply)
}

/// How many of a launch's blocks an execution runs, if it is not to run all.
fn sample(execution: &Execution) -> Option<u64> {
    match execution.purpose {
        ExecutionPurpose::Model { blocks } => Some(blocks),
        ExecutionPurpose::Check | ExecutionPurpose::Score => None,
    }
}

/// Whether an execution is timed by events. The emulated device's time is modelled.
fn is_timed(gpu: &Gpu, execution: &Execution) -> bool {
    gpu.emulator().is_none() && execution.purpose == ExecutionPurpose::Score
}

/// The form of an image that the loaded driver executes.
pub(crate) fn read_image(gpu: &Gpu, image: &Image) -> Result<Vec<u8>, RoleError> {
    if gpu.emulator().is_some() {
        return read(&image.ptx);
    }
    let cubin = read(&image.cubin)?;
    if Digest::of(&cubin) == image.cubin_digest {
        Ok(cubin)
    } else {
        Err(RoleError::Job(format!(
            "{} is not the machine code that the job names",
            image.cubin.display()
        )))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, RoleError> {
    fs::read(path).map_err(RoleError::file("read", path))
}

/// The registers of each kernel, which PTX does not say.
pub(crate) fn registers(kernels: &[KernelResources]) -> BTreeMap<String, u32> {
    kernels
        .iter()
        .map(|kernel| (kernel.kernel.clone(), kernel.registers))
        .collect()
}

/// What each kernel spills, which PTX does not show.
pub(crate) fn spills(kernels: &[KernelResources]) -> BTreeMap<String, u32> {
    kernels
        .iter()
        .map(|kernel| (kernel.kernel.clone(), kernel.spill_bytes))
        .collect()
}

fn execute(
    gpu: &Gpu,
    loaded: &Loaded<'_>,
    job: &RunJob,
    execution: &Execution,
    disturber: Option<&mut Disturber<'_>>,
    suspects: &mut Suspects,
) -> Result<(ExecutionFacts, Vec<LaunchLines>), RoleError> {
    if gpu.emulator().is_none() && sample(execution).is_some() {
        return Err(RoleError::Job(
            "only the emulated device has a time model; a GPU is timed".to_owned(),
        ));
    }
    if let Some(emulator) = gpu.emulator() {
        emulator.configure(&Configuration {
            schedule: execution.schedule,
            fragments: if execution.turned_fragments {
                Fragments::Turned
            } else {
                Fragments::Usual
            },
            checks: Checks::Full,
            budget: execution.instruction_budget,
            threads: Some(job.threads),
            counters: true,
            sample: sample(execution),
            read_before: Some(used(execution)),
            clock: CacheState::Cold,
            registers: registers(&job.kernels),
            spills: spills(&job.kernels),
        })?;
    }
    let pass = loaded.pass(
        &execution.plan,
        buffers(execution),
        Manner {
            poison: execution.poison,
            placement: execution.placement,
            timed: is_timed(gpu, execution),
        },
        disturber.map(|disturber| Around {
            disturber,
            disturbance: execution.disturbance,
        }),
    )?;
    let mut facts = blank(execution.id);
    facts.event_us = pass.event_us;
    facts.outlasted = pass.outlasted;
    facts.unprotected = pass.unprotected;
    facts.fault.clone_from(&pass.fault);
    facts.unsupported = observe::unsupported(&pass.reports);
    facts.launches = if gpu.emulator().is_some() {
        observe::launches(&pass.reports, &pass.launched)
    } else {
        observe::accepted(&pass.launched)
    };
    if facts.fault.is_none()
        && sample(execution).is_none()
        && execution.placement != Placement::Bare
    {
        match inspect(gpu, execution, &pass, suspects, &mut facts) {
            Ok(()) => {}
            Err(ExecuteError::Device(fault)) => facts.fault = Some(fault),
            Err(ExecuteError::Role(error)) => return Err(error),
        }
    }
    let incomplete = facts
        .unwritten
        .iter()
        .map(|unwritten| unwritten.tensor.as_str())
        .collect();
    let starts = pass
        .buffers
        .iter()
        .map(|buffer| (buffer.name.as_str(), buffer.start() as i64))
        .collect();
    facts.findings = observe::findings(&pass.reports, &observe::Buffers { incomplete, starts });
    let lines = if job.lines {
        observe::lines(execution.id, &pass.reports)
    } else {
        Vec::new()
    };
    Ok((facts, lines))
}

/// The buffers of an execution: inputs with their content, the rest poisoned.
fn buffers(execution: &Execution) -> Vec<Buffer> {
    let tensors = execution.tensors.iter().map(|tensor| Buffer {
        name: tensor.name.clone(),
        bytes: tensor.elements() * tensor.dtype.bytes(),
        align: tensor.align,
        content: (tensor.role != Role::Out).then(|| inputs::bytes(tensor)),
        constant: tensor.role == Role::In,
    });
    tensors.chain(workspaces(&execution.plan)).collect()
}

/// Bytes of the tensors and of the plan's workspaces.
fn used(execution: &Execution) -> u64 {
    let tensors = execution.tensors.iter();
    let tensors = tensors.map(|tensor| tensor.elements() * tensor.dtype.bytes());
    let scratch = workspaces(&execution.plan).map(|buffer| buffer.bytes);
    tensors.chain(scratch).sum()
}

/// The scratch buffers of a plan.
pub(crate) fn workspaces(plan: &domain::plan::ResolvedPlan) -> impl Iterator<Item = Buffer> {
    plan.workspaces.iter().map(|workspace| Buffer {
        name: workspace.name.clone(),
        bytes: workspace.elements * workspace.dtype.bytes(),
        align: WORKSPACE_ALIGN,
        content: None,
        constant: false,
    })
}

/// Reads every buffer back and notes what became of it.
fn inspect(
    gpu: &Gpu,
    execution: &Execution,
    pass: &Pass,
    suspects: &mut Suspects,
    facts: &mut ExecutionFacts,
) -> Result<(), ExecuteError> {
    // The tensors come first, in their order; behind them the workspaces.
    let tensors = execution.tensors.iter().map(Some);
    let tensors = tensors.chain(std::iter::repeat(None));
    for (buffer, tensor) in pass.buffers.iter().zip(tensors) {
        let after = buffer.after()?;
        if after.overrun {
            facts.overrun.push(buffer.name.clone());
        }
        let Some(tensor) = tensor else { continue };
        if tensor.role == Role::In {
            if after.changed || pass.changed.contains(&tensor.name) {
                facts.mutated.push(tensor.name.clone());
            }
            continue;
        }
        if tensor.role == Role::Out {
            let unwritten = unwritten(gpu, execution, tensor, buffer, after.content(), suspects)?;
            facts.unwritten.extend(unwritten);
        }
        facts
            .outputs
            .insert(tensor.name.clone(), Digest::of(after.content()));
        if let Some(folder) = &execution.save {
            save(folder, &tensor.name, after.content())?;
        }
    }
    Ok(())
}

/// Which elements of an output nobody wrote: by the emulated device's own account, or by the
/// poison that survived in this execution and in the one before it on the same case.
fn unwritten(
    gpu: &Gpu,
    execution: &Execution,
    tensor: &TensorData,
    buffer: &Resident,
    content: &[u8],
    suspects: &mut Suspects,
) -> Result<Option<Unwritten>, RoleError> {
    let width = tensor.dtype.bytes();
    if let Some(emulator) = gpu.emulator() {
        let written = emulator.written(buffer.address(), buffer.bytes())?;
        return Ok((written.unwritten > 0).then(|| Unwritten {
            tensor: tensor.name.clone(),
            elements: written.unwritten.div_ceil(width),
            first: written.first.unwrap_or(0) / width,
        }));
    }
    let now = Survivors::new(execution.poison, width, buffer.before(), content);
    let key = (execution.case.clone(), tensor.name.clone());
    let found = suspects.get(&key).and_then(|earlier| now.twice(earlier));
    suspects.insert(key, now);
    Ok(found.map(|(elements, first)| Unwritten {
        tensor: tensor.name.clone(),
        elements,
        first,
    }))
}

/// The elements of an output that are still what the poison made them.
#[derive(Debug)]
struct Survivors {
    poison: u64,
    elements: Vec<bool>,
}

impl Survivors {
    fn new(poison: u64, width: u64, before: &[u8], after: &[u8]) -> Self {
        let width = usize::try_from(width).expect("an element has a few bytes");
        let elements = before.chunks_exact(width).zip(after.chunks_exact(width));
        Self {
            poison,
            elements: elements.map(|(before, after)| before == after).collect(),
        }
    }

    /// How many elements survived here and under another poison, and the first of them.
    fn twice(&self, earlier: &Self) -> Option<(u64, u64)> {
        if self.poison == earlier.poison {
            return None;
        }
        let both = self.elements.iter().zip(&earlier.elements).zip(0_u64..);
        let mut both = both
            .filter(|((now, before), _)| **now && **before)
            .map(|(_, index)| index);
        let first = both.next()?;
        Some((1 + both.count() as u64, first))
    }
}

fn save(folder: &Path, tensor: &str, content: &[u8]) -> Result<(), RoleError> {
    fs::create_dir_all(folder).map_err(RoleError::file("create", folder))?;
    let path = folder.join(format!("{tensor}.bin"));
    fs::write(&path, content).map_err(RoleError::file("write", &path))
}

fn blank(id: u32) -> ExecutionFacts {
    ExecutionFacts {
        id,
        launches: Vec::new(),
        findings: Vec::new(),
        fault: None,
        unsupported: None,
        mutated: Vec::new(),
        overrun: Vec::new(),
        unwritten: Vec::new(),
        event_us: None,
        outlasted: false,
        unprotected: false,
        outputs: BTreeMap::new(),
    }
}

/// The facts of an execution whose image the driver did not load.
fn refused(execution: &Execution, refusal: &DriverError) -> ExecutionFacts {
    ExecutionFacts {
        fault: Some(device_fault(refusal.clone(), None)),
        ..blank(execution.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_unwritten_when_two_different_poisons_survive_in_it() {
        // Elements of two bytes: 0 is written, 1 never, 2 equals the first poison by chance.
        let first = Survivors::new(1, 2, b"aabbcc", b"xxbbcc");
        let second = Survivors::new(2, 2, b"ddeeff", b"xxeecc");
        assert_eq!(second.twice(&first), Some((1, 1)));
        let complete = Survivors::new(3, 2, b"gghhii", b"xxyycc");
        assert_eq!(complete.twice(&second), None);
        let same_poison = Survivors::new(2, 2, b"ddeeff", b"xxeecc");
        assert_eq!(same_poison.twice(&second), None);
    }
}
