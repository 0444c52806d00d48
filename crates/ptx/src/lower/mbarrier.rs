//! Lowering of mbarrier instructions.

use super::operands::Modifiers;
use super::{Detail, Lowering, UnsupportedForm, VReg};
use crate::code::{Class, File, MBarrierKind, Op};
use crate::ir::{Instruction, Operand, Ty};
use crate::numeric::mbarrier;

impl Lowering<'_> {
    /// `mbarrier.{init,inval,arrive,arrive_drop,test_wait,try_wait,pending_count}...b64`
    pub(super) fn mbarrier(&mut self, i: &Instruction) -> Result<(), UnsupportedForm> {
        let mut modifiers = Modifiers::new(&i.modifiers);
        if i.base != "mbarrier" || modifiers.ty()? != Ty::B64 {
            return Err(UnsupportedForm);
        }
        if modifiers.take("pending_count") {
            modifiers.done()?;
            let [d, token] = &i.operands[..] else {
                return Err(UnsupportedForm);
            };
            let (d, token) = (
                self.destination(d, File::R32)?,
                self.source(token, Ty::B64)?,
            );
            self.emit_lane_fn(mbarrier::pending_lane, d, &[token], Class::Integer);
            return Ok(());
        }
        let _ = modifiers.take("shared") || modifiers.take("shared::cta");
        // The machine orders arrival and test in any case, so these modifiers change nothing.
        let _ = modifiers.take("acquire") | modifiers.take("release") | modifiers.take("relaxed");
        let _ = modifiers.take("cta");
        if modifiers.take("init") {
            modifiers.done()?;
            let [address, count] = &i.operands[..] else {
                return Err(UnsupportedForm);
            };
            let count = self.source(count, Ty::U32)?;
            return self.emit_mbarrier(MBarrierKind::Init, address, VReg::NONE, count);
        }
        if modifiers.take("inval") {
            modifiers.done()?;
            let [address] = &i.operands[..] else {
                return Err(UnsupportedForm);
            };
            return self.emit_mbarrier(MBarrierKind::Invalidate, address, VReg::NONE, VReg::NONE);
        }
        let drop = modifiers.take("arrive_drop");
        if drop || modifiers.take("arrive") {
            // `.noComplete` is a promise about the phase that the machine does not need.
            let partial = modifiers.take("noComplete");
            modifiers.done()?;
            let (token, address, count) = match &i.operands[..] {
                [token, address] if !partial => (token, address, None),
                [token, address, count] => (token, address, Some(count)),
                _ => return Err(UnsupportedForm),
            };
            let token = self.destination(token, File::R64)?;
            let count = match count {
                Some(count) => self.source(count, Ty::U32)?,
                None => VReg::NONE,
            };
            return self.emit_mbarrier(MBarrierKind::Arrive { drop }, address, token, count);
        }
        if modifiers.take("test_wait") || modifiers.take("try_wait") {
            let parity = modifiers.take("parity");
            modifiers.done()?;
            let (answer, address, state) = match &i.operands[..] {
                // The fourth operand limits a suspension; the machine never suspends a thread here.
                [answer, address, state] | [answer, address, state, _] => (answer, address, state),
                _ => return Err(UnsupportedForm),
            };
            let answer = self.destination(answer, File::Predicate)?;
            let (kind, state) = if parity {
                (MBarrierKind::TestParity, self.source(state, Ty::U32)?)
            } else {
                (MBarrierKind::Test, self.source(state, Ty::B64)?)
            };
            return self.emit_mbarrier(kind, address, answer, state);
        }
        Err(UnsupportedForm)
    }

    /// `cp.async.mbarrier.arrive[.noinc][.shared].b64 [address]`
    pub(super) fn copies_arrive(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        let needed = modifiers.ty()? == Ty::B64 && modifiers.take("arrive");
        let counted = modifiers.take("noinc");
        let _ = modifiers.take("shared") || modifiers.take("shared::cta");
        modifiers.done()?;
        let (true, [address]) = (needed, &i.operands[..]) else {
            return Err(UnsupportedForm);
        };
        self.emit_mbarrier(
            MBarrierKind::Copies { counted },
            address,
            VReg::NONE,
            VReg::NONE,
        )
    }

    fn emit_mbarrier(
        &mut self,
        kind: MBarrierKind,
        address: &Operand,
        d: VReg,
        a: VReg,
    ) -> Result<(), UnsupportedForm> {
        let (address, offset) = self.memory_operand(address)?;
        self.emit_detail(
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
