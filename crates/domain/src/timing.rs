//! Times of a candidate. A modelled time and a measured time are different types that no
//! function compares, averages or ranks together.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The contents of the second level cache when an execution begins. Times of the two states are
/// different quantities that no function compares.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Serialize,
    Deserialize,
    ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CacheState {
    /// It holds no data that the execution uses.
    #[default]
    Cold,
    /// Its buffers, as far as they fit: all of them were read just before.
    Warm,
}

impl CacheState {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Cold, Self::Warm];

    /// Its name in task files and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
        }
    }

    /// The name of a case in this state in messages; without an addition the cache is cold.
    pub fn name_of(self, case: &str) -> String {
        match self {
            Self::Cold => case.to_owned(),
            Self::Warm => format!("{case} (warm cache)"),
        }
    }
}

/// The shortest time that an execution can have, microseconds: one nanosecond, about two cycles of the
/// fastest multiprocessor. A shorter one is a defect of the reporter.
pub const MIN_TIME_US: f64 = 1e-3;
/// The longest time that an execution can have, microseconds: one day, which is longer than any
/// deadline of a worker.
pub const MAX_TIME_US: f64 = 86_400.0 * 1e6;

/// Returns true if `us` microseconds can be the time of an execution: a number from [`MIN_TIME_US`] to
/// [`MAX_TIME_US`].
pub fn is_valid_time(us: f64) -> bool {
    (MIN_TIME_US..=MAX_TIME_US).contains(&us)
}

/// One time among others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CaseTime<'a> {
    /// The case.
    pub case: &'a str,
    /// The state of the cache that it begins with.
    pub cache: CacheState,
    /// Microseconds of one execution.
    pub us: f64,
}

/// The times of an accepted candidate, by their origin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Timing {
    /// Clocks on silicon.
    Measured {
        /// One entry per score case and state of the cache that the task scores, in the task's
        /// order.
        cases: Vec<MeasuredTime>,
        /// The same for the state that it does not score, where that was measured: nothing rests on
        /// it.
        #[serde(default)]
        unscored: Vec<MeasuredTime>,
    },
    /// The emulated device's time model.
    Modelled {
        /// The modelled device.
        device: String,
        /// The trust that the model deserves, such as "uncalibrated".
        label: String,
        /// One entry per score case and state of the cache that the task scores, in the task's
        /// order.
        cases: Vec<ModelledTime>,
        /// The same for the state that it does not score: nothing rests on it.
        #[serde(default)]
        unscored: Vec<ModelledTime>,
    },
}

/// A measured time of one execution of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MeasuredTime {
    /// The case.
    pub case: String,
    /// The state of the cache that each execution began with.
    #[serde(default)]
    pub cache: CacheState,
    /// Median of the samples, microseconds.
    pub median_us: f64,
    /// The samples' quartiles, microseconds.
    pub quartiles_us: [f64; 2],
    /// The number of executions timed.
    pub samples: u32,
}

/// A modelled time of one execution of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModelledTime {
    /// The case.
    pub case: String,
    /// The state of the cache that the execution begins with.
    #[serde(default)]
    pub cache: CacheState,
    /// The whole plan, microseconds.
    pub us: f64,
    /// Its launches in order.
    pub launches: Vec<ModelledLaunch>,
}

/// The modelled time of one launch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModelledLaunch {
    /// The kernel.
    pub kernel: String,
    /// Microseconds, the launch's fixed cost included.
    pub us: f64,
    /// The launch's fixed cost: the time of launching an empty kernel, microseconds.
    #[serde(default)]
    pub launch_us: f64,
    /// The term of the model that dominates.
    pub bottleneck: String,
    /// The term's share of the whole, 0 to 1.
    pub share: f64,
}

impl MeasuredTime {
    fn as_case(&self) -> CaseTime<'_> {
        CaseTime {
            case: &self.case,
            cache: self.cache,
            us: self.median_us,
        }
    }
}

impl ModelledTime {
    fn as_case(&self) -> CaseTime<'_> {
        CaseTime {
            case: &self.case,
            cache: self.cache,
            us: self.us,
        }
    }
}

impl Timing {
    /// Returns true if the times are modelled.
    pub fn is_modelled(&self) -> bool {
        matches!(self, Self::Modelled { .. })
    }

    /// The times that are scored.
    pub fn cases(&self) -> Vec<CaseTime<'_>> {
        match self {
            Self::Measured { cases, .. } => cases.iter().map(MeasuredTime::as_case).collect(),
            Self::Modelled { cases, .. } => cases.iter().map(ModelledTime::as_case).collect(),
        }
    }

    /// The times that are not.
    pub fn unscored(&self) -> Vec<CaseTime<'_>> {
        match self {
            Self::Measured { unscored, .. } => unscored.iter().map(MeasuredTime::as_case).collect(),
            Self::Modelled { unscored, .. } => unscored.iter().map(ModelledTime::as_case).collect(),
        }
    }

    /// The launch and the score case in which one term of the time model takes the most time; none where
    /// times are measured.
    pub fn largest_bottleneck(&self) -> Option<(&ModelledTime, &ModelledLaunch)> {
        let Self::Modelled { cases, .. } = self else {
            return None;
        };
        let launches = cases
            .iter()
            .flat_map(|time| time.launches.iter().map(move |launch| (time, launch)));
        let bound = |(_, launch): &(_, &ModelledLaunch)| launch.us * launch.share;
        launches.max_by(|one, other| bound(one).total_cmp(&bound(other)))
    }

    /// The geometric mean over all that are scored, microseconds.
    pub fn geomean_us(&self) -> f64 {
        let cases = self.cases();
        let sum: f64 = cases.iter().map(|time| time.us.ln()).sum();
        #[expect(clippy::cast_precision_loss, reason = "a task has few cases")]
        let mean = sum / cases.len() as f64;
        mean.exp()
    }

    /// The speedup of these times over `anchor`'s: the geometric mean of the ratios anchor/this
    /// over all that are scored. `None` unless both are of the same kind, for the same device and
    /// model label, over the same cases with the cache in the same states.
    pub fn speedup_over(&self, anchor: &Self) -> Option<f64> {
        match (self, anchor) {
            (Self::Measured { .. }, Self::Measured { .. }) => {}
            (
                Self::Modelled { device, label, .. },
                Self::Modelled {
                    device: other_device,
                    label: other_label,
                    ..
                },
            ) if device == other_device && label == other_label => {}
            _ => return None,
        }
        let (own, others) = (self.cases(), anchor.cases());
        let same = |(a, b): (&CaseTime<'_>, &CaseTime<'_>)| (a.case, a.cache) == (b.case, b.cache);
        let same_cases = own.len() == others.len() && own.iter().zip(&others).all(same);
        (same_cases && !own.is_empty()).then(|| anchor.geomean_us() / self.geomean_us())
    }
}

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_modelled() {
            "modelled"
        } else {
            "measured"
        };
        write!(f, "{:.2} us {kind}", self.geomean_us())
    }
}
