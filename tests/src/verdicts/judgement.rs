//! The evaluator's verdicts on changed kernels.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use domain::candidate::KernelSource;
use domain::device::Limits;
use domain::digest::Digest;
use domain::evaluation::{Evaluation, EvaluationRequest, EvaluationStage};
use domain::role::Key;
use domain::verdict::Verdict;
use serde::{Deserialize, Serialize};
use worker::cancel::Cancellation;
use worker::evaluate::{CompilationInputs, Evaluator, Stop};
use worker::host::{Host, Settings};

use super::mutation::Mutant;
use super::subject::Subject;

/// Consecutive items of a list whose kernels of one task get the same inputs, so that the reference's answers to them
/// are computed once: about 50 of each task. A kernel cannot read the key from which the inputs are drawn, and no verdict
/// depends on another.
const ITEMS_PER_KEY: u64 = 350;

/// The evaluator's verdict on one kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// True if the search and then the confirmation accepted it.
    pub accepted: bool,
    /// True if the search accepted it.
    pub accepted_by_search: bool,
    /// The last verdict in words.
    pub verdict: String,
    /// The last verdict's class.
    pub kind: String,
}

/// An evaluator on the emulated device.
#[derive(Debug)]
pub struct Judge {
    evaluator: Evaluator,
    cancellation: Cancellation,
}

impl Judge {
    /// Prepares an evaluator that keeps its files in `data`.
    ///
    /// # Errors
    /// If compiler or emulated driver are missing.
    pub fn new(data: &Path) -> Result<Self> {
        crate::share_builds(data)?;
        let mut settings = Settings::from_environment(data)?;
        settings.executable = crate::binary();
        settings.emulate = true;
        let cancellation = Cancellation::new()?;
        let host = Host::discover(settings, &cancellation)?;
        Ok(Self {
            evaluator: Evaluator::new(host)?,
            cancellation,
        })
    }

    /// The device's limits, for launch plans.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.evaluator.host().device().limits
    }

    /// Compiles a kernel; none if it is no valid candidate. The evaluator finds the build again.
    ///
    /// # Errors
    /// A fault of the infrastructure.
    pub fn compile(&self, mutant: &Mutant) -> Result<Option<String>> {
        let Ok(source) = KernelSource::parse("candidate.cu", mutant.text.as_str()) else {
            return Ok(None);
        };
        let recipe = CompilationInputs {
            source: &source.compiler_input(),
            configuration: &source.plan().default_configuration(),
            headers: &BTreeMap::new(),
            architecture: &self.evaluator.host().device().architecture(),
        };
        match self.evaluator.build(&recipe, &self.cancellation) {
            Ok(compiled) => {
                let path = &compiled.image.ptx;
                let text = std::fs::read_to_string(path);
                text.with_context(|| format!("read {}", path.display()))
                    .map(Some)
            }
            Err(Stop::Verdict(_)) => Ok(None),
            Err(Stop::Fault(error)) => Err(error.into()),
        }
    }

    /// Evaluates one request.
    ///
    /// # Errors
    /// A fault of the infrastructure.
    pub fn evaluate(&self, request: &EvaluationRequest) -> Result<Evaluation> {
        let evaluation = self
            .evaluator
            .evaluate(request, |_| {}, &self.cancellation)?;
        Ok(evaluation)
    }

    /// Evaluates a kernel as a search does, and if that accepts it as a promotion does.
    ///
    /// # Errors
    /// A fault of the infrastructure.
    pub fn judge(&self, subject: &Subject, mutant: &Mutant, seed: u64) -> Result<Judgement> {
        let mut judgement = Judgement {
            accepted: false,
            accepted_by_search: false,
            verdict: String::new(),
            kind: String::new(),
        };
        for stage in [EvaluationStage::Search, EvaluationStage::Confirmation] {
            let group = mutant.item / ITEMS_PER_KEY;
            let key = format!("verdict rates {seed} {:?} {group} {stage:?}", mutant.kind);
            let request = EvaluationRequest {
                task: subject.bundle.clone(),
                file: "candidate.cu".to_owned(),
                source: mutant.text.clone(),
                configuration: BTreeMap::new(),
                stage,
                key: Key(Digest::of(&key)),
                incumbent: None,
            };
            let evaluation = self.evaluate(&request)?;
            judgement.verdict = format!("{stage:?}: {}", evaluation.verdict);
            judgement.kind = evaluation.verdict.kind().to_string();
            let accepted = matches!(evaluation.verdict, Verdict::Accepted { .. });
            match stage {
                EvaluationStage::Search => judgement.accepted_by_search = accepted,
                _ => judgement.accepted = accepted,
            }
            if !accepted {
                break;
            }
        }
        Ok(judgement)
    }
}
