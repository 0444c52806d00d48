//! Bits, comparisons and selections.

use super::arithmetic::integer;
use super::operands::{Modifiers, file_of};
use super::{Lowering, UnsupportedForm, VReg};
use crate::code::{Class, Compare, File, LaneFn, Op, Spread};
use crate::ir::{Instruction, Operand, Ty};
use crate::numeric::{Mode, half, int};

fn compare_named(word: &str) -> Option<Compare> {
    Some(match word {
        "eq" => Compare::Eq,
        "ne" => Compare::Ne,
        "lt" | "lo" => Compare::Lt,
        "le" | "ls" => Compare::Le,
        "gt" | "hi" => Compare::Gt,
        "ge" | "hs" => Compare::Ge,
        "equ" => Compare::Equ,
        "neu" => Compare::Neu,
        "ltu" => Compare::Ltu,
        "leu" => Compare::Leu,
        "gtu" => Compare::Gtu,
        "geu" => Compare::Geu,
        "num" => Compare::Num,
        "nan" => Compare::Nan,
        _ => return None,
    })
}

impl Lowering<'_> {
    pub(super) fn logic(&mut self, i: &Instruction) -> Result<(), UnsupportedForm> {
        let mut modifiers = Modifiers::new(&i.modifiers);
        match i.base.as_str() {
            "setp" => self.setp(i, modifiers),
            "set" => self.set(i, modifiers),
            "selp" => {
                let ty = modifiers.ty()?;
                modifiers.done()?;
                let [d, a, b, c] = &i.operands[..] else {
                    return Err(UnsupportedForm);
                };
                let file = file_of(ty)?;
                let d = self.destination(d, file)?;
                let (a, b) = (self.source(a, ty)?, self.source(b, ty)?);
                let (c, negated) = self.predicate(c)?;
                let op = match file {
                    File::R32 => Op::Select32,
                    File::R64 => Op::Select64,
                    File::Predicate => return Err(UnsupportedForm),
                };
                let s = if negated { [b, a, c] } else { [a, b, c] };
                self.emit(op, &[d], &s, Class::Integer);
                Ok(())
            }
            "slct" => self.slct(i, modifiers),
            "and" | "or" | "xor" | "not"
                if i.modifiers.last().is_some_and(|word| word == "pred") =>
            {
                self.predicate_logic(i)
            }
            _ => self.bits(i, modifiers),
        }
    }

    fn predicate_logic(&mut self, i: &Instruction) -> Result<(), UnsupportedForm> {
        if i.modifiers.len() != 1 {
            return Err(UnsupportedForm);
        }
        let d = self.destination(Self::operand(&i.operands, 0)?, File::Predicate)?;
        let mut s = Vec::new();
        for operand in &i.operands[1..] {
            let (v, negated) = self.predicate(operand)?;
            s.push(if negated { self.negated(v) } else { v });
        }
        let (op, count) = match i.base.as_str() {
            "and" => (Op::AndP, 2),
            "or" => (Op::OrP, 2),
            "xor" => (Op::XorP, 2),
            "not" => (Op::NotP, 1),
            _ => return Err(UnsupportedForm),
        };
        if s.len() != count {
            return Err(UnsupportedForm);
        }
        self.emit(op, &[d], &s, Class::Integer);
        Ok(())
    }

    pub(super) fn negated(&mut self, v: VReg) -> VReg {
        let d = self.new_register(File::Predicate);
        // Not guarded: the lanes that are off never read it.
        let guard = self.guard.take();
        self.emit(Op::NotP, &[d], &[v], Class::Integer);
        self.guard = guard;
        d
    }

    fn bits(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        let base = i.base.as_str();
        let (wrap, clamp) = (modifiers.take("wrap"), modifiers.take("clamp"));
        let (left, right) = (modifiers.take("l"), modifiers.take("r"));
        let amount = modifiers.take("shiftamt");
        let selectors: Option<[u16; 4]> = modifiers.take_by(|word| {
            Some(match word {
                "f4e" => [0x3210, 0x4321, 0x5432, 0x6543],
                "b4e" => [0x5670, 0x6701, 0x7012, 0x0123],
                "rc8" => [0x0000, 0x1111, 0x2222, 0x3333],
                "ecl" => [0x3210, 0x3211, 0x3222, 0x3333],
                "ecr" => [0x0000, 0x1110, 0x2210, 0x3210],
                "rc16" => [0x1010, 0x3232, 0x1010, 0x3232],
                _ => return None,
            })
        });
        let ty = modifiers.ty()?;
        modifiers.done()?;
        let file = file_of(ty)?;
        let bits = ty.bits();
        let result_32 = matches!(base, "popc" | "clz" | "bfind");
        let d = self.destination(
            Self::operand(&i.operands, 0)?,
            if result_32 { File::R32 } else { file },
        )?;
        // Distances, positions and lengths are 32-bit whatever the type.
        let types: Vec<Ty> = match base {
            "and" | "or" | "xor" => vec![ty; 2],
            "not" | "cnot" | "brev" | "popc" | "clz" | "bfind" => vec![ty],
            "shl" | "shr" => vec![ty, Ty::U32],
            "bfe" => vec![ty, Ty::U32, Ty::U32],
            "bfi" => vec![ty, ty, Ty::U32, Ty::U32],
            "bmsk" | "szext" => vec![ty; 2],
            "shf" | "prmt" => vec![Ty::B32; 3],
            "lop3" => vec![Ty::B32, Ty::B32, Ty::B32, Ty::B32],
            _ => return Err(UnsupportedForm),
        };
        if i.operands.len() != types.len() + 1 {
            return Err(UnsupportedForm);
        }
        let mut s = Vec::new();
        for (operand, ty) in i.operands[1..].iter().zip(&types) {
            s.push(self.source(operand, *ty)?);
        }
        let signed = ty.signed();
        let fast = match (base, bits) {
            ("and", 32) => Some(Op::And32),
            ("or", 32) => Some(Op::Or32),
            ("xor", 32) => Some(Op::Xor32),
            ("not", 32) => Some(Op::Not32),
            ("shl", 32) => Some(Op::Shl32),
            ("shr", 32) => Some(if signed { Op::ShrS32 } else { Op::ShrU32 }),
            ("and", 64) => Some(Op::And64),
            ("or", 64) => Some(Op::Or64),
            ("xor", 64) => Some(Op::Xor64),
            ("not", 64) => Some(Op::Not64),
            ("shl", 64) => Some(Op::Shl64),
            ("shr", 64) => Some(if signed { Op::ShrS64 } else { Op::ShrU64 }),
            _ => None,
        };
        if let Some(op) = fast {
            self.emit(op, &[d], &s, Class::Integer);
            return Ok(());
        }
        let f: Option<LaneFn> = match base {
            "and" => integer!(ty, and),
            "or" => integer!(ty, or),
            "xor" => integer!(ty, xor),
            "not" => integer!(ty, not),
            "cnot" => integer!(ty, cnot),
            "shl" => integer!(ty, shl),
            "shr" => integer!(ty, shr),
            "popc" => integer!(ty, popc),
            "clz" => integer!(ty, clz),
            "brev" => integer!(ty, brev),
            "bfind" if amount => integer!(ty, bfind_shift),
            "bfind" => integer!(ty, bfind),
            "bfe" => integer!(ty, bfe),
            "bfi" => integer!(ty, bfi),
            "bmsk" if clamp => Some(int::bmsk_clamp),
            "bmsk" if wrap => Some(int::bmsk_wrap),
            "szext" if clamp => integer!(ty, szext_clamp),
            "szext" if wrap => integer!(ty, szext_wrap),
            "shf" if bits == 32 && left && wrap => Some(int::shf_l_wrap),
            "shf" if bits == 32 && left && clamp => Some(int::shf_l_clamp),
            "shf" if bits == 32 && right && wrap => Some(int::shf_r_wrap),
            "shf" if bits == 32 && right && clamp => Some(int::shf_r_clamp),
            "prmt" if bits == 32 => match selectors {
                None => Some(int::prmt),
                Some([_, 0x4321, ..]) => {
                    Some(|v| int::prmt_mode([0x3210, 0x4321, 0x5432, 0x6543], v))
                }
                Some([_, 0x6701, ..]) => {
                    Some(|v| int::prmt_mode([0x5670, 0x6701, 0x7012, 0x0123], v))
                }
                Some([_, 0x1111, 0x2222, _]) => {
                    Some(|v| int::prmt_mode([0x0000, 0x1111, 0x2222, 0x3333], v))
                }
                Some([_, 0x3211, ..]) => {
                    Some(|v| int::prmt_mode([0x3210, 0x3211, 0x3222, 0x3333], v))
                }
                Some([_, 0x1110, ..]) => {
                    Some(|v| int::prmt_mode([0x0000, 0x1110, 0x2210, 0x3210], v))
                }
                Some(_) => Some(|v| int::prmt_mode([0x1010, 0x3232, 0x1010, 0x3232], v)),
            },
            "lop3" if bits == 32 => Some(int::lop3),
            _ => None,
        };
        let spread = match base {
            "not" | "brev" | "shl" | "shr" | "bfe" => Spread::Bits(1),
            "and" | "or" | "xor" | "bfi" | "shf" | "prmt" => Spread::Bits(2),
            "lop3" => Spread::Bits(3),
            _ => Spread::All,
        };
        self.lane_with(spread, f.ok_or(UnsupportedForm)?, d, &s, Class::Integer);
        Ok(())
    }

    fn slct(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        let by = modifiers.ty()?;
        let ty = modifiers.ty()?;
        let _ = modifiers.take("ftz");
        modifiers.done()?;
        let [d, a, b, c] = &i.operands[..] else {
            return Err(UnsupportedForm);
        };
        let file = file_of(ty)?;
        let d = self.destination(d, file)?;
        let (a, b) = (self.source(a, ty)?, self.source(b, ty)?);
        let c = self.source(c, by)?;
        let zero = self.constant(File::R32, 0);
        let condition = self.new_register(File::Predicate);
        let op = match by {
            Ty::S32 => Op::SetpS32,
            Ty::F32 => Op::SetpF32,
            _ => return Err(UnsupportedForm),
        };
        self.emit_x(
            op,
            &[condition],
            &[c, zero],
            Class::Integer,
            Compare::Ge as u32,
        );
        let op = if file == File::R64 {
            Op::Select64
        } else {
            Op::Select32
        };
        self.emit(op, &[d], &[a, b, condition], Class::Integer);
        Ok(())
    }

    /// A comparison into a fresh predicate.
    fn comparison(
        &mut self,
        compare: Compare,
        ty: Ty,
        a: &Operand,
        b: &Operand,
        flush: bool,
    ) -> Result<VReg, UnsupportedForm> {
        let (mut a, mut b) = (self.source(a, ty)?, self.source(b, ty)?);
        let d = self.new_register(File::Predicate);
        let guard = self.guard.take();
        if flush && ty == Ty::F32 {
            let mode = self.mode_constant(Mode {
                flush: true,
                ..Mode::PLAIN
            });
            let zero = self.constant(File::R32, 0);
            for v in [&mut a, &mut b] {
                let flushed = self.new_register(File::R32);
                self.emit_lane_fn(
                    crate::numeric::float::f32_to_f32,
                    flushed,
                    &[*v, zero, zero, mode],
                    Class::Move,
                );
                *v = flushed;
            }
        }
        let ty = match ty {
            Ty::F16 | Ty::Bf16 => {
                let op = if ty == Ty::F16 {
                    Op::F16ToF32
                } else {
                    Op::Bf16ToF32
                };
                for v in [&mut a, &mut b] {
                    let single = self.new_register(File::R32);
                    self.emit(op, &[single], &[*v], Class::Move);
                    *v = single;
                }
                Ty::F32
            }
            _ => ty,
        };
        let float_only = !matches!(
            compare,
            Compare::Eq | Compare::Ne | Compare::Lt | Compare::Le | Compare::Gt | Compare::Ge
        );
        let (op, class) = match ty {
            Ty::F32 => (Some(Op::SetpF32), Class::Fp32),
            Ty::F64 => (Some(Op::SetpF64), Class::Fp64),
            _ if float_only => return Err(UnsupportedForm),
            Ty::S32 => (Some(Op::SetpS32), Class::Integer),
            Ty::U32 | Ty::B32 => (Some(Op::SetpU32), Class::Integer),
            Ty::S64 => (Some(Op::SetpS64), Class::Integer),
            Ty::U64 | Ty::B64 => (Some(Op::SetpU64), Class::Integer),
            _ => (None, Class::Integer),
        };
        match op {
            Some(op) => self.emit_x(op, &[d], &[a, b], class, compare as u32),
            None => {
                let f = match compare {
                    Compare::Eq => integer!(ty, eq),
                    Compare::Ne => integer!(ty, ne),
                    Compare::Lt => integer!(ty, lt),
                    Compare::Le => integer!(ty, le),
                    Compare::Gt => integer!(ty, gt),
                    _ => integer!(ty, ge),
                };
                self.emit_lane_fn(f.ok_or(UnsupportedForm)?, d, &[a, b], class);
            }
        }
        self.guard = guard;
        Ok(d)
    }

    /// `setp.cmp[.bool][.ftz].type p[|q], a, b[, c]`
    fn setp(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        let ty = modifiers.ty()?;
        let compare = modifiers.take_by(compare_named).ok_or(UnsupportedForm)?;
        let combine = modifiers.take_by(|word| match word {
            "and" => Some(Op::AndP),
            "or" => Some(Op::OrP),
            "xor" => Some(Op::XorP),
            _ => None,
        });
        let flush = modifiers.take("ftz");
        modifiers.done()?;
        let operands = &i.operands;
        if operands.len() != if combine.is_some() { 4 } else { 3 } {
            return Err(UnsupportedForm);
        }
        let (p, q) = match &operands[0] {
            Operand::Pair(p, q) => (
                self.destination(p, File::Predicate)?,
                Some(self.destination(q, File::Predicate)?),
            ),
            other => (self.destination(other, File::Predicate)?, None),
        };
        let other = match operands.get(3) {
            Some(operand) => Some(self.predicate(operand)?),
            None => None,
        };
        let other = other.map(|(v, negated)| if negated { self.negated(v) } else { v });
        let truth = self.comparison(compare, ty, &operands[1], &operands[2], flush)?;
        let Some(q) = q else {
            // One result: let the comparison write it directly.
            return match (combine, other) {
                (Some(op), Some(other)) => {
                    self.emit(op, &[p], &[truth, other], Class::Move);
                    Ok(())
                }
                _ => {
                    let guard = self.guard;
                    let last = self
                        .code
                        .last_mut()
                        .expect("the comparison was just emitted");
                    last.d[0] = p;
                    last.guard = guard;
                    Ok(())
                }
            };
        };
        let inverse = self.negated(truth);
        match (combine, other) {
            (Some(op), Some(other)) => {
                // Both read the old operand, so it must not be one of the results yet.
                let first = self.new_register(File::Predicate);
                self.emit(op, &[first], &[truth, other], Class::Move);
                self.emit(op, &[q], &[inverse, other], Class::Move);
                self.emit(Op::MovP, &[p], &[first], Class::Move);
            }
            _ => {
                self.emit(Op::MovP, &[p], &[truth], Class::Move);
                self.emit(Op::MovP, &[q], &[inverse], Class::Move);
            }
        }
        Ok(())
    }

    /// `set.cmp[.bool].dtype.stype d, a, b[, c]`: all ones or 1.0 where true.
    fn set(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        let ty = modifiers.ty()?;
        let d_ty = modifiers.ty()?;
        let compare = modifiers.take_by(compare_named).ok_or(UnsupportedForm)?;
        let combine = modifiers.take_by(|word| match word {
            "and" => Some(Op::AndP),
            "or" => Some(Op::OrP),
            "xor" => Some(Op::XorP),
            _ => None,
        });
        let flush = modifiers.take("ftz");
        modifiers.done()?;
        if matches!(ty, Ty::F16x2 | Ty::Bf16x2) {
            if combine.is_some() || i.operands.len() != 3 {
                return Err(UnsupportedForm);
            }
            let d = self.destination(&i.operands[0], File::R32)?;
            let (a, b) = (
                self.source(&i.operands[1], ty)?,
                self.source(&i.operands[2], ty)?,
            );
            let truth = match d_ty {
                Ty::F16x2 => 0x3c00,
                Ty::Bf16x2 => 0x3f80,
                Ty::U32 | Ty::S32 => 0xffff,
                _ => return Err(UnsupportedForm),
            };
            let brain = u64::from(ty == Ty::Bf16x2) << 32;
            let how = self.constant(File::R64, truth | (compare as u64) << 16 | brain);
            let zero = self.constant(File::R32, 0);
            self.emit_lane_fn(half::set_pair, d, &[a, b, zero, how], Class::Fp16);
            return Ok(());
        }
        let [d, a, b, ..] = &i.operands[..] else {
            return Err(UnsupportedForm);
        };
        let other = match (combine, i.operands.get(3)) {
            (Some(_), Some(operand)) => Some(self.predicate(operand)?),
            (None, None) => None,
            _ => return Err(UnsupportedForm),
        };
        let other = other.map(|(v, negated)| if negated { self.negated(v) } else { v });
        let mut truth = self.comparison(compare, ty, a, b, flush)?;
        if let (Some(op), Some(other)) = (combine, other) {
            let both = self.new_register(File::Predicate);
            self.emit(op, &[both], &[truth, other], Class::Move);
            truth = both;
        }
        let one = match d_ty {
            Ty::F32 => 0x3f80_0000,
            Ty::U32 | Ty::S32 => 0xffff_ffff,
            Ty::F16 => 0x3c00,
            Ty::Bf16 => 0x3f80,
            Ty::U16 | Ty::S16 => 0xffff,
            _ => return Err(UnsupportedForm),
        };
        let d = self.destination(d, File::R32)?;
        let (one, zero) = (self.constant(File::R32, one), self.constant(File::R32, 0));
        self.emit(Op::Select32, &[d], &[one, zero, truth], Class::Integer);
        Ok(())
    }
}
