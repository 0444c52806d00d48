//! Evaluator that all adversary tests share: real stages, real role processes, emulated device.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

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

/// An evaluator, and its evaluation of an honest candidate before the first adversary.
pub struct Bench {
    evaluator: Evaluator,
    task: Bundle,
    honest_evaluation: Evaluation,
    data: tempfile::TempDir,
}

static BENCH: OnceLock<Bench> = OnceLock::new();

/// The shared evaluator of this process.
pub fn bench() -> &'static Bench {
    BENCH.get_or_init(Bench::open)
}

/// Folder of the adversaries and their task.
pub fn folder() -> PathBuf {
    lab::repository().join("tests/adversaries")
}

/// Reads the text of an adversary.
pub fn read(file: &str) -> String {
    let path = folder().join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

impl Bench {
    fn open() -> Self {
        let data = tempfile::tempdir().expect("a temporary folder can be made");
        let host = discover(data.path());
        let evaluator = Evaluator::new(host).expect("the data folder is new");
        let task = lab::task_in(&folder().join("task")).expect("the task reads");
        let mut bench = Self {
            honest_evaluation: evaluate(&evaluator, &honest(&task))
                .expect("an honest candidate is no trouble"),
            evaluator,
            task,
            data,
        };
        assert!(
            matches!(bench.honest_evaluation.verdict, Verdict::Accepted(_)),
            "{}",
            bench.honest_evaluation.verdict
        );
        bench.honest_evaluation.stages.clear();
        bench.honest_evaluation.evidence = None;
        bench
    }

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

    /// Evaluation of the honest candidate before the first adversary, without wall times.
    pub fn honest_evaluation(&self) -> &Evaluation {
        &self.honest_evaluation
    }

    /// Request to evaluate one candidate in the search stage.
    pub fn request(&self, file: &str, source: String) -> EvaluationRequest {
        request(&self.task, file, source)
    }

    /// Evaluates a request, then checks that an honest candidate is evaluated as before.
    pub fn evaluate(&self, request: &EvaluationRequest) -> Evaluation {
        let evaluation = evaluate(&self.evaluator, request)
            .unwrap_or_else(|fault| panic!("{}: failed to {fault}", request.file));
        eprintln!("{}: {}", request.file, evaluation.verdict);
        self.assert_honest_unchanged(&request.file);
        evaluation
    }

    /// Evaluates the honest candidate and asserts that its evaluation is the same as before the
    /// first adversary.
    pub fn assert_honest_unchanged(&self, after: &str) {
        let mut again = evaluate(&self.evaluator, &honest(&self.task))
            .unwrap_or_else(|fault| panic!("after {after}: failed to {fault}"));
        again.stages.clear();
        again.evidence = None;
        assert_eq!(
            again, self.honest_evaluation,
            "after {after} an honest candidate is evaluated differently"
        );
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

fn honest(task: &Bundle) -> EvaluationRequest {
    let source = task.files["baseline.cu"].clone();
    request(task, "honest.cu", source)
}

/// Evaluates one request.
pub fn evaluate(
    evaluator: &Evaluator,
    request: &EvaluationRequest,
) -> Result<Evaluation, EvaluateError> {
    let cancellation = Cancellation::new().expect("a descriptor is left");
    evaluator.evaluate(request, |_| {}, &cancellation)
}
