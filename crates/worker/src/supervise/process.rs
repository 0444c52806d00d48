//! One child process in a group of its own: started with a socket as its standard input, inside
//! walls where its program has any, limited before it has anything to do, and killed with
//! everything it started.
//!
//! This is the only place of the project that starts processes.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, ChildStdout, ExitStatus, Stdio};
use std::sync::Arc;

use gpu::walls::{Group, Inside, Walls, by_signal};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions, getrlimit, kill_process_group,
    pidfd_open, prlimit, waitpid,
};

/// What to start.
#[derive(Debug, Clone)]
pub struct Program {
    /// The executable.
    pub executable: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its whole environment; nothing is inherited.
    pub environment: Vec<(OsString, OsString)>,
    /// Its working directory.
    pub directory: PathBuf,
    /// What is put around it; nothing around a program that is no role of ours.
    pub walls: Option<Arc<Walls>>,
}

/// What the system holds a child to, whatever it does. None is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Address space in bytes.
    pub address_space: Option<u64>,
    /// Processor time over all threads, seconds. It ends a child even when its supervisor is gone.
    pub cpu_seconds: Option<u64>,
    /// The largest file it may write, bytes.
    pub file_bytes: Option<u64>,
    /// Memory in use, bytes: of all its processes by its control group where it has one, otherwise
    /// of itself, looked at now and then. Address space is no measure where a driver reserves it.
    pub memory_bytes: Option<u64>,
}

/// Seconds of processor time between the signal that says so and the kill.
const CPU_GRACE: u64 = 5;

/// A running child.
#[derive(Debug)]
pub struct Process {
    /// Its number, which is that of its process group.
    pid: Pid,
    status: Option<ExitStatus>,
    /// Readable once the child has ended.
    pub ended: OwnedFd,
    /// Its control group.
    group: Option<Group>,
    /// Whether it is the first process of a namespace, which says by its status which signal ended
    /// it.
    first: bool,
    /// Whether it has ended over the memory of its control group.
    over_memory: bool,
}

/// Our ends of what connects us with a child; none of them blocks.
#[derive(Debug)]
pub struct Pipes {
    /// The socket that is its standard input.
    pub socket: UnixStream,
    /// Its standard output.
    pub stdout: ChildStdout,
    /// Its standard error.
    pub stderr: ChildStderr,
}

impl Process {
    /// Starts a child. It waits for its job on the socket, and the limits are in force before
    /// anyone can send one.
    pub fn start(program: &Program, limits: Limits) -> io::Result<(Self, Pipes)> {
        let (socket, theirs) = UnixStream::pair()?;
        let theirs = OwnedFd::from(theirs);
        let (process, stdout, stderr) = match &program.walls {
            Some(walls) if walls.are_there() => Self::inside(walls, program, limits, theirs),
            _ => Self::outside(program, theirs),
        }
        .map_err(|error| not_started(&program.executable, &error))?;
        process.limit(limits)?;
        socket.set_nonblocking(true)?;
        rustix::io::ioctl_fionbio(&stdout, true)?;
        rustix::io::ioctl_fionbio(&stderr, true)?;
        let pipes = Pipes {
            socket,
            stdout,
            stderr,
        };
        Ok((process, pipes))
    }

    fn inside(
        walls: &Walls,
        program: &Program,
        limits: Limits,
        stdin: OwnedFd,
    ) -> io::Result<(Self, ChildStdout, ChildStderr)> {
        let (stdout, their_stdout) = io::pipe()?;
        let (stderr, their_stderr) = io::pipe()?;
        let inside = Inside {
            executable: &program.executable,
            arguments: &program.arguments,
            environment: &program.environment,
            directory: &program.directory,
            memory_bytes: limits.memory_bytes,
        };
        let streams = [stdin, their_stdout.into(), their_stderr.into()];
        let started = walls.start(inside, streams)?;
        let process = Self {
            pid: started.pid,
            status: None,
            ended: started.ended,
            group: started.group,
            first: walls.hide_processes(),
            over_memory: false,
        };
        let (stdout, stderr) = (OwnedFd::from(stdout), OwnedFd::from(stderr));
        Ok((process, stdout.into(), stderr.into()))
    }

    fn outside(program: &Program, stdin: OwnedFd) -> io::Result<(Self, ChildStdout, ChildStderr)> {
        #[expect(
            clippy::disallowed_methods,
            reason = "the supervisor is where processes are started"
        )]
        let mut command = std::process::Command::new(&program.executable);
        let mut child = command
            .args(&program.arguments)
            .env_clear()
            .envs(program.environment.iter().cloned())
            .current_dir(&program.directory)
            .process_group(0)
            .stdin(Stdio::from(stdin))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let streams = child.stdout.take().zip(child.stderr.take());
        let (stdout, stderr) = streams.expect("both streams were asked for as pipes");
        let pid = Pid::from_child(&child);
        let ended = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(ended) => ended,
            Err(error) => {
                child.kill()?;
                child.wait()?;
                return Err(error.into());
            }
        };
        // From here on, dropping the process ends it.
        let process = Self {
            pid,
            status: None,
            ended,
            group: None,
            first: false,
            over_memory: false,
        };
        Ok((process, stdout, stderr))
    }

    /// Limits the child further; a limit is never raised.
    pub fn limit(&self, limits: Limits) -> io::Result<()> {
        let wanted = [
            (Resource::As, limits.address_space),
            (Resource::Cpu, limits.cpu_seconds),
            (Resource::Fsize, limits.file_bytes),
            (Resource::Core, Some(0)),
        ];
        for (resource, limit) in wanted {
            let Some(limit) = limit else { continue };
            // The child inherited our own limit, which only a privileged process may raise.
            let most = getrlimit(resource).maximum;
            let within = |wanted: u64| Some(most.map_or(wanted, |most| most.min(wanted)));
            // Processor time ends with a signal of its own before the one that cannot be told
            // from any other kill.
            let grace = if resource == Resource::Cpu {
                CPU_GRACE
            } else {
                0
            };
            let limit = Rlimit {
                current: within(limit),
                maximum: within(limit.saturating_add(grace)),
            };
            prlimit(Some(self.pid), resource, limit)?;
        }
        if let (Some(group), Some(bytes)) = (&self.group, limits.memory_bytes) {
            group.limit_memory(bytes)?;
        }
        Ok(())
    }

    /// Whether its memory has to be looked at, since nobody else limits it.
    pub fn is_to_be_weighed(&self) -> bool {
        !self.group.as_ref().is_some_and(Group::limits_memory)
    }

    /// Memory in use, bytes; none once it has ended.
    pub fn resident_bytes(&self) -> Option<u64> {
        let path = format!("/proc/{}/statm", self.pid.as_raw_nonzero());
        let pages = std::fs::read_to_string(path).ok()?;
        let pages: u64 = pages.split_whitespace().nth(1)?.parse().ok()?;
        Some(pages * rustix::param::page_size() as u64)
    }

    /// Whether it was ended over the memory of its control group.
    pub fn was_over_memory(&self) -> bool {
        self.over_memory
    }

    /// The signal that ended it, if one did.
    pub fn signal(&self, status: ExitStatus) -> Option<i32> {
        let told = status.code().filter(|_| self.first).and_then(by_signal);
        status.signal().or(told)
    }

    /// Kills the child and everything in its group, and collects the child. The group is killed
    /// before the child is collected, while its number cannot belong to anyone else.
    pub fn end(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        self.kill_group();
        let collected = loop {
            match waitpid(Some(self.pid), WaitOptions::empty()) {
                Err(Errno::INTR) => {}
                other => break other?,
            }
        };
        let (_, status) = collected.expect("a wait without options ends with a status");
        self.over_memory = self.group.as_ref().is_some_and(Group::ran_out_of_memory);
        let status = ExitStatus::from_raw(status.as_raw());
        self.status = Some(status);
        Ok(status)
    }

    fn kill_group(&self) {
        if let Some(group) = &self.group {
            group.kill();
        }
        // It fails only if nobody is left to be killed.
        let _ = kill_process_group(self.pid, Signal::KILL);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn not_started(executable: &Path, error: &io::Error) -> io::Error {
    io::Error::new(
        error.kind(),
        format!("start {}: {error}", executable.display()),
    )
}
