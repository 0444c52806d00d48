//! The source of time, which tests replace.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use chrono::{DateTime, TimeDelta, Utc};

/// A source of time.
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> DateTime<Utc>;

    /// The time of day that programs elsewhere compare with their own clocks.
    fn time_of_day(&self) -> DateTime<Utc> {
        self.now()
    }

    /// Tells the clock the time of a reference: of the database that services share, or of the system if none.
    fn follow(&self, _reference: Option<DateTime<Utc>>) {}
}

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is where the program's time comes from"
    )]
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }
}

/// A difference to the reference that is a step of that clock. It is not followed.
const STEP: TimeDelta = TimeDelta::minutes(1);
/// One part in this many of the time that passes corrects a smaller difference.
const CORRECTION: i32 = 20;

/// A service's clock. It begins with a time of day and counts on by the system's monotonic clock, so that a clock that
/// somebody sets charges no run and ends no lease. Small differences to a reference go away over minutes, so that the
/// services of a database agree. It never goes back.
#[derive(Debug)]
pub struct SteadyClock(Mutex<Anchor>);

/// A moment by both clocks.
#[derive(Debug, Clone, Copy)]
struct Anchor {
    time: DateTime<Utc>,
    at: Instant,
    /// The reference was set while the clock ran, which has been reported.
    is_apart: bool,
}

impl SteadyClock {
    /// A clock that shows `start` now.
    pub fn new(start: DateTime<Utc>) -> Self {
        Self(Mutex::new(Anchor {
            time: start,
            at: Instant::now(),
            is_apart: false,
        }))
    }

    fn anchor(&self) -> MutexGuard<'_, Anchor> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> DateTime<Utc> {
        self.anchor().time_at(Instant::now())
    }

    fn time_of_day(&self) -> DateTime<Utc> {
        SystemClock.now()
    }

    fn follow(&self, reference: Option<DateTime<Utc>>) {
        let reference = reference.unwrap_or_else(|| SystemClock.now());
        let mut anchor = self.anchor();
        let was_apart = anchor.is_apart;
        anchor.follow(Instant::now(), reference);
        if anchor.is_apart && !was_apart {
            tracing::warn!(
                "the reference clock was set and shows {reference}: this service counts on from {}; restart all \
                 services of the database to take its time",
                anchor.time
            );
        }
    }
}

impl Anchor {
    fn time_at(&self, at: Instant) -> DateTime<Utc> {
        let passed = TimeDelta::from_std(at.duration_since(self.at));
        self.time + passed.unwrap_or(TimeDelta::zero())
    }

    /// Moves the anchor to `at`, nearer to the reference by a small part of the time since the last call.
    fn follow(&mut self, at: Instant, reference: DateTime<Utc>) {
        let time = self.time_at(at);
        let most = (time - self.time) / CORRECTION;
        let difference = reference - time;
        self.is_apart = difference.abs() > STEP;
        self.at = at;
        self.time = if self.is_apart {
            time
        } else {
            time + difference.clamp(-most, most)
        };
    }
}

/// A clock for tests, which moves only when it is advanced.
#[derive(Debug)]
pub struct ManualClock(Mutex<DateTime<Utc>>);

impl ManualClock {
    /// A clock that shows `start`.
    pub fn new(start: DateTime<Utc>) -> Self {
        Self(Mutex::new(start))
    }

    /// Advances the clock.
    pub fn advance(&self, by: TimeDelta) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> DateTime<Utc> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Follows a reference that is `ahead` of the clock for some seconds, and returns how far the clock is then from the
    /// time that it would show by itself.
    fn followed(ahead: TimeDelta, seconds: u64) -> TimeDelta {
        let start = DateTime::UNIX_EPOCH;
        let at = Instant::now();
        let mut anchor = Anchor {
            time: start,
            at,
            is_apart: false,
        };
        let mut last = start;
        for second in 1..=seconds {
            let passed = TimeDelta::from_std(Duration::from_secs(second)).expect("short");
            anchor.follow(at + Duration::from_secs(second), start + passed + ahead);
            assert!(anchor.time > last, "the clock went back");
            last = anchor.time;
        }
        let passed = TimeDelta::from_std(Duration::from_secs(seconds)).expect("short");
        last - (start + passed)
    }

    #[test]
    fn a_clock_that_is_set_by_an_hour_is_not_followed() {
        for hours in [1, -1] {
            assert_eq!(followed(TimeDelta::hours(hours), 600), TimeDelta::zero());
        }
    }

    #[test]
    fn a_small_difference_goes_away_slowly() {
        for seconds in [30, -30] {
            let ahead = TimeDelta::seconds(seconds);
            assert_eq!(followed(ahead, 60), ahead / 10);
            assert_eq!(followed(ahead, 900), ahead);
        }
    }
}
