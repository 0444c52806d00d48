//! What only a promotion asks, beside more of the same: the shape whose indices do not fit 32 bits,
//! and a row for everything that this machine cannot do.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::candidate::KernelSource;
use domain::evaluation::{EvaluationStage, NotRun, ProtocolPart};
use domain::plan::Configuration;
use domain::role::Compiled;
use domain::verdict::Verdict;

use super::{Candidate, Course, LARGE, Stop};
use crate::evaluate::effort::Efforts;
use crate::evaluate::examine::Trial;
use crate::evaluate::passes::Passes;
use crate::evaluate::roles::{Allowance, Reference};
use crate::evaluate::vast::{self, Room};
use crate::host::FILE_BYTES;

/// Making two billion values and comparing them takes a minute or two each.
const MANY: Allowance = Allowance {
    stage: "many elements",
    deadline: Duration::from_secs(180),
    instructions: LARGE,
};

impl Course<'_> {
    /// Says what is left out here of what such an evaluation consists of.
    pub(super) fn note_omissions(&mut self) {
        let host = &self.evaluator.host;
        let mut omit = |part, reason: &str| {
            self.evidence.not_run.push(NotRun {
                part,
                reason: reason.to_owned(),
            });
        };
        if host.is_unproved() && self.roles.disturber.is_none() {
            let reason =
                "there is neither a compiler for the kernels that disturb nor a build of them";
            omit(ProtocolPart::Disturbance, reason);
        }
        if self.request.stage != EvaluationStage::Champion {
            return;
        }
        if !host.is_unproved() {
            let reason = "the emulated device proves on each execution what repeats would show";
            omit(ProtocolPart::Repeats, reason);
            omit(
                ProtocolPart::Draws,
                "on the emulated device each draw of a score case takes as long as all small cases",
            );
        }
        let reason = "an evaluation is one device's word; a service asks another that has joined it, \
                      and by hand CUDA_VISIBLE_DEVICES names another";
        omit(ProtocolPart::SecondDevice, reason);
    }

    /// Lets the candidate meet a tensor of more than 2^31 elements, where there is room for it and
    /// the task's baseline stands it.
    pub(super) fn examine_many(
        &mut self,
        candidate: &Candidate,
        compiled: &Compiled,
        reference: &Reference<'_>,
    ) -> Result<(), Stop> {
        let Some(beyond) = self.evaluator.host.many_elements() else {
            return self.leave_many("the emulated device would execute it for hours");
        };
        let Some(case) = vast::case(self.task, beyond)? else {
            return self.leave_many("no shape that the task allows has a tensor of so many");
        };
        let mut task = self.task.clone();
        task.cases.push(case.clone());
        let reference = Reference {
            task: &task,
            compiled: reference.compiled.clone(),
        };
        let device = self.evaluator.host.device().clone();
        let resolve = |source: &KernelSource, configuration: &Configuration| {
            let plan = source.plan();
            plan.resolve(&task, &case.dims, configuration, &device.limits)
        };
        let baseline = &self.task.baseline;
        let usual = baseline.plan().default_configuration();
        let answering = &self.task.reference;
        let plans = resolve(baseline, &usual)
            .map_err(|error| format!("the baseline: {error}"))
            .and_then(|own| {
                let values = answering.plan().default_configuration();
                let answering = resolve(answering, &values);
                let answering = answering.map_err(|error| format!("the reference: {error}"))?;
                Ok((own, answering))
            });
        let (own, answering) = match plans {
            Ok(plans) => plans,
            Err(why) => {
                return self.leave_many(&format!("{} cannot be launched by {why}", case.name));
            }
        };
        let Some(host) = vast::free_memory() else {
            return self.leave_many("memory: the system does not say how much of it is free");
        };
        let room = Room {
            device: device.memory_bytes,
            host,
            file: FILE_BYTES,
        };
        if let Some(obstacle) = vast::obstacle(&task, &case, [&own, &answering], room)? {
            return self.leave_many(&obstacle);
        }
        let passes = Passes {
            task: &task,
            ..self.passes()
        };
        let pass = [passes.ordinary(&case)?];
        let efforts = Efforts::default();
        let Ok(compiled_baseline) = self.build(baseline, &usual)? else {
            return self.leave_many("the task's baseline does not compile");
        };
        let standing = Trial {
            plans: &BTreeMap::from([(case.name.clone(), own)]),
            compiled: &compiled_baseline,
            reference: &reference,
            efforts: &efforts,
        };
        if self.fails_again(&pass, &standing, MANY)? {
            let why = format!("the task's baseline fails on {} itself", case.name);
            return self.leave_many(&why);
        }
        let plan = resolve(&candidate.source, &candidate.configuration).map_err(|error| {
            Stop::from(Verdict::LaunchRejected {
                reason: format!("case {}: {error}", case.name),
            })
        })?;
        let trial = Trial {
            plans: &BTreeMap::from([(case.name.clone(), plan)]),
            compiled,
            reference: &reference,
            efforts: &efforts,
        };
        self.examine(MANY, &pass, &trial)
    }

    fn leave_many(&mut self, reason: &str) -> Result<(), Stop> {
        self.evidence.not_run.push(NotRun {
            part: ProtocolPart::ManyElements,
            reason: reason.to_owned(),
        });
        Ok(())
    }
}
