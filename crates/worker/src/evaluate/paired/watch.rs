//! The watch on the device's clocks and temperature while a process times on it. A fault here costs
//! facts and nothing else: a library that hangs is abandoned, and the rounds are judged without
//! these facts.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use domain::role::{DeviceSample, NextWatch, WatchJob, WatchReply};
use rustix::time::{ClockId, clock_gettime};

use crate::evaluate::roles::Roles;
use crate::host::Role;
use crate::supervise;

/// The interval between two samples. A management library answers in about a millisecond.
const EVERY: Duration = Duration::from_millis(20);
/// The samples after which the watcher replies unasked, a little over a minute; no timing takes
/// longer.
const MAX_SAMPLES: u32 = 4000;
/// Wall time in which the watcher starts or replies.
const PATIENCE: Duration = Duration::from_secs(5);
/// The watcher's longest lifetime.
const DEADLINE: Duration = Duration::from_secs(100);

/// A running watch. It ends when this value is dropped.
pub struct DeviceWatch {
    /// The common prefix of the files whose creation makes the watcher reply.
    name: PathBuf,
    /// The number of replies requested so far.
    replies_requested: u32,
    replies: Receiver<WatchReply>,
    further: Sender<PathBuf>,
    /// True while the watcher takes samples.
    watching: bool,
    /// True if the watcher gave up or stopped answering.
    lost: bool,
    device_samples: Vec<DeviceSample>,
    began: Instant,
    began_ns: u64,
}

impl DeviceWatch {
    /// Starts to watch; `name` distinguishes its files.
    pub fn begin(roles: &Roles<'_>, name: &str) -> Self {
        let (began, began_ns) = (Instant::now(), now());
        // Unique, because an evaluation compares more than once, and a file of an earlier watch
        // would stop this one.
        let name = roles.scratch.join(format!("{name}-{began_ns}"));
        let program = roles.host.program(Role::Watch, roles.scratch);
        let bounds = roles.host.bounds(Role::Watch, DEADLINE);
        let cancellation = roles.cancellation.clone();
        let job = WatchJob {
            uuid: roles.host.device().uuid.clone(),
            interval_ms: u32::try_from(EVERY.as_millis()).expect("a few milliseconds"),
            max_samples: MAX_SAMPLES,
            stop: stop_file(&name, 0),
        };
        let (tell, replies) = channel();
        let (further, wanted) = channel();
        // Not joined, because a process stuck in the kernel cannot be waited for.
        thread::spawn(move || {
            let mut over = false;
            let ended = supervise::converse(&program, &job, bounds, &cancellation, |reply, _| {
                let unavailable = matches!(reply, WatchReply::Unavailable { .. });
                if over || tell.send(reply).is_err() || unavailable {
                    return None;
                }
                let stop = wanted.recv().ok();
                over = stop.is_none();
                Some(NextWatch { stop })
            });
            if let Err(fault) = ended {
                tracing::debug!("failed to {fault}");
            }
        });
        Self {
            name,
            replies_requested: 0,
            replies,
            further,
            watching: true,
            lost: false,
            device_samples: Vec::new(),
            began,
            began_ns,
        }
    }

    /// Collects the samples since the last call, after which the watcher waits. There are none if
    /// the device cannot be watched or the watcher does not answer.
    pub fn collect_samples(&mut self) {
        if self.lost || !self.watching {
            return;
        }
        self.watching = false;
        let told = std::fs::write(stop_file(&self.name, self.replies_requested), "").is_ok();
        self.replies_requested += 1;
        let reply = told
            .then(|| self.replies.recv_timeout(PATIENCE).ok())
            .flatten();
        match reply {
            Some(WatchReply::Samples { device_samples }) => {
                self.device_samples.extend(device_samples);
            }
            Some(WatchReply::Unavailable { reason }) => {
                tracing::debug!("the device is not watched while timing: {reason}");
                self.lost = true;
            }
            None => {
                tracing::warn!(
                    "the device was not watched while timing: the watcher gave no answer"
                );
                self.lost = true;
            }
        }
    }

    /// Resumes a watcher that waits.
    pub fn resume(&mut self) {
        if !self.lost && !self.watching {
            self.watching = self
                .further
                .send(stop_file(&self.name, self.replies_requested))
                .is_ok();
            self.lost = !self.watching;
        }
    }

    /// The samples collected so far, in order.
    pub fn device_samples(&self) -> &[DeviceSample] {
        &self.device_samples
    }

    /// A moment of this process on the clock of the samples.
    pub fn nanoseconds(&self, moment: Instant) -> u64 {
        let since = moment.saturating_duration_since(self.began).as_nanos();
        self.began_ns + u64::try_from(since).unwrap_or(u64::MAX / 2)
    }
}

impl Drop for DeviceWatch {
    fn drop(&mut self) {
        if self.watching {
            // A watcher that misses the file replies unasked within its lifetime.
            let _ = std::fs::write(stop_file(&self.name, self.replies_requested), "");
        }
    }
}

/// The file that requests the reply of this number.
fn stop_file(name: &std::path::Path, look: u32) -> PathBuf {
    name.with_extension(format!("stop-{look}"))
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or_default();
    seconds * 1_000_000_000 + nanoseconds
}
