//! Influences on measured times: caches, noise, the time since the device began to work, and the
//! choice of the clock.

use domain::role::experiment::Measure;
use domain::statistics::{deviation, interval, median};

use super::{
    QuestionError, QuestionMeasurements, QuestionResult, QuestionRunner, first, middle, series,
};

/// The share of its final time within which a kernel counts as warm.
const WARM: f64 = 0.01;
/// Times over which the warm-up is smoothed.
const SMOOTHED: usize = 9;

impl QuestionRunner<'_> {
    pub(super) fn cache_survival(&self) -> QuestionResult {
        if self.is_emulated() {
            return Err(QuestionError::NotRun(
                "the emulated device keeps nothing in its caches from launch to launch".to_owned(),
            ));
        }
        let reply = self.reply(Measure::CacheSurvival)?;
        let l2 = first(&reply, "l2_bytes").unwrap_or(0.0);
        let mut measured = vec![format!("second level cache {:.1} MiB", l2 / 1_048_576.0)];
        let (mut n, mut enough) = (0, Vec::new());
        for kind in ["plain", "kept"] {
            let curve: Vec<(f64, f64)> = reply
                .series
                .iter()
                .filter_map(|(name, cycles)| {
                    let times = name.strip_prefix(&format!("cycles_{kind}_"))?;
                    n += cycles.len();
                    Some((times.parse().ok()?, median(cycles)?))
                })
                .collect();
            let words: Vec<String> = curve
                .iter()
                .map(|(times, cycles)| format!("{times}x: {cycles:.0}"))
                .collect();
            measured.push(format!(
                "cycles per line after writing so many times its size, {kind}: {}",
                words.join(", ")
            ));
            enough.push(flushed_at(&curve));
        }
        let words = |times: Option<f64>| match times {
            Some(times) => format!("{times} times its size"),
            None => "more than was tried".to_owned(),
        };
        let protocol = match enough.as_slice() {
            [Some(plain), Some(kept)] if *plain <= 2.0 && *kept <= 2.0 => {
                "the protocol's flush of twice the cache is enough"
            }
            _ => {
                "the protocol's flush of twice the cache is not enough: rotate inputs over more than the cache"
            }
        };
        Ok(QuestionMeasurements {
            measured,
            n,
            conclusion: format!(
                "an ordinary buffer is gone after {}, one that asked to be kept after {}; {protocol}",
                words(enough[0]),
                words(enough[1])
            ),
        })
    }

    pub(super) fn noise(&self) -> QuestionResult {
        let reply = self.reply(Measure::Noise)?;
        let times = series(&reply, "event_us")?;
        // Blocks of A B B A, so that a drift that is linear over a block cancels.
        let effects: Vec<f64> = times
            .chunks_exact(4)
            .map(|t| 0.5 * ((t[0] * t[3]) / (t[1] * t[2])).ln())
            .collect();
        let spread = deviation(times).unwrap_or(0.0) / middle(times);
        let half = interval(std::slice::from_ref(&effects), 0.01).half_width();
        let half = if half.is_finite() {
            format!("{:.3}%", 100.0 * half)
        } else {
            "unknown: too few blocks".to_owned()
        };
        let margin = "\"faster\" must exceed the larger of 0.5% and three times that";
        Ok(QuestionMeasurements {
            measured: vec![
                format!(
                    "one kernel: median {:.2} us, deviation {:.2}%",
                    middle(times),
                    100.0 * spread
                ),
                format!(
                    "effect of a kernel against itself: {:.3}%, half width of its bounds {half}",
                    100.0 * median(&effects).unwrap_or(f64::NAN)
                ),
            ],
            n: effects.len(),
            conclusion: self.labelled(format!(
                "the noise floor of {} blocks is {half}; {margin}",
                effects.len()
            )),
        })
    }

    pub(super) fn spin_up(&self) -> QuestionResult {
        let reply = self.reply(Measure::SpinUp)?;
        let (times, since) = (series(&reply, "event_us")?, series(&reply, "since_ms")?);
        let warm = warm_from(times);
        let (first_us, last_us) = (times[0], middle(&times[times.len() * 4 / 5..]));
        let conclusion = match warm.and_then(|at| since.get(at)) {
            Some(ms) => format!(
                "times settle {ms:.0} ms after an idle device starts to work; the warm-up of 200 ms to 2 s {}",
                if *ms <= 2000.0 {
                    "covers that"
                } else {
                    "is too short"
                }
            ),
            None => "times did not settle while they were followed: warm up longer".to_owned(),
        };
        Ok(QuestionMeasurements {
            measured: vec![format!(
                "first {first_us:.2} us, at the end {last_us:.2} us, ratio {:.3}",
                first_us / last_us
            )],
            n: times.len(),
            conclusion: self.labelled(conclusion),
        })
    }

    pub(super) fn clocks(&self) -> QuestionResult {
        if self.is_emulated() {
            return Err(QuestionError::NotRun(
                "the emulated device has no time of its own".to_owned(),
            ));
        }
        let reply = self.reply(Measure::Clocks)?;
        let mut measured = Vec::new();
        let (mut n, mut apart, mut overhead) = (0, 0.0_f64, 0.0_f64);
        for span in ["1", "10", "100"] {
            let of = |name: &str| series(&reply, &format!("{name}_{span}"));
            let (event, wall, timer) = (of("event_us")?, of("wall_us")?, of("timer_us")?);
            let cycles = of("cycles")?;
            let difference: Vec<f64> = event.iter().zip(timer).map(|(e, t)| e / t - 1.0).collect();
            let extra: Vec<f64> = wall.iter().zip(event).map(|(w, e)| w - e).collect();
            let mhz: Vec<f64> = cycles.iter().zip(timer).map(|(c, t)| c / t).collect();
            n += event.len();
            apart = apart.max(middle(&difference).abs());
            overhead = overhead.max(middle(&extra));
            measured.push(format!(
                "{span} ms: events {:+.3}% of the device's timer, the host {:.1} us more than events, {:.0} MHz",
                100.0 * middle(&difference),
                middle(&extra),
                middle(&mhz)
            ));
        }
        Ok(QuestionMeasurements {
            measured,
            n,
            conclusion: format!(
                "events and the device's timer differ by {:.3}% at most, and the host's clock may exceed events by {overhead:.0} us of overhead",
                100.0 * apart
            ),
        })
    }
}

/// The smallest flush after which lines come as slowly as after the largest.
fn flushed_at(curve: &[(f64, f64)]) -> Option<f64> {
    let mut sorted = curve.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (warm, cold) = (sorted.first()?.1, sorted.last()?.1);
    // A cache that makes no difference was not measured.
    if cold < 1.2 * warm {
        return None;
    }
    let gone = warm + 0.9 * (cold - warm);
    let at = sorted.iter().position(|(_, cycles)| *cycles >= gone)?;
    Some(sorted[at].0)
}

/// The place from which on smoothed times stay near the last ones.
fn warm_from(times: &[f64]) -> Option<usize> {
    let last = median(&times[times.len() * 4 / 5..])?;
    let smooth: Vec<f64> = times
        .windows(SMOOTHED.min(times.len()))
        .filter_map(median)
        .collect();
    let cold = smooth
        .iter()
        .rposition(|time| (time / last - 1.0).abs() > WARM);
    match cold {
        None => Some(0),
        Some(at) if at + 1 < smooth.len() => Some(at + 1),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warmth_begins_where_times_stay_near_the_last() {
        let mut times = vec![20.0; 30];
        times.extend(vec![10.0; 300]);
        let warm = warm_from(&times).unwrap();
        assert!((20..=31).contains(&warm), "{warm}");
        assert_eq!(warm_from(&[5.0; 50]), Some(0));
        let falling: Vec<f64> = (0..100).map(|i| 200.0 - f64::from(i)).collect();
        assert_eq!(warm_from(&falling), None);
    }

    #[test]
    fn a_cache_is_flushed_where_lines_come_as_slowly_as_ever() {
        let curve = [(4.0, 600.0), (0.0, 250.0), (1.0, 320.0), (2.0, 590.0)];
        assert_eq!(flushed_at(&curve), Some(2.0));
        assert_eq!(flushed_at(&[(0.0, 600.0), (4.0, 610.0)]), None);
    }
}
