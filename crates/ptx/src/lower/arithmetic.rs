//! Integer and floating-point arithmetic.

use super::operands::{Modifiers, file_of};
use super::{Detail, Lowering, UnsupportedForm, VReg};
use crate::code::{Class, File, LaneFn, LaneFn2, Op, Spread};
use crate::ir::{Instruction, Operand, Ty};
use crate::numeric::{Mode, Rounding, approx, directed, float, half, int};

/// The instance of an integer function for a type.
macro_rules! integer {
    ($ty:expr, $f:ident) => {
        match $ty {
            Ty::U16 | Ty::B16 => Some(int::$f::<u16> as LaneFn),
            Ty::S16 => Some(int::$f::<i16> as LaneFn),
            Ty::U32 | Ty::B32 => Some(int::$f::<u32> as LaneFn),
            Ty::S32 => Some(int::$f::<i32> as LaneFn),
            Ty::U64 | Ty::B64 => Some(int::$f::<u64> as LaneFn),
            Ty::S64 => Some(int::$f::<i64> as LaneFn),
            _ => None,
        }
    };
}
pub(super) use integer;

pub(super) fn is_integer(ty: Ty) -> bool {
    matches!(
        ty,
        Ty::U16 | Ty::S16 | Ty::U32 | Ty::S32 | Ty::U64 | Ty::S64 | Ty::B16 | Ty::B32 | Ty::B64
    )
}

fn float_class(ty: Ty) -> Class {
    match ty {
        Ty::F64 => Class::Fp64,
        Ty::F32 => Class::Fp32,
        _ => Class::Fp16,
    }
}

impl Lowering<'_> {
    /// The sources from the second operand on, all of one type.
    fn sources(
        &mut self,
        i: &Instruction,
        ty: Ty,
        count: usize,
    ) -> Result<Vec<VReg>, UnsupportedForm> {
        if i.operands.len() != count + 1 {
            return Err(UnsupportedForm);
        }
        i.operands[1..]
            .iter()
            .map(|operand| self.source(operand, ty))
            .collect()
    }

    pub(super) fn arithmetic(&mut self, i: &Instruction) -> Result<(), UnsupportedForm> {
        let mut modifiers = Modifiers::new(&i.modifiers);
        match i.base.as_str() {
            "dp4a" | "dp2a" => return self.dot(i, modifiers),
            "vabsdiff2" | "vabsdiff4" => return self.part_distances(i, modifiers),
            "testp" => return self.testp(i, modifiers),
            "copysign" => {
                let ty = modifiers.ty()?;
                modifiers.done()?;
                let f: LaneFn = match ty {
                    Ty::F32 => float::copysign32,
                    Ty::F64 => float::copysign64,
                    _ => return Err(UnsupportedForm),
                };
                let d = self.destination(Self::operand(&i.operands, 0)?, file_of(ty)?)?;
                let s = self.sources(i, ty, 2)?;
                self.emit_lane_fn(f, d, &s, float_class(ty));
                return Ok(());
            }
            _ => {}
        }
        let ty = modifiers.ty()?;
        if is_integer(ty) {
            self.integer_arithmetic(i, modifiers, ty)
        } else {
            self.float_arithmetic(i, modifiers, ty)
        }
    }

    fn integer_arithmetic(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
        ty: Ty,
    ) -> Result<(), UnsupportedForm> {
        let base = i.base.as_str();
        if modifiers.take("cc") || matches!(base, "addc" | "subc" | "madc") {
            return self.carry_arithmetic(i, modifiers, ty);
        }
        let class = Class::Integer;
        let wide = modifiers.take("wide");
        let high = modifiers.take("hi");
        let low = modifiers.take("lo");
        let saturate = modifiers.take("sat");
        modifiers.done()?;
        let d_ty = if wide {
            if ty.bits() == 16 { Ty::B32 } else { Ty::B64 }
        } else {
            ty
        };
        if wide && ty.bits() == 64 {
            return Err(UnsupportedForm);
        }
        let d = self.destination(Self::operand(&i.operands, 0)?, file_of(d_ty)?)?;
        let three = matches!(base, "mad" | "sad" | "mad24");
        let one = matches!(base, "abs" | "neg");
        let count = if three {
            3
        } else if one {
            1
        } else {
            2
        };
        if i.operands.len() != count + 1 {
            return Err(UnsupportedForm);
        }
        let mut s = Vec::new();
        for (index, operand) in i.operands[1..].iter().enumerate() {
            s.push(self.source(operand, if wide && index == 2 { d_ty } else { ty })?);
        }
        let bits = ty.bits();
        let signed = ty.signed();
        let fast = match (base, bits) {
            _ if saturate => None,
            ("add", 32) => Some(Op::Add32),
            ("add", 64) => Some(Op::Add64),
            ("sub", 32) => Some(Op::Sub32),
            ("sub", 64) => Some(Op::Sub64),
            ("mul", 32) if low => Some(Op::Mul32),
            ("mul", 64) if low => Some(Op::Mul64),
            ("mul", 32) if high => Some(if signed { Op::MulHiS32 } else { Op::MulHiU32 }),
            ("mul", 32) if wide => Some(if signed { Op::MulWideS } else { Op::MulWideU }),
            ("mad", 32) if low => Some(Op::Mad32),
            ("mad", 64) if low => Some(Op::Mad64),
            ("mad", 32) if wide => Some(if signed { Op::MadWideS } else { Op::MadWideU }),
            ("min", 32) => Some(if signed { Op::MinS32 } else { Op::MinU32 }),
            ("max", 32) => Some(if signed { Op::MaxS32 } else { Op::MaxU32 }),
            ("neg", 32) => Some(Op::Neg32),
            _ => None,
        };
        if let Some(op) = fast {
            self.emit(op, &[d], &s, class);
            return Ok(());
        }
        let f = match base {
            "add" if saturate => integer!(ty, add_sat),
            "sub" if saturate => integer!(ty, sub_sat),
            "mad" if saturate && high => integer!(ty, mad_hi_sat),
            _ if saturate => None,
            "add" => integer!(ty, add),
            "sub" => integer!(ty, sub),
            "mul" if low => integer!(ty, mul_lo),
            "mul" if high => integer!(ty, mul_hi),
            "mul" if wide => integer!(ty, mul_wide),
            "mad" if low => integer!(ty, mad_lo),
            "mad" if high => integer!(ty, mad_hi),
            "mad" if wide => integer!(ty, mad_wide),
            "mul24" if low && bits == 32 => integer!(ty, mul24_lo),
            "mul24" if high && bits == 32 => integer!(ty, mul24_hi),
            "mad24" if low && bits == 32 => integer!(ty, mad24_lo),
            "mad24" if high && bits == 32 => integer!(ty, mad24_hi),
            "div" => integer!(ty, div),
            "rem" => integer!(ty, rem),
            "min" => integer!(ty, min),
            "max" => integer!(ty, max),
            "abs" => integer!(ty, abs),
            "neg" => integer!(ty, neg),
            "sad" => integer!(ty, sad),
            _ => None,
        };
        let f = f.ok_or(UnsupportedForm)?;
        // ptxas multiplies instead of dividing by a constant.
        let by_constant = matches!(i.operands.get(2), Some(Operand::Integer(..)));
        if !matches!(base, "div" | "rem") || by_constant {
            self.emit_lane_fn(f, d, &s, class);
            return Ok(());
        }
        let class = match (bits, signed) {
            (64, false) => Class::DivisionU64,
            (64, true) => Class::DivisionS64,
            (_, false) => Class::DivisionU32,
            (_, true) => Class::DivisionS32,
        };
        if bits == 64 {
            let detail = Detail::Lane(f, Spread::All);
            self.emit_detail(Op::Divide64, &[d], &s, class, 0, detail);
        } else {
            self.emit_lane_fn(f, d, &s, class);
        }
        Ok(())
    }

    /// The carry flag's register.
    fn carry(&mut self) -> VReg {
        match self.carry {
            Some(v) => v,
            None => {
                let v = self.new_register(File::Predicate);
                self.carry = Some(v);
                v
            }
        }
    }

    /// `add.cc`, `addc`, `sub.cc`, `subc`, `mad.cc`, `madc`: the carry is a predicate.
    fn carry_arithmetic(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
        ty: Ty,
    ) -> Result<(), UnsupportedForm> {
        let _ = modifiers.take("cc");
        let out = i.modifiers.iter().any(|word| word == "cc");
        let high = modifiers.take("hi");
        let low = modifiers.take("lo");
        modifiers.done()?;
        macro_rules! pick {
            ($f:ident) => {
                match ty.bits() {
                    32 => int::$f::<u32> as LaneFn2,
                    64 => int::$f::<u64> as LaneFn2,
                    _ => return Err(UnsupportedForm),
                }
            };
        }
        let signed = ty.signed();
        let f = match i.base.as_str() {
            "add" | "addc" => pick!(add_carry),
            "sub" | "subc" => pick!(sub_borrow),
            "mad" | "madc" if low => pick!(mad_lo_carry),
            "mad" | "madc" if high => match (ty.bits(), signed) {
                (32, true) => int::mad_hi_carry::<i32> as LaneFn2,
                (64, true) => int::mad_hi_carry::<i64> as LaneFn2,
                _ => pick!(mad_hi_carry),
            },
            _ => return Err(UnsupportedForm),
        };
        let file = file_of(ty)?;
        let d = self.destination(Self::operand(&i.operands, 0)?, file)?;
        let count = if i.base.starts_with("mad") { 3 } else { 2 };
        let mut s = self.sources(i, ty, count)?;
        if count == 2 {
            s.push(self.constant(file, 0));
        }
        let carry = self.carry();
        let takes = matches!(i.base.as_str(), "addc" | "subc" | "madc");
        s.push(if takes {
            carry
        } else {
            self.constant(File::Predicate, 0)
        });
        let q = if out {
            carry
        } else {
            self.new_register(File::Predicate)
        };
        self.emit_detail(Op::Lane2, &[d, q], &s, Class::Integer, 0, Detail::Lane2(f));
        Ok(())
    }

    fn float_arithmetic(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
        ty: Ty,
    ) -> Result<(), UnsupportedForm> {
        let base = i.base.as_str();
        let approximate = modifiers.take("approx");
        let full = modifiers.take("full");
        let directed = modifiers.take("rz") as u8
            + modifiers.take("rm") as u8 * 2
            + modifiers.take("rp") as u8 * 3;
        let mut mode = modifiers.mode();
        mode.rounding = match directed {
            0 => mode.rounding,
            1 => Rounding::Zero,
            2 => Rounding::Down,
            3 => Rounding::Up,
            _ => return Err(UnsupportedForm),
        };
        modifiers.done()?;
        let count = match base {
            "fma" | "mad" => 3,
            "add" | "sub" | "mul" | "div" | "min" | "max" => 2,
            _ => 1,
        };
        let d = self.destination(Self::operand(&i.operands, 0)?, file_of(ty)?)?;
        let s = self.sources(i, ty, count)?;
        let special = matches!(
            base,
            "sqrt" | "rcp" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" | "div"
        );
        let class = if special && ty != Ty::F64 {
            Class::Special
        } else {
            float_class(ty)
        };
        if let Some(op) = fast(base, ty, mode) {
            self.emit(op, &[d], &s, class);
            return Ok(());
        }
        let f = definition(base, ty, mode, approximate || full).ok_or(UnsupportedForm)?;
        let mut s = s;
        let zero = self.constant(file_of(ty)?, 0);
        s.resize(3, zero);
        s.push(self.mode_constant(mode));
        self.emit_lane_fn(f, d, &s, class);
        Ok(())
    }

    fn dot(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        let (low, high) = (modifiers.take("lo"), modifiers.take("hi"));
        let b = modifiers.ty()?;
        let a = modifiers.ty()?;
        modifiers.done()?;
        let f: LaneFn = match (i.base.as_str(), a, b) {
            ("dp4a", Ty::U32, Ty::U32) => int::dp4a::<u8, u8>,
            ("dp4a", Ty::S32, Ty::U32) => int::dp4a::<i8, u8>,
            ("dp4a", Ty::U32, Ty::S32) => int::dp4a::<u8, i8>,
            ("dp4a", Ty::S32, Ty::S32) => int::dp4a::<i8, i8>,
            ("dp2a", Ty::U32, Ty::U32) if low => int::dp2a_lo::<u16, u8>,
            ("dp2a", Ty::S32, Ty::U32) if low => int::dp2a_lo::<i16, u8>,
            ("dp2a", Ty::U32, Ty::S32) if low => int::dp2a_lo::<u16, i8>,
            ("dp2a", Ty::S32, Ty::S32) if low => int::dp2a_lo::<i16, i8>,
            ("dp2a", Ty::U32, Ty::U32) if high => int::dp2a_hi::<u16, u8>,
            ("dp2a", Ty::S32, Ty::U32) if high => int::dp2a_hi::<i16, u8>,
            ("dp2a", Ty::U32, Ty::S32) if high => int::dp2a_hi::<u16, i8>,
            ("dp2a", Ty::S32, Ty::S32) if high => int::dp2a_hi::<i16, i8>,
            _ => return Err(UnsupportedForm),
        };
        let d = self.destination(Self::operand(&i.operands, 0)?, File::R32)?;
        let s = self.sources(i, Ty::B32, 3)?;
        self.emit_lane_fn(f, d, &s, Class::Integer);
        Ok(())
    }

    /// `vabsdiff4.dtype.atype.btype[.add] d, a, b, c`, with a and b of one type: the only forms that NVRTC's functions
    /// on parts of a word become. Without `add` all parts are written, so that c has no effect.
    fn part_distances(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        let adds = modifiers.take("add");
        let b = modifiers.ty()?;
        let a = modifiers.ty()?;
        let d = modifiers.ty()?;
        modifiers.done()?;
        let f: LaneFn = match (i.base.as_str(), a, adds) {
            _ if a != b || !matches!(d, Ty::U32 | Ty::S32) => return Err(UnsupportedForm),
            ("vabsdiff2", Ty::U32, false) => int::part_distances::<u16>,
            ("vabsdiff2", Ty::S32, false) => int::part_distances::<i16>,
            ("vabsdiff4", Ty::U32, false) => int::part_distances::<u8>,
            ("vabsdiff4", Ty::S32, false) => int::part_distances::<i8>,
            ("vabsdiff2", Ty::U32, true) => int::sum_part_distances::<u16>,
            ("vabsdiff2", Ty::S32, true) => int::sum_part_distances::<i16>,
            ("vabsdiff4", Ty::U32, true) => int::sum_part_distances::<u8>,
            ("vabsdiff4", Ty::S32, true) => int::sum_part_distances::<i8>,
            _ => return Err(UnsupportedForm),
        };
        let d = self.destination(Self::operand(&i.operands, 0)?, File::R32)?;
        let mut s = self.sources(i, Ty::B32, 3)?;
        if !adds {
            s.pop();
        }
        self.emit_lane_fn(f, d, &s, Class::Integer);
        Ok(())
    }

    fn testp(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        let ty = modifiers.ty()?;
        let pick = |single: LaneFn, double: LaneFn| match ty {
            Ty::F32 => Some(single),
            Ty::F64 => Some(double),
            _ => None,
        };
        let f = modifiers
            .take_by(|word| {
                Some(match word {
                    "finite" => pick(float::finite32, float::finite64),
                    "infinite" => pick(float::infinite32, float::infinite64),
                    "number" => pick(float::number32, float::number64),
                    "notanumber" => pick(float::notanumber32, float::notanumber64),
                    "normal" => pick(float::normal32, float::normal64),
                    "subnormal" => pick(float::subnormal32, float::subnormal64),
                    _ => return None,
                })
            })
            .flatten()
            .ok_or(UnsupportedForm)?;
        modifiers.done()?;
        let d = self.destination(Self::operand(&i.operands, 0)?, File::Predicate)?;
        let s = self.sources(i, ty, 1)?;
        self.emit_lane_fn(f, d, &s, float_class(ty));
        Ok(())
    }

    /// A source that is a predicate, possibly negated: the register, and whether it is negated.
    pub(super) fn predicate(&mut self, operand: &Operand) -> Result<(VReg, bool), UnsupportedForm> {
        match operand {
            Operand::Not(register) => {
                let v = self.register(*register);
                if self.file(v) == File::Predicate {
                    Ok((v, true))
                } else {
                    Err(UnsupportedForm)
                }
            }
            Operand::Integer(value) => Ok((
                self.constant(File::Predicate, u64::from(*value != 0)),
                false,
            )),
            _ => Ok((self.source(operand, Ty::Pred)?, false)),
        }
    }
}

/// The vector form of an operation, where there is one for the mode.
fn fast(base: &str, ty: Ty, mode: Mode) -> Option<Op> {
    let flushing = Mode {
        flush: true,
        ..Mode::PLAIN
    };
    Some(match (base, ty) {
        ("fma" | "mad", Ty::F32)
            if mode
                == (Mode {
                    rounding: Rounding::Down,
                    ..Mode::PLAIN
                }) =>
        {
            Op::FmaRmF32
        }
        ("add", Ty::F32) if mode == flushing => Op::AddFtz,
        ("sub", Ty::F32) if mode == flushing => Op::SubFtz,
        ("mul", Ty::F32) if mode == flushing => Op::MulFtz,
        ("fma" | "mad", Ty::F32) if mode == flushing => Op::FmaFtz,
        ("ex2", Ty::F32) if mode == flushing => Op::Ex2Ftz,
        _ if mode != Mode::PLAIN => return None,
        ("add", Ty::F32) => Op::AddF32,
        ("sub", Ty::F32) => Op::SubF32,
        ("mul", Ty::F32) => Op::MulF32,
        ("fma" | "mad", Ty::F32) => Op::FmaF32,
        ("div", Ty::F32) => Op::DivF32,
        ("neg", Ty::F32) => Op::NegF32,
        ("abs", Ty::F32) => Op::AbsF32,
        ("min", Ty::F32) => Op::MinF32,
        ("max", Ty::F32) => Op::MaxF32,
        ("ex2", Ty::F32) => Op::Ex2F32,
        ("lg2", Ty::F32) => Op::Lg2F32,
        ("rcp", Ty::F32) => Op::RcpF32,
        ("sqrt", Ty::F32) => Op::SqrtF32,
        ("rsqrt", Ty::F32) => Op::RsqrtF32,
        ("add", Ty::F16) => Op::AddF16,
        ("sub", Ty::F16) => Op::SubF16,
        ("mul", Ty::F16) => Op::MulF16,
        ("fma", Ty::F16) => Op::FmaF16,
        ("max", Ty::F16) => Op::MaxF16,
        ("min", Ty::F16) => Op::MinF16,
        ("add", Ty::F16x2) => Op::AddF16x2,
        ("sub", Ty::F16x2) => Op::SubF16x2,
        ("mul", Ty::F16x2) => Op::MulF16x2,
        ("fma", Ty::F16x2) => Op::FmaF16x2,
        ("max", Ty::F16x2) => Op::MaxF16x2,
        ("min", Ty::F16x2) => Op::MinF16x2,
        ("add", Ty::F64) => Op::AddF64,
        ("sub", Ty::F64) => Op::SubF64,
        ("mul", Ty::F64) => Op::MulF64,
        ("fma" | "mad", Ty::F64) => Op::FmaF64,
        ("div", Ty::F64) => Op::DivF64,
        ("sqrt", Ty::F64) => Op::SqrtF64,
        ("neg", Ty::F64) => Op::NegF64,
        ("abs", Ty::F64) => Op::AbsF64,
        ("min", Ty::F64) => Op::MinF64,
        ("max", Ty::F64) => Op::MaxF64,
        _ => return None,
    })
}

/// The lane function that defines an operation in a mode.
pub(super) fn definition(base: &str, ty: Ty, mode: Mode, approximate: bool) -> Option<LaneFn> {
    let nearest = mode.rounding == Rounding::Nearest;
    let plain64 = Mode {
        rounding: Rounding::Nearest,
        ..mode
    } == Mode::PLAIN;
    macro_rules! halves {
        ($h:ident, $h2:ident, $b:ident, $b2:ident) => {
            match ty {
                Ty::F16 => half::$h as LaneFn,
                Ty::F16x2 => half::$h2,
                Ty::Bf16 => half::$b,
                Ty::Bf16x2 => half::$b2,
                _ => return None,
            }
        };
    }
    if matches!(ty, Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2) {
        if !nearest {
            return None;
        }
        return Some(match base {
            "add" => halves!(add_h, add_h2, add_b, add_b2),
            "sub" => halves!(sub_h, sub_h2, sub_b, sub_b2),
            "mul" => halves!(mul_h, mul_h2, mul_b, mul_b2),
            "fma" => halves!(fma_h, fma_h2, fma_b, fma_b2),
            "min" => halves!(min_h, min_h2, min_b, min_b2),
            "max" => halves!(max_h, max_h2, max_b, max_b2),
            "neg" => halves!(neg_h, neg_h2, neg_b, neg_b2),
            "abs" => halves!(abs_h, abs_h2, abs_b, abs_b2),
            "ex2" => halves!(ex2_h, ex2_h2, ex2_b, ex2_b2),
            "tanh" => halves!(tanh_h, tanh_h2, tanh_b, tanh_b2),
            _ => return None,
        });
    }
    let f: LaneFn = match (base, ty) {
        ("add", Ty::F32) => float::add32,
        ("sub", Ty::F32) => float::sub32,
        ("mul", Ty::F32) => float::mul32,
        ("fma" | "mad", Ty::F32) => float::fma32,
        ("div", Ty::F32) => float::div32,
        ("rcp", Ty::F32) => float::rcp32,
        ("sqrt", Ty::F32) => float::sqrt32,
        ("rsqrt", Ty::F32) => approx::rsqrt_lane,
        ("neg", Ty::F32) => float::neg32,
        ("abs", Ty::F32) => float::abs32,
        ("min", Ty::F32) => float::min32,
        ("max", Ty::F32) => float::max32,
        ("ex2", Ty::F32) => approx::ex2_lane,
        ("lg2", Ty::F32) => approx::lg2_lane,
        ("sin", Ty::F32) => approx::sin_lane,
        ("cos", Ty::F32) => approx::cos_lane,
        ("tanh", Ty::F32) => approx::tanh_lane,
        ("add", Ty::F64) if nearest => float::add64,
        ("sub", Ty::F64) if nearest => float::sub64,
        ("add", Ty::F64) if plain64 => directed::add64,
        ("sub", Ty::F64) if plain64 => directed::sub64,
        ("mul", Ty::F64) if plain64 && !nearest => directed::mul64,
        ("fma" | "mad", Ty::F64) if plain64 && !nearest => directed::fma64,
        ("div", Ty::F64) if plain64 && !nearest => directed::div64,
        ("rcp", Ty::F64) if plain64 && !nearest && !approximate => directed::rcp64,
        ("sqrt", Ty::F64) if plain64 && !nearest => directed::sqrt64,
        ("mul", Ty::F64) if plain64 && nearest => float::mul64,
        ("fma" | "mad", Ty::F64) if plain64 && nearest => float::fma64,
        ("div", Ty::F64) if plain64 && nearest => float::div64,
        ("rcp", Ty::F64) if approximate => float::rcp64_approx,
        ("rsqrt", Ty::F64) if approximate && mode.flush => float::rsqrt64_approx,
        ("rsqrt", Ty::F64) => float::rsqrt64,
        ("rcp", Ty::F64) if nearest => float::rcp64,
        ("sqrt", Ty::F64) if nearest => float::sqrt64,
        ("neg", Ty::F64) => float::neg64,
        ("abs", Ty::F64) => float::abs64,
        ("min", Ty::F64) => float::min64,
        ("max", Ty::F64) => float::max64,
        _ => return None,
    };
    Some(f)
}
