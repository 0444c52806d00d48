//! This machine as the roles see it: the compiler's folder, the driver's folder, the device.
//!
//! NVIDIA's driver is used where it works; everywhere else the emulated one takes its place on
//! the loader's path of the child, and nothing else differs.

mod checkup;
mod clocks;
mod error;
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
use crate::health::Keeper;
use crate::spares::Spares;
use crate::supervise::Program;
use crate::toolchain;
use crate::tools::{self, Tool};
use checkup::{Found, probe};
use program::{
    CUDA_NAMES, FAULT_PLAN, card, driver_folder, emulated_driver, loader_path, nvidia_driver,
    program,
};

pub use clocks::{ClockPolicy, LockedClocks};
pub use error::HostError;
pub use isolation::{Barriers, Isolation, Said};
pub use prescreener::{CAP as PRESCREEN_CAP, Prescreener, emulation_of};
pub use rehearsal::{Rehearsal, RepeatPolicy};
pub use roles::{FILE_BYTES, SCRATCH};
pub use settings::{Prebuilt, Settings};

/// The roles of child processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Source to image.
    Compile,
    /// Image to instructions.
    Disassemble,
    /// Image to facts.
    Run,
    /// The same without confinement, below a tool that looks into the process.
    Trace,
    /// Outputs to comparisons.
    Verify,
    /// Images to the times of all.
    Time,
    /// A case of the corpus, or a measurement of the device.
    Experiment,
    /// The device's condition while others time on it.
    Watch,
    /// The device's clocks, locked or free.
    Clocks,
    /// The device's facts and health.
    Probe,
}

impl Role {
    /// Its name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Compile => "compile",
            Self::Disassemble => "disassemble",
            Self::Run => "run",
            Self::Trace => "trace",
            Self::Verify => "verify",
            Self::Time => "time",
            Self::Experiment => "experiment",
            Self::Watch => "watch",
            Self::Clocks => "clocks",
            Self::Probe => "probe",
        }
    }
}

/// A machine that can evaluate.
#[derive(Debug, Clone)]
pub struct Host {
    settings: Settings,
    nvrtc: PathBuf,
    /// The folder of the emulated driver; none where the loader finds NVIDIA's.
    driver: Option<PathBuf>,
    /// Why it is not NVIDIA's.
    emulated_because: Option<String>,
    device: Device,
    toolchain: String,
    /// The emulated device's own word for what it does at best.
    rates: Option<Rates>,
    /// Deviations that only tests ask for.
    rehearsal: Rehearsal,
    /// Who looks at candidates before a device that proves nothing.
    prescreener: Option<Prescreener>,
    health: Keeper,
    /// What keeps roles from the rest of the machine.
    barriers: Barriers,
    /// What a role said of it.
    said: Said,
    /// Processes that wait for their one job. Copies of this value share them.
    spares: Arc<Spares>,
}

impl Host {
    /// Finds compiler and driver and asks the device what it is.
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
        // Roles work in folders of their own, where a relative path would mean something else.
        settings.data = settings
            .data
            .canonicalize()
            .map_err(|source| storage(&settings.data, source))?;
        let mut barriers = Barriers::find(&settings);
        let nvidia = match nvidia_driver(&settings) {
            Err(why) => why,
            Ok(()) => {
                let whole = barriers.clone();
                match probe(&settings, &nvrtc, None, &mut barriers, cancellation)? {
                    Ok(found) => {
                        let measured = found.measured_rates.clone();
                        let mut host = Self::of(found, settings, nvrtc, barriers);
                        if let Some(measured) = &measured {
                            host.health.change(|record| record.note_rates(measured));
                        }
                        host.restore_clocks();
                        host.prescreener = Some(Prescreener::beside(&host, whole, cancellation)?);
                        return Ok(host);
                    }
                    Err(why) => without_card(Path::new("/dev"), why)?,
                }
            }
        };
        let host = Self::emulating(settings, nvrtc, barriers, nvidia, cancellation)?;
        host.restore_clocks();
        Ok(host)
    }

    /// The same machine with the emulated driver, whatever else there is.
    fn emulating(
        settings: Settings,
        nvrtc: PathBuf,
        mut barriers: Barriers,
        because: String,
        cancellation: &Cancellation,
    ) -> Result<Self, HostError> {
        let library = emulated_driver(&settings, because.clone())?;
        let folder = driver_folder(&settings.data, &library)?;
        let found = probe(
            &settings,
            &nvrtc,
            Some(&folder),
            &mut barriers,
            cancellation,
        )?
        .map_err(|reason| HostError::Unusable { reason })?;
        let rates = found.rates.clone();
        Ok(Self {
            driver: Some(folder),
            emulated_because: Some(because),
            rates,
            ..Self::of(found, settings, nvrtc, barriers)
        })
    }

    /// A machine as a probe of NVIDIA's driver found it.
    fn of(found: Found, settings: Settings, nvrtc: PathBuf, barriers: Barriers) -> Self {
        Self {
            health: Keeper::new(&settings.data, &found.device.uuid),
            barriers,
            said: found.said,
            rates: None,
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

    /// What keeps role processes from the rest of the machine here, and what does not.
    pub fn barriers(&self) -> &Barriers {
        &self.barriers
    }

    /// What a role of this machine said that it reached.
    pub fn said(&self) -> &Said {
        &self.said
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The emulated driver's library; none where NVIDIA's is used.
    pub fn emulated_driver(&self) -> Option<PathBuf> {
        self.driver
            .as_ref()
            .map(|folder| folder.join(CUDA_NAMES[0]))
    }

    /// Why NVIDIA's driver is not used; none where it is.
    pub fn emulated_because(&self) -> Option<&str> {
        self.emulated_because.as_deref()
    }

    /// Who remembers how the device fares.
    pub fn health(&self) -> &Keeper {
        &self.health
    }

    /// The compiler with its version.
    pub fn toolchain(&self) -> &str {
        &self.toolchain
    }

    /// NVIDIA's disassembler.
    ///
    /// # Errors
    /// It is not installed; the error says how to install it.
    pub fn disassembler(&self) -> Result<PathBuf, toolchain::NoDisassembler> {
        toolchain::disassembler(self.settings.nvdisasm.as_deref(), &self.settings.cache)
    }

    /// NVIDIA's compute-sanitizer.
    ///
    /// # Errors
    /// One sentence that says where it was looked for and how to name it.
    pub fn sanitizer(&self) -> Result<PathBuf, String> {
        tools::find_named(Tool::Sanitizer, self.settings.sanitizer.as_deref())
    }

    /// What the device does at best: the emulated one's model, on silicon the best that our own
    /// kernels ever reached on this card; data sheets do not count. None where its driver could
    /// not compile them.
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

    /// The data folder.
    pub fn data(&self) -> &Path {
        &self.settings.data
    }

    /// Where the compiler's own headers are unpacked to: a folder for each compiler.
    pub fn toolchain_headers(&self) -> PathBuf {
        self.settings
            .data
            .join("headers")
            .join(self.prebuilt().headers)
    }

    /// What another machine must be told to find the builds of this one.
    pub fn prebuilt(&self) -> Prebuilt {
        self.settings.prebuilt.clone().unwrap_or_else(|| {
            let identity = domain::digest::Digest::of(self.nvrtc.as_os_str().as_encoded_bytes());
            Prebuilt {
                toolchain: self.toolchain.clone(),
                headers: identity.short(),
            }
        })
    }

    /// Whether sources can be compiled that nobody compiled before.
    pub fn has_compiler(&self) -> bool {
        self.settings.prebuilt.is_none()
    }

    /// How this machine introduces itself to a service.
    pub fn registration(&self, name: &str) -> Registration {
        Registration {
            name: name.to_owned(),
            device: self.device.clone(),
            toolchain: self.toolchain.clone(),
            evaluator: EVALUATOR_VERSION,
            instance: None,
        }
    }

    /// Host threads a role may use.
    pub fn threads(&self) -> u32 {
        threads()
    }

    /// How to start a role whose home is `scratch`.
    pub fn program(&self, role: Role, scratch: &Path) -> Program {
        let mut program = program(
            &self.settings,
            role,
            &self.nvrtc,
            self.driver.as_deref(),
            scratch,
            &self.barriers,
        );
        for plan in self.rehearsal.fault_plans_of(role) {
            program.environment.push((FAULT_PLAN.into(), plan.into()));
        }
        program
    }
}

/// Why NVIDIA's driver is not used although it is installed: many machines have the driver and no
/// card. Where there is a card nobody is given modelled times unasked. Device files are in `devices`.
fn without_card(devices: &Path, why: String) -> Result<String, HostError> {
    match card(devices) {
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

fn threads() -> u32 {
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
    fn only_a_machine_without_a_card_emulates_unasked() {
        let folder = tempfile::tempdir().unwrap();
        let why = || "cuInit returned CUDA_ERROR_NO_DEVICE".to_owned();
        // What a driver that is installed makes whether there is a card or not.
        for name in ["nvidiactl", "nvidia-uvm", "nvidia-modeset", "null"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(without_card(folder.path(), why()).unwrap(), why());
        for card in ["nvidia0", "nvidia11", "dxg"] {
            let file = folder.path().join(card);
            std::fs::write(&file, "").unwrap();
            let fault = without_card(folder.path(), why()).unwrap_err().to_string();
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
