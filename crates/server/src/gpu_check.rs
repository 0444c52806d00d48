//! `gpu-check`: checks of this project's claims on a machine with a GPU.
//!
//! The corpus and the tasks run on NVIDIA's driver and on the emulated one, and the report lists each
//! disagreement. Then the questions that only a GPU can answer are measured. Every
//! kernel runs in a process of its own, so that one that hangs or kills its device ends nothing
//! but itself. Without a GPU the same code compares the emulated driver with itself.

mod corpus;
mod images;
mod pack;
mod questions;
mod report;
mod suite;

use std::path::{Path, PathBuf};

use worker::cancel::Cancellation;
use worker::evaluate::Evaluator;
use worker::host::{self, Host, Settings};

use images::Images;

pub use pack::{ARCHITECTURES, Pack, PackError, Preparation, Prepared, prepare};
pub use report::{GpuCheckReport, Part};

/// Options of a check.
#[derive(Debug, Clone)]
pub struct Options {
    /// Folder for reports, builds and scratch files.
    pub out: PathBuf,
    /// Prebuilt images, tasks and the emulated driver.
    pub pack: Option<Pack>,
    /// The folder of task folders, where no pack has them.
    pub tasks: PathBuf,
    /// True if the emulated driver takes the GPU's place.
    pub emulated: bool,
    /// Only cases, tasks and questions whose names contain one of these; empty is all.
    pub only: Vec<String>,
    /// The parts to check.
    pub parts: Vec<Part>,
}

impl Options {
    fn wants(&self, part: Part, name: &str) -> bool {
        self.parts.contains(&part) && is_wanted(&self.only, name)
    }
}

/// Returns true if a name contains one of the texts, or if there are no texts.
fn is_wanted(only: &[String], name: &str) -> bool {
    only.is_empty() || only.iter().any(|only| name.contains(only.as_str()))
}

/// Errors that prevent a report.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// No NVIDIA driver that works.
    #[error(
        "find an NVIDIA GPU: {0}; run this on a machine that has one, or compare the emulated driver with itself by --emulated"
    )]
    NoGpu(String),
    /// The machine cannot run one of the two drivers.
    #[error(transparent)]
    Host(#[from] host::HostError),
    /// A process could not be started at all, or the work was called off.
    #[error(transparent)]
    Supervise(#[from] worker::supervise::SuperviseError),
    /// The evaluator could not work.
    #[error(transparent)]
    Evaluate(#[from] worker::evaluate::EvaluateError),
    /// The pack.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// The disk refused.
    #[error("access {path}; check free space and permissions")]
    Storage {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
}

fn storage(path: &Path) -> impl FnOnce(std::io::Error) -> CheckError {
    let path = path.to_owned();
    move |source| CheckError::Storage { path, source }
}

/// A driver with everything that runs on it.
pub(crate) struct CheckedDriver {
    evaluator: Evaluator,
    images: Images,
}

impl CheckedDriver {
    fn host(&self) -> &Host {
        self.evaluator.host()
    }
}

/// Runs the selected parts. `progress` gets the name of each step before it begins.
///
/// # Errors
/// A [`CheckError`] if the machine cannot do it at all; what a kernel does is in the report.
pub fn check(
    options: &Options,
    progress: &dyn Fn(&str),
    cancellation: &Cancellation,
) -> Result<GpuCheckReport, CheckError> {
    std::fs::create_dir_all(&options.out).map_err(storage(&options.out))?;
    let data = options.out.join("work");
    let mut settings = Settings::from_environment(&data)?;
    if let Some(pack) = &options.pack {
        pack.unpack(&data)?;
        settings.driver = Some(pack.driver());
        settings.prebuilt = Some(pack.prebuilt());
    }
    let mut emulating = settings.clone();
    emulating.emulate = true;
    settings.emulate |= options.emulated;
    progress("looking for the drivers");
    let checked = Host::discover(settings, cancellation).map_err(|fault| match fault {
        host::HostError::Driver { nvidia, .. } => CheckError::NoGpu(nvidia),
        other => CheckError::Host(other),
    })?;
    // Without the pre-screen, because its results come from the emulated driver and would be counted
    // as this driver's.
    let checked = checked.without_prescreen();
    if !options.emulated {
        if let Some(why) = checked.emulated_because() {
            return Err(CheckError::NoGpu(why.to_owned()));
        }
        emulating.emulated_device = host::emulation_of(&checked.device().name).map(str::to_owned);
    }
    let emulated = Host::discover(emulating, cancellation)?;
    let driver = |host: Host| -> Result<CheckedDriver, CheckError> {
        let images = Images::new(&data, &host.device().architecture())?;
        let evaluator = Evaluator::new(host)?;
        Ok(CheckedDriver { evaluator, images })
    };
    let (checked, emulated) = (driver(checked)?, driver(emulated)?);
    let mut report = GpuCheckReport::new(checked.host(), emulated.host(), options);
    corpus::compare(
        &checked,
        &emulated,
        options,
        progress,
        cancellation,
        &mut report.corpus,
    )?;
    suite::compare(
        &checked,
        &emulated,
        options,
        progress,
        cancellation,
        &mut report.suite,
    )?;
    questions::ask(
        &checked,
        options,
        progress,
        cancellation,
        &mut report.questions,
    )?;
    report.conclude();
    Ok(report)
}
