//! The physical lower bound of a time: the bytes that must move, the operations that must be done,
//! and the launch itself. A shorter time is a defect of the measurement or of the check, never a
//! gain.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::timing::CacheState;

/// A time below this many times its floor is nearly too good.
const CLOSE: f64 = 1.10;
/// Below this share of the floor a time is impossible; the rest allows for the error of rates.
const SLACK: f64 = 0.95;
/// Within this factor of an empty launch, launching is most of the time.
const LAUNCH_FACTOR: f64 = 1.5;

/// The fastest units that can do a task's essential operations.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Arithmetic {
    /// Double precision.
    F64,
    /// Single precision, without tensor cores.
    F32,
    /// Tensor cores with operands of sixteen bits.
    F16,
}

/// The essential work of one case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Bytes that must be read at least once.
    pub read: f64,
    /// Bytes that must be written at least once.
    pub written: f64,
    /// Operations that must be done, where algebra cannot avoid them.
    pub operations: Option<(Arithmetic, f64)>,
}

/// The best a device can do, or has shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Rates {
    /// Bytes per microsecond from and to memory.
    pub bytes_per_us: f64,
    /// Operations per microsecond; a multiplication with an addition counts twice.
    pub operations_per_us: BTreeMap<Arithmetic, f64>,
    /// An empty launch, microseconds.
    pub launch_us: f64,
    /// Bytes that the second level cache holds: written ones stay there until the time has been
    /// taken, and in a warm one inputs are found there.
    pub l2_bytes: f64,
}

impl Rates {
    /// The best of both: what a device has ever shown.
    #[must_use]
    pub fn best(mut self, other: &Self) -> Self {
        self.bytes_per_us = self.bytes_per_us.max(other.bytes_per_us);
        self.launch_us = self.launch_us.min(other.launch_us);
        self.l2_bytes = self.l2_bytes.max(other.l2_bytes);
        for (arithmetic, rate) in &other.operations_per_us {
            let own = self.operations_per_us.entry(*arithmetic).or_insert(*rate);
            *own = own.max(*rate);
        }
        self
    }
}

/// The resource that bounds a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The bytes.
    Bytes,
    /// The operations.
    Operations,
    /// The launch.
    Launch,
}

/// The least time in which one resource can do its part of a case's work.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ResourceFloor {
    /// The resource.
    pub bound: Bound,
    /// Its least time, microseconds.
    pub us: f64,
    /// The bytes that must move or the operations that must be done; none for the launch.
    pub amount: Option<f64>,
}

/// The floor of one case, and the time that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Floor {
    /// The case.
    pub case: String,
    /// The state of the cache that it begins with.
    #[serde(default)]
    pub cache: CacheState,
    /// The least time in which a device can do its work, microseconds.
    pub us: f64,
    /// The resource that takes that long.
    pub bound: Bound,
    /// The candidate's time, microseconds.
    pub found_us: f64,
    /// The least time of each resource whose rate is known. Empty in evaluations of earlier releases.
    #[serde(default)]
    pub resources: Vec<ResourceFloor>,
}

impl Floor {
    /// Computes the floor of a case's work beside the time found. It is the longest of the times
    /// that the resources need.
    ///
    /// Written bytes may stay in the cache, as far as they fit; in a warm one read bytes may be
    /// there already, as far as they fit. The two may follow each other in the same place, so that
    /// each has all of it.
    pub fn compute(
        case: String,
        cache: CacheState,
        work: Work,
        rates: &Rates,
        found_us: f64,
    ) -> Self {
        let launch = ResourceFloor {
            bound: Bound::Launch,
            us: rates.launch_us,
            amount: None,
        };
        let beyond = |bytes: f64| (bytes - rates.l2_bytes).max(0.0);
        let fetched = match cache {
            CacheState::Cold => work.read,
            CacheState::Warm => beyond(work.read),
        };
        let moved = fetched + beyond(work.written);
        let bytes = ResourceFloor {
            bound: Bound::Bytes,
            us: moved / rates.bytes_per_us,
            amount: Some(moved),
        };
        let operations = work.operations.and_then(|(arithmetic, operations)| {
            let rate = rates.operations_per_us.get(&arithmetic)?;
            Some(ResourceFloor {
                bound: Bound::Operations,
                us: operations / rate,
                amount: Some(operations),
            })
        });
        let others = [Some(bytes), operations].into_iter().flatten();
        let longest = others.clone().fold(
            launch,
            |longest, one| {
                if one.us > longest.us { one } else { longest }
            },
        );
        Self {
            case,
            cache,
            us: longest.us,
            bound: longest.bound,
            found_us,
            resources: std::iter::once(launch).chain(others).collect(),
        }
    }

    /// Returns true if the time found is so close to the floor that it is measured again before
    /// anything rests on it. Also for a time that is no number.
    pub fn is_close(&self) -> bool {
        let usual = self.found_us >= CLOSE * self.us;
        !usual
    }

    /// Returns true if the time found is too short to be true. Also for a time that is no number.
    pub fn is_broken(&self) -> bool {
        let possible = self.found_us >= SLACK * self.us;
        !possible
    }
}

/// Returns true if a time is little more than that of `launches` empty launches, so that small
/// differences are those of launching.
pub fn is_launch_bound(us: f64, launches: usize, launch_us: f64) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "a plan has few launches")]
    let launches = launches as f64;
    us <= LAUNCH_FACTOR * launches * launch_us
}
