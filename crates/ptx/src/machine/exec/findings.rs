//! Findings of a running launch: uninitialised values, races in shared memory and copies that were not waited for.

use super::{Exec, Fatal};
use crate::check::{Observation, buffer_name, outcome_of, position_text};
use crate::machine::access::AccessKind;
use crate::machine::block::Shared;
use crate::machine::warp::Warp;
use crate::report::{Access, FindingKind, Party, Space};

impl Exec<'_> {
    /// Records an observation. Returns [`Fatal`] if it ends the launch.
    pub(crate) fn find(&mut self, block: &Shared, seen: Observation) -> Result<(), Fatal> {
        let outcome = outcome_of(seen.kind);
        self.findings
            .add(self.launch.program, self.launch.kernel, block.index, seen);
        match outcome {
            Some(outcome) => {
                self.stop(block.index, outcome);
                Err(Fatal)
            }
            None => Ok(()),
        }
    }

    /// Builds an observation without an access and without a second thread.
    pub(crate) fn plain(
        &self,
        kind: FindingKind,
        pc: u32,
        block: &Shared,
        warp: &Warp,
        lane: usize,
        message: String,
    ) -> Observation {
        Observation {
            kind,
            pc,
            block: block.coordinates,
            thread: self.thread_of(warp, lane),
            access: None,
            other: None,
            waits: Vec::new(),
            message,
        }
    }

    /// Records that poison decides an address, a branch or a stored value at `pc`; the poison comes from the
    /// instruction at `origin`.
    #[cold]
    #[inline(never)]
    pub(crate) fn uninitialised(
        &mut self,
        kind: FindingKind,
        (pc, origin): (u32, u32),
        block: &Shared,
        warp: &Warp,
        poisoned: u32,
        access: Option<Access>,
    ) {
        // The finding names the load that read the uninitialised value, because the cause is there.
        if self.findings.repeat(self.launch.program, kind, origin) {
            return;
        }
        let program = self.launch.program;
        let lane = poisoned.trailing_zeros() as usize & 31;
        let cause = position_text(program, origin);
        let message = match kind {
            FindingKind::UninitialisedStore => format!(
                "the value read at {cause} was never initialised, and what is computed from it is stored to {} at {}; \
                 initialise it, or do not use what lies past the valid range",
                access
                    .as_ref()
                    .map_or_else(|| "global memory".into(), buffer_name),
                position_text(program, pc)
            ),
            FindingKind::UninitialisedAddress => format!(
                "the value read at {cause} was never initialised, and it decides an address at {}",
                position_text(program, pc)
            ),
            _ => format!(
                "the value read at {cause} was never initialised, and it decides a branch at {}",
                position_text(program, pc)
            ),
        };
        let mut seen = self.plain(kind, origin, block, warp, lane, message);
        seen.access = access;
        // None of these kinds is fatal.
        let _ = self.find(block, seen);
    }

    /// Records a race in shared memory; `place` is the offset and size of this thread's access.
    #[cold]
    #[inline(never)]
    pub(crate) fn shared_race(
        &mut self,
        conflict: crate::sync::Conflict,
        pc: u32,
        place: (u32, u32),
        access_kind: AccessKind,
        block: &Shared,
        warp: &Warp,
    ) {
        if conflict.in_flight && access_kind == AccessKind::Load {
            let other = (pc, conflict.other_pc);
            return self.unawaited_copy((conflict.lane, place.0, place.1), other, block, warp);
        }
        let kind = if conflict.same_warp {
            FindingKind::WarpRace
        } else {
            FindingKind::SharedRace
        };
        let program = self.launch.program;
        if self.findings.repeat(program, kind, pc) {
            return;
        }
        let access = self.shared_access(place.0, place.1);
        let does = if access_kind == AccessKind::Load {
            "reads"
        } else {
            "writes"
        };
        let did = if conflict.other_wrote {
            "wrote"
        } else {
            "read"
        };
        let who = match conflict.other {
            Some(thread) => format!("thread {:?}", self.thread_at(thread)),
            None => "other threads".into(),
        };
        let fix = if conflict.same_warp {
            "put __syncwarp(), or __syncthreads() if other warps use the bytes, between the two"
        } else {
            "put __syncthreads() between the two"
        };
        let message = format!(
            "thread {:?} {does} byte {} of {} at {}, which {who} {did} at {} with nothing in between to order them; {fix}",
            self.thread_of(warp, conflict.lane),
            access.offset,
            buffer_name(&access),
            position_text(program, pc),
            position_text(program, conflict.other_pc),
        );
        let mut seen = self.plain(kind, pc, block, warp, conflict.lane, message);
        seen.access = Some(access);
        seen.other = Some(Party {
            block: block.coordinates,
            thread: conflict.other.map(|thread| self.thread_at(thread)),
            location: Some(crate::check::location(program, conflict.other_pc)),
            wrote: conflict.other_wrote,
        });
        let _ = self.find(block, seen);
    }

    /// Records that a lane reads bytes of an asynchronous copy that is not known to have arrived.
    #[cold]
    #[inline(never)]
    pub(crate) fn unawaited_copy(
        &mut self,
        (lane, offset, bytes): (usize, u32, u32),
        (pc, copy): (u32, u32),
        block: &Shared,
        warp: &Warp,
    ) {
        let kind = FindingKind::UnawaitedCopy;
        let program = self.launch.program;
        if self.findings.repeat(program, kind, pc) {
            return;
        }
        let access = self.shared_access(offset, bytes);
        let message = format!(
            "thread {:?} reads byte {} of {} at {} before the asynchronous copy of {} is known to have arrived: wait for \
             its group (cp.async.wait_group counts the newest groups that may still be missing) or for its mbarrier, and \
             then __syncthreads() if another thread copied",
            self.thread_of(warp, lane),
            access.offset,
            buffer_name(&access),
            position_text(program, pc),
            position_text(program, copy),
        );
        let mut seen = self.plain(kind, pc, block, warp, lane, message);
        seen.access = Some(access);
        seen.other = Some(Party {
            block: block.coordinates,
            thread: None,
            location: Some(crate::check::location(program, copy)),
            wrote: true,
        });
        let _ = self.find(block, seen);
    }

    /// The access at an offset of shared memory, with the variable that contains it.
    pub(crate) fn shared_access(&self, offset: u32, bytes: u32) -> Access {
        let holder = self
            .launch
            .program
            .shared_names
            .iter()
            .find(|(start, size, _)| {
                offset >= *start && (*size == u32::MAX || offset - start < *size)
            });
        let start = holder.map_or(0, |(start, ..)| *start);
        Access {
            space: Space::Shared,
            buffer: holder.map(|(.., name)| name.clone()),
            pointer: u64::from(offset),
            offset: i64::from(offset - start),
            buffer_bytes: holder.map(|(start, size, _)| {
                u64::from(if *size == u32::MAX {
                    self.launch.shared_bytes - start
                } else {
                    *size
                })
            }),
            bytes,
        }
    }
}
