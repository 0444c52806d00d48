//! The limits of a run: which one stops it, and how many further candidates the others leave room for.

use super::settled::Settled;
use super::{Entry, EntryState, RunSnapshot, StopReason};

impl RunSnapshot<'_> {
    /// Trials that may still be charged.
    pub(super) fn trials_left(&self, settled: &Settled) -> usize {
        (self.budget.trials as usize).saturating_sub(settled.trials(self.candidates))
    }

    /// The limit that stops the run, if one does; of several, the first of this order.
    pub(super) fn stop_reason(&self, settled: &Settled) -> Option<StopReason> {
        let target = self
            .task
            .objective
            .target_speedup
            .filter(|_| self.task.objective.stop_at_target);
        let reached = |target: f64| {
            let champion = settled.champion(self.candidates, self.excluded);
            champion
                .and_then(Entry::speedup)
                .is_some_and(|speedup| speedup >= target)
        };
        if self.finish_requested {
            Some(StopReason::Requested)
        } else if self
            .budget
            .wall_seconds
            .is_some_and(|limit| self.elapsed.as_secs() >= limit)
        {
            Some(StopReason::WallTime)
        } else if self
            .budget
            .device_seconds
            .is_some_and(|limit| self.spend.device_ms >= limit.saturating_mul(1000))
        {
            Some(StopReason::DeviceTime)
        } else if self
            .budget
            .device_dollars
            .is_some_and(|limit| self.spend.device_dollars >= limit)
        {
            Some(StopReason::DeviceDollars)
        } else if target.is_some_and(reached) {
            Some(StopReason::Target)
        } else if self.is_close_to_floor(settled) {
            Some(StopReason::Floor)
        } else if self.gains_too_little(settled) {
            Some(StopReason::GainPerDollar)
        } else if self
            .budget
            .trials_without_gain
            .is_some_and(|limit| settled.trials_without_gain >= limit)
        {
            Some(StopReason::TrialsWithoutGain)
        } else if self.short_of.is_some() {
            self.short_of
        } else if self.trials_left(settled) == 0 {
            Some(StopReason::Trials)
        } else {
            None
        }
    }

    /// Returns true if the champion is as close to the floor as the budget asks for.
    fn is_close_to_floor(&self, settled: &Settled) -> bool {
        let champion = settled.champion(self.candidates, self.excluded);
        let share = champion.and_then(|champion| champion.floor_share);
        let limits = self.budget.floor_percent.zip(share);
        limits.is_some_and(|(percent, share)| 100.0 * share >= f64::from(percent))
    }

    /// Returns true if a dollar is expected to gain less than the budget asks for.
    fn gains_too_little(&self, settled: &Settled) -> bool {
        let limit = self.budget.gain_per_dollar.map(f64::from);
        let expected = limit.zip(settled.gain_per_dollar(&self.spend));
        expected.is_some_and(|(limit, expected)| expected < limit)
    }

    /// Further candidates that the limits on devices cover, with the limit that covers fewest; none if devices are not
    /// limited. Candidates on their way and those to come are taken to need what the run's candidates needed on
    /// average.
    pub(super) fn device_room(&self, settled: &Settled) -> Option<(usize, StopReason)> {
        let pending = |entry: &&Entry| entry.state == EntryState::Pending;
        let rest = settled.uncounted(self.candidates).iter();
        let open = rest.filter(pending).count() as u64;
        let judged = (self.candidates.len() as u64 - open).max(1);
        let room = |limit: u64, used: u64| {
            let each = used.div_ceil(judged).max(1);
            let left = limit.saturating_sub(used) / each;
            usize::try_from(left.saturating_sub(open)).unwrap_or(usize::MAX)
        };
        let milliseconds = self.budget.device_seconds.map(|limit| {
            let limit = limit.saturating_mul(1000);
            (room(limit, self.spend.device_ms), StopReason::DeviceTime)
        });
        let dollars = self.budget.device_dollars.map(|limit| {
            let room = room(limit.nanos(), self.spend.device_dollars.nanos());
            (room, StopReason::DeviceDollars)
        });
        let limits = milliseconds.into_iter().chain(dollars);
        limits.min_by_key(|(room, _)| *room)
    }
}
