//! The check of two clocks against each other: the device's events, which the process that ran the
//! candidate reports, and the supervisor's own, which it cannot touch.

use super::plan::TimedKernel;
use super::summary::{deviation, median};

/// The supervisor's clock may lag behind the events by this much: they are read to half a
/// microsecond.
const RESOLUTION_US: f64 = 2.0;
/// A gain by events that the supervisor does not see is a contradiction beyond this share of the
/// incumbent's time.
const UNSEEN_SHARE: f64 = 0.05;
/// A gain that the supervisor does not see must also exceed this many standard errors of the
/// supervisor's own times.
const ERRORS: f64 = 4.0;

/// One sample by both clocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockReading {
    /// The kernel that was timed.
    pub contender: TimedKernel,
    /// The time by events, microseconds.
    pub event_us: f64,
    /// The time by the supervisor, from before the first launch to after the last, microseconds.
    pub wall_us: f64,
}

/// The origin of the events' times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventTimes {
    /// Both clocks run on the same work.
    Measured,
    /// The events are modelled: they may be far shorter than the emulation takes, never longer.
    Modelled,
}

/// The contradiction between the clocks on executions of one case; none if there is none.
///
/// No execution may take a negative time, or longer by events than by the supervisor's clock, at any
/// noise. A gain of the candidate by events must also be visible to the supervisor, within the noise
/// of its clock, because its wake-up time is the same for incumbent and candidate.
pub fn find_clock_contradiction(readings: &[ClockReading], clocks: EventTimes) -> Option<String> {
    for reading in readings {
        if !reading.event_us.is_finite() || reading.event_us < 0.0 {
            return Some(format!(
                "an execution took {} us by events, which is no time",
                reading.event_us
            ));
        }
        let fits = reading.event_us <= reading.wall_us + RESOLUTION_US;
        if !fits {
            return Some(format!(
                "an execution took {:.1} us by events and {:.1} us by the supervisor's clock",
                reading.event_us, reading.wall_us
            ));
        }
    }
    if clocks == EventTimes::Modelled {
        return None;
    }
    let times = |contender: TimedKernel, of: fn(&ClockReading) -> f64| {
        readings
            .iter()
            .filter(|reading| reading.contender == contender)
            .map(of)
            .collect::<Vec<_>>()
    };
    let sides = [TimedKernel::Incumbent, TimedKernel::Candidate];
    let events = sides.map(|side| times(side, |reading| reading.event_us));
    let walls = sides.map(|side| times(side, |reading| reading.wall_us));
    let gain = |times: &[Vec<f64>; 2]| Some(median(&times[0])? - median(&times[1])?);
    let (by_events, by_wall) = (gain(&events)?, gain(&walls)?);
    let variance: f64 = walls
        .iter()
        .map(|times| {
            #[expect(clippy::cast_precision_loss, reason = "a few hundred executions")]
            let count = times.len() as f64;
            // The median's error, of normal values.
            1.571 * deviation(times).unwrap_or(f64::INFINITY).powi(2) / count
        })
        .sum();
    let allowed = (ERRORS * variance.sqrt()).max(UNSEEN_SHARE * median(&events[0])?);
    let agrees = by_events - by_wall <= allowed + RESOLUTION_US;
    (!agrees).then(|| {
        format!(
            "by events the candidate gains {by_events:.1} us, by the supervisor's clock {by_wall:.1} us, and {allowed:.1} us are allowed between them"
        )
    })
}
