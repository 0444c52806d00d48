//! Supervision of one role process: starts it, sends it one job or several in turn, and returns in
//! bounded time whatever the process does.
//!
//! The child gets its own process group, an explicit environment, resource limits, a deadline, and
//! a socket for its job. Its output is read and capped. When it has finished or its time is over,
//! it and everything it started is killed. A child that ends without an answer gives an [`Exit`],
//! which is data for the judge; only faults of the infrastructure are a [`SuperviseError`].
//!
//! The module does not know the meaning of a job.

mod capture;
mod exchange;
mod process;
mod stream;

use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{ChildStderr, ChildStdout, ExitStatus};
use std::time::{Duration, Instant};

use domain::judge::Exit;
use domain::role::{Envelope, FAULT_STATUS};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cancel::Cancellation;
use crate::random;

pub use capture::{Capture, KEPT_BYTES};
pub use process::{Limits, Program};

use exchange::{Exchange, Reply};
use process::{Pipes, Process};
use stream::Stream;

/// Wall time in which a child has to end after its last reply.
const EXIT_GRACE: Duration = Duration::from_secs(2);
/// Interval between readings of a child's memory use, where no control group limits it.
const MEMORY_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// The reasons why a supervised process gave no answer about its job. None is caused by a
/// candidate.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    /// The child could not be started or limited.
    #[error(
        "start the role process {executable}; check that it exists, may be executed and that processes are left"
    )]
    Start {
        /// The executable's path.
        executable: String,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A call on the child's descriptors failed.
    #[error("supervise the role process")]
    Supervise(#[source] io::Error),
    /// The job could not be serialized.
    #[error("encode the job of a role process")]
    Encode(#[source] serde_json::Error),
    /// The job does not fit into a frame.
    #[error("send a job of {bytes} bytes to a role process; a job has less than 4 GiB")]
    TooLong {
        /// Its length, bytes.
        bytes: usize,
    },
    /// The child ended or was killed before it received its job, so that the job cannot be the
    /// cause.
    #[error("get a role process ready: it {how}")]
    Unready {
        /// The manner in which it ended, with the last line of its standard error.
        how: String,
        /// True if it was killed because it took too long.
        late: bool,
    },
    /// The role reports that it cannot work on this machine.
    #[error("{reason}")]
    UnsupportedMachine {
        /// The missing requirement and its fix, in the role's words.
        reason: String,
    },
    /// The folder of a role process could not be filled or emptied.
    #[error("prepare the folder of a role process; check free space and permissions")]
    Folder(#[source] io::Error),
    /// The work was cancelled.
    #[error("finish the evaluation: it was called off")]
    Cancelled,
}

/// The limits and the time of a child.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The limits that the system enforces.
    pub limits: Limits,
    /// Wall time until the child is ready for its job. `None` for a program that is not one of our
    /// roles, or that starts one: it gets its job at once and has the time of its answer.
    pub readiness: Option<Duration>,
    /// Wall time from then to the answer.
    pub deadline: Duration,
}

/// The outcome of a job.
#[derive(Debug)]
pub struct Answer<R> {
    /// The reply, or the manner in which the child ended without one.
    pub reply: Result<R, Exit>,
    /// The beginning and the end of its standard output.
    pub stdout: Capture,
    /// The beginning and the end of its standard error.
    pub stderr: Capture,
    /// Wall time from the job to the child's end.
    pub wall: Duration,
    /// The arrival time of each tick, by the supervisor's clock.
    pub ticks: Vec<Instant>,
}

/// Starts `program`, sends it `job` and waits for its reply.
///
/// # Errors
/// A [`SuperviseError`] if the child could not be started or watched, if it was not ready in time
/// or reports that it cannot work on this machine, or if the work was cancelled. The child and its
/// process group have ended in every case.
pub fn ask<J: Serialize, R: DeserializeOwned>(
    program: &Program,
    job: &J,
    bounds: Bounds,
    cancellation: &Cancellation,
) -> Result<Answer<R>, SuperviseError> {
    Standby::start(program, bounds.limits)?.ask(job, bounds, cancellation)
}

/// Starts `program` and sends it one job after another. `next` gets each reply with the ticks so
/// far and returns the next job; `None` ends the conversation. The deadline covers all jobs
/// together.
///
/// # Errors
/// As of [`ask`].
pub fn converse<J: Serialize, R: DeserializeOwned, N: Serialize>(
    program: &Program,
    job: &J,
    bounds: Bounds,
    cancellation: &Cancellation,
    next: impl FnMut(R, &[Instant]) -> Option<N>,
) -> Result<Answer<()>, SuperviseError> {
    Standby::start(program, bounds.limits)?.converse(job, bounds, cancellation, next)
}

/// A child that was started and has no job yet. It is killed when this value is dropped.
#[derive(Debug)]
pub struct Standby {
    process: Process,
    pipes: Pipes,
    started: Instant,
}

impl Standby {
    /// Starts `program`.
    ///
    /// # Errors
    /// [`SuperviseError::Start`].
    pub fn start(program: &Program, limits: Limits) -> Result<Self, SuperviseError> {
        let started = Instant::now();
        let (process, pipes) =
            Process::start(program, limits).map_err(|source| SuperviseError::Start {
                executable: program.executable.display().to_string(),
                source,
            })?;
        Ok(Self {
            process,
            pipes,
            started,
        })
    }

    /// The time since its start.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns true if it has ended without waiting for a job.
    pub fn has_ended(&self) -> bool {
        is_readable(&self.process.ended)
    }

    /// Returns true if it has announced that it is ready, or has sent anything else.
    pub fn has_sent_data(&self) -> bool {
        is_readable(&self.pipes.socket)
    }

    /// Sends `job` to the child once it is ready, and waits for its reply.
    ///
    /// # Errors
    /// As of [`ask`].
    pub fn ask<J: Serialize, R: DeserializeOwned>(
        self,
        job: &J,
        bounds: Bounds,
        cancellation: &Cancellation,
    ) -> Result<Answer<R>, SuperviseError> {
        let mut last_reply = None;
        let answer = self.converse(job, bounds, cancellation, |reply: R, _| -> Option<()> {
            last_reply = Some(reply);
            None
        })?;
        Ok(Answer {
            reply: answer
                .reply
                .map(|()| last_reply.expect("a conversation that ended well had a last reply")),
            stdout: answer.stdout,
            stderr: answer.stderr,
            wall: answer.wall,
            ticks: answer.ticks,
        })
    }

    /// Sends the child one job after another, as of [`converse`].
    ///
    /// # Errors
    /// As of [`ask`].
    pub fn converse<J: Serialize, R: DeserializeOwned, N: Serialize>(
        self,
        job: &J,
        bounds: Bounds,
        cancellation: &Cancellation,
        mut next: impl FnMut(R, &[Instant]) -> Option<N>,
    ) -> Result<Answer<()>, SuperviseError> {
        let (mut nonce, job) = encode_job(job)?;
        let exchange = Exchange::new(&job, bounds.readiness.is_some())
            .ok_or(SuperviseError::TooLong { bytes: job.len() })?;
        self.process
            .limit(bounds.limits)
            .map_err(SuperviseError::Supervise)?;
        let asked = Instant::now();
        let mut watch = RunningChild {
            process: self.process,
            socket: self.pipes.socket,
            exchange,
            stdout: Stream::new(self.pipes.stdout),
            stderr: Stream::new(self.pipes.stderr),
            outcome: None,
        };
        let end = watch.until_end(bounds, cancellation, &mut |reply, ticks| {
            let next_job = match decode_reply(reply, &nonce) {
                Ok(reply) => next(reply, ticks),
                Err(exit) => return Ok(AfterReply::Finished(Err(exit))),
            };
            let Some(further) = next_job else {
                return Ok(AfterReply::Finished(Ok(())));
            };
            let job;
            (nonce, job) = encode_job(&further)?;
            Ok(AfterReply::Send(job))
        })?;
        let reply = match watch.take_outcome(end, bounds) {
            Ok(()) => Ok(()),
            Err(Unanswered::Child(exit)) => Err(exit),
            Err(Unanswered::Fault(error)) => return Err(error),
        };
        Ok(Answer {
            reply,
            stdout: watch.stdout.capture,
            stderr: watch.stderr.capture,
            wall: asked.elapsed(),
            ticks: watch.exchange.ticks().to_vec(),
        })
    }
}

/// Returns true if a descriptor can be read at this moment.
fn is_readable(descriptor: &impl AsFd) -> bool {
    let now = Timespec::default();
    let mut polled = [PollFd::new(descriptor, PollFlags::IN)];
    poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// Serializes a job with a fresh nonce, which its reply must repeat.
fn encode_job<J: Serialize>(job: &J) -> Result<(String, Vec<u8>), SuperviseError> {
    // 128 random bits, so that no reply that was made beforehand fits.
    let nonce = hex::encode(random::bytes::<16>());
    let job = serde_json::to_vec(&Envelope {
        nonce: nonce.clone(),
        body: job,
    })
    .map_err(SuperviseError::Encode)?;
    Ok((nonce, job))
}

/// Parses a reply and checks its nonce.
fn decode_reply<R: DeserializeOwned>(reply: &[u8], nonce: &str) -> Result<R, Exit> {
    let garbled = |how: String| Exit::Garbled { how };
    let envelope: Envelope<R> =
        serde_json::from_slice(reply).map_err(|error| garbled(error.to_string()))?;
    if envelope.nonce == nonce {
        Ok(envelope.body)
    } else {
        Err(garbled("it answers another job".to_owned()))
    }
}

/// The way in which the supervision of a child ended.
#[derive(Clone, Copy)]
enum SupervisionEnd {
    Exited(ExitStatus),
    OutOfTime,
    OverMemory,
}

/// The reason why a conversation ended without an answer.
enum Unanswered {
    /// The manner in which the child ended: data for the judge.
    Child(Exit),
    /// A fault of the infrastructure.
    Fault(SuperviseError),
}

impl From<SuperviseError> for Unanswered {
    fn from(error: SuperviseError) -> Self {
        Self::Fault(error)
    }
}

/// The consequence of a reply.
enum AfterReply {
    /// The conversation is over; `Err` if the reply was invalid.
    Finished(Result<(), Exit>),
    /// This job is sent next.
    Send(Vec<u8>),
}

/// Handles a reply, given the ticks so far.
type ReplyHandler<'h> = &'h mut dyn FnMut(&[u8], &[Instant]) -> Result<AfterReply, SuperviseError>;

/// A running child with everything that has been received from it.
struct RunningChild {
    process: Process,
    socket: UnixStream,
    exchange: Exchange,
    stdout: Stream<ChildStdout>,
    stderr: Stream<ChildStderr>,
    /// The outcome, once the last reply has arrived.
    outcome: Option<Result<(), Exit>>,
}

impl RunningChild {
    /// Serves the child until it ends, runs out of time, breaks the protocol or is cancelled. The
    /// child and its process group have ended afterwards.
    fn until_end(
        &mut self,
        bounds: Bounds,
        cancellation: &Cancellation,
        handler: ReplyHandler<'_>,
    ) -> Result<SupervisionEnd, SuperviseError> {
        let mut deadline = Instant::now() + bounds.readiness.unwrap_or_default();
        let (mut ready, mut answered) = (false, false);
        loop {
            if !ready && self.exchange.ready() {
                ready = true;
                deadline = Instant::now() + bounds.deadline;
            }
            let remaining = deadline.saturating_duration_since(Instant::now());
            let broken = matches!(self.exchange.reply(), Reply::Broken(_));
            if remaining.is_zero() || broken {
                self.process.end().map_err(SuperviseError::Supervise)?;
                return Ok(SupervisionEnd::OutOfTime);
            }
            let limit = bounds.limits.memory_bytes;
            let limit = limit.filter(|_| self.process.needs_memory_checks());
            let patience = match limit {
                Some(_) => remaining.min(MEMORY_CHECK_INTERVAL),
                None => remaining,
            };
            let found = self.wait(patience, cancellation)?;
            if found.cancelled {
                return Err(SuperviseError::Cancelled);
            }
            if limit.is_some_and(|limit| self.process.resident_bytes() > Some(limit)) {
                self.process.end().map_err(SuperviseError::Supervise)?;
                return Ok(SupervisionEnd::OverMemory);
            }
            self.serve(&found).map_err(SuperviseError::Supervise)?;
            self.handle_reply(handler)?;
            if !answered && self.outcome.is_some() {
                answered = true;
                deadline = deadline.min(Instant::now() + EXIT_GRACE);
            }
            if found.ended {
                let status = self.process.end().map_err(SuperviseError::Supervise)?;
                self.drain_after_exit().map_err(SuperviseError::Supervise)?;
                self.handle_reply(handler)?;
                return Ok(SupervisionEnd::Exited(status));
            }
        }
    }

    /// Handles a reply if one is complete, and sends the next job.
    fn handle_reply(&mut self, handler: ReplyHandler<'_>) -> Result<(), SuperviseError> {
        let Reply::Complete(reply) = self.exchange.reply() else {
            return Ok(());
        };
        if self.outcome.is_some() {
            return Ok(());
        }
        match handler(reply, self.exchange.ticks())? {
            AfterReply::Finished(outcome) => {
                self.outcome = Some(outcome);
                // A child that waits for a further job reads the end of its input and ends at once.
                // This fails only for a child that has closed its own side.
                let _ = self.socket.shutdown(Shutdown::Write);
            }
            AfterReply::Send(job) => {
                let bytes = job.len();
                if !self.exchange.queue_job(&job) {
                    return Err(SuperviseError::TooLong { bytes });
                }
            }
        }
        Ok(())
    }

    fn wait(
        &self,
        patience: Duration,
        cancellation: &Cancellation,
    ) -> Result<Ready, SuperviseError> {
        let socket_events = if self.exchange.sending() {
            PollFlags::IN | PollFlags::OUT
        } else {
            PollFlags::IN
        };
        let cancelled = cancellation.as_fd();
        let mut sources = vec![
            (
                WaitSource::Ended,
                PollFd::new(&self.process.ended, PollFlags::IN),
            ),
            (
                WaitSource::Cancelled,
                PollFd::new(&cancelled, PollFlags::IN),
            ),
        ];
        if self.exchange.open() {
            let socket = PollFd::new(&self.socket, socket_events);
            sources.push((WaitSource::Socket, socket));
        }
        if let Some(stdout) = &self.stdout.source {
            sources.push((WaitSource::Stdout, PollFd::new(stdout, PollFlags::IN)));
        }
        if let Some(stderr) = &self.stderr.source {
            sources.push((WaitSource::Stderr, PollFd::new(stderr, PollFlags::IN)));
        }
        let (names, mut polled): (Vec<_>, Vec<_>) = sources.into_iter().unzip();
        let patience = Timespec::try_from(patience).unwrap_or(Timespec {
            tv_sec: i64::MAX,
            tv_nsec: 0,
        });
        match poll(&mut polled, Some(&patience)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(SuperviseError::Supervise(error.into())),
        }
        let is_ready = |wanted: WaitSource| {
            names
                .iter()
                .zip(&polled)
                .any(|(name, fd)| *name == wanted && !fd.revents().is_empty())
        };
        Ok(Ready {
            ended: is_ready(WaitSource::Ended),
            cancelled: is_ready(WaitSource::Cancelled),
            socket: is_ready(WaitSource::Socket),
            stdout: is_ready(WaitSource::Stdout),
            stderr: is_ready(WaitSource::Stderr),
        })
    }

    fn serve(&mut self, ready: &Ready) -> io::Result<()> {
        if ready.socket {
            self.exchange.advance(&self.socket)?;
        }
        if ready.stdout {
            self.stdout.drain()?;
        }
        if ready.stderr {
            self.stderr.drain()?;
        }
        Ok(())
    }

    /// Returns the outcome of the conversation, or the manner in which the child ended without one.
    fn take_outcome(&mut self, end: SupervisionEnd, bounds: Bounds) -> Result<(), Unanswered> {
        let limits = bounds.limits;
        let over_memory = || Exit::OverMemory {
            bytes: limits.memory_bytes.unwrap_or_default(),
        };
        let died = |signal: i32| match limits.cpu_seconds {
            Some(seconds) if signal == Signal::XCPU.as_raw() => Exit::OverCpu { seconds },
            _ if self.process.was_over_memory() => over_memory(),
            _ => Exit::Died { signal },
        };
        let outcome = self.outcome.take();
        let reply = match (self.exchange.reply(), outcome, end) {
            (_, _, SupervisionEnd::OverMemory) => Err(over_memory()),
            (Reply::Broken(how), _, _) => Err(Exit::Garbled { how }),
            (_, Some(outcome), SupervisionEnd::Exited(status)) => match self.process.signal(status)
            {
                // The reply of a process that died after it is not trusted.
                Some(signal) => Err(died(signal)),
                None => outcome,
            },
            (_, Some(outcome), SupervisionEnd::OutOfTime) => outcome,
            (_, None, SupervisionEnd::OutOfTime) => Err(Exit::TimedOut),
            (unfinished, None, SupervisionEnd::Exited(status)) => {
                match (self.process.signal(status), status.code()) {
                    (Some(signal), _) => Err(died(signal)),
                    (None, Some(code)) if code == i32::from(FAULT_STATUS) => {
                        let line = self.stderr.capture.last_line();
                        let line =
                            line.unwrap_or_else(|| "start a role: it gave no reason".to_owned());
                        // The message is printed after "failed to".
                        let reason = line.strip_prefix("failed to ").unwrap_or(&line).to_owned();
                        return Err(SuperviseError::UnsupportedMachine { reason }.into());
                    }
                    (None, _) if unfinished == Reply::Partial => Err(Exit::Garbled {
                        how: "it is cut short".to_owned(),
                    }),
                    (None, code) => Err(Exit::Silent {
                        status: code.unwrap_or_default(),
                    }),
                }
            }
        };
        match reply {
            Err(exit) if !self.exchange.ready() => {
                let last_line = self.stderr.capture.last_line();
                let last_line = last_line
                    .map(|line| format!(": {line}"))
                    .unwrap_or_default();
                let late = exit == Exit::TimedOut;
                let how = match exit {
                    Exit::TimedOut => "was not ready in time".to_owned(),
                    exit => exit.to_string(),
                };
                let how = format!("{how}{last_line}");
                Err(SuperviseError::Unready { how, late }.into())
            }
            reply => reply.map_err(Unanswered::Child),
        }
    }

    /// Reads the rest of the child's socket and streams after its end.
    fn drain_after_exit(&mut self) -> io::Result<()> {
        self.exchange.advance(&self.socket)?;
        self.stdout.drain()?;
        self.stderr.drain()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitSource {
    Ended,
    Cancelled,
    Socket,
    Stdout,
    Stderr,
}

/// The descriptors that a wait found ready.
struct Ready {
    ended: bool,
    cancelled: bool,
    socket: bool,
    stdout: bool,
    stderr: bool,
}
