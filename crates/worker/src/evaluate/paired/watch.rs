//! Watches the device while a process times on it. Whatever goes wrong here costs facts and
//! nothing else: a library that hangs is left behind, and rounds are judged without it.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use domain::role::{Glimpse, WatchJob, WatchReply};
use rustix::time::{ClockId, clock_gettime};

use crate::evaluate::roles::Roles;
use crate::host::Role;
use crate::supervise;

/// Between two glimpses: a management library answers in about a millisecond.
const EVERY: Duration = Duration::from_millis(20);
/// Watches of one process, a little over a minute: no timing takes longer.
const MOST: u32 = 4000;
/// How long the watcher may take to start and to end.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long it may live.
const DEADLINE: Duration = Duration::from_secs(100);

/// A watch that has begun.
pub struct Watch {
    stop: PathBuf,
    reply: Receiver<Option<WatchReply>>,
    began: Instant,
    began_ns: u64,
}

/// What was seen, with the means to place our own moments among it.
pub struct Seen {
    glimpses: Vec<Glimpse>,
    began: Instant,
    began_ns: u64,
}

impl Watch {
    /// Begins to watch; `name` is this watch's own in the scratch folder.
    pub fn begin(roles: &Roles<'_>, name: &str) -> Self {
        let stop = roles.scratch.join(format!("{name}.stop"));
        let program = roles.host.program(Role::Watch, roles.scratch);
        let bounds = roles.host.bounds(Role::Watch, DEADLINE);
        let cancellation = roles.cancellation.clone();
        let job = WatchJob {
            uuid: roles.host.device().uuid.clone(),
            every_ms: u32::try_from(EVERY.as_millis()).expect("a few milliseconds"),
            most: MOST,
            stop: stop.clone(),
        };
        let (tell, reply) = channel();
        // Not joined: a process stuck in the kernel cannot be waited for.
        thread::spawn(move || {
            let asked = supervise::ask::<_, WatchReply>(&program, &job, bounds, &cancellation);
            // Nobody listens any more to a watcher that was given up.
            let _ = tell.send(asked.ok().and_then(|answer| answer.reply.ok()));
        });
        Self {
            stop,
            reply,
            began: Instant::now(),
            began_ns: now(),
        }
    }

    /// Ends it. Nothing was seen where the device cannot be watched, or the watcher is stuck.
    pub fn end(self) -> Seen {
        let told = std::fs::write(&self.stop, "").is_ok();
        let reply = told
            .then(|| self.reply.recv_timeout(PATIENCE).ok().flatten())
            .flatten();
        let glimpses = match reply {
            Some(WatchReply::Seen { glimpses }) => glimpses,
            Some(WatchReply::Blind { reason }) => {
                tracing::debug!("the device is not watched while timing: {reason}");
                Vec::new()
            }
            None => {
                tracing::warn!(
                    "the device was not watched while timing: the watcher gave no answer"
                );
                Vec::new()
            }
        };
        Seen {
            glimpses,
            began: self.began,
            began_ns: self.began_ns,
        }
    }
}

impl Seen {
    /// The glimpses, in order.
    pub fn glimpses(&self) -> &[Glimpse] {
        &self.glimpses
    }

    /// One of our moments by the clock of the glimpses.
    pub fn nanoseconds(&self, moment: Instant) -> u64 {
        let since = moment.saturating_duration_since(self.began).as_nanos();
        self.began_ns + u64::try_from(since).unwrap_or(u64::MAX / 2)
    }
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or_default();
    seconds * 1_000_000_000 + nanoseconds
}
