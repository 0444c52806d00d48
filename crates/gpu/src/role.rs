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
    PythonJob, RunJob, TimeJob, VerifyJob, WatchJob,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::confine::{self, Permissions, SystemCalls};
use crate::connection::Connection;
use crate::driver::Gpu;
use crate::nvrtc::Toolchain;
use crate::role_error::RoleError;
use crate::{
    clocks, compile, disassemble, experiment, probe, python, run, time, verify, walls, watch,
};

/// Variable with the path of a file that the emulated driver reads while it is loaded.
const FAULT_PLAN_VARIABLE: &str = "KERNELWRIGHT_FAULT_PLAN";

/// Runs the body of one role as this process's only task. The process must have only one thread.
pub fn main(role: &str) -> ExitCode {
    // If the worker is killed, it can no longer kill its roles, so the kernel does. A failure of this call is
    // ignored, because the limit on processor time ends an orphan, too.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    if std::process::id() == 1 {
        walls::handle_signals();
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
        "compile" => serve_job(Toolchain::load, |_, job: &CompileJob| {
            compile::prepare(job)?;
            create(&job.output)?;
            confine(&compile_permissions(job))?;
            compile::compile(job)
        }),
        "disassemble" => serve_job(no_preparation, |(), job: &DisassembleJob| {
            confine(&disassembly_permissions(job))?;
            disassemble::disassemble(job)
        }),
        "run" => serve_conversation(open_confined_to_folder, |gpu, job: &RunJob, connection| {
            run::run_on_connection(gpu, job, connection)
        }),
        // The role for a tool that attaches to the process, which is not possible if the process is confined. Only
        // the author of a kernel requests this, and only the tool's own output is believed.
        "trace" => serve_job(no_preparation, |(), job: &RunJob| {
            run::run_on(&Gpu::open()?, job)
        }),
        "verify" => serve_job(Gpu::open, |gpu, job: &VerifyJob| {
            let write = create_all(job.checks.iter().map(|check| check.cache.clone()))?;
            let mut read = vec![job.reference.cubin.clone(), job.reference.ptx.clone()];
            read.extend(job.checks.iter().filter_map(|check| check.outputs.clone()));
            confine(&device_permissions(gpu, read, write))?;
            verify::verify_on(gpu, job)
        }),
        "time" => serve_conversation(Gpu::open, |gpu, job: &TimeJob, connection| {
            let read = job
                .images
                .values()
                .chain(&job.disturber)
                .flat_map(|image| [image.image.cubin.clone(), image.image.ptx.clone()])
                .collect();
            let outputs = job.order_dependent.iter();
            let write = outputs.map(|outputs| outputs.folder.clone()).collect();
            confine(&device_permissions(gpu, read, write))?;
            time::time_on(gpu, job, connection)
        }),
        "experiment" => serve_job(Gpu::open, |gpu, job: &ExperimentJob| {
            let write = match &job.experiment {
                Experiment::Case { record, .. } => create_all(record.parent().map(Path::to_owned))?,
                Experiment::Measure { .. } => Vec::new(),
            };
            confine(&device_permissions(gpu, vec![job.image.clone()], write))?;
            experiment::experiment_on(gpu, job)
        }),
        "watch" => serve_conversation(no_preparation, |(), job: &WatchJob, connection| {
            confine(&management_permissions())?;
            watch::watch(job, connection)
        }),
        "clocks" => serve_job(no_preparation, |(), job: &ClocksJob| {
            confine(&management_permissions())?;
            Ok(clocks::set(job))
        }),
        "python" => serve_job(no_preparation, |(), job: &PythonJob| {
            let write = create_all(python::caches(job))?;
            let started = python::start(&job.interpreter)?;
            confine(&answer_permissions(write))?;
            python::answer(started, job)
        }),
        // A device that cannot be opened is a result of the probe, not an error.
        "probe" => serve_job(no_preparation, |(), job: &ProbeJob| match Gpu::open() {
            Ok(gpu) => {
                confine(&device_permissions(&gpu, Vec::new(), Vec::new()))?;
                Ok(probe::probe_on(&gpu, job))
            }
            Err(fault) => Ok(probe::unusable(&fault)),
        }),
        other => Err(RoleError::Job(format!(
            "{other:?} is no role; the roles are compile, disassemble, run, trace, verify, time, watch, clocks, experiment, probe and python"
        ))),
    }
}

/// The preparation of roles that need none.
fn no_preparation() -> Result<(), RoleError> {
    Ok(())
}

/// Opens the device, then confines the process to the folder it was started in.
fn open_confined_to_folder() -> Result<Gpu, RoleError> {
    let gpu = Gpu::open()?;
    let folder = env::current_dir().map_err(RoleError::file("find", Path::new(".")))?;
    confine(&device_permissions(
        &gpu,
        vec![folder.clone()],
        vec![folder],
    ))?;
    Ok(gpu)
}

/// The needs of a compilation. The compiler opens any file that the source names.
fn compile_permissions(job: &CompileJob) -> Permissions {
    let mut read = vec![job.source.clone(), job.toolchain_headers.clone()];
    read.extend(job.headers.clone());
    Permissions {
        read,
        write: vec![job.output.clone()],
        control: Vec::new(),
        calls: SystemCalls::Computing,
        restrict_files: true,
        memory_bytes: Some(confine::COMPILE_MEMORY_BYTES),
        cpu_seconds: Some(confine::COMPILE_CPU_SECONDS),
    }
}

/// The needs of the management library, which opens device files at its own discretion. No data of a candidate is in
/// such a process.
fn management_permissions() -> Permissions {
    Permissions {
        read: Vec::new(),
        write: Vec::new(),
        control: Vec::new(),
        calls: SystemCalls::Driver,
        restrict_files: false,
        memory_bytes: None,
        cpu_seconds: None,
    }
}

/// The needs of the process that passes inputs and answers between pipes and the cache.
fn answer_permissions(write: Vec<PathBuf>) -> Permissions {
    Permissions {
        read: Vec::new(),
        write,
        control: Vec::new(),
        // It waits for the interpreter's end.
        calls: SystemCalls::Tool,
        restrict_files: true,
        memory_bytes: None,
        cpu_seconds: None,
    }
}

/// The needs of the disassembler.
fn disassembly_permissions(job: &DisassembleJob) -> Permissions {
    Permissions {
        read: vec![job.program.clone(), job.cubin.clone()],
        write: Vec::new(),
        control: Vec::new(),
        calls: SystemCalls::Tool,
        restrict_files: true,
        memory_bytes: Some(confine::COMPILE_MEMORY_BYTES),
        cpu_seconds: Some(confine::COMPILE_CPU_SECONDS),
    }
}

/// The needs of launching. The supervisor limits memory and time, because it knows which driver is loaded. It also
/// decides whether files are restricted, because it has tested whether the driver works with the restriction.
fn device_permissions(gpu: &Gpu, mut read: Vec<PathBuf>, write: Vec<PathBuf>) -> Permissions {
    read.extend(env::var_os(FAULT_PLAN_VARIABLE).map(PathBuf::from));
    let (calls, control) = if gpu.emulator().is_some() {
        (SystemCalls::Computing, Vec::new())
    } else {
        read.extend(confine::nvidia_files::readable());
        (SystemCalls::Driver, confine::nvidia_files::controllable())
    };
    Permissions {
        read,
        write,
        control,
        calls,
        restrict_files: env::var_os(FILES_VARIABLE).is_none_or(|how| how != OPEN_FILES),
        memory_bytes: None,
        cpu_seconds: None,
    }
}

/// Confines the process and writes the level of confinement to standard error.
fn confine(permissions: &Permissions) -> Result<(), RoleError> {
    let level = confine::apply(permissions)?;
    eprintln!("confined ({level})");
    Ok(())
}

fn create_all(folders: impl IntoIterator<Item = PathBuf>) -> Result<Vec<PathBuf>, RoleError> {
    let folders: Vec<PathBuf> = folders.into_iter().collect();
    folders.iter().try_for_each(|folder| create(folder))?;
    Ok(folders)
}

fn create(folder: &Path) -> Result<(), RoleError> {
    fs::create_dir_all(folder).map_err(RoleError::file("create", folder))
}

/// Receives one job, passes it to `body` with the result of `prepare`, and sends the reply.
fn serve_job<P, J: DeserializeOwned, R: Serialize>(
    prepare: impl FnOnce() -> Result<P, RoleError>,
    body: impl FnOnce(&P, &J) -> Result<R, RoleError>,
) -> Result<(), RoleError> {
    serve_conversation(prepare, |prepared: &P, job: &J, _| body(prepared, job))
}

/// As [`serve_job`], for a body that sends messages before its reply.
fn serve_conversation<P, J: DeserializeOwned, R: Serialize>(
    prepare: impl FnOnce() -> Result<P, RoleError>,
    body: impl FnOnce(&P, &J, &mut Connection) -> Result<R, RoleError>,
) -> Result<(), RoleError> {
    let connection = Connection::inherited()?;
    let prepared = prepare()?;
    let (mut connection, job) = connection.receive_job()?;
    let reply = body(&prepared, &job, &mut connection)?;
    connection.send_reply(&reply)
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
