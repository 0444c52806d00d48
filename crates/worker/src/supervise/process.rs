//! One child process in a group of its own: started with a socket as its standard input, limited
//! before it has anything to do, and killed with everything it started.
//!
//! This is the only place of the project that starts processes.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, ExitStatus, Stdio};

use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, getrlimit, kill_process_group, pidfd_open, prlimit,
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
}

/// Seconds of processor time between the signal that says so and the kill.
const CPU_GRACE: u64 = 5;

/// A running child.
#[derive(Debug)]
pub struct Process {
    child: Child,
    group: Pid,
    reaped: bool,
    /// Readable once the child has ended.
    pub ended: OwnedFd,
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
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| not_started(&program.executable, &error))?;
        let streams = child.stdout.take().zip(child.stderr.take());
        let (stdout, stderr) = streams.expect("both streams were asked for as pipes");
        let group = Pid::from_child(&child);
        let ended = match pidfd_open(group, PidfdFlags::empty()) {
            Ok(ended) => ended,
            Err(error) => {
                child.kill()?;
                child.wait()?;
                return Err(error.into());
            }
        };
        // From here on, dropping the process ends it.
        let process = Self {
            child,
            group,
            reaped: false,
            ended,
        };
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
            prlimit(Some(self.group), resource, limit)?;
        }
        Ok(())
    }

    /// Kills the child and everything in its group, and collects the child. The group is killed
    /// before the child is collected, while its number cannot belong to anyone else.
    pub fn end(&mut self) -> io::Result<ExitStatus> {
        self.kill_group();
        let status = self.child.wait()?;
        self.reaped = true;
        Ok(status)
    }

    fn kill_group(&self) {
        // It fails only if nobody is left to be killed.
        let _ = kill_process_group(self.group, Signal::KILL);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = self.end();
        }
    }
}

/// The signal that ended a process, if one did.
pub fn signal(status: ExitStatus) -> Option<i32> {
    status.signal()
}

fn not_started(executable: &Path, error: &io::Error) -> io::Error {
    io::Error::new(
        error.kind(),
        format!("start {}: {error}", executable.display()),
    )
}
