//! Rate limits of one model: concurrent calls, requests a minute and tokens a minute. Waiting calls
//! are served in the order of arrival.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// A model's limits.
#[derive(Debug)]
pub(super) struct Pace {
    slots: Semaphore,
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
}

impl Pace {
    pub(super) fn new(
        concurrency: u32,
        requests_per_minute: Option<u32>,
        tokens_per_minute: Option<u64>,
    ) -> Self {
        Self {
            slots: Semaphore::new(concurrency as usize),
            requests: requests_per_minute.map(|limit| Bucket::new(limit.into())),
            tokens: tokens_per_minute.map(Bucket::new),
        }
    }

    /// Waits for one of the concurrent calls' slots, which is held until the permit is dropped.
    pub(super) async fn slot(&self) -> SemaphorePermit<'_> {
        self.slots
            .acquire()
            .await
            .expect("the semaphore is never closed")
    }

    /// Waits until one more request of so many tokens may be sent.
    pub(super) async fn acquire(&self, tokens: u64) {
        if let Some(requests) = &self.requests {
            requests.take(1).await;
        }
        if let Some(bucket) = &self.tokens {
            bucket.take(tokens).await;
        }
    }

    /// Returns the reserved tokens that a request did not use.
    pub(super) fn return_unused(&self, reserved: u64, used: u64) {
        if let Some(bucket) = &self.tokens {
            bucket.give_back(reserved.saturating_sub(used));
        }
    }
}

/// A token bucket with a capacity of one minute, served in the order of arrival.
#[derive(Debug)]
struct Bucket {
    level: Mutex<BucketLevel>,
    /// Held by the request that waits for the bucket to fill; the others queue for it.
    turn: tokio::sync::Mutex<()>,
}

impl Bucket {
    fn new(per_minute: u64) -> Self {
        Self {
            level: Mutex::new(BucketLevel::full(per_minute, Instant::now())),
            turn: tokio::sync::Mutex::default(),
        }
    }

    async fn take(&self, amount: u64) {
        let _turn = self.turn.lock().await;
        while let Some(wait) = self.try_take(amount) {
            tokio::time::sleep(wait).await;
        }
    }

    fn try_take(&self, amount: u64) -> Option<Duration> {
        self.level().take(amount, Instant::now())
    }

    fn give_back(&self, amount: u64) {
        self.level().give_back(amount);
    }

    fn level(&self) -> MutexGuard<'_, BucketLevel> {
        self.level.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The level of a bucket at one time. It holds a minute's worth and fills at a constant rate.
#[derive(Debug)]
struct BucketLevel {
    per_minute: f64,
    amount: f64,
    at: Instant,
}

impl BucketLevel {
    fn full(per_minute: u64, at: Instant) -> Self {
        let per_minute = per_minute as f64;
        Self {
            per_minute,
            amount: per_minute,
            at,
        }
    }

    /// Takes `amount`, or returns the time until it is available. An amount above the capacity counts
    /// as a full bucket, because it would never be available.
    fn take(&mut self, amount: u64, now: Instant) -> Option<Duration> {
        let gained = (now - self.at).as_secs_f64() / 60.0 * self.per_minute;
        self.amount = (self.amount + gained).min(self.per_minute);
        self.at = now;
        let missing = (amount as f64).min(self.per_minute) - self.amount;
        // Rounding may leave a trace missing after exactly the right wait.
        if missing <= 1e-6 * self.per_minute {
            self.amount = (-missing).max(0.0);
            return None;
        }
        let wait = Duration::from_secs_f64(missing / self.per_minute * 60.0);
        Some(wait.max(Duration::from_millis(1)))
    }

    fn give_back(&mut self, amount: u64) {
        self.amount = (self.amount + amount as f64).min(self.per_minute);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    /// The times at which `count` takers of `amount` each are served, in milliseconds from the start.
    fn served(level: &mut BucketLevel, start: Instant, amount: u64, count: usize) -> Vec<u128> {
        let mut now = level.at;
        let mut times = Vec::new();
        for _ in 0..count {
            while let Some(wait) = level.take(amount, now) {
                now += wait;
            }
            times.push((now - start).as_millis());
        }
        times
    }

    #[test]
    fn a_minute_lets_its_number_through_and_the_next_ones_wait_their_share() {
        let start = Instant::now();
        let mut level = BucketLevel::full(6, start);
        let times = served(&mut level, start, 1, 9);
        assert_eq!(times, [0, 0, 0, 0, 0, 0, 10_000, 20_000, 30_000]);
    }

    #[test]
    fn what_was_not_used_is_given_back_and_never_more_than_fits() {
        let start = Instant::now();
        let mut level = BucketLevel::full(6_000, start);
        assert_eq!(served(&mut level, start, 6_000, 1), [0]);
        level.give_back(5_000);
        assert_eq!(served(&mut level, start, 5_000, 1), [0]);
        assert_eq!(served(&mut level, start, 1_000, 1), [10_000]);
        level.give_back(1_000_000);
        assert_eq!(served(&mut level, start, 6_000, 2), [10_000, 70_000]);
    }

    #[test]
    fn more_than_the_limit_waits_for_a_full_minute_and_then_goes() {
        let start = Instant::now();
        let mut level = BucketLevel::full(100, start);
        assert_eq!(served(&mut level, start, 1_000, 2), [0, 60_000]);
    }

    #[test]
    fn only_so_many_calls_are_under_way() {
        let pace = Pace::new(2, None, None);
        let first = pace.slot().now_or_never().expect("a free slot");
        let _second = pace.slot().now_or_never().expect("a free slot");
        assert!(pace.slot().now_or_never().is_none(), "a third call began");
        drop(first);
        assert!(pace.slot().now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_request_waits_for_both_limits() {
        let pace = Pace::new(1, Some(2), Some(100));
        assert!(pace.acquire(100).now_or_never().is_some());
        assert!(
            pace.acquire(1).now_or_never().is_none(),
            "no tokens are left"
        );
        pace.return_unused(100, 40);
        assert!(
            pace.acquire(1).now_or_never().is_none(),
            "no request is left"
        );
    }
}
