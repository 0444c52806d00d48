//! Deviations of a machine that only tests request. A service never sets one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::device::DeviceKind;

use super::prescreener::{CAP, Prescreener};
use super::{Host, Role};
use crate::spares::Spares;

/// The repeats that replace the emulated device's proofs in a test of a device without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepeatPolicy {
    /// Repeats, and draws of each score case, at most.
    pub max_repeats: usize,
    /// The large-tensor stage of a promotion takes a shape whose largest tensor has more elements
    /// than this.
    pub large_tensor_elements: u64,
}

/// All deviations of one machine.
#[derive(Debug, Clone, Default)]
pub struct Rehearsal {
    /// Roles whose emulated driver follows a fault plan, each with the plan's file.
    fault_plans: Vec<(Role, PathBuf)>,
    /// Wall time after which a role counts as stuck although it has not used up its processor time;
    /// `None` is the usual multiple of the stage's allowance.
    wall_limit: Option<Duration>,
    /// Set if the emulated device is treated as one without proofs.
    repeats: Option<RepeatPolicy>,
    /// True if candidates are timed in turn with other kernels although times are modelled.
    paired_timing: bool,
}

impl Rehearsal {
    /// The files of the fault plans for a role.
    pub(super) fn fault_plans_of(&self, role: Role) -> impl Iterator<Item = &PathBuf> {
        let plans = self.fault_plans.iter();
        plans.filter_map(move |(faulty, plan)| (*faulty == role).then_some(plan))
    }

    pub(super) fn wall_limit(&self) -> Option<Duration> {
        self.wall_limit
    }
}

impl Host {
    /// The same machine, except that the emulated driver follows the fault plan in processes of one
    /// role.
    #[must_use]
    pub fn with_fault_plan(mut self, role: Role, plan: &Path) -> Self {
        self.rehearsal.fault_plans.push((role, plan.to_owned()));
        self.spares = Arc::new(Spares::start());
        self
    }

    /// The same machine with another wall time after which a role counts as stuck.
    #[must_use]
    pub fn with_wall_limit(mut self, limit: Duration) -> Self {
        self.rehearsal.wall_limit = Some(limit);
        self
    }

    /// The same machine, except that a candidate is timed in turn with the incumbent, as on silicon:
    /// modelled times need no pairs, but the decision that rests on pairs can be tested.
    #[must_use]
    pub fn with_paired_timing(mut self) -> Self {
        self.rehearsal.paired_timing = true;
        self
    }

    /// The same machine, except that its emulated device is treated as one without proofs: repeats,
    /// further draws and disturbances happen as on silicon, within the bounds of `repeats`, and the
    /// original device pre-screens. With it a test shows that these checks reject no correct
    /// candidate.
    #[must_use]
    pub fn assumed_unproved(mut self, repeats: RepeatPolicy) -> Self {
        self.prescreener = Some(Prescreener {
            device: Ok(Arc::new(self.clone())),
            cap: CAP,
        });
        self.rehearsal.repeats = Some(repeats);
        self
    }

    /// Returns true if candidates are timed in turn with other kernels.
    pub fn times_in_turn(&self) -> bool {
        self.rehearsal.paired_timing || self.device.kind == DeviceKind::Nvidia
    }

    /// Returns true if the device proves nothing about an execution, so that repeats, further draws and
    /// disturbances replace its proofs.
    pub fn is_unproved(&self) -> bool {
        self.rehearsal.repeats.is_some() || self.device.kind == DeviceKind::Nvidia
    }

    /// The bounds on repeats where an emulated device is treated as one without proofs; `None` on
    /// silicon and on any other emulated device.
    pub fn repeat_policy(&self) -> Option<RepeatPolicy> {
        let emulated = self.device.kind == DeviceKind::Emulated;
        self.rehearsal.repeats.filter(|_| emulated)
    }
}
