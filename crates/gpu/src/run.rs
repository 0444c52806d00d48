//! The role `run`: performs every execution of a candidate's job, in order, on one device.
//!
//! From the first launch on this process is not trusted, and its reports are claims. It holds no reference answer,
//! and no secret except the keys of inputs that it has received.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cudarc::driver::sys::CUresult;
use domain::digest::Digest;
use domain::role::{
    Execution, ExecutionFacts, ExecutionPurpose, Image, KernelResources, LaunchLines,
    MAX_REPLY_BYTES, Next, Placement, RunJob, RunReply, TensorData, UnwrittenOutput,
};
use domain::task::Role;
use domain::timing::CacheState;
use tensors::inputs;

use crate::connection::Connection;
use crate::disturb::Disturber;
use crate::driver::emulator::{Checks, Configuration, Fragments};
use crate::driver::{self, DriverError, Gpu};
use crate::execute::{
    Buffer, DeviceBuffer, DisturbanceRequest, ExecuteError, LoadedImage, PassOptions, PassOutcome,
    device_fault,
};
use crate::launch_facts;
use crate::role_error::RoleError;

/// Alignment of workspaces in bytes, which CUDA guarantees for every allocation.
const WORKSPACE_ALIGN: u64 = 256;

/// Error codes of an image that no source can cause: the image was built for another architecture, or is newer than
/// the driver.
const UNFIT_IMAGE_CODES: [u32; 2] = [
    CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU as u32,
    CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION as u32,
];

/// The elements of an output that still held their poison in the previous execution, by case and tensor. On a GPU an
/// element counts as unwritten if that happens twice with different poison, because a written value may equal one
/// poison pattern by chance.
type PoisonedElements = BTreeMap<(String, String), SurvivingPoison>;

/// Runs a job on the loaded driver's first device.
///
/// # Errors
/// A [`RoleError`] where the environment fails; the behaviour of the candidate is part of the reply.
pub fn run(job: &RunJob) -> Result<RunReply, RoleError> {
    run_on(&Gpu::open()?, job)
}

pub(crate) fn run_on(gpu: &Gpu, job: &RunJob) -> Result<RunReply, RoleError> {
    run_with_reports(gpu, job, |_| Ok(Next::Execution))
}

/// As [`run_on`], but if the job asks for it, each reply except the last is sent over the connection, and the answer
/// decides whether to go on.
pub(crate) fn run_on_connection(
    gpu: &Gpu,
    job: &RunJob,
    connection: &mut Connection,
) -> Result<RunReply, RoleError> {
    run_with_reports(gpu, job, |reply| {
        if !job.one_by_one {
            return Ok(Next::Execution);
        }
        let next = connection.ask(reply)?;
        reply.executions.clear();
        reply.lines.clear();
        Ok(next)
    })
}

/// Performs the executions. After each one it calls `report` with the part of the reply that was not sent yet.
fn run_with_reports(
    gpu: &Gpu,
    job: &RunJob,
    mut report: impl FnMut(&mut RunReply) -> Result<Next, RoleError>,
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
    let mut poisoned_before = PoisonedElements::new();
    let mut warm: Option<LoadedImage<'_>> = None;
    for execution in &job.executions {
        // Every execution starts with its module's variables as the source initialises them, so that no result of an
        // earlier execution is left in them. Only consecutive scored executions of an image without such variables
        // share a module, because otherwise the time would include the loading of the module.
        let kept = job.keeps_image && execution.purpose == ExecutionPurpose::Score;
        let module = match warm.take().filter(|_| kept) {
            Some(module) => Ok(module),
            None => LoadedImage::new(gpu, &image, &job.kernels),
        };
        let loaded = match module {
            Ok(loaded) => loaded,
            Err(refusal) if UNFIT_IMAGE_CODES.contains(&refusal.code) => {
                let action = "load the image; compile it with this driver's toolchain";
                return Err(refusal.into_role_error(action));
            }
            Err(refusal) => {
                reply.executions.push(refused_image(execution, &refusal));
                report(&mut reply)?;
                break;
            }
        };
        let around = disturber.as_mut();
        let (facts, lines) = execute(gpu, &loaded, job, execution, around, &mut poisoned_before)?;
        reply.lines.extend(lines);
        let over = facts.fault.is_some();
        reply.executions.push(facts);
        if !over {
            warm = kept.then_some(loaded);
            // The pass and, unless it is kept, the module are dropped. An error of their release belongs to something
            // that ran, so its results cannot be trusted.
            driver::take_release_error()
                .map_err(|refusal| refusal.into_role_error("clear the device"))?;
        }
        // An error of the device remains in the process, so no later execution would count.
        if report(&mut reply)? == Next::Nothing || over {
            break;
        }
    }
    Ok(reply)
}

/// The fewest blocks of a launch that an execution runs; none if it runs all.
fn sample(execution: &Execution) -> Option<u64> {
    match execution.purpose {
        ExecutionPurpose::Model { blocks } => Some(blocks),
        ExecutionPurpose::Check | ExecutionPurpose::Score => None,
    }
}

/// The checks of an execution. A sample of a launch, of which only the counters are wanted, proves nothing about races.
fn checks(execution: &Execution) -> Checks {
    match execution.purpose {
        ExecutionPurpose::Model { .. } => Checks::Bounds,
        ExecutionPurpose::Check | ExecutionPurpose::Score => Checks::Full,
    }
}

/// Returns true if an execution is timed by events. The emulated device's time is modelled.
fn is_timed(gpu: &Gpu, execution: &Execution) -> bool {
    gpu.emulator().is_none() && execution.purpose == ExecutionPurpose::Score
}

/// The image in the form that the loaded driver executes.
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

/// The registers per thread of each kernel, which PTX does not contain.
pub(crate) fn registers(kernels: &[KernelResources]) -> BTreeMap<String, u32> {
    kernels
        .iter()
        .map(|kernel| (kernel.kernel.clone(), kernel.registers))
        .collect()
}

/// The spilled bytes per thread of each kernel, which PTX does not contain.
pub(crate) fn spills(kernels: &[KernelResources]) -> BTreeMap<String, u32> {
    kernels
        .iter()
        .map(|kernel| (kernel.kernel.clone(), kernel.spill_bytes))
        .collect()
}

fn execute(
    gpu: &Gpu,
    loaded: &LoadedImage<'_>,
    job: &RunJob,
    execution: &Execution,
    disturber: Option<&mut Disturber<'_>>,
    poisoned_before: &mut PoisonedElements,
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
            checks: checks(execution),
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
    let pass = loaded.execute_plan(
        &execution.plan,
        buffers(job, execution),
        PassOptions {
            poison: execution.poison,
            placement: execution.placement,
            timed: is_timed(gpu, execution),
        },
        disturber.map(|disturber| DisturbanceRequest {
            disturber,
            disturbance: execution.disturbance,
        }),
    )?;
    let mut facts = empty_facts(execution.id);
    facts.event_us = pass.event_us;
    facts.outlasted = pass.outlasted;
    facts.unprotected = pass.unprotected;
    facts.fault.clone_from(&pass.fault);
    facts.unsupported = launch_facts::unsupported(&pass.reports);
    facts.launches = if gpu.emulator().is_some() {
        launch_facts::launches(&pass.reports, &pass.launched)
    } else {
        launch_facts::accepted(&pass.launched)
    };
    if execution.purpose == ExecutionPurpose::Check {
        // Nobody reads them, and the replies of plans with many launches are near the limit.
        for launch in &mut facts.launches {
            launch.modelled_terms.clear();
        }
    }
    if facts.fault.is_none()
        && sample(execution).is_none()
        && execution.placement != Placement::Bare
    {
        match record_buffers(gpu, execution, &pass, poisoned_before, &mut facts) {
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
    facts.findings =
        launch_facts::findings(&pass.reports, &launch_facts::Buffers { incomplete, starts });
    let lines = if job.lines && execution.purpose == ExecutionPurpose::Score {
        launch_facts::lines(execution.id, &pass.reports, most_lines(job))
    } else {
        Vec::new()
    };
    Ok((facts, lines))
}

/// The most source lines of one launch: those of all scored launches share what the facts of launches
/// leave of the reply.
fn most_lines(job: &RunJob) -> usize {
    const FACTS_BYTES: usize = 3 << 10;
    const LINE_BYTES: usize = 1 << 10;
    let launches = |scored: bool| -> usize {
        let own = job.executions.iter();
        let own = own.filter(|own| !scored || own.purpose == ExecutionPurpose::Score);
        own.map(|own| own.plan.steps.len()).sum()
    };
    let room = (MAX_REPLY_BYTES / 8 * 7).saturating_sub(launches(false) * FACTS_BYTES);
    room / LINE_BYTES / launches(true).max(1)
}

/// The buffers of an execution: inputs with their content, all others with poison.
fn buffers(job: &RunJob, execution: &Execution) -> Vec<Buffer> {
    let content = |tensor: &TensorData| match job.values.get(&tensor.name) {
        Some(values) => {
            let mut bytes = Vec::new();
            inputs::encode(tensor.dtype, values, &mut bytes);
            bytes
        }
        None => inputs::bytes(tensor),
    };
    let tensors = execution.tensors.iter().map(|tensor| Buffer {
        name: tensor.name.clone(),
        bytes: tensor.elements() * tensor.dtype.bytes(),
        align: tensor.align,
        content: (tensor.role != Role::Out).then(|| content(tensor)),
        constant: tensor.role == Role::In,
    });
    tensors.chain(workspaces(&execution.plan)).collect()
}

/// Total size of the tensors and of the plan's workspaces in bytes.
fn used(execution: &Execution) -> u64 {
    let tensors = execution.tensors.iter();
    let tensors = tensors.map(|tensor| tensor.elements() * tensor.dtype.bytes());
    let scratch = workspaces(&execution.plan).map(|buffer| buffer.bytes);
    tensors.chain(scratch).sum()
}

/// The workspaces of a plan.
pub(crate) fn workspaces(plan: &domain::plan::ResolvedPlan) -> impl Iterator<Item = Buffer> {
    plan.workspaces.iter().map(|workspace| Buffer {
        name: workspace.name.clone(),
        bytes: workspace.elements * workspace.dtype.bytes(),
        align: WORKSPACE_ALIGN,
        content: None,
        constant: false,
    })
}

/// Reads every buffer back and records overruns, changed inputs, unwritten elements and digests of outputs.
fn record_buffers(
    gpu: &Gpu,
    execution: &Execution,
    pass: &PassOutcome,
    poisoned_before: &mut PoisonedElements,
    facts: &mut ExecutionFacts,
) -> Result<(), ExecuteError> {
    // The tensors come first, in order, and then the workspaces.
    let tensors = execution.tensors.iter().map(Some);
    let tensors = tensors.chain(std::iter::repeat(None));
    for (buffer, tensor) in pass.buffers.iter().zip(tensors) {
        let after = buffer.read_back()?;
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
            let unwritten = unwritten(
                gpu,
                execution,
                tensor,
                buffer,
                after.content(),
                poisoned_before,
            )?;
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

/// The elements of an output that were not written: according to the emulated device's report, or according to poison
/// that survived in this execution and in the previous one of the same case.
fn unwritten(
    gpu: &Gpu,
    execution: &Execution,
    tensor: &TensorData,
    buffer: &DeviceBuffer,
    content: &[u8],
    poisoned_before: &mut PoisonedElements,
) -> Result<Option<UnwrittenOutput>, RoleError> {
    let width = tensor.dtype.bytes();
    if let Some(emulator) = gpu.emulator() {
        let written = emulator.unwritten_bytes(buffer.address(), buffer.bytes())?;
        return Ok((written.unwritten > 0).then(|| UnwrittenOutput {
            tensor: tensor.name.clone(),
            elements: written.unwritten.div_ceil(width),
            first: written.first.unwrap_or(0) / width,
        }));
    }
    let now = SurvivingPoison::new(execution.poison, width, buffer.before(), content);
    let key = (execution.case.clone(), tensor.name.clone());
    let found = poisoned_before
        .get(&key)
        .and_then(|earlier| now.survived_twice(earlier));
    poisoned_before.insert(key, now);
    Ok(found.map(|(elements, first)| UnwrittenOutput {
        tensor: tensor.name.clone(),
        elements,
        first,
    }))
}

/// The elements of an output that still hold their poison.
#[derive(Debug)]
struct SurvivingPoison {
    poison: u64,
    elements: Vec<bool>,
}

impl SurvivingPoison {
    fn new(poison: u64, width: u64, before: &[u8], after: &[u8]) -> Self {
        let width = usize::try_from(width).expect("an element has a few bytes");
        let elements = before.chunks_exact(width).zip(after.chunks_exact(width));
        Self {
            poison,
            elements: elements.map(|(before, after)| before == after).collect(),
        }
    }

    /// Number of elements whose poison survived here and with a different poison, and the index of the first of them.
    fn survived_twice(&self, earlier: &Self) -> Option<(u64, u64)> {
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

/// Writes the bytes of an output to `NAME.bin` in a folder.
pub(crate) fn save(folder: &Path, tensor: &str, content: &[u8]) -> Result<(), RoleError> {
    fs::create_dir_all(folder).map_err(RoleError::file("create", folder))?;
    let path = folder.join(format!("{tensor}.bin"));
    fs::write(&path, content).map_err(RoleError::file("write", &path))
}

fn empty_facts(id: u32) -> ExecutionFacts {
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

/// The facts of an execution whose image the driver refused to load.
fn refused_image(execution: &Execution, refusal: &DriverError) -> ExecutionFacts {
    ExecutionFacts {
        fault: Some(device_fault(refusal.clone(), None)),
        ..empty_facts(execution.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_unwritten_when_two_different_poisons_survive_in_it() {
        // Elements of two bytes: 0 is written, 1 is never written, 2 equals the first poison by chance.
        let first = SurvivingPoison::new(1, 2, b"aabbcc", b"xxbbcc");
        let second = SurvivingPoison::new(2, 2, b"ddeeff", b"xxeecc");
        assert_eq!(second.survived_twice(&first), Some((1, 1)));
        let complete = SurvivingPoison::new(3, 2, b"gghhii", b"xxyycc");
        assert_eq!(complete.survived_twice(&second), None);
        let same_poison = SurvivingPoison::new(2, 2, b"ddeeff", b"xxeecc");
        assert_eq!(same_poison.survived_twice(&second), None);
    }
}
