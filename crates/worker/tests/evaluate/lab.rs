//! An evaluator on this machine and the attention task, or a loud reason why there is none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use domain::digest::Digest;
use domain::evaluation::{Evaluation, EvaluationRequest, EvaluationStage};
use domain::role::Key;
use domain::task::Bundle;
use worker::cancel::Cancellation;
use worker::evaluate::Evaluator;
use worker::host::{Fault, Host, Settings};

pub struct Lab {
    evaluator: Evaluator,
    task: PathBuf,
    _data: tempfile::TempDir,
}

impl Lab {
    /// None, with a line on standard error, where the compiler is not installed.
    pub fn open() -> Option<Self> {
        let data = tempfile::tempdir().unwrap();
        let mut settings = Settings::from_environment(data.path()).unwrap();
        settings.emulate = true;
        match Host::discover(settings, &Cancellation::new().unwrap()) {
            Ok(host) => Some(Self {
                evaluator: Evaluator::new(host).unwrap(),
                task: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels/attention-f16"),
                _data: data,
            }),
            Err(Fault::Toolchain(missing)) => {
                eprintln!("SKIPPED 1 test: failed to {missing}");
                None
            }
            Err(fault) => panic!("failed to {fault}"),
        }
    }

    /// Evaluates a file of the task's folder.
    pub fn evaluate(&self, file: &str, stage: EvaluationStage) -> Evaluation {
        let source = std::fs::read_to_string(self.task.join(file)).unwrap();
        self.evaluate_text(file, source, stage)
    }

    pub fn evaluate_text(&self, file: &str, source: String, stage: EvaluationStage) -> Evaluation {
        let mut files = BTreeMap::new();
        for name in ["task.toml", "reference.cu", "check.cu", "baseline.cu"] {
            let text = std::fs::read_to_string(self.task.join(name)).unwrap();
            files.insert(name.to_owned(), text);
        }
        let request = EvaluationRequest {
            task: Bundle { files },
            file: file.to_owned(),
            source,
            configuration: BTreeMap::new(),
            stage,
            key: Key(Digest::of("the key of these tests")),
            incumbent: None,
        };
        self.evaluator
            .evaluate(&request, |_| {}, &Cancellation::new().unwrap())
            .unwrap()
    }
}
