//! This machine as the roles see it: the compiler's folder, the driver's folder, the device.
//!
//! NVIDIA's driver is used where it works; everywhere else the emulated one takes its place on
//! the loader's path of the child, and nothing else differs.

mod checkup;
mod clocks;
mod roles;
mod settings;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::device::{Device, DeviceKind};
use domain::evaluation::{EVALUATOR_VERSION, EvaluationStage};
use domain::lease::Registration;
use domain::role::SOCKET_VARIABLE;
use domain::statistics::Rates;
use gpu::walls::Walls;

use crate::cancel::Cancellation;
use crate::evaluate::Repetition;
use crate::evaluate::vast::BEYOND;
use crate::health::Keeper;
use crate::spares::Spares;
use crate::supervise::{self, Program};
use crate::toolchain;
use crate::tools::{self, Tool};
use checkup::probe;

pub use clocks::{ClockPolicy, LockedClocks};
pub use roles::{FILE_BYTES, SCRATCH};
pub use settings::{Prebuilt, Settings};

/// File name of the emulated driver as the build makes it.
const DRIVER_LIBRARY: &str = "libkernelwright_driver.so";
/// Names under which programs look for a CUDA driver.
const CUDA_NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];
/// The name of the library that manages the cards: the emulated driver answers for its own.
const MANAGEMENT_NAME: &str = "libnvidia-ml.so.1";
/// Where NVIDIA's driver is installed, beside the loader's own path.
const NVIDIA_FOLDERS: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/run/opengl-driver/lib",
];
/// The file that tells the emulated driver which calls to spoil.
const FAULT_PLAN: &str = "KERNELWRIGHT_FAULT_PLAN";
/// The variable that tells the emulated driver which device to be.
const EMULATED_DEVICE: &str = "KERNELWRIGHT_EMULATED_DEVICE";
/// Variables a role sees as this process has them, where it has them.
const PASSED_ON: [&str; 6] = [
    "CUDA_VISIBLE_DEVICES",
    EMULATED_DEVICE,
    FAULT_PLAN,
    "NVIDIA_VISIBLE_DEVICES",
    "RUST_BACKTRACE",
    "RUST_LOG",
];
/// Why this machine cannot evaluate.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The system does not know our own program.
    #[error("find the running executable")]
    Executable(#[source] io::Error),
    /// A variable of the environment has a value that means nothing.
    #[error("read {name}: {reason}")]
    Setting {
        /// The variable.
        name: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// No compiler.
    #[error(transparent)]
    Toolchain(#[from] toolchain::Missing),
    /// No emulated driver, and none of NVIDIA's that works.
    #[error(
        "find a CUDA driver: {nvidia}, and the emulated driver {DRIVER_LIBRARY} is not in {searched}; build it with `cargo build -p driver` or name it in KERNELWRIGHT_DRIVER"
    )]
    Driver {
        /// What is wrong with NVIDIA's.
        nvidia: String,
        /// Where the emulated one was looked for.
        searched: String,
    },
    /// A folder could not be prepared.
    #[error("prepare {path}")]
    Storage {
        /// Which.
        path: String,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A child could not be supervised.
    #[error(transparent)]
    Supervise(#[from] supervise::Fault),
    /// The probe found no usable device.
    #[error("use the device: {reason}")]
    Unusable {
        /// What is wrong.
        reason: String,
    },
    /// The device was unwell whenever it was asked, and takes no work until somebody has looked at it.
    #[error("use the device, which is quarantined: {reason}; when it is mended, remove {record}")]
    Quarantined {
        /// What was found.
        reason: String,
        /// The file that says so.
        record: String,
    },
    /// The candidate left devices behind that were unwell, and meets no other.
    #[error(
        "run candidate {candidate}: it is quarantined, as devices that ran it were unwell afterwards"
    )]
    Poison {
        /// The digest of its text and configuration.
        candidate: String,
    },
}

impl Fault {
    /// Whether the device is to take no more work.
    pub fn is_quarantine(&self) -> bool {
        matches!(self, Self::Quarantined { .. })
    }

    /// Whether trying again may help although nobody has done anything about it: a device that does
    /// not answer yet, a machine without a process to spare.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Unusable { .. }
                | Self::Supervise(supervise::Fault::Start { .. } | supervise::Fault::Supervise(_))
        )
    }

    /// Whether the device was found unwell just now.
    pub fn is_unwell(&self) -> bool {
        matches!(self, Self::Unusable { .. } | Self::Quarantined { .. })
    }
}

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

/// What stands in for proofs, on a device that needs none of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doubt {
    /// Repeats, and draws of each score case, at most.
    pub most: usize,
    /// A tensor of more elements than this is one of many.
    pub many: u64,
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
    /// Which roles meet a spoiled driver, for tests of what happens then.
    spoiled: Vec<(Role, PathBuf)>,
    /// Wall time after which a role is taken to be stuck although it has not used up its processor
    /// time; none is several times its stage's allowance.
    backstop: Option<Duration>,
    /// Whether the device is taken to prove nothing although it is the emulated one.
    doubted: Option<Doubt>,
    /// Whether candidates are timed in turn with others although times are modelled.
    in_turn: bool,
    health: Keeper,
    /// What is put around roles.
    walls: Arc<Walls>,
    /// Processes that wait for their one job. Copies of this value share them.
    spares: Arc<Spares>,
}

impl Host {
    /// Finds compiler and driver and asks the device what it is.
    ///
    /// # Errors
    /// A [`Fault`] that says what is missing and how to install it.
    pub fn discover(mut settings: Settings, cancellation: &Cancellation) -> Result<Self, Fault> {
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
        let mut walls = Arc::new(if settings.walls {
            Walls::find()
        } else {
            Walls::none(
                "set aside by KERNELWRIGHT_WALLS",
                "unset KERNELWRIGHT_WALLS",
            )
        });
        let nvidia = match nvidia_driver(&settings) {
            Err(why) => why,
            Ok(()) => match probe(&settings, &nvrtc, None, &mut walls, cancellation)? {
                Ok(found) => {
                    let health = Keeper::new(&settings.data, &found.device.uuid);
                    if let Some(measured) = &found.measured_rates {
                        health.change(|record| record.note_rates(measured));
                    }
                    let host = Self {
                        health,
                        walls,
                        rates: None,
                        settings,
                        nvrtc,
                        driver: None,
                        emulated_because: None,
                        device: found.device,
                        toolchain: found.toolchain,
                        spoiled: Vec::new(),
                        backstop: None,
                        spares: Arc::new(Spares::start()),
                        doubted: None,
                        in_turn: false,
                    };
                    host.restore_clocks();
                    return Ok(host);
                }
                Err(why) => {
                    tracing::warn!("NVIDIA's driver is installed but cannot be used: {why}");
                    why
                }
            },
        };
        let library = emulated_driver(&settings, nvidia.clone())?;
        let folder = driver_folder(&settings.data, &library)?;
        let found = probe(&settings, &nvrtc, Some(&folder), &mut walls, cancellation)?
            .map_err(|reason| Fault::Unusable { reason })?;
        let host = Self {
            walls,
            health: Keeper::new(&settings.data, &found.device.uuid),
            settings,
            nvrtc,
            driver: Some(folder),
            emulated_because: Some(nvidia),
            device: found.device,
            toolchain: found.toolchain,
            rates: found.rates,
            spoiled: Vec::new(),
            backstop: None,
            spares: Arc::new(Spares::start()),
            doubted: None,
            in_turn: false,
        };
        host.restore_clocks();
        Ok(host)
    }

    /// The same machine, except that the emulated driver follows a fault plan wherever one role
    /// uses it. It shows what the others make of such trouble.
    #[must_use]
    pub fn spoiled(mut self, role: Role, plan: &Path) -> Self {
        self.spoiled.push((role, plan.to_owned()));
        self.spares = Arc::new(Spares::start());
        self
    }

    /// The same machine with less patience for roles that are stuck.
    #[must_use]
    pub fn impatient(mut self, backstop: Duration) -> Self {
        self.backstop = Some(backstop);
        self
    }

    /// The same machine, except that its device is taken to prove nothing: what stands in for its
    /// proofs on silicon is done as well, as far as there is time for it. It shows that this does
    /// not harm the honest.
    #[must_use]
    pub fn doubted(mut self, doubt: Doubt) -> Self {
        self.doubted = Some(doubt);
        self
    }

    /// The same machine, except that a candidate is timed in turn with what it has to beat, as on
    /// silicon: a modelled time needs no company, but what is made of times can be seen here as well.
    #[must_use]
    pub fn timed_in_turn(mut self) -> Self {
        self.in_turn = true;
        self
    }

    /// Whether candidates are timed in turn with others.
    pub fn times_in_turn(&self) -> bool {
        self.in_turn || self.device.kind == DeviceKind::Nvidia
    }

    /// How often a stage asks the same of a device that proves nothing, and how many further draws
    /// it makes; none where executions are proved.
    pub fn repetition(&self, stage: EvaluationStage) -> Option<Repetition> {
        let asked = Repetition::of(stage);
        match (self.device.kind, self.doubted) {
            (DeviceKind::Nvidia, _) => Some(asked),
            (DeviceKind::Emulated, Some(doubt)) => Some(Repetition {
                repeats: asked.repeats.min(doubt.most as u64),
                draws: asked.draws.min(doubt.most),
            }),
            (DeviceKind::Emulated, None) => None,
        }
    }

    /// Whether nothing about an execution is proved, so that repeats, further draws and
    /// disturbances have to stand in.
    pub fn is_unproved(&self) -> bool {
        self.doubted.is_some() || self.device.kind == DeviceKind::Nvidia
    }

    /// A promotion meets a tensor of more elements than this; none where that would take too long.
    pub fn many_elements(&self) -> Option<u64> {
        match self.device.kind {
            DeviceKind::Nvidia => Some(BEYOND),
            DeviceKind::Emulated => self.doubted.map(|doubt| doubt.many),
        }
    }

    /// What is put around role processes here, and what is not.
    pub fn walls(&self) -> &Walls {
        &self.walls
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
            &self.walls,
        );
        let plans = self.spoiled.iter().filter(|(spoiled, _)| *spoiled == role);
        for (_, plan) in plans {
            program.environment.push((FAULT_PLAN.into(), plan.into()));
        }
        program
    }
}

fn threads() -> u32 {
    std::thread::available_parallelism()
        .ok()
        .and_then(|threads| u32::try_from(threads.get()).ok())
        .unwrap_or(1)
}

fn program(
    settings: &Settings,
    role: Role,
    nvrtc: &Path,
    driver: Option<&Path>,
    scratch: &Path,
    walls: &Arc<Walls>,
) -> Program {
    let mut library_path = Vec::new();
    if !matches!(role, Role::Compile | Role::Disassemble) {
        match driver {
            Some(driver) => library_path.push(driver.to_owned()),
            None => library_path.extend(loader_path()),
        }
    }
    if matches!(role, Role::Compile | Role::Probe) {
        library_path.push(nvrtc.to_owned());
    }
    let library_path = std::env::join_paths(library_path)
        .expect("the folders exist under these names or came from such a list");
    let mut environment: Vec<(OsString, OsString)> = vec![
        ("LD_LIBRARY_PATH".into(), library_path),
        (SOCKET_VARIABLE.into(), "0".into()),
        ("CUDA_CACHE_DISABLE".into(), "1".into()),
        // Code that is loaded when it is first launched would wait for what runs beside it.
        ("CUDA_MODULE_LOADING".into(), "EAGER".into()),
        ("HOME".into(), scratch.into()),
        ("TMPDIR".into(), scratch.into()),
        ("LANG".into(), "C.UTF-8".into()),
    ];
    for name in PASSED_ON {
        if let Some(value) = std::env::var_os(name) {
            environment.push((name.into(), value));
        }
    }
    if let Some(device) = &settings.emulated_device {
        environment.retain(|(name, _)| name != EMULATED_DEVICE);
        environment.push((EMULATED_DEVICE.into(), device.into()));
    }
    // The compiler writes its working directory into the image's line table. In one that is always
    // the same, equal sources give equal bytes.
    let directory = match role {
        Role::Compile => PathBuf::from("/"),
        _ => scratch.to_owned(),
    };
    Program {
        executable: settings.executable.clone(),
        arguments: vec!["role".into(), role.as_str().into()],
        environment,
        directory,
        walls: match role {
            // A tool looks into the first, the second looks at the processes of the whole machine, and
            // the third needs its user's rights.
            Role::Trace | Role::Watch | Role::Clocks => None,
            _ => Some(Arc::clone(walls)),
        },
    }
}

/// Whether a driver of NVIDIA's is worth a probe; otherwise why not.
fn nvidia_driver(settings: &Settings) -> Result<(), String> {
    if settings.emulate {
        return Err("NVIDIA's is set aside by KERNELWRIGHT_EMULATE".to_owned());
    }
    let folders = loader_path()
        .into_iter()
        .chain(NVIDIA_FOLDERS.map(PathBuf::from));
    let installed = folders
        .into_iter()
        .any(|folder| CUDA_NAMES.iter().any(|name| folder.join(name).exists()));
    if installed {
        Ok(())
    } else {
        Err("NVIDIA's is not installed".to_owned())
    }
}

/// The emulated driver's library: as set, beside the executable, or where an installation has it.
fn emulated_driver(settings: &Settings, nvidia: String) -> Result<PathBuf, Fault> {
    let beside = settings.executable.parent().unwrap_or(Path::new("/"));
    let candidates = match &settings.driver {
        Some(driver) => vec![driver.clone()],
        None => [".", "deps", "../lib/kernelwright"]
            .map(|folder| beside.join(folder).join(DRIVER_LIBRARY))
            .to_vec(),
    };
    let found = candidates
        .iter()
        .find_map(|library| library.canonicalize().ok().filter(|path| path.is_file()));
    found.ok_or_else(|| Fault::Driver {
        nvidia,
        searched: candidates
            .iter()
            .map(|library| library.display().to_string())
            .collect::<Vec<_>>()
            .join(", "),
    })
}

/// A folder in which the library has the names that programs look for.
fn driver_folder(data: &Path, library: &Path) -> Result<PathBuf, Fault> {
    let data = data
        .canonicalize()
        .map_err(|source| storage(data, source))?;
    let identity = domain::digest::Digest::of(library.as_os_str().as_encoded_bytes());
    let folder = data.join("driver").join(identity.short());
    create(&folder)?;
    for name in CUDA_NAMES.into_iter().chain([MANAGEMENT_NAME]) {
        let link = folder.join(name);
        match std::os::unix::fs::symlink(library, &link) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(storage(&link, error));
            }
            _ => {}
        }
    }
    Ok(folder)
}

fn loader_path() -> Vec<PathBuf> {
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .collect()
}

fn create(folder: &Path) -> Result<(), Fault> {
    std::fs::create_dir_all(folder).map_err(|source| storage(folder, source))
}

fn storage(path: &Path, source: io::Error) -> Fault {
    Fault::Storage {
        path: path.display().to_string(),
        source,
    }
}
