//! An evaluator on this machine with the project's tasks, or a printed reason why there is none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::digest::Digest;
use domain::evaluation::{Evaluation, EvaluationRequest, EvaluationStage};
use domain::role::Key;
use domain::task::Bundle;
use worker::cancel::Cancellation;
use worker::evaluate::Evaluator;
use worker::host::{Host, HostError, Prescreener, RepeatPolicy, Role, Settings};

/// An evaluator with a data folder that is removed with it.
pub struct Lab {
    evaluator: Evaluator,
    data: tempfile::TempDir,
}

/// Returns `None`, with a line on standard error for each test, where the compiler is not
/// installed; also in a role process, which may have been started with the words of several tests'
/// names.
pub fn lab() -> Option<Lab> {
    if std::env::var_os(domain::role::SOCKET_VARIABLE).is_some() {
        return None;
    }
    let lab = open();
    if lab.is_none() {
        eprintln!("SKIPPED 1 test: there is no compiler");
    }
    lab
}

fn open() -> Option<Lab> {
    open_with(|_| {})
}

fn open_with(change: impl FnOnce(&mut Settings)) -> Option<Lab> {
    let data = tempfile::tempdir().unwrap();
    let mut settings = Settings::from_environment(data.path()).unwrap();
    settings.emulate = true;
    change(&mut settings);
    match Host::discover(settings, &Cancellation::new().unwrap()) {
        Ok(host) => Some(Lab {
            evaluator: Evaluator::new(host).unwrap(),
            data,
        }),
        Err(HostError::Toolchain(missing)) => {
            eprintln!("failed to {missing}");
            None
        }
        Err(fault) => panic!("failed to {fault}"),
    }
}

pub fn folder(task: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../kernels")
        .join(task)
}

pub fn read(task: &str, file: &str) -> String {
    std::fs::read_to_string(folder(task).join(file)).unwrap()
}

impl Lab {
    /// A lab on a machine without NVIDIA's disassembler.
    pub fn without_disassembler() -> Option<Self> {
        lab()?;
        open_with(|settings| settings.nvdisasm = Some(PathBuf::from("/nonexistent/nvdisasm")))
    }

    /// A lab whose emulated device is another one.
    pub fn with_device(device: &str) -> Option<Self> {
        lab()?;
        open_with(|settings| settings.emulated_device = Some(device.to_owned()))
    }

    /// A lab on a machine with another compute-sanitizer.
    pub fn with_sanitizer(program: &Path) -> Option<Self> {
        lab()?;
        open_with(|settings| settings.sanitizer = Some(program.to_owned()))
    }

    /// A lab whose references in Python have this much time.
    pub fn with_python_limit(limit: Duration) -> Option<Self> {
        lab()?;
        open_with(|settings| settings.python_limit = limit)
    }

    pub fn request(task: &str, file: &str, source: String) -> EvaluationRequest {
        let mut bundle = BTreeMap::new();
        for name in ["task.toml", "reference.cu", "check.cu", "baseline.cu"] {
            bundle.insert(name.to_owned(), read(task, name));
        }
        EvaluationRequest {
            task: Bundle { files: bundle },
            file: file.to_owned(),
            source,
            configuration: BTreeMap::new(),
            stage: EvaluationStage::Search,
            key: Key(Digest::of("the key of these tests")),
            incumbent: None,
        }
    }

    /// A request for a file of `softmax-f32` with smaller cases, for tests that need an evaluation
    /// and whose subject does not depend on the size of tensors.
    pub fn small_request(file: &str) -> EvaluationRequest {
        let task = "softmax-f32";
        let mut request = Self::request(task, file, read(task, file));
        let text = request.task.files.get_mut("task.toml").unwrap();
        for (listed, instead) in [
            ("R = 16, C = 32000", "R = 16, C = 2000"),
            ("R = 8192, C = 128", "R = 256, C = 128"),
            ("R = 512, C = 1024", "R = 32, C = 1024"),
        ] {
            assert!(text.contains(listed), "{listed}");
            *text = text.replace(listed, instead);
        }
        request
    }

    /// This lab's evaluator, except that the emulated driver follows a fault plan while it times.
    pub fn with_spoiled_timing(&self, plan: &str) -> Evaluator {
        self.spoiled(&[(Role::Time, plan)])
    }

    /// This lab's evaluator, except that the emulated driver follows a fault plan in the role that
    /// watches the device.
    pub fn with_spoiled_watch(&self, plan: &str) -> Evaluator {
        self.spoiled(&[(Role::Watch, plan)])
    }

    /// This lab's evaluator, except that the emulated driver follows a fault plan in some roles.
    pub fn spoiled(&self, plans: &[(Role, &str)]) -> Evaluator {
        let mut host = self.evaluator.host().clone();
        for (role, plan) in plans {
            let file = tempfile::Builder::new()
                .suffix(".toml")
                .tempfile_in(self.data.path())
                .unwrap();
            std::fs::write(file.path(), plan).unwrap();
            let (_, path) = file.keep().unwrap();
            host = host.with_fault_plan(*role, &path);
        }
        Evaluator::new(host).unwrap()
    }

    /// An evaluator like that of a worker that starts on this lab's data folder.
    pub fn started_anew(&self) -> Evaluator {
        let mut settings = Settings::from_environment(self.data.path()).unwrap();
        settings.emulate = true;
        let host = Host::discover(settings, &Cancellation::new().unwrap()).unwrap();
        Evaluator::new(host).unwrap()
    }

    /// This lab's evaluator, except that the device is treated as one without proofs.
    pub fn treated_as_unproved(&self, repeats: RepeatPolicy) -> Evaluator {
        let host = self.evaluator.host().clone().assumed_unproved(repeats);
        Evaluator::new(host.prescreened_by(self.prescreener())).unwrap()
    }

    /// This lab's evaluator, except that the emulated driver follows a fault plan in the next process of
    /// a role.
    pub fn spoiled_once(&self, role: Role, plan: &str) -> Evaluator {
        let path = self.data.path().join("once.toml");
        std::fs::write(&path, plan).unwrap();
        let host = self.evaluator.host().clone();
        Evaluator::new(host.with_fault_plan_once(role, &path)).unwrap()
    }

    /// This lab's device as a pre-screener, with a time limit that suffices on a busy machine.
    pub fn prescreener(&self) -> Prescreener {
        Prescreener {
            device: Ok(Arc::new(self.evaluator.host().clone())),
            cap: Duration::from_secs(60),
        }
    }

    /// The path of the device's health record, which an operator removes.
    pub fn health_record(&self) -> PathBuf {
        let folder = self.data.path().join("health");
        let mut entries = std::fs::read_dir(folder).unwrap();
        entries.next().unwrap().unwrap().path()
    }

    /// Removes that record, if there is one.
    pub fn forget_health(&self) {
        let folder = self.data.path().join("health");
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }

    pub fn evaluator(&self) -> &Evaluator {
        &self.evaluator
    }

    pub fn evaluate(&self, request: &EvaluationRequest) -> Evaluation {
        let cancellation = Cancellation::new().unwrap();
        self.evaluator
            .evaluate(request, |_| {}, &cancellation)
            .unwrap()
    }

    /// The folder of a build.
    pub fn build(&self, name: &str) -> PathBuf {
        self.data.path().join("builds").join(name)
    }

    /// Names of the builds that are kept; none before the first.
    pub fn builds(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.build("")) else {
            return Vec::new();
        };
        let mut names = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect::<Vec<_>>();
        names.sort();
        names
    }
}
