//! The role `verify`: compares saved outputs with the reference's answer. It never runs candidate code. The reference
//! is compiled and launched like a candidate, in a separate process.
//!
//! Answers are cached in the folder that a check names ([`crate::answer_cache`]).

use std::fs;
use std::path::Path;

use domain::dtype::Dtype;
use domain::judge;
use domain::role::{Check, OutputComparison, Placement, TensorData, VerifyJob, VerifyReply};
use domain::task::Role;
use domain::timing::CacheState;
use tensors::compare::{Output, compare};
use tensors::inputs;

use crate::answer_cache::{answer_file, read_cached, scale_file, write_cached};
use crate::driver::Gpu;
use crate::driver::emulator::{Checks, Configuration, Fragments};
use crate::execute::{Buffer, LoadedImage, PassOptions};
use crate::role_error::RoleError;
use crate::run;

/// The reference's answer for one output.
struct Answer {
    values: Vec<f64>,
    scale: Option<Vec<f64>>,
}

/// Computes the reference's answers that are not cached yet, and compares outputs with them.
///
/// # Errors
/// A [`RoleError`] where the environment fails, where the reference fails, or where an output file is missing or has
/// the wrong size.
pub fn verify(job: &VerifyJob) -> Result<VerifyReply, RoleError> {
    verify_on(&Gpu::open()?, job)
}

pub(crate) fn verify_on(gpu: &Gpu, job: &VerifyJob) -> Result<VerifyReply, RoleError> {
    let image = run::read_image(gpu, &job.reference)?;
    let loaded = LoadedImage::new(gpu, &image, &job.kernels)
        .map_err(|refusal| refusal.into_role_error("load the reference"))?;
    if let Some(emulator) = gpu.emulator() {
        emulator.configure(&Configuration {
            schedule: None,
            fragments: Fragments::Usual,
            checks: Checks::Bounds,
            budget: None,
            threads: Some(job.threads),
            counters: false,
            sample: None,
            read_before: None,
            clock: CacheState::Cold,
            registers: run::registers(&job.kernels),
            spills: run::spills(&job.kernels),
        })?;
    }
    let mut comparisons = Vec::new();
    for check in &job.checks {
        let mut answers = cached_answers(check);
        if answers.is_none() {
            answer(gpu, &loaded, check)?;
        }
        let Some(folder) = &check.outputs else {
            continue;
        };
        if answers.is_none() {
            answers = cached_answers(check);
        }
        let answers = answers.ok_or_else(|| {
            RoleError::Job(format!(
                "an answer of the reference or its error scale is not as long as the tensor, or {} was changed meanwhile",
                check.cache.display()
            ))
        })?;
        for (tensor, answer) in outputs(check).zip(&answers) {
            comparisons.push(compare_output(check, tensor, answer, folder)?);
        }
    }
    Ok(VerifyReply { comparisons })
}

/// The tensors that a candidate writes.
fn outputs(check: &Check) -> impl Iterator<Item = &TensorData> {
    check
        .tensors
        .iter()
        .filter(|tensor| tensor.role != Role::In)
}

/// Runs the reference on a check's inputs and caches its answers.
fn answer(gpu: &Gpu, loaded: &LoadedImage<'_>, check: &Check) -> Result<(), RoleError> {
    let tensors = check.tensors.iter().map(|tensor| match tensor.role {
        Role::In => Buffer {
            name: tensor.name.clone(),
            bytes: tensor.elements() * tensor.dtype.bytes(),
            align: tensor.align,
            content: Some(inputs::bytes(tensor)),
            constant: true,
        },
        // The reference writes binary64 for any type of the candidate.
        Role::Out | Role::Inout => Buffer {
            name: tensor.name.clone(),
            bytes: tensor.elements() * Dtype::F64.bytes(),
            align: Dtype::F64.bytes(),
            content: (tensor.role == Role::Inout).then(|| inputs::widened_bytes(tensor)),
            constant: false,
        },
    });
    let buffers = tensors.chain(run::workspaces(&check.plan)).collect();
    let options = PassOptions {
        poison: 0,
        placement: Placement::Ending,
        timed: false,
    };
    let pass = loaded.execute_plan(&check.plan, buffers, options, None)?;
    if let Some(fault) = &pass.fault {
        return Err(RoleError::Job(format!(
            "the reference ended with {} in {}, launch {:?}",
            fault.name, fault.call, fault.launch
        )));
    }
    fs::create_dir_all(&check.cache).map_err(RoleError::file("create", &check.cache))?;
    for buffer in &pass.buffers {
        let Some(file) = file_of(check, &buffer.name) else {
            continue;
        };
        if let Some(emulator) = gpu.emulator() {
            let written = emulator.unwritten_bytes(buffer.address(), buffer.bytes())?;
            if written.unwritten > 0 {
                return Err(RoleError::Job(format!(
                    "the reference leaves {} bytes of {} unwritten",
                    written.unwritten, buffer.name
                )));
            }
        }
        let after = buffer
            .read_back()
            .map_err(|refusal| refusal.into_role_error("read the reference's answer"))?;
        write_cached(&check.cache, &file, after.content())?;
    }
    Ok(())
}

/// The cache file of a buffer of the reference: an output, or the error scale of one; none for other buffers.
fn file_of(check: &Check, buffer: &str) -> Option<String> {
    if outputs(check).any(|tensor| tensor.name == buffer) {
        return Some(answer_file(buffer));
    }
    check
        .error_scale
        .iter()
        .find(|(_, workspace)| workspace.as_str() == buffer)
        .map(|(output, _)| scale_file(output))
}

/// The answers for all tensors of a check, in their order; none if one is missing or damaged.
fn cached_answers(check: &Check) -> Option<Vec<Answer>> {
    outputs(check)
        .map(|tensor| cached_answer(check, tensor))
        .collect()
}

fn cached_answer(check: &Check, tensor: &TensorData) -> Option<Answer> {
    let elements = tensor.elements();
    let values = read_cached(&check.cache, &answer_file(&tensor.name), elements)?;
    let scale = if check.error_scale.contains_key(&tensor.name) {
        Some(read_cached(
            &check.cache,
            &scale_file(&tensor.name),
            elements,
        )?)
    } else {
        None
    };
    Some(Answer { values, scale })
}

/// Compares one saved output with the reference, and if it is close to that, with an earlier execution
/// on the same inputs where there is one.
fn compare_output(
    check: &Check,
    tensor: &TensorData,
    answer: &Answer,
    folder: &Path,
) -> Result<OutputComparison, RoleError> {
    let found = read_saved(tensor, folder)?;
    let output = Output {
        execution: check.id,
        tensor: &tensor.name,
        dtype: tensor.dtype,
        extents: &tensor.extents,
        found: &found,
        reference: &answer.values,
        scale: answer.scale.as_deref(),
        terms: check.error_terms.get(&tensor.name).copied().unwrap_or(1.0),
        exact: check.exact && answer.scale.is_some(),
        mixed_magnitudes: check.mixed_magnitudes,
    };
    let with_reference = compare(&output, &check.tolerance);
    let Some(beside) = &check.beside else {
        return Ok(with_reference);
    };
    if !judge::is_within_tolerance(&with_reference, &check.tolerance) {
        return Ok(with_reference);
    }
    let earlier = read_saved(tensor, beside)?;
    let output = Output {
        reference: &earlier,
        ..output
    };
    Ok(compare(&output, &check.tolerance))
}

/// The values of an output that a runner saved.
fn read_saved(tensor: &TensorData, folder: &Path) -> Result<Vec<f64>, RoleError> {
    let path = folder.join(format!("{}.bin", tensor.name));
    // The process that wrote this file is not trusted, and has ended: a link could refer to a file of another user.
    let found = fs::symlink_metadata(&path).map_err(RoleError::file("read", &path))?;
    if !found.is_file() {
        return Err(RoleError::Job(format!("{} is no file", path.display())));
    }
    let content = fs::read(&path).map_err(RoleError::file("read", &path))?;
    let expected = tensor.elements() * tensor.dtype.bytes();
    if content.len() as u64 != expected {
        return Err(RoleError::Job(format!(
            "{} has {} bytes, the tensor has {expected}",
            path.display(),
            content.len()
        )));
    }
    Ok(inputs::decode(tensor.dtype, &content))
}
