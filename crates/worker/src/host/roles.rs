//! Role processes of this machine: their resource bounds, the spares that wait for a job, and the
//! folder of a candidate's process.

use std::io;
use std::path::Path;
use std::time::Duration;

use domain::device::DeviceKind;
use domain::dtype::Dtype;
use domain::role::{
    ExecutionPurpose, Image, PythonJob, PythonReply, RunJob, RunReply, TensorData, TimeJob,
    VerifyJob, VerifyReply,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Host, Role};
use crate::cancel::Cancellation;
use crate::spares::{Spare, SpareSpec};
use crate::supervise::{Answer, Bounds, Limits, SuperviseError};

const GIB: u64 = 1 << 30;
/// The largest file that a role may write, bytes.
pub const FILE_BYTES: u64 = 8 * GIB;
/// Memory that a role may use beside its job's tensors, bytes.
const MEMORY_BYTES: u64 = 8 * GIB;
/// The number of copies of a job's tensors that a role may hold: the values before, the values
/// after, and those they are compared with.
const COPIES: u64 = 3;
/// Processor time of a compilation, seconds.
const COMPILE_CPU_SECONDS: u64 = 30;
/// Wall time per second of allowed work, where processor time or an instruction count bounds the
/// work. A machine may thus be this many times slower under load.
pub(super) const WALL_FACTOR: u32 = 4;
/// Wall time in which a role loads a driver and opens the device. A machine whose card was idle
/// needs seconds, and so does a busy one without a card.
const READINESS: Duration = Duration::from_secs(60);
/// The folder below the data folder that holds the folders of evaluations and spares.
pub const SCRATCH: &str = "scratch";

impl Host {
    /// The bounds of a role whose work may take `allowed`. Roles on NVIDIA's driver have no limit
    /// on address space, because CUDA reserves terabytes of it.
    ///
    /// Work on the processor is bounded by processor time; its wall time only ends a process that
    /// is stuck, because the machine's load must not decide about a candidate. Work on a GPU is
    /// bounded by wall time.
    pub fn bounds(&self, role: Role, allowed: Duration) -> Bounds {
        let cpu_seconds = match role {
            Role::Compile | Role::Disassemble => COMPILE_CPU_SECONDS,
            _ => allowed.as_secs() * u64::from(self.threads()) + 5,
        };
        let deadline = match (role, self.device.kind) {
            (
                Role::Run
                | Role::Trace
                | Role::Time
                | Role::Watch
                | Role::Clocks
                | Role::Experiment,
                DeviceKind::Nvidia,
            ) => allowed,
            _ => self.rehearsal.wall_limit().unwrap_or(allowed * WALL_FACTOR),
        };
        Bounds {
            limits: Limits {
                cpu_seconds: Some(cpu_seconds),
                ..self.limits(role)
            },
            readiness: Some(self.rehearsal.wall_limit().unwrap_or(READINESS)),
            deadline,
        }
    }

    /// The limits of a role before its job is known.
    fn limits(&self, role: Role) -> Limits {
        let address_space = match (role, self.device.kind) {
            (Role::Compile | Role::Disassemble, _) => Some(4 * GIB),
            (_, DeviceKind::Emulated) => Some(12 * GIB),
            (_, DeviceKind::Nvidia) => None,
        };
        Limits {
            address_space,
            cpu_seconds: None,
            file_bytes: Some(FILE_BYTES),
            memory_bytes: Some(MEMORY_BYTES),
        }
    }

    /// The bounds of a role whose job's tensors take `bytes` bytes.
    fn bounds_with(&self, role: Role, allowed: Duration, bytes: u64) -> Bounds {
        let mut bounds = self.bounds(role, allowed);
        let memory = MEMORY_BYTES.saturating_add(bytes.saturating_mul(COPIES));
        bounds.limits.memory_bytes = Some(memory);
        bounds
    }

    /// Gives a role process a job and waits for its reply. The process may be a spare.
    ///
    /// # Errors
    /// As of [`crate::supervise::ask`].
    pub fn ask<J: Serialize, R: DeserializeOwned>(
        &self,
        role: Role,
        job: &J,
        allowed: Duration,
        cancellation: &Cancellation,
    ) -> Result<Answer<R>, SuperviseError> {
        self.ask_with_bounds(role, job, self.bounds(role, allowed), cancellation)
    }

    fn ask_with_bounds<J: Serialize, R: DeserializeOwned>(
        &self,
        role: Role,
        job: &J,
        bounds: Bounds,
        cancellation: &Cancellation,
    ) -> Result<Answer<R>, SuperviseError> {
        retry_unready(|| {
            let process = self.process(role)?;
            self.prepare_next(role);
            let (answer, _) = process.ask(job, bounds, cancellation)?;
            Ok(answer)
        })
    }

    /// Compares outputs with the reference in a verify process.
    ///
    /// # Errors
    /// As of [`crate::supervise::ask`].
    pub fn verify(
        &self,
        job: &VerifyJob,
        allowed: Duration,
        cancellation: &Cancellation,
    ) -> Result<Answer<VerifyReply>, SuperviseError> {
        let largest = job.checks.iter().map(|check| bytes(&check.tensors)).max();
        let bounds = self.bounds_with(Role::Verify, allowed, largest.unwrap_or(0));
        self.ask_with_bounds(Role::Verify, job, bounds, cancellation)
    }

    /// Computes answers of a reference in Python.
    ///
    /// # Errors
    /// As of [`crate::supervise::ask`].
    pub fn answer_in_python(
        &self,
        job: &PythonJob,
        allowed: Duration,
        cancellation: &Cancellation,
    ) -> Result<Answer<PythonReply>, SuperviseError> {
        let largest = job.calls.iter().map(|call| bytes(&call.tensors)).max();
        let bounds = self.bounds_with(Role::Python, allowed, largest.unwrap_or(0));
        // No spare: few tasks have such a reference.
        retry_unready(|| {
            let process = self.process(Role::Python)?;
            let (answer, _) = process.ask(job, bounds, cancellation)?;
            Ok(answer)
        })
    }

    /// The bounds of a role that times kernels for `allowed`.
    pub fn timing_bounds(&self, job: &TimeJob, allowed: Duration) -> Bounds {
        let draws = job.cases.iter().flat_map(|case| &case.draws);
        let all = draws.map(|draw| bytes(draw)).fold(0, u64::saturating_add);
        self.bounds_with(Role::Time, allowed, all)
    }

    /// Runs a candidate in a process that reaches only its own folder. The image is copied into
    /// this folder, and saved outputs are moved from it to the paths that the job names.
    ///
    /// # Errors
    /// As of [`crate::supervise::ask`], and [`SuperviseError::Folder`].
    pub fn run(
        &self,
        job: &RunJob,
        allowed: Duration,
        cancellation: &Cancellation,
    ) -> Result<Answer<RunReply>, SuperviseError> {
        retry_unready(|| self.run_once(job, allowed, cancellation))
    }

    fn run_once(
        &self,
        job: &RunJob,
        allowed: Duration,
        cancellation: &Cancellation,
    ) -> Result<Answer<RunReply>, SuperviseError> {
        let process = self.process(Role::Run)?;
        // On a card the next spare opens the device, which would disturb a process that times
        // kernels.
        let timed = job
            .executions
            .iter()
            .any(|execution| execution.purpose == ExecutionPurpose::Score);
        if !(timed && self.device.kind == DeviceKind::Nvidia) {
            self.prepare_next(Role::Run);
        }
        let home = process.home.path();
        let inside = copy_into_home(job, home).map_err(SuperviseError::Folder)?;
        let bounds = self.run_bounds(job, allowed);
        let (answer, _home) = process.ask(&inside, bounds, cancellation)?;
        if answer.reply.is_ok() {
            let saved = inside.executions.iter().zip(&job.executions);
            for (from, to) in
                saved.filter_map(|(from, to)| from.save.as_ref().zip(to.save.as_ref()))
            {
                move_outputs(from, to).map_err(SuperviseError::Folder)?;
            }
        }
        Ok(answer)
    }

    /// The bounds of a role that runs a candidate for `allowed`.
    pub(super) fn run_bounds(&self, job: &RunJob, allowed: Duration) -> Bounds {
        let executions = job.executions.iter();
        let largest = executions.map(|execution| bytes(&execution.tensors)).max();
        self.bounds_with(Role::Run, allowed, largest.unwrap_or(0))
    }

    /// Ends the spares on a card, so that no other process uses it while kernels are timed or
    /// examined. An emulated device is private to its process.
    pub fn end_spares_on_card(&self) {
        if self.device.kind == DeviceKind::Nvidia {
            self.spares.end_all();
        }
    }

    /// Ends all spares.
    pub(super) fn end_spares(&self) {
        self.spares.end_all();
    }

    /// A process that has no job yet: a spare if one waits, otherwise a new one.
    pub(super) fn process(&self, role: Role) -> Result<Spare, SuperviseError> {
        match self.spares.take(role.as_str()) {
            Some(spare) => Ok(spare),
            None => Spare::start(self.recipe(role).map_err(SuperviseError::Folder)?),
        }
    }

    /// Starts the next process of a role in the background while the current one works.
    pub(super) fn prepare_next(&self, role: Role) {
        if !self.settings.spares {
            return;
        }
        match self.recipe(role) {
            Ok(recipe) => self.spares.start_in_background(role.as_str(), recipe),
            // The caller that needs the process meets the same error.
            Err(error) => tracing::debug!("failed to prepare a spare {}: {error}", role.as_str()),
        }
    }

    fn recipe(&self, role: Role) -> io::Result<SpareSpec> {
        let scratch = self.data().join(SCRATCH);
        std::fs::create_dir_all(&scratch)?;
        let home = tempfile::Builder::new()
            .prefix("role-")
            .tempdir_in(scratch)?;
        Ok(SpareSpec {
            program: self.program(role, home.path()),
            limits: self.limits(role),
            home,
        })
    }
}

/// Asks a second process if the first one ended before it knew its job. Whoever killed it, such as a
/// system short of memory, may spare the second.
fn retry_unready<T>(ask: impl Fn() -> Result<T, SuperviseError>) -> Result<T, SuperviseError> {
    match ask() {
        Err(SuperviseError::Unready { how, late: false }) => {
            tracing::warn!("a role process was not ready and is replaced: it {how}");
            ask()
        }
        other => other,
    }
}

/// The size of tensors with elements as wide as the reference's answers, bytes.
fn bytes(tensors: &[TensorData]) -> u64 {
    let elements = tensors.iter().map(|tensor| {
        let extents = tensor.extents.iter();
        extents.fold(1, |all: u64, one| all.saturating_mul(*one))
    });
    let elements = elements.fold(0, u64::saturating_add);
    elements.saturating_mul(Dtype::F64.bytes())
}

/// The job with every path moved into `home`, the only folder that its process reaches; copies the
/// images there.
pub(super) fn copy_into_home(job: &RunJob, home: &Path) -> io::Result<RunJob> {
    let mut inside = job.clone();
    inside.image = Image {
        cubin: home.join("image.cubin"),
        ptx: home.join("image.ptx"),
        ..job.image.clone()
    };
    // Copied and not linked, because a write through a link would change the build.
    std::fs::copy(&job.image.cubin, &inside.image.cubin)?;
    std::fs::copy(&job.image.ptx, &inside.image.ptx)?;
    if let (Some(side), Some(from)) = (&mut inside.disturber, &job.disturber) {
        side.image.cubin = home.join("disturber.cubin");
        side.image.ptx = home.join("disturber.ptx");
        std::fs::copy(&from.image.cubin, &side.image.cubin)?;
        std::fs::copy(&from.image.ptx, &side.image.ptx)?;
    }
    for (number, execution) in inside.executions.iter_mut().enumerate() {
        if let Some(save) = &mut execution.save {
            *save = home.join(format!("outputs-{number}"));
        }
    }
    Ok(inside)
}

/// Moves the folder of saved outputs; anything but a folder is an error.
fn move_outputs(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(from) {
        Ok(found) if found.is_dir() => {}
        // An execution that failed has saved nothing.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Ok(_) => {
            return Err(io::Error::other(
                "a runner left something else than a folder",
            ));
        }
        Err(error) => return Err(error),
    }
    if to.exists() {
        std::fs::remove_dir_all(to)?;
    }
    std::fs::rename(from, to)
}
