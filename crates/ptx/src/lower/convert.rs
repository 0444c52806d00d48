//! Moves, packing, conversions and address space casts.

use super::operands::{Modifiers, file_of};
use super::{Lowering, Storage, UnsupportedForm, VReg};
use crate::code::{Class, File, LaneFn, Op, Spread};
use crate::ir::{Instruction, Operand, StateSpace, Symbol, Ty};
use crate::memory::window;
use crate::numeric::{Mode, Rounding, float, half, int};

impl Lowering<'_> {
    pub(super) fn convert(&mut self, i: &Instruction) -> Result<(), UnsupportedForm> {
        let modifiers = Modifiers::new(&i.modifiers);
        match i.base.as_str() {
            "mov" => self.mov(i, modifiers),
            "cvt" => self.cvt(i, modifiers),
            "cvta" => self.cvta(i, modifiers),
            "isspacep" => self.isspacep(i, modifiers),
            _ => Err(UnsupportedForm),
        }
    }

    pub(super) fn copy(&mut self, d: VReg, s: VReg) -> Result<(), UnsupportedForm> {
        let op = match (self.file(d), self.file(s)) {
            (File::R32, File::R32) => Op::Mov32,
            (File::R64, File::R64) => Op::Mov64,
            (File::Predicate, File::Predicate) => Op::MovP,
            _ => return Err(UnsupportedForm),
        };
        self.emit(op, &[d], &[s], Class::Move);
        Ok(())
    }

    fn mov(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        let ty = modifiers.ty()?;
        modifiers.done()?;
        let [d, s] = &i.operands[..] else {
            return Err(UnsupportedForm);
        };
        match (d, s) {
            (Operand::Vector(parts), _) => self.unpack(parts, s, ty),
            (_, Operand::Vector(parts)) => self.pack(d, parts, ty),
            (_, Operand::Special(name))
                if matches!(
                    name.as_str(),
                    "clock" | "clock64" | "clock_hi" | "globaltimer"
                ) =>
            {
                let which = match name.as_str() {
                    "clock" => 0,
                    "clock64" => 1,
                    "globaltimer" => 2,
                    _ => return Err(UnsupportedForm),
                };
                let d = self.destination(d, file_of(ty)?)?;
                self.emit_x(Op::Clock, &[d], &[], Class::Other, which);
                Ok(())
            }
            _ => {
                let d = self.destination(d, file_of(ty)?)?;
                if ty == Ty::Pred {
                    let (s, negated) = self.predicate(s)?;
                    self.emit(
                        if negated { Op::NotP } else { Op::MovP },
                        &[d],
                        &[s],
                        Class::Move,
                    );
                    return Ok(());
                }
                let s = self.source(s, ty)?;
                self.copy(d, s)
            }
        }
    }

    fn unpack(&mut self, parts: &[Operand], s: &Operand, ty: Ty) -> Result<(), UnsupportedForm> {
        let s = self.source(s, ty)?;
        match (ty.bits(), parts) {
            (64, [low, high]) => {
                let d = [
                    self.destination(low, File::R32)?,
                    self.destination(high, File::R32)?,
                ];
                self.emit(Op::Unpack64, &d, &[s], Class::Move);
            }
            (32, [low, high]) => {
                let d = [
                    self.destination(low, File::R32)?,
                    self.destination(high, File::R32)?,
                ];
                self.emit(Op::Unpack32, &d, &[s], Class::Move);
            }
            (bits @ (32 | 64), parts) if parts.len() == 4 => {
                let (width, source) = (bits / 4, file_of(ty)?);
                for (index, part) in parts.iter().enumerate() {
                    let d = self.destination(part, File::R32)?;
                    let position = self.constant(File::R32, u64::from(width) * index as u64);
                    let length = self.constant(File::R32, u64::from(width));
                    let f: LaneFn = if source == File::R64 {
                        int::bfe::<u64>
                    } else {
                        int::bfe::<u32>
                    };
                    self.lane_with(Spread::Bits(1), f, d, &[s, position, length], Class::Move);
                }
            }
            _ => return Err(UnsupportedForm),
        }
        Ok(())
    }

    fn pack(&mut self, d: &Operand, parts: &[Operand], ty: Ty) -> Result<(), UnsupportedForm> {
        let d = self.destination(d, file_of(ty)?)?;
        let part_ty = match (ty.bits(), parts.len()) {
            (64, 2) => Ty::B32,
            (32, 2) | (64, 4) => Ty::B16,
            (32, 4) => Ty::B8,
            _ => return Err(UnsupportedForm),
        };
        let mut s = Vec::new();
        for part in parts {
            s.push(self.source(part, part_ty)?);
        }
        match (ty.bits(), parts.len()) {
            (64, 2) => self.emit(Op::Pack64, &[d], &s, Class::Move),
            (32, 2) => self.emit(Op::Pack32, &[d], &s, Class::Move),
            (64, _) => self.lane_with(
                Spread::Bits(4),
                |v| v[0] | v[1] << 16 | v[2] << 32 | v[3] << 48,
                d,
                &s,
                Class::Move,
            ),
            _ => self.lane_with(
                Spread::Bits(4),
                |v| v[0] & 0xff | (v[1] & 0xff) << 8 | (v[2] & 0xff) << 16 | (v[3] & 0xff) << 24,
                d,
                &s,
                Class::Move,
            ),
        }
        Ok(())
    }

    /// `cvt[.rounding][.ftz][.sat].dtype.stype d, a[, b]`
    fn cvt(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        let from = modifiers.ty()?;
        let to = modifiers.ty()?;
        let rounded = i
            .modifiers
            .iter()
            .any(|word| matches!(word.as_str(), "rn" | "rz" | "rm" | "rp" | "rna"));
        let integral = i
            .modifiers
            .iter()
            .any(|word| matches!(word.as_str(), "rni" | "rzi" | "rmi" | "rpi"));
        let mode = modifiers.mode();
        modifiers.done()?;
        let zero = self.constant(File::R32, 0);
        let mode_v = self.mode_constant(mode);
        let class = if from.bits() == 64 || to.bits() == 64 {
            Class::WideConversion
        } else {
            Class::Conversion
        };
        if i.operands.len() == 3 {
            let d = self.destination(&i.operands[0], File::R32)?;
            let (a, b) = (
                self.source(&i.operands[1], Ty::F32)?,
                self.source(&i.operands[2], Ty::F32)?,
            );
            if from != Ty::F32 || !rounded {
                return Err(UnsupportedForm);
            }
            let plain = mode == Mode::PLAIN;
            match to {
                Ty::F16x2 if plain => self.emit(Op::F32x2ToF16x2, &[d], &[a, b], class),
                Ty::Bf16x2 if plain => self.emit(Op::F32x2ToBf16x2, &[d], &[a, b], class),
                Ty::F16x2 => self.lane_with(
                    Spread::NarrowPair,
                    half::f32_pair_to_f16x2_lane,
                    d,
                    &[a, b, zero, mode_v],
                    class,
                ),
                Ty::Bf16x2 => self.lane_with(
                    Spread::NarrowPair,
                    half::f32_pair_to_bf16x2_lane,
                    d,
                    &[a, b, zero, mode_v],
                    class,
                ),
                Ty::E4m3x2 => {
                    self.emit_lane_fn(half::f32_pair_to_e4m3_lane, d, &[a, b, zero, mode_v], class);
                }
                Ty::E5m2x2 => {
                    self.emit_lane_fn(half::f32_pair_to_e5m2_lane, d, &[a, b, zero, mode_v], class);
                }
                _ => return Err(UnsupportedForm),
            }
            return Ok(());
        }
        let [d, a] = &i.operands[..] else {
            return Err(UnsupportedForm);
        };
        // Registers may be wider than the types: a narrow integer lands extended in a wide register.
        let d_declared = self.declared(d).ok_or(UnsupportedForm)?;
        let d = self.destination(d, file_of(d_declared)?)?;
        let a_ty = self
            .declared(a)
            .filter(|declared| declared.bits() > from.bits())
            .unwrap_or(from);
        let a = self.source(a, a_ty)?;
        if is_int(from) && is_int(to) {
            return self.integer_to_integer(d, d_declared, a, a_ty, to, from, mode);
        }
        if file_of(to)? != self.file(d) {
            return Err(UnsupportedForm);
        }
        let plain = mode == Mode::PLAIN;
        // The rounding of a mode that neither flushes nor saturates.
        let rounding = Mode {
            rounding: Mode::PLAIN.rounding,
            ..mode
        };
        let rounding = (rounding == Mode::PLAIN).then_some(mode.rounding);
        let fast = match (from, to) {
            _ if !plain => None,
            (Ty::F16, Ty::F32) => Some(Op::F16ToF32),
            (Ty::F32, Ty::F16) if rounded => Some(Op::F32ToF16),
            (Ty::Bf16, Ty::F32) => Some(Op::Bf16ToF32),
            (Ty::F32, Ty::Bf16) if rounded => Some(Op::F32ToBf16),
            (Ty::S32, Ty::F32) => Some(Op::S32ToF32),
            (Ty::U32, Ty::F32) => Some(Op::U32ToF32),
            (Ty::U8, Ty::F32) if self.file(a) == File::R32 => Some(Op::U8ToF32),
            (Ty::U16, Ty::F32) if self.file(a) == File::R32 => Some(Op::U16ToF32),
            (Ty::F32, Ty::S32) if integral => Some(Op::F32ToS32Rni),
            (Ty::F32, Ty::F64) => Some(Op::F32ToF64),
            (Ty::F64, Ty::F32) if rounded => Some(Op::F64ToF32),
            (Ty::S32, Ty::F64) => Some(Op::S32ToF64),
            _ => None,
        };
        let fast = match (from, to) {
            (Ty::F32, Ty::S32) if rounding == Some(Rounding::Zero) => Some(Op::F32ToS32Rzi),
            (Ty::F32, Ty::U32) if rounding == Some(Rounding::Zero) => Some(Op::F32ToU32Rzi),
            (Ty::F32, Ty::F32) if integral => match rounding {
                Some(Rounding::Nearest) => Some(Op::NearestF32),
                Some(Rounding::Zero) => Some(Op::TruncF32),
                Some(Rounding::Down) => Some(Op::FloorF32),
                Some(Rounding::Up) => Some(Op::CeilF32),
                _ => None,
            },
            (Ty::F32, Ty::F32)
                if !integral
                    && mode
                        == (Mode {
                            saturate: true,
                            ..Mode::PLAIN
                        }) =>
            {
                Some(Op::SatF32)
            }
            _ => fast,
        };
        if let Some(op) = fast {
            self.emit(op, &[d], &[a], class);
            return Ok(());
        }
        let f = conversion(from, to, integral).ok_or(UnsupportedForm)?;
        match f {
            Path::Direct(f) => self.emit_lane_fn(f, d, &[a, zero, zero, mode_v], class),
            Path::Through(first, middle, second) => {
                let between = self.new_register(file_of(middle)?);
                let plain = self.mode_constant(Mode::PLAIN);
                self.emit_lane_fn(first, between, &[a, zero, zero, plain], Class::Move);
                self.emit_lane_fn(second, d, &[between, zero, zero, mode_v], class);
            }
        }
        Ok(())
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "both ends of a conversion have a register and two types"
    )]
    fn integer_to_integer(
        &mut self,
        d: VReg,
        d_declared: Ty,
        a: VReg,
        a_ty: Ty,
        to: Ty,
        from: Ty,
        mode: Mode,
    ) -> Result<(), UnsupportedForm> {
        if !(Mode {
            saturate: false,
            ..mode
        } == Mode::PLAIN)
        {
            return Err(UnsupportedForm);
        }
        let class = Class::Conversion;
        // The destination register holds the value extended by the destination type's sign.
        let wide = if d_declared.bits() > to.bits() {
            d_declared
        } else {
            to
        };
        let fast = match (from, to, wide.bits(), a_ty.bits()) {
            _ if mode.saturate => None,
            (Ty::S32, Ty::S64 | Ty::U64, 64, 32) => Some(Op::Sext),
            (Ty::U32, Ty::S64 | Ty::U64, 64, 32) => Some(Op::Zext),
            (Ty::U64 | Ty::S64, Ty::U32 | Ty::S32, 32, 64) => Some(Op::Trunc),
            (Ty::U16, Ty::U32 | Ty::S32, 32, 16) => Some(Op::Mov32),
            _ => None,
        };
        if let Some(op) = fast {
            // The upper half of an unsigned value is a zero, and half of a pair is a register: neither costs anything.
            let class = if op == Op::Sext {
                Class::Integer
            } else {
                Class::Move
            };
            self.emit(op, &[d], &[a], class);
            return Ok(());
        }
        let f = integer_conversion(from, to, mode.saturate).ok_or(UnsupportedForm)?;
        // Bits are dropped, kept, or filled with a sign.
        let spread = if mode.saturate {
            Spread::All
        } else {
            Spread::Bits(1)
        };
        if wide.bits() == to.bits() {
            self.lane_with(spread, f, d, &[a], class);
            return Ok(());
        }
        let narrow = self.new_register(if to.bits() == 64 {
            File::R64
        } else {
            File::R32
        });
        self.lane_with(spread, f, narrow, &[a], class);
        let unsigned = match wide.bits() {
            16 => Ty::U16,
            32 => Ty::U32,
            _ => Ty::U64,
        };
        let extend = integer_conversion(to, unsigned, false).ok_or(UnsupportedForm)?;
        self.lane_with(Spread::Bits(1), extend, d, &[narrow], Class::Move);
        Ok(())
    }

    /// `cvta[.to].space.type`: between a window's own addresses and generic ones.
    fn cvta(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        let ty = modifiers.ty()?;
        let to = modifiers.take("to");
        let base = modifiers
            .take_by(|word| {
                Some(match word {
                    "global" | "const" => 0,
                    "shared" | "shared::cta" => window::SHARED,
                    "local" => window::LOCAL,
                    "param" => window::PARAM,
                    _ => return None,
                })
            })
            .ok_or(UnsupportedForm)?;
        modifiers.done()?;
        let [d, a] = &i.operands[..] else {
            return Err(UnsupportedForm);
        };
        if ty.bits() != 64 {
            return Err(UnsupportedForm);
        }
        let d = self.destination(d, File::R64)?;
        let a = self.source(a, ty)?;
        if base == 0 {
            return self.copy(d, a);
        }
        let base = self.constant(File::R64, base);
        self.emit(
            if to { Op::Sub64 } else { Op::Add64 },
            &[d],
            &[a, base],
            Class::Integer,
        );
        Ok(())
    }

    fn isspacep(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        let f: LaneFn = modifiers
            .take_by(|word| {
                let f: LaneFn = match word {
                    "shared" | "shared::cta" => |v| u64::from(window::of(v[0]) == window::SHARED),
                    "local" => |v| u64::from(window::of(v[0]) == window::LOCAL),
                    "param" => |v| u64::from(window::of(v[0]) == window::PARAM),
                    "global" => |v| u64::from(window::of(v[0]) == 0),
                    _ => return None,
                };
                Some(f)
            })
            .ok_or(UnsupportedForm)?;
        modifiers.done()?;
        let [d, a] = &i.operands[..] else {
            return Err(UnsupportedForm);
        };
        let d = self.destination(d, File::Predicate)?;
        let a = self.source(a, Ty::B64)?;
        self.emit_lane_fn(f, d, &[a], Class::Integer);
        Ok(())
    }

    /// The kernel parameter a constant address names, and the offset in it.
    pub(super) fn kernel_parameter(&mut self, symbol: Symbol) -> Option<u32> {
        match symbol {
            Symbol::Function(index) => match self.home(index) {
                Ok(Storage::KernelParam(offset)) => Some(offset),
                _ => None,
            },
            Symbol::Module(_) => None,
        }
    }

    /// Reports whether a variable is a constant of the module.
    pub(super) fn is_module_constant(&self, symbol: Symbol) -> bool {
        matches!(symbol, Symbol::Module(index) if self.tree.variables[index].space == StateSpace::Const)
    }
}

fn is_int(ty: Ty) -> bool {
    matches!(
        ty,
        Ty::U8 | Ty::S8 | Ty::U16 | Ty::S16 | Ty::U32 | Ty::S32 | Ty::U64 | Ty::S64
    )
}

enum Path {
    Direct(LaneFn),
    /// A first step that is exact, then one that rounds.
    Through(LaneFn, Ty, LaneFn),
}

macro_rules! pairs {
    ($from:expr, $to:expr, $f:ident; $($s:ident $st:ty),*) => {
        match $from {
            $(Ty::$s => match $to {
                Ty::U8 => Some(int::$f::<$st, u8> as LaneFn),
                Ty::S8 => Some(int::$f::<$st, i8> as LaneFn),
                Ty::U16 => Some(int::$f::<$st, u16> as LaneFn),
                Ty::S16 => Some(int::$f::<$st, i16> as LaneFn),
                Ty::U32 => Some(int::$f::<$st, u32> as LaneFn),
                Ty::S32 => Some(int::$f::<$st, i32> as LaneFn),
                Ty::U64 => Some(int::$f::<$st, u64> as LaneFn),
                Ty::S64 => Some(int::$f::<$st, i64> as LaneFn),
                _ => None,
            },)*
            _ => None,
        }
    };
}

fn integer_conversion(from: Ty, to: Ty, saturate: bool) -> Option<LaneFn> {
    if saturate {
        pairs!(from, to, convert_sat; U8 u8, S8 i8, U16 u16, S16 i16, U32 u32, S32 i32, U64 u64, S64 i64)
    } else {
        pairs!(from, to, convert; U8 u8, S8 i8, U16 u16, S16 i16, U32 u32, S32 i32, U64 u64, S64 i64)
    }
}

fn conversion(from: Ty, to: Ty, integral: bool) -> Option<Path> {
    let direct = |f: LaneFn| Some(Path::Direct(f));
    match (from, to) {
        (Ty::F32, Ty::F32) => direct(if integral {
            float::integral32
        } else {
            float::f32_to_f32
        }),
        (Ty::F64, Ty::F64) => direct(if integral {
            float::integral64
        } else {
            float::f64_to_f64
        }),
        (Ty::F16, Ty::F16) if integral => direct(half::integral_h),
        (Ty::Bf16, Ty::Bf16) if integral => direct(half::integral_b),
        (Ty::F32, Ty::F64) => direct(float::f32_to_f64),
        (Ty::F64, Ty::F32) => direct(float::f64_to_f32),
        (Ty::F16, Ty::F32) => direct(half::f16_to_f32_lane),
        (Ty::Bf16, Ty::F32) => direct(half::bf16_to_f32_lane),
        (Ty::F16, Ty::F64) => direct(half::f16_to_f64_lane),
        (Ty::Bf16, Ty::F64) => direct(half::bf16_to_f64_lane),
        (Ty::F32, Ty::F16) => direct(half::f32_to_f16_lane),
        (Ty::F32, Ty::Bf16) => direct(half::f32_to_bf16_lane),
        (Ty::F64, Ty::F16) => direct(half::f64_to_f16_lane),
        (Ty::F64, Ty::Bf16) => direct(half::f64_to_bf16_lane),
        (Ty::F32, Ty::Tf32) => direct(half::f32_to_tf32_lane),
        (Ty::F16x2, Ty::E4m3x2) => direct(half::f16x2_to_e4m3_lane),
        (Ty::F16x2, Ty::E5m2x2) => direct(half::f16x2_to_e5m2_lane),
        (Ty::E4m3x2, Ty::F16x2) => direct(half::e4m3_to_f16x2_lane),
        (Ty::E5m2x2, Ty::F16x2) => direct(half::e5m2_to_f16x2_lane),
        (Ty::F32, to) if is_int(to) => direct(from_single(to)?),
        (Ty::F64, to) if is_int(to) => direct(from_double(to)?),
        (from, Ty::F32) if is_int(from) => direct(to_single(from)?),
        (from, Ty::F64) if is_int(from) => direct(to_double(from)?),
        (Ty::F16, to) if is_int(to) => Some(Path::Through(
            half::f16_to_f32_lane,
            Ty::F32,
            from_single(to)?,
        )),
        (Ty::Bf16, to) if is_int(to) => Some(Path::Through(
            half::bf16_to_f32_lane,
            Ty::F32,
            from_single(to)?,
        )),
        // Integers of 64 bits that do not fit a double overflow a half anyway, but not a bfloat16.
        (from, Ty::F16) if is_int(from) => Some(Path::Through(
            to_double(from)?,
            Ty::F64,
            half::f64_to_f16_lane,
        )),
        (from, Ty::Bf16) if is_int(from) && from.bits() < 64 => Some(Path::Through(
            to_double(from)?,
            Ty::F64,
            half::f64_to_bf16_lane,
        )),
        _ => None,
    }
}

fn from_single(to: Ty) -> Option<LaneFn> {
    Some(match to {
        Ty::U8 => float::f32_to_u8,
        Ty::S8 => float::f32_to_s8,
        Ty::U16 => float::f32_to_u16,
        Ty::S16 => float::f32_to_s16,
        Ty::U32 => float::f32_to_u32,
        Ty::S32 => float::f32_to_s32,
        Ty::U64 => float::f32_to_u64,
        Ty::S64 => float::f32_to_s64,
        _ => return None,
    })
}

fn from_double(to: Ty) -> Option<LaneFn> {
    Some(match to {
        Ty::U8 => float::f64_to_u8,
        Ty::S8 => float::f64_to_s8,
        Ty::U16 => float::f64_to_u16,
        Ty::S16 => float::f64_to_s16,
        Ty::U32 => float::f64_to_u32,
        Ty::S32 => float::f64_to_s32,
        Ty::U64 => float::f64_to_u64,
        Ty::S64 => float::f64_to_s64,
        _ => return None,
    })
}

fn to_single(from: Ty) -> Option<LaneFn> {
    Some(match from {
        Ty::U8 => float::u8_to_f32,
        Ty::S8 => float::s8_to_f32,
        Ty::U16 => float::u16_to_f32,
        Ty::S16 => float::s16_to_f32,
        Ty::U32 => float::u32_to_f32,
        Ty::S32 => float::s32_to_f32,
        Ty::U64 => float::u64_to_f32,
        Ty::S64 => float::s64_to_f32,
        _ => return None,
    })
}

fn to_double(from: Ty) -> Option<LaneFn> {
    Some(match from {
        Ty::U8 => float::u8_to_f64,
        Ty::S8 => float::s8_to_f64,
        Ty::U16 => float::u16_to_f64,
        Ty::S16 => float::s16_to_f64,
        Ty::U32 => float::u32_to_f64,
        Ty::S32 => float::s32_to_f64,
        Ty::U64 => float::u64_to_f64,
        Ty::S64 => float::s64_to_f64,
        _ => return None,
    })
}
