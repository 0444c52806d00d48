//! Pauses before a call is tried again: exponential with full jitter, so that calls that failed
//! together are not repeated together, unless the server names a time.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

use super::config::Backoff;

/// The pauses of one model's calls.
#[derive(Debug)]
pub(super) struct Pauses {
    backoff: Backoff,
    jitter: Mutex<ChaCha8Rng>,
}

impl Pauses {
    pub(super) fn new(backoff: Backoff, seed: u64) -> Self {
        Self {
            backoff,
            jitter: Mutex::new(ChaCha8Rng::seed_from_u64(seed)),
        }
    }

    /// The pause after so many failures; none if the server asks for a longer one than configured.
    pub(super) fn after(&self, failures: u32, wanted: Option<Duration>) -> Option<Duration> {
        if wanted.is_some_and(|wanted| wanted > self.backoff.longest) {
            return None;
        }
        let doubled = self
            .backoff
            .base
            .saturating_mul(1 << failures.saturating_sub(1).min(20));
        let share: f64 = {
            let mut jitter = self.jitter.lock().unwrap_or_else(PoisonError::into_inner);
            jitter.random()
        };
        let ours = doubled.min(self.backoff.longest).mul_f64(share);
        Some(match wanted {
            // Not before the time it names, and not all in the same instant.
            Some(wanted) => wanted + ours.min(self.backoff.base),
            None => ours,
        })
    }
}

/// The pause that a server asks for. A date is compared with the server's own `Date`, so that no
/// clock needs to be right.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let seconds = |number: f64| Duration::try_from_secs_f64(number).ok();
    if let Some(exact) = text("retry-after-ms").and_then(|ms| ms.parse::<f64>().ok()) {
        return seconds(exact / 1000.0);
    }
    let wanted = text(RETRY_AFTER.as_str())?;
    if let Ok(number) = wanted.parse::<f64>() {
        return seconds(number);
    }
    let then = httpdate::parse_http_date(wanted).ok()?;
    let now = httpdate::parse_http_date(text(DATE.as_str())?).ok()?;
    Some(then.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    const BACKOFF: Backoff = Backoff {
        base: Duration::from_secs(1),
        longest: Duration::from_secs(20),
    };

    #[test]
    fn pauses_grow_spread_and_stay_bounded() {
        let pauses = Pauses::new(BACKOFF, 7);
        for (failures, limit) in [(1, 1), (2, 2), (3, 4), (5, 16), (6, 20), (60, 20)] {
            let some: Vec<_> = (0..200)
                .map(|_| pauses.after(failures, None).unwrap())
                .collect();
            let limit = Duration::from_secs(limit);
            assert!(some.iter().all(|pause| *pause <= limit), "{failures}");
            assert!(some.iter().any(|pause| *pause > limit.mul_f64(0.9)));
            assert!(some.iter().any(|pause| *pause < limit.mul_f64(0.1)));
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_pauses() {
        let draw = |seed| {
            let pauses = Pauses::new(BACKOFF, seed);
            [1, 2, 3].map(|failures| pauses.after(failures, None))
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn what_the_server_wants_is_a_lower_limit_and_too_much_ends_the_call() {
        let pauses = Pauses::new(BACKOFF, 7);
        let wanted = Duration::from_secs(20);
        for _ in 0..100 {
            let pause = pauses.after(4, Some(wanted)).unwrap();
            assert!(pause >= wanted && pause <= wanted + BACKOFF.base);
        }
        assert_eq!(pauses.after(1, Some(wanted + Duration::from_secs(1))), None);
    }

    #[test]
    fn seconds_milliseconds_and_dates_are_read() {
        let date = "Sat, 21 Nov 2026 10:00:00 GMT";
        let at = "Sat, 21 Nov 2026 10:01:00 GMT";
        let cases = [
            (vec![("retry-after", "3")], Some(3_000)),
            (vec![("retry-after", " 0.5 ")], Some(500)),
            (
                vec![("retry-after", "3"), ("retry-after-ms", "250")],
                Some(250),
            ),
            (vec![("retry-after", at), ("date", date)], Some(60_000)),
            (vec![("retry-after", date), ("date", at)], Some(0)),
            (vec![("retry-after", at)], None),
            (vec![("retry-after", "soon")], None),
            (vec![("retry-after", "-1")], None),
        ];
        for (headers, expected) in cases {
            let named = |(name, value): &(&'static str, &'static str)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            };
            let map: HeaderMap = headers.iter().map(named).collect();
            let expected = expected.map(Duration::from_millis);
            assert_eq!(retry_after(&map), expected, "{headers:?}");
        }
    }
}
