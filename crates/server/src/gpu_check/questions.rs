//! The questions that the design left to silicon, each with a small experiment and what its
//! answer means for the evaluator.

mod isolation;
mod numbers;
mod reach;
mod times;
mod tools;

use std::path::PathBuf;
use std::time::Duration;

use domain::device::DeviceKind;
use domain::role::experiment::{End, ExperimentReply, Measure};
use domain::statistics::median;
use serde::Serialize;
use worker::cancel::Cancellation;
use worker::experiment::{self, ExperimentOutcome};

use super::{CheckError, CheckedDriver, Options, Part};

/// A question with its answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// Its short name.
    pub name: &'static str,
    /// The question.
    pub question: &'static str,
    /// The measured values, one line each.
    pub measured: Vec<String>,
    /// Number of measurements.
    pub n: usize,
    /// The consequence for the evaluator; none if the question was not answered.
    pub conclusion: Option<String>,
    /// The reason why the question was not answered.
    pub not_run: Option<String>,
}

/// The measurements of one question, their number and the conclusion.
struct QuestionMeasurements {
    measured: Vec<String>,
    n: usize,
    conclusion: String,
}

/// The reason why a question has no answer.
enum QuestionError {
    NotRun(String),
    Check(CheckError),
}

impl From<CheckError> for QuestionError {
    fn from(error: CheckError) -> Self {
        Self::Check(error)
    }
}

impl From<worker::supervise::SuperviseError> for QuestionError {
    fn from(fault: worker::supervise::SuperviseError) -> Self {
        Self::Check(fault.into())
    }
}

type QuestionResult = Result<QuestionMeasurements, QuestionError>;
type Question = (
    &'static str,
    &'static str,
    fn(&QuestionRunner<'_>) -> QuestionResult,
);

const QUESTIONS: [Question; 11] = [
    (
        "guard_pages",
        "Does an access one element behind a buffer that ends at an unmapped page stop the kernel, and a write to memory mapped for reading?",
        |runner| runner.guard_pages(),
    ),
    (
        "host_reach",
        "Can a kernel write to memory of the host process: pageable, page-locked, managed?",
        |runner| runner.host_reach(),
    ),
    (
        "kill_to_usable",
        "How long after a process with a running kernel was killed does a new process get a right answer?",
        |runner| runner.kill_to_usable(),
    ),
    (
        "cache_survival",
        "How much must be written to push a buffer out of the second level cache, also one that asked to be kept?",
        |runner| runner.cache_survival(),
    ),
    (
        "noise",
        "How far apart do two identical kernels seem to be?",
        |runner| runner.noise(),
    ),
    (
        "spin_up",
        "How long does an idle device take until a kernel's time no longer changes?",
        |runner| runner.spin_up(),
    ),
    (
        "clocks",
        "Do events, the host's clock and the device's own timer agree?",
        |runner| runner.clocks(),
    ),
    (
        "tools",
        "Which of NVIDIA's tools are here, and may counters be read?",
        |runner| runner.tools(),
    ),
    (
        "precision",
        "Do the limits of the relative error separate honest single precision from TF32, f16 and bf16 inputs?",
        |runner| runner.precision(),
    ),
    (
        "isolation",
        "How far can processes be kept from the machine without its driver failing?",
        |runner| runner.isolation(),
    ),
    (
        "rates",
        "What does the device do at best, which no candidate can beat?",
        |runner| runner.rates(),
    ),
];

/// Answers the selected questions.
pub(crate) fn ask(
    driver: &CheckedDriver,
    options: &Options,
    progress: &dyn Fn(&str),
    cancellation: &Cancellation,
    answers: &mut Vec<Answer>,
) -> Result<(), CheckError> {
    let wanted: Vec<&Question> = QUESTIONS
        .iter()
        .filter(|(name, ..)| options.wants(Part::Questions, name))
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let (image, _) = driver
        .images
        .image(&driver.evaluator, &corpus::QUESTIONS, cancellation)?;
    let runner = QuestionRunner {
        driver,
        image,
        cancellation,
    };
    for (name, question, ask) in wanted {
        progress(&format!("question: {name}"));
        let mut answer = Answer {
            name,
            question,
            measured: Vec::new(),
            n: 0,
            conclusion: None,
            not_run: None,
        };
        match ask(&runner) {
            Ok(found) => {
                answer.measured = found.measured;
                answer.n = found.n;
                answer.conclusion = Some(found.conclusion);
            }
            Err(QuestionError::NotRun(why)) => answer.not_run = Some(why),
            Err(QuestionError::Check(error)) => return Err(error),
        }
        answers.push(answer);
    }
    Ok(())
}

struct QuestionRunner<'a> {
    driver: &'a CheckedDriver,
    image: PathBuf,
    cancellation: &'a Cancellation,
}

impl QuestionRunner<'_> {
    fn is_emulated(&self) -> bool {
        self.driver.host().device().kind == DeviceKind::Emulated
    }

    /// Makes one measurement, which may fail.
    fn measure(
        &self,
        what: Measure,
        patience: Option<Duration>,
    ) -> Result<ExperimentOutcome<ExperimentReply>, QuestionError> {
        let host = self.driver.host();
        let image = self.image.clone();
        Ok(experiment::measure(
            host,
            what,
            image,
            patience,
            self.cancellation,
        )?)
    }

    /// Makes one measurement that must succeed.
    fn reply(&self, what: Measure) -> Result<ExperimentReply, QuestionError> {
        match self.measure(what, None)? {
            ExperimentOutcome::Failed(how) => Err(QuestionError::NotRun(how)),
            ExperimentOutcome::Reply(reply) if reply.end == End::Completed => Ok(reply),
            ExperimentOutcome::Reply(reply) => Err(QuestionError::NotRun(
                reply.message.unwrap_or_else(|| reply.end.to_string()),
            )),
        }
    }

    fn tools(&self) -> QuestionResult {
        let tools = tools::find_tools();
        Ok(QuestionMeasurements {
            n: tools.len(),
            conclusion: tools::conclusion(&tools),
            measured: tools.iter().map(ToString::to_string).collect(),
        })
    }

    fn isolation(&self) -> QuestionResult {
        let host = self.driver.host();
        let measured = isolation::measured(host.confinement_report(), host.confinement());
        Ok(QuestionMeasurements {
            n: measured.len(),
            measured,
            conclusion: self.labelled(isolation::conclusion(
                host.confinement_report(),
                host.confinement(),
            )),
        })
    }

    /// Says of an emulated device's answer that it is one.
    fn labelled(&self, conclusion: String) -> String {
        if self.is_emulated() {
            format!("{conclusion} (emulated: this says nothing about silicon)")
        } else {
            conclusion
        }
    }
}

fn first(reply: &ExperimentReply, name: &str) -> Option<f64> {
    reply.series.get(name)?.first().copied()
}

fn series<'a>(reply: &'a ExperimentReply, name: &str) -> Result<&'a [f64], QuestionError> {
    match reply.series.get(name) {
        Some(values) if !values.is_empty() => Ok(values),
        _ => Err(QuestionError::NotRun(format!("the device gave no {name}"))),
    }
}

fn middle(values: &[f64]) -> f64 {
    median(values).unwrap_or(f64::NAN)
}
