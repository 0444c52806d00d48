//! A rival that is machine code without source: held against the reference like a candidate, and
//! timed in turn with one.

use std::path::Path;

use domain::candidate::KernelSource;
use domain::cleaning;
use domain::device::{Device, DeviceKind};
use domain::digest::Digest;
use domain::evaluation::{EvaluationRequest, Incumbent};
use domain::judge;
use domain::plan::Configuration;
use domain::role::{Compiled, Contents, ExecutionPurpose, Image, RunnableImage};
use domain::task::ImageRival;
use domain::verdict::Verdict;
use gpu::cubin::Cubin;

use super::{RivalOutcome, compared, stands_against};
use crate::cancel::Cancellation;
use crate::evaluate::Evaluator;
use crate::evaluate::compared_kernel::ComparedKernel;
use crate::evaluate::context::{Context, Plans, SCORE};
use crate::evaluate::error::{EvaluateError, StageStop, storage};
use crate::evaluate::examine::{ExaminationInputs, Executions, examine};
use crate::evaluate::stages::compare::times;
use crate::evaluate::stages::{compile, effort, score};

impl Evaluator {
    /// Times machine code beside a candidate, once it is right.
    pub(super) fn time_image(
        &self,
        request: &EvaluationRequest,
        file: &str,
        rival: &ImageRival,
        cancellation: &Cancellation,
    ) -> Result<(Option<String>, RivalOutcome), EvaluateError> {
        let folder = tempfile::tempdir_in(&self.scratch).map_err(storage(&self.scratch))?;
        let Some(found) = gpu::cubin::read(&rival.machine_code) else {
            let reason =
                "it is not machine code of NVIDIA's for one architecture; extract it with \
                          `cuobjdump -xelf`"
                    .to_owned();
            return Ok((None, RivalOutcome::NotRun { reason }));
        };
        let what = Some(describe(&found));
        let compiled = match lay_out(rival, found, self.host.device(), folder.path()) {
            Ok(compiled) => compiled,
            Err(ImageError::NotRun(reason)) => {
                return Ok((what, RivalOutcome::NotRun { reason }));
            }
            Err(ImageError::Fault(error)) => return Err(error),
        };
        let itself = EvaluationRequest {
            incumbent: None,
            ..request.clone()
        };
        let (partial, right) =
            self.run_partially(&itself, &|_| {}, cancellation, |context, facts| {
                let kernel = plan_image(context, &rival.plan, &compiled)?;
                let reference = compile::build_reference(context)?;
                let efforts = effort::count_baseline(context, SCORE)?;
                let inputs = ExaminationInputs {
                    plans: &kernel.plans,
                    compiled: &compiled,
                    reference: &reference,
                    efforts: &efforts,
                };
                let mut passes = score::first_passes(context)?;
                passes.retain(|pass| pass.purpose == ExecutionPurpose::Score);
                let known = Executions::default();
                let scored = facts.merge(examine(context, SCORE, &passes, &inputs, &known))?;
                Ok((times(context, &scored, &scored.scored)?, kernel))
            })?;
        let Some((timing, kernel)) = right else {
            return Ok((what, stands_against("the rival", partial.against)));
        };
        let compared_request = EvaluationRequest {
            incumbent: Some(Incumbent {
                file: file.to_owned(),
                source: rival.plan.text().to_owned(),
                configuration: Configuration::default(),
                timing,
            }),
            ..request.clone()
        };
        let opponent = Some(&kernel);
        let measured = self.measure_against(&compared_request, opponent, &|_| {}, cancellation)?;
        Ok((what, compared(measured)))
    }
}

/// The kernel of machine code with its plan for every score case.
///
/// # Errors
/// [`StageStop::Rejected`] if a plan cannot be launched.
fn plan_image(
    context: &Context<'_>,
    source: &KernelSource,
    compiled: &Compiled,
) -> Result<ComparedKernel, StageStop> {
    let limits = &context.device().limits;
    let family = context.family();
    let configuration = source.plan().default_configuration();
    let mut plans = Plans::new();
    for case in context.task.score_cases() {
        let plan = source
            .plan()
            .resolve(context.task, &case.dims, &configuration, limits)
            .map_err(|error| {
                let reason = format!("case {}: {error}", case.name);
                StageStop::rejected(Verdict::LaunchRejected { reason }, family)
            })?;
        if let Some(verdict) = judge::judge_image(&plan, &compiled.kernels, limits) {
            return Err(StageStop::rejected(verdict, family));
        }
        plans.insert(case.name.clone(), plan);
    }
    Ok(ComparedKernel {
        digest: compiled.image.code_digest,
        image: RunnableImage::from(compiled),
        plans,
    })
}

/// The reasons why machine code cannot run here.
enum ImageError {
    /// The device cannot execute it, for this reason.
    NotRun(String),
    Fault(EvaluateError),
}

impl From<EvaluateError> for ImageError {
    fn from(error: EvaluateError) -> Self {
        Self::Fault(error)
    }
}

/// The architecture of machine code and the kernels that can be launched.
fn describe(found: &Cubin) -> String {
    /// The most kernels that are named, because a library's image may have hundreds.
    const MOST: usize = 8;
    let names = found
        .kernels
        .iter()
        .map(|kernel| cleaning::clean_name(&kernel.kernel));
    let mut names = names.collect::<Vec<_>>();
    if names.len() > MOST {
        let more = names.len() - MOST;
        names.truncate(MOST);
        names.push(format!("{more} more"));
    }
    format!("sm_{}: {}", found.architecture, names.join(", "))
}

/// Writes the image as files. Nothing is translated, because the code that a driver makes of PTX is not
/// what its owner ships.
fn lay_out(
    rival: &ImageRival,
    found: Cubin,
    device: &Device,
    folder: &Path,
) -> Result<Compiled, ImageError> {
    let (own, here) = (format!("sm_{}", found.architecture), device.architecture());
    if own != here {
        return Err(ImageError::NotRun(format!(
            "it is machine code for {own}, and the device is {here}"
        )));
    }
    let ptx = match (&rival.ptx, device.kind) {
        (Some(ptx), _) => ptx.as_str(),
        (None, DeviceKind::Nvidia) => "",
        (None, DeviceKind::Emulated) => {
            return Err(ImageError::NotRun(
                "the emulated device executes PTX, and there is none beside the machine code"
                    .to_owned(),
            ));
        }
    };
    let image = Image {
        cubin: folder.join("image.cubin"),
        ptx: folder.join("image.ptx"),
        cubin_digest: Digest::of(&rival.machine_code),
        code_digest: Digest::of_parts([rival.machine_code.as_slice(), ptx.as_bytes()]),
    };
    std::fs::write(&image.cubin, &rival.machine_code).map_err(storage(&image.cubin))?;
    std::fs::write(&image.ptx, ptx).map_err(storage(&image.ptx))?;
    Ok(Compiled {
        image,
        kernels: found.kernels,
        contents: Contents::default(),
        diagnostics: Vec::new(),
        toolchain: String::new(),
    })
}
