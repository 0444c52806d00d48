//! The commands for one kernel on this machine, without a service. Each prints a text or the JSON of
//! [`crate::report`].

mod bench;
mod build;
mod evaluate;
mod iterate;
mod profile;
mod sanitize;
mod summary;
mod test;

use std::sync::Arc;

use domain::candidate::KernelSource;
use domain::device::Device;
use domain::evaluation::{EvaluationRequest, EvaluationStage};
use domain::plan::Configuration;
use domain::task::{Bundle, Task};
use serde::Serialize;
use worker::cancel::Cancellation;
use worker::evaluate::{EvaluateError, Evaluator};

use super::eval::LocalEvaluator;
use super::follow::{print, print_json};
use super::propose;
use crate::bundle;
use crate::cli::KernelArgs;
use crate::outcome::{Failure, Outcome};
use crate::report::{Report, TaskIdentity};

pub(super) use bench::bench;
pub(super) use build::build;
pub(super) use evaluate::evaluate;
pub(super) use iterate::iterate;
pub(super) use profile::profile;
pub(super) use sanitize::sanitize;
pub(super) use summary::summary;
pub(super) use test::test;

/// A kernel of a task on this machine.
pub(super) struct Subject {
    pub evaluator: LocalEvaluator,
    pub bundle: Bundle,
    pub task: Task,
    pub identity: TaskIdentity,
    pub file: String,
    pub source: String,
    pub configuration: Configuration,
}

impl Subject {
    /// Reads the task and the kernel that the arguments name. Nothing is compiled or run.
    pub async fn open(args: &KernelArgs) -> Result<Self, Failure> {
        let bundle = bundle::read(&args.task).map_err(Failure::input)?;
        let task = Task::load(&bundle).map_err(|problems| {
            let folder = args.task.display();
            Failure::input(anyhow::anyhow!("read the task {folder}:\n{problems}"))
        })?;
        let source = propose::source(&args.file)?;
        propose::print_notes(&args.file, &source);
        let evaluator = LocalEvaluator::open(&args.folder.data, args.seed).await?;
        let identity = TaskIdentity {
            name: task.name.clone(),
            version: task.version,
        };
        Ok(Self {
            evaluator,
            bundle,
            task,
            identity,
            file: args.file.to_string_lossy().into_owned(),
            source,
            configuration: args.settings.iter().cloned().collect(),
        })
    }

    /// The kernel, where it reads.
    pub fn kernel(&self) -> Option<KernelSource> {
        KernelSource::parse(&self.file, self.source.as_str()).ok()
    }

    /// Makes the evaluation request for the kernel with these values of its tunables.
    pub fn request(&self, configuration: &Configuration) -> Result<EvaluationRequest, Failure> {
        self.evaluator.request(
            &self.bundle,
            &self.file,
            self.source.clone(),
            configuration.clone(),
            EvaluationStage::Search,
        )
    }

    /// The device.
    pub fn device(&self) -> Device {
        self.evaluator.evaluator().host().device().clone()
    }

    /// Runs a question to the evaluator for the kernel and configuration of the arguments.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(
            &Evaluator,
            &EvaluationRequest,
            &dyn Fn(&str),
            &Cancellation,
        ) -> Result<T, EvaluateError>
        + Send
        + 'static,
    ) -> Result<T, Failure> {
        let request = self.request(&self.configuration)?;
        self.ask_about(request, question).await
    }

    /// Runs a question to the evaluator for another request.
    pub async fn ask_about<T: Send + 'static>(
        &self,
        request: EvaluationRequest,
        question: impl FnOnce(
            &Evaluator,
            &EvaluationRequest,
            &dyn Fn(&str),
            &Cancellation,
        ) -> Result<T, EvaluateError>
        + Send
        + 'static,
    ) -> Result<T, Failure> {
        let evaluator: Arc<Evaluator> = self.evaluator.evaluator().clone();
        self.evaluator
            .blocking(move |cancellation| {
                let progress = |stage: &str| tracing::info!("{stage}");
                question(&evaluator, &request, &progress, cancellation)
            })
            .await
    }

    /// Prints a result as text or as JSON.
    pub fn print_result<T: Serialize>(
        &self,
        json: bool,
        verb: &'static str,
        ok: bool,
        result: &T,
        text: impl FnOnce(&T, &Device) -> String,
    ) -> Result<Outcome, Failure> {
        let device = self.device();
        if json {
            let report = Report::about(verb, &self.file, &self.identity, &device, ok, result);
            print_json(&report)?;
        } else {
            print(&text(result, &device))?;
        }
        Ok(if ok {
            Outcome::Accepted
        } else {
            Outcome::NotAccepted
        })
    }
}
