//! The life of a role process: prove the walls around it, open the device, give up every right it does not need,
//! report that it is ready, read the job, do it, reply, end.
//!
//! The role `run` confines itself to the folder it was started in before it receives a job, because it may have been
//! started long before its candidate was known. The other roles confine themselves to the paths that their job names,
//! before they touch any of them.
//!
//! On a failure of the environment no reply is sent: the process writes the error to its last line of standard error
//! and exits with [`FAULT_STATUS`].

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use domain::role::experiment::{Experiment, ExperimentJob};
use domain::role::{
    ClocksJob, CompileJob, DisassembleJob, FAULT_STATUS, FILES_VARIABLE, OPEN_FILES, ProbeJob,
    RunJob, TimeJob, VerifyJob, WatchJob,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::confine::{self, Needs, SystemCalls};
use crate::driver::Gpu;
use crate::line::Line;
use crate::nvrtc::Toolchain;
use crate::role_error::RoleError;
use crate::{clocks, compile, disassemble, experiment, probe, run, time, verify, walls, watch};

/// Variable with the path of a file that the emulated driver reads while it is loaded.
const FAULT_PLAN_VARIABLE: &str = "KERNELWRIGHT_FAULT_PLAN";

/// Runs the body of one role as this process's only task. The process must have only one thread.
pub fn main(role: &str) -> ExitCode {
    // If the worker is killed, it can no longer kill its roles, so the kernel does. A failure of this call is
    // ignored, because the limit on processor time ends an orphan, too.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    if std::process::id() == 1 {
        walls::heed_signals();
    }
    match serve(role) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("failed to {fault}");
            ExitCode::from(FAULT_STATUS)
        }
    }
}

/// Prepares the role, reads the job, does it, and replies.
///
/// # Errors
/// A [`RoleError`], in which case no reply was sent.
pub fn serve(role: &str) -> Result<(), RoleError> {
    if let Some(holding) = walls::prove()? {
        eprintln!("walled ({holding})");
    }
    match role {
        "compile" => exchange(Toolchain::load, |_, job: &CompileJob| {
            compile::prepare(job)?;
            create(&job.output)?;
            confine(&for_compile(job))?;
            compile::compile(job)
        }),
        "disassemble" => exchange(unprepared, |(), job: &DisassembleJob| {
            confine(&for_disassembly(job))?;
            disassemble::disassemble(job)
        }),
        "run" => converse(confined_to_its_folder, |gpu, job: &RunJob, line| {
            run::run_on_line(gpu, job, line)
        }),
        // The role for a tool that attaches to the process, which is not possible if the process is confined. Only
        // the author of a kernel requests this, and only the tool's own output is believed.
        "trace" => exchange(unprepared, |(), job: &RunJob| {
            run::run_on(&Gpu::open()?, job)
        }),
        "verify" => exchange(Gpu::open, |gpu, job: &VerifyJob| {
            let write = created(job.checks.iter().map(|check| check.cache.clone()))?;
            let mut read = vec![job.reference.cubin.clone(), job.reference.ptx.clone()];
            read.extend(job.checks.iter().filter_map(|check| check.outputs.clone()));
            confine(&for_device(gpu, read, write))?;
            verify::verify_on(gpu, job)
        }),
        "time" => converse(Gpu::open, |gpu, job: &TimeJob, line| {
            let read = job
                .sides
                .values()
                .chain(&job.disturber)
                .flat_map(|side| [side.image.cubin.clone(), side.image.ptx.clone()])
                .collect();
            confine(&for_device(gpu, read, Vec::new()))?;
            time::time_on(gpu, job, line)
        }),
        "experiment" => exchange(Gpu::open, |gpu, job: &ExperimentJob| {
            let write = match &job.experiment {
                Experiment::Case { record, .. } => created(record.parent().map(Path::to_owned))?,
                Experiment::Measure { .. } => Vec::new(),
            };
            confine(&for_device(gpu, vec![job.image.clone()], write))?;
            experiment::experiment_on(gpu, job)
        }),
        "watch" => converse(unprepared, |(), job: &WatchJob, line| {
            confine(&for_management())?;
            watch::watch(job, line)
        }),
        "clocks" => exchange(unprepared, |(), job: &ClocksJob| {
            confine(&for_management())?;
            Ok(clocks::set(job))
        }),
        // A device that cannot be opened is a result of the probe, not an error.
        "probe" => exchange(unprepared, |(), job: &ProbeJob| match Gpu::open() {
            Ok(gpu) => {
                confine(&for_device(&gpu, Vec::new(), Vec::new()))?;
                Ok(probe::probe_on(&gpu, job))
            }
            Err(fault) => Ok(probe::unusable(&fault)),
        }),
        other => Err(RoleError::Job(format!(
            "{other:?} is no role; the roles are compile, disassemble, run, trace, verify, time, watch, clocks, experiment and probe"
        ))),
    }
}

/// The preparation of roles that need none.
fn unprepared() -> Result<(), RoleError> {
    Ok(())
}

/// Opens the device, then confines the process to the folder it was started in.
fn confined_to_its_folder() -> Result<Gpu, RoleError> {
    let gpu = Gpu::open()?;
    let folder = env::current_dir().map_err(RoleError::file("find", Path::new(".")))?;
    confine(&for_device(&gpu, vec![folder.clone()], vec![folder]))?;
    Ok(gpu)
}

/// The needs of a compilation. The compiler opens any file that the source names.
fn for_compile(job: &CompileJob) -> Needs {
    let mut read = vec![job.source.clone(), job.toolchain_headers.clone()];
    read.extend(job.headers.clone());
    Needs {
        read,
        write: vec![job.output.clone()],
        operate: Vec::new(),
        calls: SystemCalls::Computing,
        restrict_files: true,
        memory_bytes: Some(confine::COMPILE_MEMORY_BYTES),
        cpu_seconds: Some(confine::COMPILE_CPU_SECONDS),
    }
}

/// The needs of the management library, which opens device files at its own discretion. No data of a candidate is in
/// such a process.
fn for_management() -> Needs {
    Needs {
        read: Vec::new(),
        write: Vec::new(),
        operate: Vec::new(),
        calls: SystemCalls::Driver,
        restrict_files: false,
        memory_bytes: None,
        cpu_seconds: None,
    }
}

/// The needs of the disassembler.
fn for_disassembly(job: &DisassembleJob) -> Needs {
    Needs {
        read: vec![job.program.clone(), job.cubin.clone()],
        write: Vec::new(),
        operate: Vec::new(),
        calls: SystemCalls::Tool,
        restrict_files: true,
        memory_bytes: Some(confine::COMPILE_MEMORY_BYTES),
        cpu_seconds: Some(confine::COMPILE_CPU_SECONDS),
    }
}

/// The needs of launching. The supervisor limits memory and time, because it knows which driver is loaded. It also
/// decides whether files are restricted, because it has tested whether the driver works with the restriction.
fn for_device(gpu: &Gpu, mut read: Vec<PathBuf>, write: Vec<PathBuf>) -> Needs {
    read.extend(env::var_os(FAULT_PLAN_VARIABLE).map(PathBuf::from));
    let (calls, operate) = if gpu.emulator().is_some() {
        (SystemCalls::Computing, Vec::new())
    } else {
        read.extend(confine::card::read());
        (SystemCalls::Driver, confine::card::operate())
    };
    Needs {
        read,
        write,
        operate,
        calls,
        restrict_files: env::var_os(FILES_VARIABLE).is_none_or(|how| how != OPEN_FILES),
        memory_bytes: None,
        cpu_seconds: None,
    }
}

/// Confines the process and writes the level of confinement to standard error.
fn confine(needs: &Needs) -> Result<(), RoleError> {
    let level = confine::apply(needs)?;
    eprintln!("confined ({level})");
    Ok(())
}

fn created(folders: impl IntoIterator<Item = PathBuf>) -> Result<Vec<PathBuf>, RoleError> {
    let folders: Vec<PathBuf> = folders.into_iter().collect();
    folders.iter().try_for_each(|folder| create(folder))?;
    Ok(folders)
}

fn create(folder: &Path) -> Result<(), RoleError> {
    fs::create_dir_all(folder).map_err(RoleError::file("create", folder))
}

/// Receives one job, passes it to `body` with the result of `prepare`, and sends the reply.
fn exchange<P, J: DeserializeOwned, R: Serialize>(
    prepare: impl FnOnce() -> Result<P, RoleError>,
    body: impl FnOnce(&P, &J) -> Result<R, RoleError>,
) -> Result<(), RoleError> {
    converse(prepare, |prepared: &P, job: &J, _| body(prepared, job))
}

/// As [`exchange`], for a body that sends messages before its reply.
fn converse<P, J: DeserializeOwned, R: Serialize>(
    prepare: impl FnOnce() -> Result<P, RoleError>,
    body: impl FnOnce(&P, &J, &mut Line) -> Result<R, RoleError>,
) -> Result<(), RoleError> {
    let line = Line::inherited()?;
    let prepared = prepare()?;
    let (mut line, job) = line.ready()?;
    let reply = body(&prepared, &job, &mut line)?;
    line.say(&reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_role_is_refused() {
        let fault = serve("sell").unwrap_err();
        assert!(fault.to_string().contains("\"sell\" is no role"), "{fault}");
    }
}
