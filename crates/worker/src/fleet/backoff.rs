//! Waits between repetitions: doubled each time up to a limit, and randomised, so that the workers
//! of a fleet do not all repeat at once.

use std::time::Duration;

use crate::random;

/// The next waits of one request.
#[derive(Debug)]
pub struct Backoff {
    delay: Duration,
    longest: Duration,
}

impl Backoff {
    /// Waits that begin with about `first` and never exceed `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self {
            delay: first.min(longest),
            longest,
        }
    }

    /// The next wait: a random time between half the current delay and all of it.
    pub fn next(&mut self) -> Duration {
        let delay = self.delay;
        self.delay = (delay * 2).min(self.longest);
        let share = f64::from(u16::from_le_bytes(random::bytes())) / f64::from(u16::MAX);
        delay.mul_f64(0.5 + 0.5 * share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_times_grow_to_the_limit_and_scatter_below_it() {
        let (first, longest) = (Duration::from_millis(250), Duration::from_secs(15));
        let mut backoff = Backoff::new(first, longest);
        let delays = (0..20).map(|_| backoff.next()).collect::<Vec<_>>();
        for (turn, delay) in delays.iter().enumerate() {
            let whole = (first * (1 << turn.min(16))).min(longest);
            assert!(*delay >= whole / 2 && *delay <= whole, "{turn}: {delay:?}");
        }
        assert!(delays[10..].windows(2).any(|pair| pair[0] != pair[1]));
    }
}
