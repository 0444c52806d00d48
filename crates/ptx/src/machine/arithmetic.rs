//! Instructions that only compute: registers in, registers out, nothing else changes.
//!
//! `#[inline(always)]` like the loop that calls it, for the same reason.

use super::control;
use super::exec::Exec;
use super::expansion;
use super::poison;
use super::vector::{
    compare32, compare64, map1_32, map1_64, map2_32, map2_64, map3_32, map3_64, merge32, merge64,
    narrow1, select32, select64, shift_64, widen1, widen2, widen3,
};
use super::warp::Warp;
use crate::code::{Compare, Inst, Op, SlotRef};
use crate::numeric::{approx, float, half};
use crate::simd::{Pair, VectorOps};

#[inline(always)]
fn f(bits: u32) -> f32 {
    f32::from_bits(bits)
}

#[inline(always)]
fn g(bits: u64) -> f64 {
    f64::from_bits(bits)
}

#[inline(always)]
fn flush(bits: u32) -> f32 {
    float::flush32(f32::from_bits(bits))
}

/// A flushed result's bits.
#[inline(always)]
fn flushed(value: f32) -> u32 {
    float::canon32(float::flush32(value))
}

/// Executes one for the lanes of a mask; false if the instruction at `pc` is none of these. `CLEAN` promises that no
/// register of the warp is poisoned.
#[inline(always)]
pub(crate) fn run<F: VectorOps, const CLEAN: bool>(
    exec: &Exec<'_>,
    warp: &mut Warp,
    inst: &Inst,
    mask: u32,
    pc: usize,
) -> bool {
    let program = exec.launch.program;
    macro_rules! taint {
        () => {
            if !CLEAN && warp.tainted {
                poison::flow(program, warp, mask, pc);
            }
        };
    }
    macro_rules! r32 {
        ($slot:expr) => {
            warp.r32[$slot as usize]
        };
    }
    macro_rules! r64 {
        ($slot:expr) => {
            warp.r64[$slot as usize]
        };
    }
    macro_rules! un32 {
        ($f:expr) => {{
            taint!();
            let a = r32!(inst.a);
            map1_32::<F>(&mut r32!(inst.d), mask, &a, $f);
        }};
    }
    macro_rules! bin32 {
        ($f:expr) => {{
            taint!();
            let (a, b) = (r32!(inst.a), r32!(inst.b));
            map2_32::<F>(&mut r32!(inst.d), mask, &a, &b, $f);
        }};
    }
    macro_rules! tern32 {
        ($f:expr) => {{
            taint!();
            let (a, b, c) = (r32!(inst.a), r32!(inst.b), r32!(inst.c));
            map3_32::<F>(&mut r32!(inst.d), mask, &a, &b, &c, $f);
        }};
    }
    // Whole slots at once, in the way of the instruction set.
    macro_rules! form32 {
        ($set:ident::$form:ident($($how:path)?; $($operand:ident),*)) => {{
            taint!();
            let values = $set::$form($($how,)? $(&r32!(inst.$operand).0),*);
            merge32::<F>(&mut r32!(inst.d), mask, &values);
        }};
    }
    macro_rules! un64 {
        ($f:expr) => {{
            taint!();
            let a = r64!(inst.a);
            map1_64::<F>(&mut r64!(inst.d), mask, &a, $f);
        }};
    }
    macro_rules! bin64 {
        ($f:expr) => {{
            taint!();
            let (a, b) = (r64!(inst.a), r64!(inst.b));
            map2_64::<F>(&mut r64!(inst.d), mask, &a, &b, $f);
        }};
    }
    macro_rules! tern64 {
        ($f:expr) => {{
            taint!();
            let (a, b, c) = (r64!(inst.a), r64!(inst.b), r64!(inst.c));
            map3_64::<F>(&mut r64!(inst.d), mask, &a, &b, &c, $f);
        }};
    }
    macro_rules! shift64 {
        ($f:expr) => {{
            taint!();
            let (a, b) = (r64!(inst.a), r32!(inst.b));
            shift_64::<F>(&mut r64!(inst.d), mask, &a, &b, $f);
        }};
    }
    macro_rules! put_p {
        ($bits:expr) => {{
            let bits = $bits;
            let p = &mut warp.p[inst.d as usize];
            *p = (*p & !mask) | (bits & mask);
        }};
    }
    macro_rules! setp {
        ($compare:ident, $file:ident, |$a:ident, $b:ident| $x:expr, $y:expr) => {{
            taint!();
            let (one, two) = ($file!(inst.a), $file!(inst.b));
            let bits = match inst.x {
                0 => $compare(&one, &two, |$a, $b| $x == $y),
                1 => $compare(&one, &two, |$a, $b| $x != $y),
                2 => $compare(&one, &two, |$a, $b| $x < $y),
                3 => $compare(&one, &two, |$a, $b| $x <= $y),
                4 => $compare(&one, &two, |$a, $b| $x > $y),
                _ => $compare(&one, &two, |$a, $b| $x >= $y),
            };
            put_p!(bits);
        }};
    }
    macro_rules! setp_float {
        ($compare:ident, $file:ident, $of:ident) => {{
            taint!();
            let (one, two) = ($file!(inst.a), $file!(inst.b));
            const NE: u32 = Compare::Ne as u32;
            let bits = match inst.x {
                0 => $compare(&one, &two, |a, b| $of(a) == $of(b)),
                NE => $compare(&one, &two, |a, b| $of(a) < $of(b) || $of(a) > $of(b)),
                2 => $compare(&one, &two, |a, b| $of(a) < $of(b)),
                3 => $compare(&one, &two, |a, b| $of(a) <= $of(b)),
                4 => $compare(&one, &two, |a, b| $of(a) > $of(b)),
                5 => $compare(&one, &two, |a, b| $of(a) >= $of(b)),
                6 => !$compare(&one, &two, |a, b| $of(a) < $of(b) || $of(a) > $of(b)),
                7 => $compare(&one, &two, |a, b| $of(a) != $of(b)),
                8 => !$compare(&one, &two, |a, b| $of(a) >= $of(b)),
                9 => !$compare(&one, &two, |a, b| $of(a) > $of(b)),
                10 => !$compare(&one, &two, |a, b| $of(a) <= $of(b)),
                11 => !$compare(&one, &two, |a, b| $of(a) < $of(b)),
                12 => !$compare(&one, &two, |a, b| $of(a).is_nan() || $of(b).is_nan()),
                _ => $compare(&one, &two, |a, b| $of(a).is_nan() || $of(b).is_nan()),
            };
            put_p!(bits);
        }};
    }

    match inst.op {
        Op::Mov32 => un32!(|a| a),
        Op::Mov64 => un64!(|a| a),
        Op::MovP => {
            taint!();
            put_p!(warp.p[inst.a as usize]);
        }
        Op::Add32 => bin32!(u32::wrapping_add),
        Op::Sub32 => bin32!(u32::wrapping_sub),
        Op::Mul32 => bin32!(u32::wrapping_mul),
        Op::Mad32 => tern32!(|a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        Op::MulHiS32 => {
            bin32!(|a, b| ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32);
        }
        Op::MulHiU32 => bin32!(|a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32),
        Op::And32 => bin32!(|a, b| a & b),
        Op::Or32 => bin32!(|a, b| a | b),
        Op::Xor32 => bin32!(|a, b| a ^ b),
        Op::Not32 => un32!(|a| !a),
        Op::Neg32 => un32!(|a| 0u32.wrapping_sub(a)),
        Op::Shl32 => bin32!(|a, b| if b > 31 { 0 } else { a << (b & 31) }),
        Op::ShrU32 => bin32!(|a, b| if b > 31 { 0 } else { a >> (b & 31) }),
        Op::ShrS32 => bin32!(|a, b| (a as i32 >> b.min(31)) as u32),
        Op::MinS32 => bin32!(|a, b| (a as i32).min(b as i32) as u32),
        Op::MaxS32 => bin32!(|a, b| (a as i32).max(b as i32) as u32),
        Op::MinU32 => bin32!(u32::min),
        Op::MaxU32 => bin32!(u32::max),
        Op::Select32 => {
            let choice = warp.p[inst.c as usize];
            taint!();
            let (a, b) = (r32!(inst.a), r32!(inst.b));
            select32::<F>(&mut r32!(inst.d), mask, &a, &b, choice);
        }
        Op::Select64 => {
            let choice = warp.p[inst.c as usize];
            taint!();
            let (a, b) = (r64!(inst.a), r64!(inst.b));
            select64::<F>(&mut r64!(inst.d), mask, &a, &b, choice);
        }
        Op::Add64 => bin64!(u64::wrapping_add),
        Op::Sub64 => bin64!(u64::wrapping_sub),
        Op::Mul64 => bin64!(u64::wrapping_mul),
        Op::Mad64 => tern64!(|a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        Op::And64 => bin64!(|a, b| a & b),
        Op::Or64 => bin64!(|a, b| a | b),
        Op::Xor64 => bin64!(|a, b| a ^ b),
        Op::Not64 => un64!(|a| !a),
        Op::Shl64 => shift64!(|a, b| if b > 63 { 0 } else { a << (b & 63) }),
        Op::ShrU64 => shift64!(|a, b| if b > 63 { 0 } else { a >> (b & 63) }),
        Op::ShrS64 => shift64!(|a, b| (a as i64 >> b.min(63)) as u64),
        Op::MulWideS => {
            taint!();
            let (a, b) = (r32!(inst.a), r32!(inst.b));
            widen2::<F>(&mut r64!(inst.d), mask, &a, &b, |a, b| {
                (i64::from(a as i32) * i64::from(b as i32)) as u64
            });
        }
        Op::MulWideU => {
            taint!();
            let (a, b) = (r32!(inst.a), r32!(inst.b));
            widen2::<F>(&mut r64!(inst.d), mask, &a, &b, |a, b| {
                u64::from(a) * u64::from(b)
            });
        }
        Op::MadWideS => {
            taint!();
            let (a, b, c) = (r32!(inst.a), r32!(inst.b), r64!(inst.c));
            widen3::<F>(&mut r64!(inst.d), mask, &a, &b, &c, |a, b, c| {
                ((i64::from(a as i32) * i64::from(b as i32)) as u64).wrapping_add(c)
            });
        }
        Op::MadWideU => {
            taint!();
            let (a, b, c) = (r32!(inst.a), r32!(inst.b), r64!(inst.c));
            widen3::<F>(&mut r64!(inst.d), mask, &a, &b, &c, |a, b, c| {
                (u64::from(a) * u64::from(b)).wrapping_add(c)
            });
        }
        Op::Sext => {
            taint!();
            let a = r32!(inst.a);
            widen1::<F>(&mut r64!(inst.d), mask, &a, |a| i64::from(a as i32) as u64);
        }
        Op::Zext => {
            taint!();
            let a = r32!(inst.a);
            widen1::<F>(&mut r64!(inst.d), mask, &a, u64::from);
        }
        Op::Trunc => {
            taint!();
            let a = r64!(inst.a);
            narrow1::<F>(&mut r32!(inst.d), mask, &a, |a| a as u32);
        }
        Op::Pack64 => {
            taint!();
            let (a, b) = (r32!(inst.a), r32!(inst.b));
            widen2::<F>(&mut r64!(inst.d), mask, &a, &b, |a, b| {
                u64::from(a) | u64::from(b) << 32
            });
        }
        Op::Unpack64 => {
            taint!();
            let a = r64!(inst.a);
            narrow1::<F>(&mut r32!(inst.d), mask, &a, |a| a as u32);
            narrow1::<F>(&mut r32!(inst.c), mask, &a, |a| (a >> 32) as u32);
        }
        Op::Pack32 => bin32!(|a, b| a & 0xffff | b << 16),
        Op::Unpack32 => {
            taint!();
            let a = r32!(inst.a);
            map1_32::<F>(&mut r32!(inst.d), mask, &a, |a| a & 0xffff);
            map1_32::<F>(&mut r32!(inst.c), mask, &a, |a| a >> 16);
        }
        Op::SetpS32 => setp!(compare32, r32, |a, b| a as i32, b as i32),
        Op::SetpU32 => setp!(compare32, r32, |a, b| a, b),
        Op::SetpS64 => setp!(compare64, r64, |a, b| a as i64, b as i64),
        Op::SetpU64 => setp!(compare64, r64, |a, b| a, b),
        Op::SetpF32 => setp_float!(compare32, r32, f),
        Op::SetpF64 => setp_float!(compare64, r64, g),
        Op::AndP => {
            taint!();
            put_p!(warp.p[inst.a as usize] & warp.p[inst.b as usize]);
        }
        Op::OrP => {
            taint!();
            put_p!(warp.p[inst.a as usize] | warp.p[inst.b as usize]);
        }
        Op::XorP => {
            taint!();
            put_p!(warp.p[inst.a as usize] ^ warp.p[inst.b as usize]);
        }
        Op::NotP => {
            taint!();
            put_p!(!warp.p[inst.a as usize]);
        }
        Op::AddF32 => bin32!(|a, b| float::canon32(f(a) + f(b))),
        Op::SubF32 => bin32!(|a, b| float::canon32(f(a) - f(b))),
        Op::MulF32 => bin32!(|a, b| float::canon32(f(a) * f(b))),
        Op::FmaF32 => tern32!(|a, b, c| float::canon32(f(a).mul_add(f(b), f(c)))),
        Op::FmaRmF32 => form32!(F::fma_down(; a, b, c)),
        Op::DivF32 => bin32!(|a, b| float::canon32(f(a) / f(b))),
        Op::NegF32 => un32!(|a| float::canon32(-f(a))),
        Op::AbsF32 => un32!(|a| float::canon32(f(a).abs())),
        Op::MinF32 => bin32!(|a, b| float::canon32(float::smaller32(f(a), f(b)))),
        Op::MaxF32 => bin32!(|a, b| float::canon32(float::larger32(f(a), f(b)))),
        Op::AddFtz => bin32!(|a, b| flushed(flush(a) + flush(b))),
        Op::SubFtz => bin32!(|a, b| flushed(flush(a) - flush(b))),
        Op::MulFtz => bin32!(|a, b| flushed(flush(a) * flush(b))),
        Op::FmaFtz => tern32!(|a, b, c| flushed(flush(a).mul_add(flush(b), flush(c)))),
        Op::Ex2F32 => un32!(|a| float::canon32(approx::ex2(f(a)))),
        Op::Ex2Ftz => un32!(|a| flushed(approx::ex2(flush(a)))),
        Op::Lg2F32 => un32!(|a| float::canon32(approx::lg2(f(a)))),
        Op::RcpF32 => un32!(|a| float::canon32(1.0 / f(a))),
        Op::SqrtF32 => un32!(|a| float::canon32(f(a).sqrt())),
        Op::RsqrtF32 => un32!(|a| float::canon32(approx::rsqrt(f(a)))),
        Op::SatF32 => un32!(|a| float::saturate32(f(a)).to_bits()),
        Op::F16ToF32 => form32!(F::widen(; a)),
        Op::F32ToF16 => form32!(F::narrow(; a)),
        Op::Bf16ToF32 => un32!(|a| float::canon32(half::bf16_to_f32(a))),
        Op::F32ToBf16 => un32!(|a| half::f32_to_bf16(f(a))),
        Op::F32x2ToF16x2 => {
            taint!();
            let upper = F::narrow(&r32!(inst.a).0);
            let lower = F::narrow(&r32!(inst.b).0);
            let mut values = [0; 32];
            for lane in 0..32 {
                values[lane] = upper[lane] << 16 | lower[lane];
            }
            merge32::<F>(&mut r32!(inst.d), mask, &values);
        }
        Op::F32x2ToBf16x2 => {
            bin32!(|a, b| half::f32_to_bf16(f(a)) << 16 | half::f32_to_bf16(f(b)));
        }
        Op::S32ToF32 => un32!(|a| (a as i32 as f32).to_bits()),
        Op::U32ToF32 => un32!(|a| (a as f32).to_bits()),
        Op::U8ToF32 => un32!(|a| ((a & 0xff) as f32).to_bits()),
        Op::U16ToF32 => un32!(|a| ((a & 0xffff) as f32).to_bits()),
        Op::F32ToS32Rni => un32!(|a| f(a).round_ties_even() as i32 as u32),
        Op::F32ToS32Rzi => un32!(|a| f(a) as i32 as u32),
        Op::F32ToU32Rzi => un32!(|a| f(a) as u32),
        Op::NearestF32 => un32!(|a| float::canon32(f(a).round_ties_even())),
        Op::TruncF32 => un32!(|a| float::canon32(f(a).trunc())),
        Op::FloorF32 => un32!(|a| float::canon32(f(a).floor())),
        Op::CeilF32 => un32!(|a| float::canon32(f(a).ceil())),
        Op::AddF16 => form32!(F::half(Pair::Add; a, b)),
        Op::SubF16 => form32!(F::half(Pair::Sub; a, b)),
        Op::MulF16 => form32!(F::half(Pair::Mul; a, b)),
        Op::MaxF16 => form32!(F::half(Pair::Max; a, b)),
        Op::MinF16 => form32!(F::half(Pair::Min; a, b)),
        Op::FmaF16 => form32!(F::half_fma(; a, b, c)),
        Op::AddF16x2 => form32!(F::halves(Pair::Add; a, b)),
        Op::SubF16x2 => form32!(F::halves(Pair::Sub; a, b)),
        Op::MulF16x2 => form32!(F::halves(Pair::Mul; a, b)),
        Op::MaxF16x2 => form32!(F::halves(Pair::Max; a, b)),
        Op::MinF16x2 => form32!(F::halves(Pair::Min; a, b)),
        Op::FmaF16x2 => form32!(F::halves_fma(; a, b, c)),
        Op::AddF64 => bin64!(|a, b| float::canon64(g(a) + g(b))),
        Op::SubF64 => bin64!(|a, b| float::canon64(g(a) - g(b))),
        Op::MulF64 => bin64!(|a, b| float::canon64(g(a) * g(b))),
        Op::FmaF64 => tern64!(|a, b, c| float::canon64(g(a).mul_add(g(b), g(c)))),
        Op::DivF64 => bin64!(|a, b| float::canon64(g(a) / g(b))),
        Op::SqrtF64 => un64!(|a| float::canon64(g(a).sqrt())),
        Op::NegF64 => un64!(|a| float::canon64(-g(a))),
        Op::AbsF64 => un64!(|a| float::canon64(g(a).abs())),
        Op::MinF64 => bin64!(|a, b| float::canon64(float::smaller64(g(a), g(b)))),
        Op::MaxF64 => bin64!(|a, b| float::canon64(float::larger64(g(a), g(b)))),
        Op::F32ToF64 => {
            taint!();
            let a = r32!(inst.a);
            widen1::<F>(&mut r64!(inst.d), mask, &a, |a| {
                float::canon64(f64::from(f(a)))
            });
        }
        Op::F64ToF32 => {
            taint!();
            let a = r64!(inst.a);
            narrow1::<F>(&mut r32!(inst.d), mask, &a, |a| float::canon32(g(a) as f32));
        }
        Op::S32ToF64 => {
            taint!();
            let a = r32!(inst.a);
            widen1::<F>(&mut r64!(inst.d), mask, &a, |a| {
                f64::from(a as i32).to_bits()
            });
        }
        Op::Lane => {
            taint!();
            control::lane(
                warp,
                &program.flow[pc],
                program.lane_fns[inst.x as usize],
                mask,
            );
        }
        Op::Divide64 => {
            taint!();
            let flow = &program.flow[pc];
            let function = program.lane_fns[inst.x as usize];
            if control::divide64(warp, flow, function, mask) {
                let class = program.class[pc];
                let count = &exec.long_divisions[pc];
                count.set(count.get() + 1);
                warp.cycles += expansion::long_division_cycles(class, &exec.launch.latencies);
            }
        }
        Op::Lane2 => {
            taint!();
            control::lane2(
                warp,
                &program.flow[pc],
                program.lane_fns2[inst.x as usize],
                mask,
            );
        }
        Op::Param32 => {
            let values = [control::parameter(exec.launch.params, inst.x) as u32; 32];
            merge32::<F>(&mut r32!(inst.d), mask, &values);
            clear_poison(warp, program.flow[pc].d, mask);
        }
        Op::Param64 => {
            let values = [control::parameter(exec.launch.params, inst.x); 32];
            merge64::<F>(&mut r64!(inst.d), mask, &values);
            clear_poison(warp, program.flow[pc].d, mask);
        }
        _ => return false,
    }
    true
}

/// Values that no other instruction made are never poisoned.
#[inline(always)]
pub(crate) fn clear_poison(warp: &mut Warp, d: SlotRef, mask: u32) {
    if warp.tainted {
        warp.poison.set(d, mask, 0, 0);
    }
}
