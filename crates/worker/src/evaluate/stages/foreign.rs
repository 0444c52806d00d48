//! A rival that is machine code without source: held against the reference like a candidate, and
//! timed in turn with one.

use std::path::Path;

use domain::candidate::KernelSource;
use domain::cleaning;
use domain::device::{Device, DeviceKind};
use domain::digest::Digest;
use domain::evaluation::{EvaluationRequest, Incumbent};
use domain::judge;
use domain::plan::{Configuration, ResolvedPlan};
use domain::role::{Compiled, Contents, ExecutionPurpose, Image, Side};
use domain::task::ImageRival;
use gpu::cubin::Cubin;

use super::rivals::{RivalOutcome, compared, stands_against};
use super::{Course, SCORE, Stop};
use crate::cancel::Cancellation;
use crate::evaluate::entrants::Entrant;
use crate::evaluate::examine::Trial;
use crate::evaluate::{EvaluateError, Evaluator, storage};

impl Evaluator {
    /// Times machine code beside a candidate, once it is right.
    pub(super) fn beside_image(
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
        let what = Some(what(&found));
        let compiled = match lay_out(rival, found, self.host.device(), folder.path())? {
            Ok(compiled) => compiled,
            Err(reason) => return Ok((what, RivalOutcome::NotRun { reason })),
        };
        let itself = EvaluationRequest {
            incumbent: None,
            ..request.clone()
        };
        let (looked, right) = self.with_course(&itself, &|_| {}, cancellation, |course| {
            let entrant = course.foreign(&rival.plan, &compiled)?;
            let reference = course.reference()?;
            let efforts = course.efforts(SCORE)?;
            let trial = Trial {
                plans: &entrant.plans,
                compiled: &compiled,
                reference: &reference,
                efforts: &efforts,
            };
            let mut passes = course.first_passes()?;
            passes.retain(|pass| pass.purpose == ExecutionPurpose::Score);
            course.examine(SCORE, &passes, &trial)?;
            let scored = course.scored.clone();
            let own = scored.iter().map(|(case, facts)| (case.as_str(), facts));
            Ok((course.times(own)?, entrant))
        })?;
        let Some((timing, entrant)) = right else {
            return Ok((what, stands_against("the rival", looked.against)));
        };
        let beside = EvaluationRequest {
            incumbent: Some(Incumbent {
                file: file.to_owned(),
                source: rival.plan.text().to_owned(),
                configuration: Configuration::default(),
                timing,
            }),
            ..request.clone()
        };
        let opponent = Some(&entrant);
        let measured = self.measure_beside(&beside, opponent, &|_| {}, cancellation)?;
        Ok((what, compared(measured)))
    }
}

impl Course<'_> {
    /// Machine code as one of those who are timed in turn.
    ///
    /// # Errors
    /// [`Stop`] with the verdict on a plan that cannot be launched.
    fn foreign(&self, source: &KernelSource, compiled: &Compiled) -> Result<Entrant, Stop> {
        let limits = &self.evaluator.host.device().limits;
        let configuration = source.plan().default_configuration();
        let mut plans = std::collections::BTreeMap::<String, ResolvedPlan>::new();
        for case in self.task.score_cases() {
            let plan = source
                .plan()
                .resolve(self.task, &case.dims, &configuration, limits)
                .map_err(|error| {
                    Stop::from(domain::verdict::Verdict::LaunchRejected {
                        reason: format!("case {}: {error}", case.name),
                    })
                })?;
            if let Some(verdict) = judge::judge_image(&plan, &compiled.kernels, limits) {
                return Err(verdict.into());
            }
            plans.insert(case.name.clone(), plan);
        }
        Ok(Entrant {
            digest: compiled.image.code_digest,
            side: Side::from(compiled),
            plans,
        })
    }
}

/// For which architecture it is, and what can be launched.
fn what(found: &Cubin) -> String {
    /// A library's image may have hundreds.
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

/// The image as files, or why this device cannot run it. Nothing is translated: what a driver would
/// make of PTX is not what its owner ships.
fn lay_out(
    rival: &ImageRival,
    found: Cubin,
    device: &Device,
    folder: &Path,
) -> Result<Result<Compiled, String>, EvaluateError> {
    let (own, here) = (format!("sm_{}", found.architecture), device.architecture());
    if own != here {
        return Ok(Err(format!(
            "it is machine code for {own}, and the device is {here}"
        )));
    }
    let ptx = match (&rival.ptx, device.kind) {
        (Some(ptx), _) => ptx.as_str(),
        (None, DeviceKind::Nvidia) => "",
        (None, DeviceKind::Emulated) => {
            return Ok(Err(
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
    Ok(Ok(Compiled {
        image,
        kernels: found.kernels,
        contents: Contents::default(),
        diagnostics: Vec::new(),
        toolchain: String::new(),
    }))
}
