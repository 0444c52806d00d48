//! Times of a candidate. A modelled time and a measured time are different types that no
//! function compares, averages or ranks together.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where the times of an accepted candidate come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Timing {
    /// Clocks on silicon.
    Measured {
        /// One entry per score case, in the task's order.
        cases: Vec<MeasuredTime>,
    },
    /// The emulated device's time model.
    Modelled {
        /// The modelled device.
        device: String,
        /// How far the model can be trusted, such as "uncalibrated".
        label: String,
        /// One entry per score case, in the task's order.
        cases: Vec<ModelledTime>,
    },
}

/// A measured time of one execution of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MeasuredTime {
    /// The case.
    pub case: String,
    /// Median of the samples, microseconds.
    pub median_us: f64,
    /// The samples' quartiles, microseconds.
    pub quartiles_us: [f64; 2],
    /// How many executions were timed.
    pub samples: u32,
}

/// A modelled time of one execution of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModelledTime {
    /// The case.
    pub case: String,
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
    /// That fixed cost alone: what launching an empty kernel takes, microseconds.
    #[serde(default)]
    pub launch_us: f64,
    /// The term of the model that dominates.
    pub bottleneck: String,
    /// That term's share of the whole, 0 to 1.
    pub share: f64,
}

impl Timing {
    /// Whether the times are modelled.
    pub fn is_modelled(&self) -> bool {
        matches!(self, Self::Modelled { .. })
    }

    /// The score cases' names with their times in microseconds.
    pub fn cases(&self) -> Vec<(&str, f64)> {
        match self {
            Self::Measured { cases } => cases
                .iter()
                .map(|time| (time.case.as_str(), time.median_us))
                .collect(),
            Self::Modelled { cases, .. } => cases
                .iter()
                .map(|time| (time.case.as_str(), time.us))
                .collect(),
        }
    }

    /// The geometric mean over the cases, microseconds.
    pub fn geomean_us(&self) -> f64 {
        let cases = self.cases();
        let sum: f64 = cases.iter().map(|(_, us)| us.ln()).sum();
        #[expect(clippy::cast_precision_loss, reason = "a task has few cases")]
        let mean = sum / cases.len() as f64;
        mean.exp()
    }

    /// How much faster these times are than `anchor`'s: the geometric mean of the ratios
    /// anchor/this over the cases. `None` unless both are of the same kind, for the same
    /// device and model label, over the same cases.
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
        let same_cases =
            own.len() == others.len() && own.iter().zip(&others).all(|(a, b)| a.0 == b.0);
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
