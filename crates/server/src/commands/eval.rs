//! `eval`: one file to its verdict, without a service, by the same evaluator that workers use.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use domain::admission::Admission;
use domain::digest::Digest;
use domain::evaluation::{Evaluation, EvaluationRequest, EvaluationStage};
use domain::role::Key;
use domain::task::{Bundle, Task};
use rand::TryRng;
use rand::rngs::SysRng;
use worker::cancel::Cancellation;
use worker::evaluate::{EvaluateError, Evaluator};
use worker::host::{Host, Settings};

use super::follow::{print, print_json};
use super::{propose, serve};
use crate::bundle;
use crate::cli::EvalArgs;
use crate::data::Data;
use crate::evaluation_text;
use crate::outcome::{Ending, Failure, Outcome};

pub(super) async fn eval(args: EvalArgs) -> Ending {
    let kernel = args.kernel;
    let bundle = bundle::read(&kernel.task).map_err(Failure::input)?;
    Task::load(&bundle).map_err(|problems| {
        let folder = kernel.task.display();
        Failure::input(anyhow::anyhow!("read the task {folder}:\n{problems}"))
    })?;
    let source = propose::source(&kernel.file)?;
    let stage = if args.champion {
        EvaluationStage::Champion
    } else if args.confirm {
        EvaluationStage::Confirmation
    } else {
        EvaluationStage::Search
    };
    let evaluator = LocalEvaluator::open(&kernel.folder.data, kernel.seed).await?;
    let request = evaluator.request(
        &bundle,
        &kernel.file.to_string_lossy(),
        source,
        kernel.settings.into_iter().collect(),
        stage,
    )?;
    let mut evaluation = evaluator.evaluate(request.clone()).await?;
    for round in 2..=args.rounds {
        if evaluation.verdict.acceptance().is_none() {
            break;
        }
        eprintln!("round {round} of {}", args.rounds);
        let again = EvaluationRequest {
            key: request.key.derive(&["round", &round.to_string()]),
            ..request.clone()
        };
        evaluation = evaluator.evaluate(again).await?;
    }
    if kernel.json {
        print_json(&evaluation)?;
    } else {
        print(&evaluation_text::evaluation(&evaluation))?;
    }
    Ok(match evaluation.verdict.acceptance() {
        Some(_) => Outcome::Accepted,
        None => Outcome::NotAccepted,
    })
}

/// Finds the toolchain and the device of this machine.
///
/// # Errors
/// [`Failure::Infrastructure`] with the missing part and the command that installs it.
pub(super) async fn host(data: &Data, cancellation: &Cancellation) -> Result<Host, Failure> {
    let (root, cancellation) = (data.root().to_owned(), cancellation.clone());
    blocking(move || Host::discover(Settings::from_environment(&root)?, &cancellation))
        .await?
        .map_err(Failure::infrastructure)
}

/// A new cancellation signal.
pub(super) fn cancellation() -> Result<Cancellation, Failure> {
    Cancellation::new()
        .context("prepare to be interrupted")
        .map_err(Failure::infrastructure)
}

/// Work that holds its thread for long.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work)
        .await
        .context("finish: a part of the program panicked")
        .map_err(Failure::infrastructure)
}

/// The evaluator of the local verbs, which Ctrl-C interrupts.
pub(super) struct LocalEvaluator {
    evaluator: Arc<Evaluator>,
    cancellation: Cancellation,
    seed: Option<u64>,
}

impl LocalEvaluator {
    /// With builds and reference answers in a data folder. Inputs are fresh for every evaluation
    /// unless a seed repeats them.
    pub async fn open(data: &Path, seed: Option<u64>) -> Result<Self, Failure> {
        let data = serve::open(data)?;
        let cancellation = cancellation()?;
        let interrupted = cancellation.clone();
        tokio::spawn(async move {
            if serve::stop_requested().await.is_ok() {
                interrupted.cancel();
            }
        });
        let host = host(&data, &cancellation).await?;
        let evaluator = blocking(move || Evaluator::new(host)).await?;
        Ok(Self {
            evaluator: Arc::new(evaluator.map_err(failure)?),
            cancellation,
            seed,
        })
    }

    /// Makes the evaluation request for one source.
    pub fn request(
        &self,
        task: &Bundle,
        file: &str,
        source: String,
        configuration: BTreeMap<String, i64>,
        stage: EvaluationStage,
    ) -> Result<EvaluationRequest, Failure> {
        Ok(EvaluationRequest {
            task: task.clone(),
            file: file.to_owned(),
            source,
            configuration,
            stage,
            key: self.key()?,
            incumbent: None,
        })
    }

    /// Evaluates.
    pub async fn evaluate(&self, request: EvaluationRequest) -> Result<Evaluation, Failure> {
        let evaluator = self.evaluator.clone();
        let progress = |stage: &str| tracing::info!("{stage}");
        self.blocking(move |cancellation| evaluator.evaluate(&request, progress, cancellation))
            .await
    }

    /// Runs blocking work with the evaluator, which Ctrl-C cancels.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Cancellation) -> Result<T, EvaluateError> + Send + 'static,
    ) -> Result<T, Failure> {
        let cancellation = self.cancellation.clone();
        blocking(move || work(&cancellation))
            .await?
            .map_err(failure)
    }

    /// The evaluator.
    pub fn evaluator(&self) -> &Arc<Evaluator> {
        &self.evaluator
    }

    /// Finds out whether a task may be searched, and says on standard error how far it is.
    pub async fn admit(&self, task: &Bundle) -> Result<Admission, Failure> {
        let (evaluator, cancellation) = (self.evaluator.clone(), self.cancellation.clone());
        let task = task.clone();
        let progress = |part: &str| eprintln!("{part}");
        blocking(move || evaluator.admit(&task, progress, &cancellation))
            .await?
            .map_err(failure)
    }

    fn key(&self) -> Result<Key, Failure> {
        if let Some(seed) = self.seed {
            return Ok(Key(Digest::of_parts([
                b"local evaluation".as_slice(),
                &seed.to_le_bytes(),
            ])));
        }
        let mut bytes = [0; 32];
        SysRng
            .try_fill_bytes(&mut bytes)
            .context("draw random numbers from the system")
            .map_err(Failure::infrastructure)?;
        Ok(Key(Digest::of(bytes)))
    }
}

/// A defective task is a failure of the input; any other fault is one of the infrastructure.
fn failure(fault: EvaluateError) -> Failure {
    match fault {
        EvaluateError::Task(_) | EvaluateError::Reference(_) => Failure::input(fault),
        other => Failure::infrastructure(other),
    }
}
