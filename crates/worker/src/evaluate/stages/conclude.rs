//! The last of an evaluation: what was found becomes one value, and the bundle that it rests on is
//! kept.

use domain::evaluation::{EVALUATOR_VERSION, Evaluation};
use domain::verdict::Verdict;

use super::{Course, Evidence, MAX_FINDINGS};
use crate::evaluate::Fault;
use crate::evaluate::evidence::{self, Parts};

impl Course<'_> {
    /// The evaluation, with the name of its bundle.
    pub(super) fn conclude(mut self, verdict: Verdict) -> Result<Evaluation, Fault> {
        let (host, request, task) = (&self.evaluator.host, self.request, self.task);
        let plans = std::mem::take(&mut self.evidence.plans);
        let compiled = self.evidence.compiled.clone();
        let mut evaluation = self.concluded(verdict);
        let parts = Parts {
            request,
            task_name: &task.name,
            evaluation: &evaluation,
            plans: &plans,
            compiled: compiled.as_ref(),
        };
        evaluation.evidence = Some(evidence::keep(host, &parts)?);
        Ok(evaluation)
    }

    /// The evaluation with its evidence, the deciding finding first.
    fn concluded(self, verdict: Verdict) -> Evaluation {
        let Evidence {
            candidate_digest,
            plans: _,
            compiled,
            ran,
            not_run,
            label: _,
            kernels,
            gates,
            checks,
            launches,
            floors,
            measurement,
            flags,
            machine_code,
            mut findings,
            stages,
        } = self.evidence;
        if let Some(deciding) = verdict.finding() {
            findings.retain(|finding| finding != deciding);
            findings.insert(0, deciding.clone());
        }
        findings.truncate(MAX_FINDINGS);
        Evaluation {
            verdict,
            evaluator: EVALUATOR_VERSION,
            stage: self.request.stage,
            found_on: ran.then_some(self.family),
            not_run,
            task_version: self.task.version,
            candidate_digest,
            image_digest: compiled.as_ref().map(|compiled| compiled.image.code_digest),
            device: ran.then(|| self.evaluator.host.device().clone()),
            toolchain: compiled.as_ref().map(|compiled| compiled.toolchain.clone()),
            kernels,
            gates,
            checks,
            launches,
            floors,
            measurement,
            diagnostics: compiled
                .map(|compiled| compiled.diagnostics)
                .unwrap_or_default(),
            flags,
            machine_code,
            evidence: None,
            findings,
            stages,
        }
    }
}
