//! Calls off work in progress: a lost lease or a stopping worker must not wait for a deadline.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

/// A switch that is thrown once and seen by everyone who holds a copy. It is a descriptor, so that
/// a supervisor can wait for it and for its child at the same time.
#[derive(Debug, Clone)]
pub struct Cancellation {
    event: Arc<OwnedFd>,
}

impl Cancellation {
    /// A switch that has not been thrown.
    ///
    /// # Errors
    /// The system's, when no descriptor is left.
    pub fn new() -> std::io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            event: Arc::new(event),
        })
    }

    /// Throws the switch.
    pub fn cancel(&self) {
        // The only failure is a full counter, which then is already above zero.
        let _ = rustix::io::write(&*self.event, &1_u64.to_ne_bytes());
    }

    /// Whether the switch was thrown.
    pub fn is_cancelled(&self) -> bool {
        self.wait(Duration::ZERO)
    }

    /// Waits for so long, or until the switch is thrown; true if it was.
    pub fn wait(&self, most: Duration) -> bool {
        let mut event = [PollFd::new(&*self.event, PollFlags::IN)];
        let most = rustix::event::Timespec {
            tv_sec: i64::try_from(most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: most.subsec_nanos().into(),
        };
        matches!(poll(&mut event, Some(&most)), Ok(1))
    }
}

/// Readable from the moment the switch is thrown, for ever.
impl AsFd for Cancellation {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
