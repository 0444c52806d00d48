//! Watches the device while a process times on it. Whatever goes wrong here costs facts and
//! nothing else: a library that hangs is left behind, and rounds are judged without it.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use domain::role::{DeviceSample, MoreWatching, WatchJob, WatchReply};
use rustix::time::{ClockId, clock_gettime};

use crate::evaluate::roles::Roles;
use crate::host::Role;
use crate::supervise;

/// Between two glimpses: a management library answers in about a millisecond.
const EVERY: Duration = Duration::from_millis(20);
/// Glimpses before it replies by itself, a little over a minute: no timing takes longer.
const MOST: u32 = 4000;
/// How long the watcher may take to start and to reply.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long it may live.
const DEADLINE: Duration = Duration::from_secs(100);

/// A watch that has begun. It ends with this value.
pub struct Watch {
    /// The beginning of the names of the files that have it reply.
    name: PathBuf,
    /// How often it was told to reply.
    looks: u32,
    replies: Receiver<WatchReply>,
    further: Sender<PathBuf>,
    /// Whether it watches at this moment.
    watching: bool,
    /// Whether it has given up, or was.
    lost: bool,
    glimpses: Vec<DeviceSample>,
    began: Instant,
    began_ns: u64,
}

impl Watch {
    /// Begins to watch; `name` says what.
    pub fn begin(roles: &Roles<'_>, name: &str) -> Self {
        let (began, began_ns) = (Instant::now(), now());
        // An evaluation compares more than once, and a file of the last time would end this one.
        let name = roles.scratch.join(format!("{name}-{began_ns}"));
        let program = roles.host.program(Role::Watch, roles.scratch);
        let bounds = roles.host.bounds(Role::Watch, DEADLINE);
        let cancellation = roles.cancellation.clone();
        let job = WatchJob {
            uuid: roles.host.device().uuid.clone(),
            every_ms: u32::try_from(EVERY.as_millis()).expect("a few milliseconds"),
            most: MOST,
            stop: stop(&name, 0),
        };
        let (tell, replies) = channel();
        let (further, wanted) = channel();
        // Not joined: a process stuck in the kernel cannot be waited for.
        thread::spawn(move || {
            let mut over = false;
            let ended = supervise::converse(&program, &job, bounds, &cancellation, |reply, _| {
                let blind = matches!(reply, WatchReply::Blind { .. });
                if over || tell.send(reply).is_err() || blind {
                    return None;
                }
                let stop = wanted.recv().ok();
                over = stop.is_none();
                Some(MoreWatching { stop })
            });
            if let Err(fault) = ended {
                tracing::debug!("failed to {fault}");
            }
        });
        Self {
            name,
            looks: 0,
            replies,
            further,
            watching: true,
            lost: false,
            glimpses: Vec::new(),
            began,
            began_ns,
        }
    }

    /// Has it tell what it has seen until now; after that it waits. Nothing is seen where the device
    /// cannot be watched, or the watcher is stuck.
    pub fn look(&mut self) {
        if self.lost || !self.watching {
            return;
        }
        self.watching = false;
        let told = std::fs::write(stop(&self.name, self.looks), "").is_ok();
        self.looks += 1;
        let reply = told
            .then(|| self.replies.recv_timeout(PATIENCE).ok())
            .flatten();
        match reply {
            Some(WatchReply::Seen { glimpses }) => self.glimpses.extend(glimpses),
            Some(WatchReply::Blind { reason }) => {
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

    /// Has it watch again, where it waits.
    pub fn go_on(&mut self) {
        if !self.lost && !self.watching {
            self.watching = self.further.send(stop(&self.name, self.looks)).is_ok();
            self.lost = !self.watching;
        }
    }

    /// The glimpses that it told of, in order.
    pub fn glimpses(&self) -> &[DeviceSample] {
        &self.glimpses
    }

    /// One of our moments by the clock of the glimpses.
    pub fn nanoseconds(&self, moment: Instant) -> u64 {
        let since = moment.saturating_duration_since(self.began).as_nanos();
        self.began_ns + u64::try_from(since).unwrap_or(u64::MAX / 2)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.watching {
            // A watcher that does not hear of it replies by itself before long.
            let _ = std::fs::write(stop(&self.name, self.looks), "");
        }
    }
}

/// The file that has a watch reply for the time of this number.
fn stop(name: &std::path::Path, look: u32) -> PathBuf {
    name.with_extension(format!("stop-{look}"))
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or_default();
    seconds * 1_000_000_000 + nanoseconds
}
