//! Comparisons on simulated noise: the error rates of this module's rules and their power to find a
//! real effect. The noise is a model that is defined here; a device's own noise is measured by
//! controls.

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use super::decide::{
    ALPHA, ANALYSIS_PAIRS, CONFIRMATION, Cycles, ScreeningProgress, advance_screening,
    decide_confirmation,
};
use super::interval::interval;
use super::plan::SampleOrder;
use super::split::{ALTERNATIONS, compare_separate_processes};
use super::summary::median;
use super::validity::{Block, Conditions};
use crate::control::ControlResult;
use crate::digest::Digest;
use crate::margins::FASTER_MARGIN_LOG;
use crate::role::Key;
use crate::verdict::Outcome;

/// Noise of a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimulatedNoise {
    /// Standard deviation of one pair's log-ratio.
    pub pair: f64,
    /// Amplitude of a drift that both share: a sine with a period of 20 to 400 executions.
    pub drift: f64,
    /// Standard deviation of what one process adds to all its log-ratios, such as an
    /// allocation's address.
    pub process: f64,
    /// Share of executions that take a tenth longer for no reason of their own.
    pub outliers: f64,
}

/// The noise that the promises are made for: pairs up to 3%, drift of 1%, processes of 0.3%.
pub const STATED: [SimulatedNoise; 3] = [stated(0.005), stated(0.01), stated(0.03)];

/// The stated drift and process noise at this noise of pairs.
pub const fn stated(pair: f64) -> SimulatedNoise {
    SimulatedNoise {
        pair,
        drift: 0.01,
        process: 0.003,
        outliers: 0.0,
    }
}

/// The outcome of one simulated candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimulatedScreening {
    /// The decision of the screening.
    pub screening: Outcome,
    /// The number of pairs it took.
    pub pairs: usize,
}

impl SimulatedNoise {
    /// The log-ratios of one process's rounds over one case, for a candidate whose time is
    /// shorter by `gain`.
    pub fn process(&self, gain: f64, rounds: usize, rng: &mut ChaCha8Rng) -> Vec<f64> {
        let offset = self.process * normal(rng);
        let period: f64 = rng.random_range(20.0..400.0);
        let phase: f64 = rng.random_range(0.0..std::f64::consts::TAU);
        let mut clock = 0.0;
        let mut execution = |candidate: bool| {
            clock += 1.0;
            let drift = self.drift * (std::f64::consts::TAU * clock / period + phase).sin();
            // Two executions make a pair, so each brings half of the pair's variance.
            let noise = self.pair / std::f64::consts::SQRT_2 * normal(rng);
            let delay = if rng.random::<f64>() < self.outliers {
                0.1
            } else {
                0.0
            };
            let own = if candidate {
                (1.0 - gain).ln() - offset
            } else {
                0.0
            };
            (100.0_f64.ln() + drift + noise + delay + own).exp()
        };
        (0..rounds)
            .map(|round| {
                let order = if round % 2 == 0 {
                    SampleOrder::IncumbentOutside
                } else {
                    SampleOrder::CandidateOutside
                };
                let outside = order == SampleOrder::CandidateOutside;
                let [first, second, third, fourth] =
                    [outside, !outside, !outside, outside].map(&mut execution);
                let (outer, inner) = ([first, fourth], [second, third]);
                let (incumbent_us, candidate_us) = match order {
                    SampleOrder::IncumbentOutside => (outer, inner),
                    SampleOrder::CandidateOutside => (inner, outer),
                };
                Block {
                    case: 0,
                    order,
                    incumbent_us,
                    candidate_us,
                    anchor_us: None,
                    counted_mhz: None,
                    conditions: Conditions::default(),
                }
                .log_ratio()
            })
            .collect()
    }

    /// A screening from its first look to its decision.
    pub fn screened(&self, gain: f64, rng: &mut ChaCha8Rng) -> SimulatedScreening {
        let rounds = self.process(gain, ANALYSIS_PAIRS[ANALYSIS_PAIRS.len() - 1] / 2, rng);
        let key = key(rng);
        let mut pairs = ANALYSIS_PAIRS[0];
        loop {
            match advance_screening(&rounds[..pairs / 2], &Cycles::Unknown, key) {
                ScreeningProgress::Open { pairs: more } => pairs = more,
                ScreeningProgress::Decided(settled) => {
                    return SimulatedScreening {
                        screening: settled.outcome,
                        pairs,
                    };
                }
            }
        }
    }

    /// Returns true if a confirmation calls the candidate faster, and processes that the two do not
    /// share do not contradict it.
    pub fn confirmed(&self, gain: f64, rng: &mut ChaCha8Rng) -> bool {
        let rounds = self.processes(gain, rng);
        if interval(&rounds, ALPHA).lower <= FASTER_MARGIN_LOG {
            // No control lowers the margin, so none is needed.
            return false;
        }
        let control = self.processes(0.0, rng);
        let shared = match decide_confirmation(&rounds, &Cycles::Unknown, &control, key(rng)) {
            Ok(settled) if settled.outcome == Outcome::Faster => settled.evidence.interval,
            _ => return false,
        };
        let apart = (0..ALTERNATIONS)
            .map(|_| self.alone(0.0, rng) - self.alone(gain, rng))
            .collect::<Vec<_>>();
        compare_separate_processes(&apart, shared).is_ok()
    }

    /// The logarithm of the median time of a process that runs one of the two in all places. What a
    /// process adds to a ratio is the work of both of its sides alike.
    fn alone(&self, gain: f64, rng: &mut ChaCha8Rng) -> f64 {
        let half = std::f64::consts::FRAC_1_SQRT_2;
        let own = (1.0 - gain).ln() + self.process * half * normal(rng);
        let period: f64 = rng.random_range(20.0..400.0);
        let phase: f64 = rng.random_range(0.0..std::f64::consts::TAU);
        let executions = f64::from(2 * u32::try_from(CONFIRMATION.pairs).unwrap_or(u32::MAX));
        let mut clock = 0.0;
        let mut times = Vec::with_capacity(2 * CONFIRMATION.pairs);
        while clock < executions {
            clock += 1.0;
            let drift = self.drift * (std::f64::consts::TAU * clock / period + phase).sin();
            let delay = if rng.random::<f64>() < self.outliers {
                0.1
            } else {
                0.0
            };
            times.push(own + drift + delay + self.pair * half * normal(rng));
        }
        median(&times).unwrap_or(f64::NAN)
    }

    /// A control: what becomes of a candidate that is the incumbent.
    pub fn control(&self, rng: &mut ChaCha8Rng) -> ControlResult {
        if self.screened(0.0, rng).screening != Outcome::Faster {
            ControlResult::Level
        } else if self.confirmed(0.0, rng) {
            ControlResult::Promoted
        } else {
            ControlResult::Caught
        }
    }

    fn processes(&self, gain: f64, rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        (0..CONFIRMATION.processes)
            .map(|_| self.process(gain, CONFIRMATION.pairs / 2, rng))
            .collect()
    }
}

fn key(rng: &mut ChaCha8Rng) -> Key {
    Key(Digest::of(rng.random::<[u8; 32]>()))
}

/// A standard normal value (Box and Muller, 1958).
fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}
