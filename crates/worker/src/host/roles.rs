//! Role processes of this machine: what bounds them, which of them wait before there is anything
//! to do, and which folder a candidate's process has.

use std::io;
use std::path::Path;
use std::time::Duration;

use domain::device::DeviceKind;
use domain::dtype::Dtype;
use domain::role::{
    ExecutionPurpose, Image, RunJob, RunReply, TensorData, TimeJob, VerifyJob, VerifyReply,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Host, Role};
use crate::cancel::Cancellation;
use crate::spares::{Recipe, Spare};
use crate::supervise::{Answer, Bounds, Limits, SuperviseError};

const GIB: u64 = 1 << 30;
/// The most a role may write to one file.
pub const FILE_BYTES: u64 = 8 * GIB;
/// Memory that a role may use, beside what its job holds.
const MEMORY_BYTES: u64 = 8 * GIB;
/// How many times what a job holds: what was, what is, and what is compared.
const COPIES: u64 = 3;
/// Processor time of a compilation, seconds.
const COMPILE_CPU_SECONDS: u64 = 30;
/// Wall time that a role gets for each second of work it may do, where processor time or
/// instructions are what bounds the work: so slow may a busy machine be.
pub(super) const WALL_FACTOR: u32 = 4;
/// How long a role may take to load a driver and to open the device: a machine whose card has slept
/// needs seconds, a busy one without a card too.
const READINESS: Duration = Duration::from_secs(60);
/// Where the folders of evaluations and of spares lie in the data folder.
pub const SCRATCH: &str = "scratch";

impl Host {
    /// The limits of a role that may work for `allowed`. CUDA reserves address space by the
    /// terabyte, so that roles on NVIDIA's driver have no limit on it.
    ///
    /// What is computed on the processor is bounded by processor time, and wall time is only a
    /// backstop against a process that is stuck: how much of the machine others take must not
    /// decide about a candidate. What runs on a GPU has its wall time.
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

    /// What holds a role whatever it is asked.
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

    /// The same where the job's tensors take so many bytes.
    fn bounds_with(&self, role: Role, allowed: Duration, bytes: u64) -> Bounds {
        let mut bounds = self.bounds(role, allowed);
        let memory = MEMORY_BYTES.saturating_add(bytes.saturating_mul(COPIES));
        bounds.limits.memory_bytes = Some(memory);
        bounds
    }

    /// Asks a role something in a process of its own, which may have waited for it.
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
        self.ask_within(role, job, self.bounds(role, allowed), cancellation)
    }

    fn ask_within<J: Serialize, R: DeserializeOwned>(
        &self,
        role: Role,
        job: &J,
        bounds: Bounds,
        cancellation: &Cancellation,
    ) -> Result<Answer<R>, SuperviseError> {
        let process = self.process(role)?;
        self.prepare_next(role);
        let (answer, _) = process.ask(job, bounds, cancellation)?;
        Ok(answer)
    }

    /// Has outputs compared.
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
        self.ask_within(Role::Verify, job, bounds, cancellation)
    }

    /// The limits of a role that times for `allowed`.
    pub fn bounds_of_timing(&self, job: &TimeJob, allowed: Duration) -> Bounds {
        let draws = job.cases.iter().flat_map(|case| &case.draws);
        let all = draws.map(|draw| bytes(draw)).fold(0, u64::saturating_add);
        self.bounds_with(Role::Time, allowed, all)
    }

    /// Runs a candidate in a process of its own. All it can reach is a folder of its own: the image
    /// is brought there, and saved outputs are taken from there to where the job wants them.
    ///
    /// # Errors
    /// As of [`crate::supervise::ask`], and [`SuperviseError::Folder`].
    pub fn run(
        &self,
        job: &RunJob,
        allowed: Duration,
        cancellation: &Cancellation,
    ) -> Result<Answer<RunReply>, SuperviseError> {
        let process = self.process(Role::Run)?;
        // On a card the next one opens the device, which those who take times would notice.
        let timed = job
            .executions
            .iter()
            .any(|execution| execution.purpose == ExecutionPurpose::Score);
        if !(timed && self.device.kind == DeviceKind::Nvidia) {
            self.prepare_next(Role::Run);
        }
        let home = process.home.path();
        let inside = brought_in(job, home).map_err(SuperviseError::Folder)?;
        let bounds = self.bounds_of_running(job, allowed);
        let (answer, _home) = process.ask(&inside, bounds, cancellation)?;
        if answer.reply.is_ok() {
            let saved = inside.executions.iter().zip(&job.executions);
            for (from, to) in
                saved.filter_map(|(from, to)| from.save.as_ref().zip(to.save.as_ref()))
            {
                take_out(from, to).map_err(SuperviseError::Folder)?;
            }
        }
        Ok(answer)
    }

    /// The limits of a role that runs a candidate for `allowed`.
    pub(super) fn bounds_of_running(&self, job: &RunJob, allowed: Duration) -> Bounds {
        let executions = job.executions.iter();
        let largest = executions.map(|execution| bytes(&execution.tensors)).max();
        self.bounds_with(Role::Run, allowed, largest.unwrap_or(0))
    }

    /// Ends what waits for work on a card, so that nobody else is there while it is timed or
    /// examined. Every process has an emulated device to itself.
    pub fn clear_the_device(&self) {
        if self.device.kind == DeviceKind::Nvidia {
            self.spares.withdraw();
        }
    }

    /// Ends what waits for work.
    pub(super) fn withdraw_spares(&self) {
        self.spares.withdraw();
    }

    /// A process that has been told nothing.
    pub(super) fn process(&self, role: Role) -> Result<Spare, SuperviseError> {
        match self.spares.take(role.as_str()) {
            Some(spare) => Ok(spare),
            None => Spare::start(self.recipe(role).map_err(SuperviseError::Folder)?),
        }
    }

    /// Has the next process of a role started while this one works.
    pub(super) fn prepare_next(&self, role: Role) {
        if !self.settings.spares {
            return;
        }
        match self.recipe(role) {
            Ok(recipe) => self.spares.order(role.as_str(), recipe),
            // Whoever needs the process meets the same error.
            Err(error) => tracing::debug!("failed to prepare a spare {}: {error}", role.as_str()),
        }
    }

    fn recipe(&self, role: Role) -> io::Result<Recipe> {
        let scratch = self.data().join(SCRATCH);
        std::fs::create_dir_all(&scratch)?;
        let home = tempfile::Builder::new()
            .prefix("role-")
            .tempdir_in(scratch)?;
        Ok(Recipe {
            program: self.program(role, home.path()),
            limits: self.limits(role),
            home,
        })
    }
}

/// What tensors take at the width of the reference's answers.
fn bytes(tensors: &[TensorData]) -> u64 {
    let elements = tensors.iter().map(|tensor| {
        let extents = tensor.extents.iter();
        extents.fold(1, |all: u64, one| all.saturating_mul(*one))
    });
    let elements = elements.fold(0, u64::saturating_add);
    elements.saturating_mul(Dtype::F64.bytes())
}

/// The job as a process can do it that reaches only `home`.
pub(super) fn brought_in(job: &RunJob, home: &Path) -> io::Result<RunJob> {
    let mut inside = job.clone();
    inside.image = Image {
        cubin: home.join("image.cubin"),
        ptx: home.join("image.ptx"),
        ..job.image.clone()
    };
    // Copied and not linked: what is written to a link is written to the build.
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

/// Moves a folder that a runner has left, and nothing but a folder.
fn take_out(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(from) {
        Ok(found) if found.is_dir() => {}
        // An execution that came to nothing has saved nothing.
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
