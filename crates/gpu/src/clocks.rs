//! The role that locks a device's clocks, or gives them free. It makes no context, and what it sets
//! stays when it ends.

use domain::role::{Clocks, ClocksJob, ClocksReply};

use crate::nvml::{Card, Unset};

/// Sets the clocks.
pub fn set(job: &ClocksJob) -> ClocksReply {
    let card = match Card::open(&job.uuid) {
        Ok(card) => card,
        Err(reason) => return ClocksReply::Impossible { reason },
    };
    let set = match job.clocks {
        Clocks::Locked => card.lock_clocks(),
        Clocks::Free => card.free_clocks(),
    };
    match set {
        Ok(()) => ClocksReply::Set,
        Err(Unset::Forbidden) => ClocksReply::Forbidden,
        Err(Unset::Impossible(reason)) => ClocksReply::Impossible { reason },
    }
}
