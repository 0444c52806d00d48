//! Objects in shared memory that count arrivals: mbarriers.

use super::operands::Words;
use super::{Detail, Lowering, Unknown, V};
use crate::code::{Class, File, MBarrierKind, Op};
use crate::ir::{Instruction, Operand, Ty};
use crate::numeric::mbarrier;

impl Lowering<'_> {
    /// `mbarrier.{init,inval,arrive,arrive_drop,test_wait,try_wait,pending_count}...b64`
    pub(super) fn mbarrier(&mut self, i: &Instruction) -> Result<(), Unknown> {
        let mut words = Words::new(&i.modifiers);
        if i.base != "mbarrier" || words.ty()? != Ty::B64 {
            return Err(Unknown);
        }
        if words.take("pending_count") {
            words.done()?;
            let [d, token] = &i.operands[..] else {
                return Err(Unknown);
            };
            let (d, token) = (
                self.destination(d, File::R32)?,
                self.source(token, Ty::B64)?,
            );
            self.lane(mbarrier::pending_lane, d, &[token], Class::Integer);
            return Ok(());
        }
        let _ = words.take("shared") || words.take("shared::cta");
        // Both ends are ordered here whatever is asked for.
        let _ = words.take("acquire") | words.take("release") | words.take("relaxed");
        let _ = words.take("cta");
        if words.take("init") {
            words.done()?;
            let [address, count] = &i.operands[..] else {
                return Err(Unknown);
            };
            let count = self.source(count, Ty::U32)?;
            return self.mbarrier_draft(MBarrierKind::Init, address, V::NONE, count);
        }
        if words.take("inval") {
            words.done()?;
            let [address] = &i.operands[..] else {
                return Err(Unknown);
            };
            return self.mbarrier_draft(MBarrierKind::Invalidate, address, V::NONE, V::NONE);
        }
        let drop = words.take("arrive_drop");
        if drop || words.take("arrive") {
            // Without completing a phase: nothing here depends on the promise.
            let partial = words.take("noComplete");
            words.done()?;
            let (token, address, count) = match &i.operands[..] {
                [token, address] if !partial => (token, address, None),
                [token, address, count] => (token, address, Some(count)),
                _ => return Err(Unknown),
            };
            let token = self.destination(token, File::R64)?;
            let count = match count {
                Some(count) => self.source(count, Ty::U32)?,
                None => V::NONE,
            };
            return self.mbarrier_draft(MBarrierKind::Arrive { drop }, address, token, count);
        }
        if words.take("test_wait") || words.take("try_wait") {
            let parity = words.take("parity");
            words.done()?;
            let (answer, address, state) = match &i.operands[..] {
                // A limit on how long to sleep makes no difference to one who does not.
                [answer, address, state] | [answer, address, state, _] => (answer, address, state),
                _ => return Err(Unknown),
            };
            let answer = self.destination(answer, File::Predicate)?;
            let (kind, state) = if parity {
                (MBarrierKind::TestParity, self.source(state, Ty::U32)?)
            } else {
                (MBarrierKind::Test, self.source(state, Ty::B64)?)
            };
            return self.mbarrier_draft(kind, address, answer, state);
        }
        Err(Unknown)
    }

    /// `cp.async.mbarrier.arrive[.noinc][.shared].b64 [address]`
    pub(super) fn copies_arrive(
        &mut self,
        i: &Instruction,
        mut words: Words<'_>,
    ) -> Result<(), Unknown> {
        let needed = words.ty()? == Ty::B64 && words.take("arrive");
        let counted = words.take("noinc");
        let _ = words.take("shared") || words.take("shared::cta");
        words.done()?;
        let (true, [address]) = (needed, &i.operands[..]) else {
            return Err(Unknown);
        };
        self.mbarrier_draft(MBarrierKind::Copies { counted }, address, V::NONE, V::NONE)
    }

    fn mbarrier_draft(
        &mut self,
        kind: MBarrierKind,
        address: &Operand,
        d: V,
        a: V,
    ) -> Result<(), Unknown> {
        let (address, offset) = self.memory_operand(address)?;
        self.draft(
            Op::MBarrier,
            &[d],
            &[address, a],
            Class::AtomicShared,
            0,
            Detail::MBarrier { kind, offset },
        );
        Ok(())
    }
}
