//! What the lanes of a warp do together: shuffles, votes, matches, reductions.

use super::operands::Words;
use super::{Detail, Lowering, Unknown, V};
use crate::code::{Class, File, Op, WarpKind};
use crate::ir::{Instruction, Operand, Ty};

impl Lowering<'_> {
    pub(super) fn warp(&mut self, i: &Instruction) -> Result<(), Unknown> {
        let mut words = Words::new(&i.modifiers);
        if i.base == "activemask" {
            let _ = words.ty()?;
            words.done()?;
            let d = self.destination(Self::operand(&i.operands, 0)?, File::R32)?;
            self.emit(Op::ActiveMask, &[d], &[], Class::Warp);
            return Ok(());
        }
        // The forms without a member mask are gone since sm_70.
        if !words.take("sync") {
            return Err(Unknown);
        }
        match i.base.as_str() {
            "shfl" => self.shuffle(i, words),
            "vote" => self.vote(i, words),
            "match" => self.match_lanes(i, words),
            "redux" => self.redux(i, words),
            "elect" => self.elect(i, &words),
            _ => Err(Unknown),
        }
    }

    fn warp_draft(&mut self, op: Op, kind: WarpKind, negated: bool, d: &[V], s: [V; 4]) {
        self.draft(op, d, &s, Class::Warp, 0, Detail::Warp { kind, negated });
    }

    fn pair(&mut self, operand: &Operand, file: File) -> Result<(V, V), Unknown> {
        match operand {
            Operand::Pair(d, p) => Ok((
                self.destination(d, file)?,
                self.destination(p, File::Predicate)?,
            )),
            single => Ok((self.destination(single, file)?, V::NONE)),
        }
    }

    fn shuffle(&mut self, i: &Instruction, mut words: Words<'_>) -> Result<(), Unknown> {
        let ty = words.ty()?;
        let kind = words
            .take_by(|word| {
                Some(match word {
                    "up" => WarpKind::ShuffleUp,
                    "down" => WarpKind::ShuffleDown,
                    "bfly" => WarpKind::ShuffleXor,
                    "idx" => WarpKind::ShuffleIndex,
                    _ => return None,
                })
            })
            .ok_or(Unknown)?;
        words.done()?;
        let [d, a, b, c, mask] = &i.operands[..] else {
            return Err(Unknown);
        };
        if ty.bits() != 32 {
            return Err(Unknown);
        }
        let (d, p) = self.pair(d, File::R32)?;
        let s = [
            self.source(a, ty)?,
            self.source(b, Ty::B32)?,
            self.source(c, Ty::B32)?,
            self.source(mask, Ty::B32)?,
        ];
        self.warp_draft(Op::Shuffle, kind, false, &[d, p], s);
        Ok(())
    }

    fn vote(&mut self, i: &Instruction, mut words: Words<'_>) -> Result<(), Unknown> {
        let ty = words.ty()?;
        let kind = words
            .take_by(|word| {
                Some(match word {
                    "all" => WarpKind::VoteAll,
                    "any" => WarpKind::VoteAny,
                    "uni" => WarpKind::VoteUni,
                    "ballot" => WarpKind::Ballot,
                    _ => return None,
                })
            })
            .ok_or(Unknown)?;
        words.done()?;
        let [d, a, mask] = &i.operands[..] else {
            return Err(Unknown);
        };
        let file = match (kind, ty) {
            (WarpKind::Ballot, Ty::B32) => File::R32,
            (WarpKind::Ballot, _) => return Err(Unknown),
            (_, Ty::Pred) => File::Predicate,
            _ => return Err(Unknown),
        };
        let d = self.destination(d, file)?;
        let (a, negated) = self.predicate(a)?;
        let mask = self.source(mask, Ty::B32)?;
        self.warp_draft(Op::Vote, kind, negated, &[d], [a, V::NONE, V::NONE, mask]);
        Ok(())
    }

    fn match_lanes(&mut self, i: &Instruction, mut words: Words<'_>) -> Result<(), Unknown> {
        let ty = words.ty()?;
        let any = words.take("any");
        let all = words.take("all");
        words.done()?;
        if any == all {
            return Err(Unknown);
        }
        let [d, a, mask] = &i.operands[..] else {
            return Err(Unknown);
        };
        let (d, p) = self.pair(d, File::R32)?;
        let a = self.source(a, ty)?;
        let mask = self.source(mask, Ty::B32)?;
        let kind = if any {
            WarpKind::MatchAny
        } else {
            WarpKind::MatchAll
        };
        self.warp_draft(Op::Match, kind, false, &[d, p], [a, V::NONE, V::NONE, mask]);
        Ok(())
    }

    fn redux(&mut self, i: &Instruction, mut words: Words<'_>) -> Result<(), Unknown> {
        let ty = words.ty()?;
        let kind = words
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
            .ok_or(Unknown)?;
        words.done()?;
        let [d, a, mask] = &i.operands[..] else {
            return Err(Unknown);
        };
        let d = self.destination(d, File::R32)?;
        let a = self.source(a, ty)?;
        let mask = self.source(mask, Ty::B32)?;
        self.warp_draft(Op::Redux, kind, false, &[d], [a, V::NONE, V::NONE, mask]);
        Ok(())
    }

    fn elect(&mut self, i: &Instruction, words: &Words<'_>) -> Result<(), Unknown> {
        words.done()?;
        let [d, mask] = &i.operands[..] else {
            return Err(Unknown);
        };
        let (d, p) = self.pair(d, File::R32)?;
        let mask = self.source(mask, Ty::B32)?;
        self.warp_draft(
            Op::Elect,
            WarpKind::Elect,
            false,
            &[d, p],
            [V::NONE, V::NONE, V::NONE, mask],
        );
        Ok(())
    }
}
