//! Cancellation of work in progress, so that a lost lease or a stopping worker need not wait for a
//! deadline.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

/// A flag that is set once and seen by every copy. It is a file descriptor, so that a supervisor
/// can wait for it and for its child at the same time.
#[derive(Debug, Clone)]
pub struct Cancellation {
    event: Arc<OwnedFd>,
}

impl Cancellation {
    /// A flag that is not set.
    ///
    /// # Errors
    /// The system's error if no descriptor is left.
    pub fn new() -> std::io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            event: Arc::new(event),
        })
    }

    /// Sets the flag.
    pub fn cancel(&self) {
        // The only possible failure is a full counter, which is above zero already.
        let _ = rustix::io::write(&*self.event, &1_u64.to_ne_bytes());
    }

    /// Returns true if the flag is set.
    pub fn is_cancelled(&self) -> bool {
        self.wait(Duration::ZERO)
    }

    /// Waits until the flag is set, at most for `most`; returns true if it is set.
    pub fn wait(&self, most: Duration) -> bool {
        let mut event = [PollFd::new(&*self.event, PollFlags::IN)];
        let most = rustix::event::Timespec {
            tv_sec: i64::try_from(most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: most.subsec_nanos().into(),
        };
        matches!(poll(&mut event, Some(&most)), Ok(1))
    }
}

/// Readable from the moment the flag is set.
impl AsFd for Cancellation {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
