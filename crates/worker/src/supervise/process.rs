//! One child process in its own process group. Its standard input is a socket. It is started inside
//! walls if its program has any, is limited before it has anything to do, and is killed with
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

use gpu::walls::{Group, WalledProgram, Walls, signal_from_status};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions, getrlimit, kill_process_group,
    pidfd_open, prlimit, waitpid,
};

/// The program of a child process.
#[derive(Debug, Clone)]
pub struct Program {
    /// The executable.
    pub executable: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its whole environment; no variable is inherited.
    pub environment: Vec<(OsString, OsString)>,
    /// Its working directory.
    pub directory: PathBuf,
    /// The namespaces and the control group around it; `None` for a program that is not one of our
    /// roles.
    pub walls: Option<Arc<Walls>>,
}

/// Resource limits that the system enforces. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Address space in bytes.
    pub address_space: Option<u64>,
    /// Processor time of all threads together, seconds. It ends a child even after its supervisor
    /// has died.
    pub cpu_seconds: Option<u64>,
    /// The largest file it may write, bytes.
    pub file_bytes: Option<u64>,
    /// Memory in use, bytes. With a control group it is the memory of all its processes. Without
    /// one it is that of the child alone, which the supervisor reads periodically. Address space is
    /// no substitute, because a driver reserves far more of it than it uses.
    pub memory_bytes: Option<u64>,
}

/// Processor time between the signal that announces the limit and the kill, seconds.
const CPU_GRACE: u64 = 5;

/// A running child.
#[derive(Debug)]
pub struct Process {
    /// Its process id, which is also that of its process group.
    pid: Pid,
    status: Option<ExitStatus>,
    /// A process descriptor, readable once the child has ended.
    pub ended: OwnedFd,
    /// Its control group, if it has one.
    group: Option<Group>,
    /// True if it is the first process of a PID namespace, whose exit status encodes the signal
    /// that ended it.
    first: bool,
    /// True if it ended because its control group ran out of memory.
    over_memory: bool,
}

/// The supervisor's ends of the child's socket and streams; none of them blocks.
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
    /// Starts a child. It waits for its job on the socket, and its limits are in force before
    /// anyone can send one.
    pub fn start(program: &Program, limits: Limits) -> io::Result<(Self, Pipes)> {
        let (socket, theirs) = UnixStream::pair()?;
        let theirs = OwnedFd::from(theirs);
        let (process, stdout, stderr) = match &program.walls {
            Some(walls) if walls.exist() => Self::inside(walls, program, limits, theirs),
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
        let inside = WalledProgram {
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
        // From here on, dropping the process kills it.
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

    /// Applies further limits to the child; a limit is never raised.
    pub fn limit(&self, limits: Limits) -> io::Result<()> {
        let wanted = [
            (Resource::As, limits.address_space),
            (Resource::Cpu, limits.cpu_seconds),
            (Resource::Fsize, limits.file_bytes),
            (Resource::Core, Some(0)),
        ];
        for (resource, limit) in wanted {
            let Some(limit) = limit else { continue };
            // The child inherited the supervisor's own limit, which only a privileged process may
            // raise.
            let most = getrlimit(resource).maximum;
            let within = |wanted: u64| Some(most.map_or(wanted, |most| most.min(wanted)));
            // Exceeded processor time has a signal of its own before the kill, which looks like any
            // other kill.
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

    /// Returns true if the supervisor has to watch its memory, because no control group limits it.
    pub fn needs_memory_checks(&self) -> bool {
        !self.group.as_ref().is_some_and(Group::limits_memory)
    }

    /// Memory in use, bytes; `None` once it has ended.
    pub fn resident_bytes(&self) -> Option<u64> {
        let path = format!("/proc/{}/statm", self.pid.as_raw_nonzero());
        let pages = std::fs::read_to_string(path).ok()?;
        let pages: u64 = pages.split_whitespace().nth(1)?.parse().ok()?;
        Some(pages * rustix::param::page_size() as u64)
    }

    /// Returns true if it ended because its control group ran out of memory.
    pub fn was_over_memory(&self) -> bool {
        self.over_memory
    }

    /// The signal that ended it, if one did.
    pub fn signal(&self, status: ExitStatus) -> Option<i32> {
        let told = status
            .code()
            .filter(|_| self.first)
            .and_then(signal_from_status);
        status.signal().or(told)
    }

    /// Kills the child and its process group, and collects its status. The group is killed before
    /// the status is collected, because the process id cannot be reused until then.
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
        // It fails only if no process is left to be killed.
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
