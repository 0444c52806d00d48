//! Deviations of a machine that only tests request. A service never sets one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
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
    /// Roles whose emulated driver follows a fault plan.
    fault_plans: Vec<PlannedFaults>,
    /// Wall time after which a role counts as stuck although it has not used up its processor time;
    /// `None` is the usual multiple of the stage's allowance.
    wall_limit: Option<Duration>,
    /// Set if the emulated device is treated as one without proofs.
    repeats: Option<RepeatPolicy>,
    /// True if candidates are timed in turn with other kernels although times are modelled.
    paired_timing: bool,
    /// True if accepted candidates are executed on the pre-screener's device, too, to explain their times.
    explained_times: bool,
}

/// A fault plan of one role.
#[derive(Debug, Clone)]
struct PlannedFaults {
    role: Role,
    /// The plan's file.
    plan: PathBuf,
    /// The number of processes that still get the plan; none if all do.
    processes: Option<Arc<AtomicU32>>,
}

impl PlannedFaults {
    /// Returns true if the next process follows the plan, and counts that process.
    fn applies_to_next(&self) -> bool {
        self.processes.as_ref().is_none_or(|left| {
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            })
            .is_ok()
        })
    }
}

impl Rehearsal {
    /// The files of the fault plans for the next process of a role.
    pub(super) fn fault_plans_of(&self, role: Role) -> impl Iterator<Item = &PathBuf> {
        let plans = self.fault_plans.iter();
        let plans = plans.filter(move |planned| planned.role == role && planned.applies_to_next());
        plans.map(|planned| &planned.plan)
    }

    /// Returns true if processes of a role follow a fault plan.
    pub(super) fn plans_faults_of(&self, role: Role) -> bool {
        self.fault_plans.iter().any(|planned| planned.role == role)
    }

    pub(super) fn wall_limit(&self) -> Option<Duration> {
        self.wall_limit
    }
}

impl Host {
    /// The same machine, except that the emulated driver follows the fault plan in processes of one
    /// role.
    #[must_use]
    pub fn with_fault_plan(self, role: Role, plan: &Path) -> Self {
        self.with_planned_faults(role, plan, None)
    }

    /// The same machine, except that the emulated driver follows a fault plan in the next process of a
    /// role that uses it, and in no later one.
    #[must_use]
    pub fn with_fault_plan_once(self, role: Role, plan: &Path) -> Self {
        self.with_planned_faults(role, plan, Some(Arc::new(AtomicU32::new(1))))
    }

    fn with_planned_faults(
        mut self,
        role: Role,
        plan: &Path,
        processes: Option<Arc<AtomicU32>>,
    ) -> Self {
        self.rehearsal.fault_plans.push(PlannedFaults {
            role,
            plan: plan.to_owned(),
            processes,
        });
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

    /// The same machine, except that times are explained by the pre-screener's device, as on silicon.
    #[must_use]
    pub fn with_explained_times(mut self) -> Self {
        self.rehearsal.explained_times = true;
        self
    }

    /// Returns true if an emulated device beside this one explains its times, because it does not model them itself.
    pub fn has_explained_times(&self) -> bool {
        self.rehearsal.explained_times || self.device.kind == DeviceKind::Nvidia
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
