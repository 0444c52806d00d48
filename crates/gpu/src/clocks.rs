//! The role `clocks`: locks or unlocks a device's clocks. It makes no context, and the setting remains when the
//! process ends.

use domain::role::{Clocks, ClocksJob, ClocksReply};

use crate::nvml::{Card, ClockError};

/// Locks or unlocks the clocks.
pub fn set(job: &ClocksJob) -> ClocksReply {
    let card = match Card::open(&job.uuid) {
        Ok(card) => card,
        Err(reason) => return ClocksReply::Impossible { reason },
    };
    let set = match job.clocks {
        Clocks::Locked => card.lock_clocks(),
        Clocks::Free => card.unlock_clocks(),
    };
    match set {
        Ok(()) => ClocksReply::Set,
        Err(ClockError::Forbidden) => ClocksReply::Forbidden,
        Err(ClockError::Impossible(reason)) => ClocksReply::Impossible { reason },
    }
}
