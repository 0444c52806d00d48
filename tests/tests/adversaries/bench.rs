//! One worker for all adversaries: the real stages, the real role processes, the emulated device.

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
use worker::evaluate::{Evaluator, Fault};
use worker::host::{Host, Settings};

/// The line an adversary's verdict must name ends so.
const MARK: &str = "// <- finding";

/// A worker, and what it says of an honest candidate while nobody has disturbed it.
pub struct Bench {
    evaluator: Evaluator,
    task: Bundle,
    usual: Evaluation,
    data: tempfile::TempDir,
}

static BENCH: OnceLock<Bench> = OnceLock::new();

/// The worker that all tests of this process share.
pub fn bench() -> &'static Bench {
    BENCH.get_or_init(Bench::open)
}

/// Where adversaries and their task lie.
pub fn folder() -> PathBuf {
    lab::repository().join("tests/adversaries")
}

/// The text of an adversary.
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
            usual: evaluate(&evaluator, &honest(&task)).expect("an honest candidate is no trouble"),
            evaluator,
            task,
            data,
        };
        assert!(
            matches!(bench.usual.verdict, Verdict::Accepted(_)),
            "{}",
            bench.usual.verdict
        );
        bench.usual.stages.clear();
        bench.usual.evidence = None;
        bench
    }

    /// Adds lines to the task of a request.
    pub fn amend_task(&self, request: &mut EvaluationRequest, lines: &str) {
        let text = &self.task.files["task.toml"];
        let amended = format!("{text}\n{lines}");
        request.task.files.insert("task.toml".to_owned(), amended);
    }

    /// The machine, as evaluators of a test's own may use it.
    pub fn host(&self) -> Host {
        self.evaluator.host().clone()
    }

    /// A file of a test's own.
    pub fn scratch(&self, name: &str) -> PathBuf {
        self.data.path().join(name)
    }

    /// The task's files.
    pub fn task(&self) -> &Bundle {
        &self.task
    }

    /// The undisturbed evaluation of the honest candidate, without wall times.
    pub fn usual(&self) -> &Evaluation {
        &self.usual
    }

    /// A request for one candidate.
    pub fn request(&self, file: &str, source: String) -> EvaluationRequest {
        request(&self.task, file, source)
    }

    /// Evaluates what is asked for, then the honest candidate, which must fare as ever.
    pub fn evaluate(&self, request: &EvaluationRequest) -> Evaluation {
        let evaluation = evaluate(&self.evaluator, request)
            .unwrap_or_else(|fault| panic!("{}: failed to {fault}", request.file));
        eprintln!("{}: {}", request.file, evaluation.verdict);
        self.is_as_ever(&request.file);
        evaluation
    }

    /// Evaluates the honest candidate, which must fare as before anyone disturbed this worker.
    pub fn is_as_ever(&self, after: &str) {
        let mut again = evaluate(&self.evaluator, &honest(&self.task))
            .unwrap_or_else(|fault| panic!("after {after}: failed to {fault}"));
        again.stages.clear();
        again.evidence = None;
        assert_eq!(
            again, self.usual,
            "after {after} an honest candidate fares otherwise"
        );
    }

    /// Evaluates an adversary as a search does; its verdict must be the one its file announces, at
    /// the line that its file marks.
    pub fn meet(&self, file: &str) -> Evaluation {
        let source = read(file);
        let announced = announced(file, &source);
        let evaluation = self.evaluate(&self.request(file, source.clone()));
        announced.check(file, &source, &evaluation.verdict);
        evaluation
    }

    /// Meets several adversaries.
    pub fn meet_all(&self, files: &[&str]) {
        for file in files {
            self.meet(file);
        }
    }
}

/// What an adversary's file says it must get.
struct Announced(domain::candidate::Expectation);

fn announced(file: &str, source: &str) -> Announced {
    let source =
        KernelSource::parse(file, source).unwrap_or_else(|problems| panic!("{file}: {problems}"));
    let expectation = source.expectation().cloned();
    Announced(expectation.unwrap_or_else(|| panic!("{file} expects nothing")))
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

/// This machine with the emulated device, its roles played by the built program.
pub fn discover(data: &std::path::Path) -> Host {
    let mut settings = Settings::from_environment(data).expect("the environment is readable");
    settings.executable = lab::binary();
    settings.emulate = true;
    let cancellation = Cancellation::new().expect("a descriptor is left");
    Host::discover(settings, &cancellation).unwrap_or_else(|fault| panic!("failed to {fault}"))
}

/// A request for one candidate of a task, in the search.
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

/// One evaluation.
pub fn evaluate(evaluator: &Evaluator, request: &EvaluationRequest) -> Result<Evaluation, Fault> {
    let cancellation = Cancellation::new().expect("a descriptor is left");
    evaluator.evaluate(request, |_| {}, &cancellation)
}
