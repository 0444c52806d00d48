//! The memory traffic that a launch counts for each instruction.

use crate::machine::traffic::{Cost, MemoryPath};

/// Memory traffic of one instruction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Traffic {
    pub(crate) sectors: u64,
    pub(crate) sectors_ideal: u64,
    pub(crate) bytes: u64,
    pub(crate) wavefronts: u64,
    pub(crate) wavefronts_ideal: u64,
    pub(crate) lane_bytes: u64,
    /// Bytes that the lanes accessed in shared memory, that of generic accesses and copies included.
    pub(crate) shared_bytes: u64,
    pub(crate) local_bytes: u64,
}

impl Traffic {
    /// The traffic of one access of `lane_bytes` bytes over all lanes.
    pub(crate) fn of(cost: &Cost, way: MemoryPath, lane_bytes: u32) -> Self {
        let lane_bytes = u64::from(lane_bytes);
        if matches!(
            way,
            MemoryPath::Global | MemoryPath::GlobalLoad | MemoryPath::Constant
        ) {
            Self {
                sectors: u64::from(cost.sectors),
                sectors_ideal: u64::from(cost.sectors_ideal),
                bytes: u64::from(cost.bytes),
                lane_bytes,
                wavefronts: u64::from(cost.wavefronts),
                ..Self::default()
            }
        } else {
            Self {
                wavefronts: u64::from(cost.wavefronts),
                wavefronts_ideal: u64::from(cost.wavefronts_ideal),
                shared_bytes: lane_bytes,
                ..Self::default()
            }
        }
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, other: &Self) {
        // Reading everything before writing lets the compiler use two vector additions. The sums wrap around, because
        // traffic is taken back by adding its negative.
        let (a, b) = (*self, *other);
        *self = Self {
            sectors: a.sectors.wrapping_add(b.sectors),
            sectors_ideal: a.sectors_ideal.wrapping_add(b.sectors_ideal),
            bytes: a.bytes.wrapping_add(b.bytes),
            wavefronts: a.wavefronts.wrapping_add(b.wavefronts),
            wavefronts_ideal: a.wavefronts_ideal.wrapping_add(b.wavefronts_ideal),
            lane_bytes: a.lane_bytes.wrapping_add(b.lane_bytes),
            shared_bytes: a.shared_bytes.wrapping_add(b.shared_bytes),
            local_bytes: a.local_bytes.wrapping_add(b.local_bytes),
        };
    }

    /// The traffic of `count` executions.
    pub(crate) fn times(&self, count: u64) -> Self {
        Self {
            sectors: self.sectors.wrapping_mul(count),
            sectors_ideal: self.sectors_ideal.wrapping_mul(count),
            bytes: self.bytes.wrapping_mul(count),
            wavefronts: self.wavefronts.wrapping_mul(count),
            wavefronts_ideal: self.wavefronts_ideal.wrapping_mul(count),
            lane_bytes: self.lane_bytes.wrapping_mul(count),
            shared_bytes: self.shared_bytes.wrapping_mul(count),
            local_bytes: self.local_bytes.wrapping_mul(count),
        }
    }
}
