//! The machine that evaluates: its compiler, its CUDA driver and its device.
//!
//! NVIDIA's driver is used where it works. Elsewhere a role process gets the folder of the emulated
//! driver on its loader path; nothing else differs.

mod calibration;
mod clocks;
mod error;
mod health_check;
mod isolation;
mod prescreener;
mod program;
mod rehearsal;
mod roles;
mod settings;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::device::Device;
use domain::evaluation::EVALUATOR_VERSION;
use domain::lease::Registration;
use domain::statistics::Rates;

use crate::cancel::Cancellation;
use crate::health_record::HealthRecordFile;
use crate::spares::Spares;
use crate::supervise::Program;
use crate::toolchain;
use crate::tools::{self, Tool};
use health_check::{ProbeError, WorkingDevice, probe};
use program::{
    CUDA_NAMES, FAULT_PLAN, check_nvidia_driver, create_driver_folder, find_card,
    find_emulated_driver, loader_path, role_program,
};

pub use calibration::Calibration;
pub use clocks::{ClockPolicy, LockedClocks};
pub use error::HostError;
pub use isolation::{Confinement, ConfinementReport, Isolation};
pub use prescreener::{CAP as PRESCREEN_CAP, Prescreener, emulation_of};
pub use rehearsal::{Rehearsal, RepeatPolicy};
pub use roles::{FILE_BYTES, SCRATCH};
pub use settings::{Prebuilt, Settings};

/// The roles of child processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Compiles a source to an image.
    Compile,
    /// Disassembles an image to instructions.
    Disassemble,
    /// Executes an image and reports facts.
    Run,
    /// Like `Run`, without confinement, under a tool that inspects the process.
    Trace,
    /// Computes the answers of a reference in Python.
    Python,
    /// Compares outputs with the reference.
    Verify,
    /// Times several images in turn.
    Time,
    /// Executes a case of the corpus, or measures the device.
    Experiment,
    /// Watches the device's clocks and temperature while another process times on it.
    Watch,
    /// Locks or unlocks the device's clocks.
    Clocks,
    /// Reports the device's properties and checks its health.
    Probe,
}

impl Role {
    /// The role's name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Compile => "compile",
            Self::Disassemble => "disassemble",
            Self::Run => "run",
            Self::Trace => "trace",
            Self::Python => "python",
            Self::Verify => "verify",
            Self::Time => "time",
            Self::Experiment => "experiment",
            Self::Watch => "watch",
            Self::Clocks => "clocks",
            Self::Probe => "probe",
        }
    }
}

/// A machine that can evaluate: settings, compiler, driver, device and spare processes.
#[derive(Debug, Clone)]
pub struct Host {
    settings: Settings,
    nvrtc: PathBuf,
    /// The folder below which each compiler's headers are unpacked.
    headers: PathBuf,
    /// The folder of the emulated driver; `None` where the loader finds NVIDIA's.
    driver: Option<PathBuf>,
    /// The reason why the emulated driver is used; `None` with NVIDIA's.
    emulated_because: Option<String>,
    device: Device,
    toolchain: String,
    /// The emulated device's peak rates, as its model states them; `None` with NVIDIA's driver.
    rates: Option<Rates>,
    /// Deviations that only tests request.
    rehearsal: Rehearsal,
    /// The emulated device that pre-screens candidates for a device without proofs.
    prescreener: Option<Prescreener>,
    health: HealthRecordFile,
    /// The confinement of role processes that this machine grants.
    confinement: Confinement,
    /// The confinement that the probe reported.
    confinement_report: ConfinementReport,
    /// Role processes that wait for their one job. Copies of this value share them.
    spares: Arc<Spares>,
}

impl Host {
    /// Finds compiler and driver, and probes the device for its properties.
    ///
    /// # Errors
    /// A [`HostError`] that says what is missing and how to install it.
    pub fn discover(
        mut settings: Settings,
        cancellation: &Cancellation,
    ) -> Result<Self, HostError> {
        let nvrtc = match &settings.prebuilt {
            // No folder of that name exists, so that a role that looks for a compiler finds none.
            Some(_) => settings.data.join("no-compiler"),
            None => toolchain::find(&toolchain::Search {
                setting: settings.nvrtc.clone(),
                cache: settings.cache.clone(),
                library_path: loader_path(),
                system: toolchain::system_folders(),
            })?,
        };
        create(&settings.data)?;
        // Canonical, because roles work in their own folders, where a relative path would resolve
        // differently.
        settings.data = settings
            .data
            .canonicalize()
            .map_err(|source| storage(&settings.data, source))?;
        let mut confinement = Confinement::find(&settings);
        let nvidia = match check_nvidia_driver(&settings) {
            Err(why) => why,
            Ok(()) => {
                let whole = confinement.clone();
                match probe(&settings, &nvrtc, None, &mut confinement, cancellation) {
                    Ok(found) => {
                        let measured = found.measured_rates.clone();
                        let mut host = Self::from_probe(found, settings, nvrtc, confinement);
                        if let Some(measured) = &measured {
                            host.health.change(|record| record.record_rates(measured));
                        }
                        host.unlock_abandoned_clocks();
                        host.prescreener =
                            Some(Prescreener::find_beside(&host, whole, cancellation)?);
                        return Ok(host);
                    }
                    Err(ProbeError::Device(fault)) => {
                        ensure_no_card(Path::new("/dev"), fault.reason)?
                    }
                    Err(ProbeError::Host(error)) => return Err(error),
                }
            }
        };
        let host = Self::with_emulated_driver(settings, nvrtc, confinement, nvidia, cancellation)?;
        host.unlock_abandoned_clocks();
        Ok(host)
    }

    /// The same machine with the emulated driver, whether NVIDIA's works or not.
    fn with_emulated_driver(
        settings: Settings,
        nvrtc: PathBuf,
        mut confinement: Confinement,
        because: String,
        cancellation: &Cancellation,
    ) -> Result<Self, HostError> {
        let library = find_emulated_driver(&settings, because.clone())?;
        let folder = create_driver_folder(&settings.data, &library)?;
        let found = probe(
            &settings,
            &nvrtc,
            Some(&folder),
            &mut confinement,
            cancellation,
        )?;
        let rates = found.rates.clone();
        Ok(Self {
            driver: Some(folder),
            emulated_because: Some(because),
            rates,
            ..Self::from_probe(found, settings, nvrtc, confinement)
        })
    }

    /// A machine as a probe through NVIDIA's driver found it.
    fn from_probe(
        found: WorkingDevice,
        settings: Settings,
        nvrtc: PathBuf,
        confinement: Confinement,
    ) -> Self {
        Self {
            health: HealthRecordFile::new(&settings.data, &found.device.uuid),
            confinement,
            confinement_report: found.confinement_report,
            rates: None,
            headers: header_folder(&settings.cache, &settings.data),
            settings,
            nvrtc,
            driver: None,
            emulated_because: None,
            device: found.device,
            toolchain: found.toolchain,
            rehearsal: Rehearsal::default(),
            spares: Arc::new(Spares::start()),
            prescreener: None,
        }
    }

    /// The confinement of role processes that this machine grants, with its gaps.
    pub fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    /// The confinement that the probe reported.
    pub fn confinement_report(&self) -> &ConfinementReport {
        &self.confinement_report
    }

    /// The device that roles open.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The path of the emulated driver's library; `None` where NVIDIA's is used.
    pub fn emulated_driver(&self) -> Option<PathBuf> {
        self.driver
            .as_ref()
            .map(|folder| folder.join(CUDA_NAMES[0]))
    }

    /// The reason why the emulated driver is used; `None` with NVIDIA's.
    pub fn emulated_because(&self) -> Option<&str> {
        self.emulated_because.as_deref()
    }

    /// The keeper of the device's health record.
    pub fn health(&self) -> &HealthRecordFile {
        &self.health
    }

    /// The compiler's name and version.
    pub fn toolchain(&self) -> &str {
        &self.toolchain
    }

    /// The path of NVIDIA's disassembler.
    ///
    /// # Errors
    /// It is not installed; the error says how to install it.
    pub fn disassembler(&self) -> Result<PathBuf, toolchain::NoDisassembler> {
        toolchain::disassembler(self.settings.nvdisasm.as_deref(), &self.settings.cache)
    }

    /// The interpreter of references in Python that the settings name.
    pub fn python(&self) -> Option<&Path> {
        self.settings.python.as_deref()
    }

    /// The path of NVIDIA's compute-sanitizer.
    ///
    /// # Errors
    /// One sentence that says where it was looked for and how to name it.
    pub fn sanitizer(&self) -> Result<PathBuf, String> {
        tools::find_named(Tool::Sanitizer, self.settings.sanitizer.as_deref())
    }

    /// The device's peak rates. An emulated device states those of its model. A card's are the best
    /// that our own kernels ever reached on it; data sheets do not count. `None` where the card's
    /// driver could not compile these kernels.
    pub fn rates(&self) -> Option<Rates> {
        match &self.rates {
            Some(model) => Some(model.clone()),
            None => self.health.record().rates,
        }
    }

    /// Bytes that builds, reference answers and evidence bundles may take in the data folder together.
    pub fn disk_bytes(&self) -> u64 {
        self.settings.disk_bytes
    }

    /// The processor time of a reference in Python for all inputs of one question, on each of the worker's threads.
    pub fn python_limit(&self) -> std::time::Duration {
        self.settings.python_limit
    }

    /// The data folder, as an absolute path.
    pub fn data(&self) -> &Path {
        &self.settings.data
    }

    /// The folder that the compiler's own headers are unpacked to; each compiler has its own.
    pub fn toolchain_headers(&self) -> PathBuf {
        self.headers.join(self.prebuilt().headers)
    }

    /// The identity of this machine's compiler, with which another machine finds the builds made
    /// here.
    pub fn prebuilt(&self) -> Prebuilt {
        self.settings.prebuilt.clone().unwrap_or_else(|| {
            let identity = domain::digest::Digest::of(self.nvrtc.as_os_str().as_encoded_bytes());
            Prebuilt {
                toolchain: self.toolchain.clone(),
                headers: identity.short(),
            }
        })
    }

    /// Returns true if this machine has a compiler, so that it can compile a source that has no
    /// build yet.
    pub fn has_compiler(&self) -> bool {
        self.settings.prebuilt.is_none()
    }

    /// The message with which this machine registers at a service.
    pub fn registration(&self, name: &str) -> Registration {
        Registration {
            name: name.to_owned(),
            device: self.device.clone(),
            toolchain: self.toolchain.clone(),
            evaluator: EVALUATOR_VERSION,
            instance: None,
            dollars_per_hour: None,
            declined: Vec::new(),
        }
    }

    /// The number of host threads that a role may use.
    pub fn threads(&self) -> u32 {
        available_threads()
    }

    /// The program of a role process whose home folder is `scratch`.
    pub fn program(&self, role: Role, scratch: &Path) -> Program {
        let mut program = role_program(
            &self.settings,
            role,
            &self.nvrtc,
            self.driver.as_deref(),
            scratch,
            &self.confinement,
        );
        for plan in self.rehearsal.fault_plans_of(role) {
            program.environment.push((FAULT_PLAN.into(), plan.into()));
        }
        program
    }
}

/// Returns the reason `why` as the reason to emulate if there is no card: many machines have the
/// driver installed and no card. With a card this is an error, so that nobody gets modelled times
/// without having asked for them. `devices` is the folder of the device files.
fn ensure_no_card(devices: &Path, why: String) -> Result<String, HostError> {
    match find_card(devices) {
        None => {
            tracing::warn!("NVIDIA's driver is installed but cannot be used: {why}");
            Ok(why)
        }
        Some(file) => Err(HostError::Unusable {
            reason: format!(
                "there is a card, {}, and NVIDIA's driver cannot use it: {why}; mend that, or emulate a device with \
                 KERNELWRIGHT_EMULATE=1",
                file.display()
            ),
        }),
    }
}

/// The folder below which headers are unpacked: in the cache, beside the compiler that they belong
/// to, so that they are unpacked once and not for each data folder; in the data folder if the cache
/// cannot be written to. An absolute path, because roles work in their own folders.
fn header_folder(cache: &Path, data: &Path) -> PathBuf {
    let shared = cache.join("headers");
    let usable = std::fs::create_dir_all(&shared)
        .and_then(|()| tempfile::tempfile_in(&shared))
        .and_then(|_| shared.canonicalize());
    usable.unwrap_or_else(|_| data.join("headers"))
}

fn available_threads() -> u32 {
    std::thread::available_parallelism()
        .ok()
        .and_then(|threads| u32::try_from(threads.get()).ok())
        .unwrap_or(1)
}

fn create(folder: &Path) -> Result<(), HostError> {
    std::fs::create_dir_all(folder).map_err(|source| storage(folder, source))
}

fn storage(path: &Path, source: io::Error) -> HostError {
    HostError::Storage {
        path: path.display().to_string(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_unpacked_in_the_data_folder_if_the_cache_takes_none() {
        let root = tempfile::tempdir().unwrap();
        let (cache, data) = (root.path().join("cache"), root.path().join("data"));
        let shared = header_folder(&cache, &data);
        assert_eq!(shared, cache.canonicalize().unwrap().join("headers"));
        let file = root.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(header_folder(&file, &data), data.join("headers"));
    }

    #[test]
    fn only_a_machine_without_a_card_emulates_unasked() {
        let folder = tempfile::tempdir().unwrap();
        let why = || "cuInit returned CUDA_ERROR_NO_DEVICE".to_owned();
        // Files that an installed driver creates with and without a card.
        for name in ["nvidiactl", "nvidia-uvm", "nvidia-modeset", "null"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(ensure_no_card(folder.path(), why()).unwrap(), why());
        for card in ["nvidia0", "nvidia11", "dxg"] {
            let file = folder.path().join(card);
            std::fs::write(&file, "").unwrap();
            let fault = ensure_no_card(folder.path(), why())
                .unwrap_err()
                .to_string();
            for words in [
                file.to_str().unwrap(),
                "NO_DEVICE",
                "KERNELWRIGHT_EMULATE=1",
            ] {
                assert!(fault.contains(words), "{words}: {fault}");
            }
            std::fs::remove_file(&file).unwrap();
        }
    }
}
