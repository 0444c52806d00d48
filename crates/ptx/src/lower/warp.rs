//! Lowering of warp-wide instructions: shuffles, votes, matches, reductions.

use super::operands::Modifiers;
use super::{Detail, Lowering, UnsupportedForm, VReg};
use crate::code::{Class, File, Op, WarpKind};
use crate::ir::{Instruction, Operand, Ty};

impl Lowering<'_> {
    pub(super) fn warp(&mut self, i: &Instruction) -> Result<(), UnsupportedForm> {
        let mut modifiers = Modifiers::new(&i.modifiers);
        if i.base == "activemask" {
            let _ = modifiers.ty()?;
            modifiers.done()?;
            let d = self.destination(Self::operand(&i.operands, 0)?, File::R32)?;
            self.emit(Op::ActiveMask, &[d], &[], Class::Warp);
            return Ok(());
        }
        // The forms without a member mask are gone since sm_70.
        if !modifiers.take("sync") {
            return Err(UnsupportedForm);
        }
        match i.base.as_str() {
            "shfl" => self.shuffle(i, modifiers),
            "vote" => self.vote(i, modifiers),
            "match" => self.match_lanes(i, modifiers),
            "redux" => self.redux(i, modifiers),
            "elect" => self.elect(i, &modifiers),
            "movmatrix" => self.transpose(i, modifiers),
            _ => Err(UnsupportedForm),
        }
    }

    fn emit_warp(&mut self, op: Op, kind: WarpKind, negated: bool, d: &[VReg], s: [VReg; 4]) {
        self.emit_detail(op, d, &s, Class::Warp, 0, Detail::Warp { kind, negated });
    }

    fn pair(&mut self, operand: &Operand, file: File) -> Result<(VReg, VReg), UnsupportedForm> {
        match operand {
            Operand::Pair(d, p) => Ok((
                self.destination(d, file)?,
                self.destination(p, File::Predicate)?,
            )),
            single => Ok((self.destination(single, file)?, VReg::NONE)),
        }
    }

    fn shuffle(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        let ty = modifiers.ty()?;
        let kind = modifiers
            .take_by(|word| {
                Some(match word {
                    "up" => WarpKind::ShuffleUp,
                    "down" => WarpKind::ShuffleDown,
                    "bfly" => WarpKind::ShuffleXor,
                    "idx" => WarpKind::ShuffleIndex,
                    _ => return None,
                })
            })
            .ok_or(UnsupportedForm)?;
        modifiers.done()?;
        let [d, a, b, c, mask] = &i.operands[..] else {
            return Err(UnsupportedForm);
        };
        if ty.bits() != 32 {
            return Err(UnsupportedForm);
        }
        let (d, p) = self.pair(d, File::R32)?;
        let s = [
            self.source(a, ty)?,
            self.source(b, Ty::B32)?,
            self.source(c, Ty::B32)?,
            self.source(mask, Ty::B32)?,
        ];
        self.emit_warp(Op::Shuffle, kind, false, &[d, p], s);
        Ok(())
    }

    fn vote(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        let ty = modifiers.ty()?;
        let kind = modifiers
            .take_by(|word| {
                Some(match word {
                    "all" => WarpKind::VoteAll,
                    "any" => WarpKind::VoteAny,
                    "uni" => WarpKind::VoteUni,
                    "ballot" => WarpKind::Ballot,
                    _ => return None,
                })
            })
            .ok_or(UnsupportedForm)?;
        modifiers.done()?;
        let [d, a, mask] = &i.operands[..] else {
            return Err(UnsupportedForm);
        };
        let file = match (kind, ty) {
            (WarpKind::Ballot, Ty::B32) => File::R32,
            (WarpKind::Ballot, _) => return Err(UnsupportedForm),
            (_, Ty::Pred) => File::Predicate,
            _ => return Err(UnsupportedForm),
        };
        let d = self.destination(d, file)?;
        let (a, negated) = self.predicate(a)?;
        let mask = self.source(mask, Ty::B32)?;
        self.emit_warp(
            Op::Vote,
            kind,
            negated,
            &[d],
            [a, VReg::NONE, VReg::NONE, mask],
        );
        Ok(())
    }

    fn match_lanes(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        let ty = modifiers.ty()?;
        let any = modifiers.take("any");
        let all = modifiers.take("all");
        modifiers.done()?;
        if any == all {
            return Err(UnsupportedForm);
        }
        let [d, a, mask] = &i.operands[..] else {
            return Err(UnsupportedForm);
        };
        let (d, p) = self.pair(d, File::R32)?;
        let a = self.source(a, ty)?;
        let mask = self.source(mask, Ty::B32)?;
        let kind = if any {
            WarpKind::MatchAny
        } else {
            WarpKind::MatchAll
        };
        self.emit_warp(
            Op::Match,
            kind,
            false,
            &[d, p],
            [a, VReg::NONE, VReg::NONE, mask],
        );
        Ok(())
    }

    fn redux(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        let ty = modifiers.ty()?;
        let kind = modifiers
            .take_by(|word| {
                Some(match (word, ty) {
                    ("add", Ty::U32 | Ty::S32) => WarpKind::ReduxAdd,
                    ("min", Ty::S32) => WarpKind::ReduxMinS,
                    ("max", Ty::S32) => WarpKind::ReduxMaxS,
                    ("min", Ty::U32) => WarpKind::ReduxMinU,
                    ("max", Ty::U32) => WarpKind::ReduxMaxU,
                    ("and", Ty::B32) => WarpKind::ReduxAnd,
                    ("or", Ty::B32) => WarpKind::ReduxOr,
                    ("xor", Ty::B32) => WarpKind::ReduxXor,
                    _ => return None,
                })
            })
            .ok_or(UnsupportedForm)?;
        modifiers.done()?;
        let [d, a, mask] = &i.operands[..] else {
            return Err(UnsupportedForm);
        };
        let d = self.destination(d, File::R32)?;
        let a = self.source(a, ty)?;
        let mask = self.source(mask, Ty::B32)?;
        self.emit_warp(
            Op::Redux,
            kind,
            false,
            &[d],
            [a, VReg::NONE, VReg::NONE, mask],
        );
        Ok(())
    }

    /// `movmatrix.sync.aligned.m8n8.trans.b16 d, a`, which all lanes execute together.
    fn transpose(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        let needed = ["aligned", "m8n8", "trans", "b16"];
        if !needed.into_iter().all(|word| modifiers.take(word)) {
            return Err(UnsupportedForm);
        }
        modifiers.done()?;
        let [d, a] = &i.operands[..] else {
            return Err(UnsupportedForm);
        };
        let d = self.destination(d, File::R32)?;
        let a = self.source(a, Ty::B32)?;
        let all = self.constant(File::R32, u64::from(u32::MAX));
        self.emit_warp(
            Op::Match,
            WarpKind::Transpose,
            false,
            &[d],
            [a, VReg::NONE, VReg::NONE, all],
        );
        Ok(())
    }

    fn elect(&mut self, i: &Instruction, modifiers: &Modifiers<'_>) -> Result<(), UnsupportedForm> {
        modifiers.done()?;
        let [d, mask] = &i.operands[..] else {
            return Err(UnsupportedForm);
        };
        let (d, p) = self.pair(d, File::R32)?;
        let mask = self.source(mask, Ty::B32)?;
        self.emit_warp(
            Op::Elect,
            WarpKind::Elect,
            false,
            &[d, p],
            [VReg::NONE, VReg::NONE, VReg::NONE, mask],
        );
        Ok(())
    }
}
