//! Evaluator of a test of adversaries: real stages, real role processes, emulated device.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use domain::candidate::KernelSource;
use domain::digest::Digest;
use domain::evaluation::{Evaluation, EvaluationRequest, EvaluationStage};
use domain::role::Key;
use domain::task::Bundle;
use domain::verdict::Verdict;
use worker::cancel::Cancellation;
use worker::evaluate::{EvaluateError, Evaluator};
use worker::host::{Host, Settings};

/// Comment at the end of the line that an adversary's verdict must name.
const MARK: &str = "// <- finding";

/// An evaluator with a data folder of its own. When it is dropped, it asserts that an honest candidate is evaluated
/// as it was before the first adversary.
pub struct Bench {
    evaluator: Evaluator,
    task: Bundle,
    data: tempfile::TempDir,
}

/// An evaluator for one test.
pub fn bench() -> Bench {
    let data = tempfile::tempdir().expect("a temporary folder can be made");
    Bench {
        evaluator: Evaluator::new(discover(data.path())).expect("the data folder is new"),
        task: adversaries_task(),
        data,
    }
}

/// Folder of the adversaries and their task.
pub fn folder() -> PathBuf {
    lab::repository().join("tests/adversaries")
}

/// The task that the adversaries solve.
pub fn adversaries_task() -> Bundle {
    lab::task_in(&folder().join("task")).expect("the task reads")
}

/// Reads the text of an adversary.
pub fn read(file: &str) -> String {
    let path = folder().join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

impl Bench {
    /// Appends lines to the `task.toml` of a request.
    pub fn amend_task(&self, request: &mut EvaluationRequest, lines: &str) {
        let text = &self.task.files["task.toml"];
        let amended = format!("{text}\n{lines}");
        request.task.files.insert("task.toml".to_owned(), amended);
    }

    /// The host, for tests that create their own evaluator.
    pub fn host(&self) -> Host {
        self.evaluator.host().clone()
    }

    /// Path for a file of a test.
    pub fn scratch(&self, name: &str) -> PathBuf {
        self.data.path().join(name)
    }

    /// Files of the adversaries' task.
    pub fn task(&self) -> &Bundle {
        &self.task
    }

    /// Request to evaluate one candidate in the search stage.
    pub fn request(&self, file: &str, source: String) -> EvaluationRequest {
        request(&self.task, file, source)
    }

    /// Evaluates a request.
    pub fn evaluate(&self, request: &EvaluationRequest) -> Evaluation {
        let evaluation = evaluate(&self.evaluator, request)
            .unwrap_or_else(|fault| panic!("{}: failed to {fault}", request.file));
        eprintln!("{}: {}", request.file, evaluation.verdict);
        evaluation
    }

    /// Evaluates an adversary in the search stage and asserts the verdict that its file announces, at
    /// the line that its file marks.
    pub fn assert_announced(&self, file: &str) -> Evaluation {
        let source = read(file);
        let announced = announced(file, &source);
        let evaluation = self.evaluate(&self.request(file, source.clone()));
        announced.check(file, &source, &evaluation.verdict);
        evaluation
    }

    /// Calls [`Self::assert_announced`] for several adversaries.
    pub fn assert_all_announced(&self, files: &[&str]) {
        for file in files {
            self.assert_announced(file);
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        assert_eq!(
            evaluate_honest(&self.evaluator, &self.task),
            first_evaluation_as_json(),
            "after these adversaries an honest candidate is evaluated differently"
        );
    }
}

/// Evaluates the honest candidate, and gives the evaluation without wall times as JSON.
fn evaluate_honest(evaluator: &Evaluator, task: &Bundle) -> String {
    let source = task.files["baseline.cu"].clone();
    let mut evaluation = evaluate(evaluator, &request(task, "honest.cu", source))
        .expect("an honest candidate is no trouble");
    let verdict = &evaluation.verdict;
    assert!(matches!(verdict, Verdict::Accepted(_)), "{verdict}");
    evaluation.stages.clear();
    evaluation.evidence = None;
    serde_json::to_string(&evaluation).expect("an evaluation is JSON")
}

/// The evaluation, without wall times, of the honest candidate by an evaluator that met no adversary.
pub fn first_evaluation() -> Evaluation {
    serde_json::from_str(&first_evaluation_as_json()).expect("it was written as one")
}

/// Each test is a process: the first one that needs the evaluation makes it and keeps it for the others, in cargo's
/// folder for the files of tests.
fn first_evaluation_as_json() -> String {
    let task = adversaries_task();
    let driver = lab::binary().with_file_name("libkernelwright_driver.so");
    let evaluator = std::env::current_exe().expect("a test has a program");
    let made = [evaluator, lab::binary(), driver].map(|file| {
        let metadata = fs::metadata(&file);
        metadata
            .and_then(|metadata| metadata.modified())
            .expect("it is built")
    });
    let key = Digest::of(format!("{made:?} {task:?}")).to_string();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("honest-evaluation.txt");
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(path).expect("the folder is there");
    file.lock().expect("files can be locked");
    let mut kept = String::new();
    file.read_to_string(&mut kept).expect("it is text");
    if let Some((of, evaluation)) = kept.split_once('\n')
        && of == key
    {
        return evaluation.to_owned();
    }
    let data = tempfile::tempdir().expect("a temporary folder can be made");
    let evaluator = Evaluator::new(discover(data.path())).expect("the data folder is new");
    let evaluation = evaluate_honest(&evaluator, &task);
    file.set_len(0)
        .and_then(|()| file.rewind())
        .expect("it can be written again");
    write!(file, "{key}\n{evaluation}").expect("there is room");
    evaluation
}

/// Verdict that an adversary's file announces.
struct Announced(domain::candidate::Expectation);

fn announced(file: &str, source: &str) -> Announced {
    let source =
        KernelSource::parse(file, source).unwrap_or_else(|problems| panic!("{file}: {problems}"));
    let expectation = source.expectation().cloned();
    Announced(expectation.unwrap_or_else(|| panic!("{file} announces no verdict")))
}

impl Announced {
    fn check(&self, file: &str, source: &str, verdict: &Verdict) {
        let code = match verdict {
            Verdict::RuntimeFault { code, .. } => Some(*code),
            _ => None,
        };
        assert_eq!(verdict.kind(), self.0.verdict, "{file}: {verdict}");
        if self.0.code.is_some() {
            assert_eq!(code, self.0.code, "{file}: {verdict}");
        }
        let marked = source
            .lines()
            .position(|line| line.trim_end().ends_with(MARK));
        if let Some(at) = marked {
            assert_eq!(
                verdict.line(),
                u32::try_from(at + 1).ok(),
                "{file}: {verdict}"
            );
        }
    }
}

/// This machine with the emulated device, with the built program as its role processes.
pub fn discover(data: &std::path::Path) -> Host {
    let mut settings = Settings::from_environment(data).expect("the environment is readable");
    settings.executable = lab::binary();
    settings.emulate = true;
    let cancellation = Cancellation::new().expect("a descriptor is left");
    Host::discover(settings, &cancellation).unwrap_or_else(|fault| panic!("failed to {fault}"))
}

/// Request to evaluate one candidate of a task in the search stage.
pub fn request(task: &Bundle, file: &str, source: String) -> EvaluationRequest {
    EvaluationRequest {
        task: task.clone(),
        file: file.to_owned(),
        source,
        configuration: BTreeMap::new(),
        stage: EvaluationStage::Search,
        key: Key(Digest::of("the key of the adversaries' search")),
        incumbent: None,
    }
}

/// Evaluates one request.
pub fn evaluate(
    evaluator: &Evaluator,
    request: &EvaluationRequest,
) -> Result<Evaluation, EvaluateError> {
    let cancellation = Cancellation::new().expect("a descriptor is left");
    evaluator.evaluate(request, |_| {}, &cancellation)
}
