//! The interpreter, compiled for several instruction sets of the host and chosen at run time.
//!
//! This module holds the only `unsafe` code of the crate: calls of functions compiled for instructions that the
//! processor was checked for. [`VectorOps`] holds the operations that an instruction set does faster than compiled
//! loops over lanes. A new set is one more variant of [`Isa`], one more file beside `avx2`, and one more arm in
//! [`run`].
//!
//! The portable operations are safe loops over 32 lanes, which compilers vectorise for the target's baseline, NEON on
//! 64-bit ARM included. A module for NEON would have to provide the five functions that compile the loops for a set
//! (`run_full_warp`, `access_fast`, `access` and `tensor` of [`VectorOps`], and the arm in [`run`]). Beyond them these
//! would be faster: conversions between `f16` and `f32` (`vcvt_f32_f16` and back, with NaNs made canonical as with
//! AVX2), arithmetic on `f16` through them, the tile's product with `vfmaq_laneq_f32`, the transpositions `columns`,
//! `rows` and `transposed` with `vtrn`, and `read` and `write` by pairs of vectors. Fused multiply-adds, the order of
//! sums and canonical NaNs are part of the definition: `tests` compares each operation with the portable one.
#![expect(
    unsafe_code,
    reason = "a function with target features may only be called after asking the processor"
)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod ops;

use ops::Portable;
pub(crate) use ops::{Factor, Pair, Slot, VectorOps};

use crate::machine::block::Shared;
use crate::machine::exec::Exec;
use crate::machine::interpret::{self, Stop};
use crate::machine::warp::Warp;

/// An instruction set the interpreter is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isa {
    /// The baseline of the target.
    Portable,
    /// AVX2 with FMA, F16C, BMI and POPCNT.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// The same with AVX-512 F, BW, DQ and VL.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// All instruction sets, the baseline first.
    pub const ALL: &[Self] = &[
        Self::Portable,
        #[cfg(target_arch = "x86_64")]
        Self::Avx2,
        #[cfg(target_arch = "x86_64")]
        Self::Avx512,
    ];

    /// The instruction set of this processor that was the fastest in measurements.
    #[must_use]
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if Self::Avx2.is_available() {
            return Self::Avx2;
        }
        Self::Portable
    }

    /// Reports whether this processor has the instruction set.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                std::arch::is_x86_feature_detected!("avx2")
                    && std::arch::is_x86_feature_detected!("fma")
                    && std::arch::is_x86_feature_detected!("f16c")
                    && std::arch::is_x86_feature_detected!("bmi1")
                    && std::arch::is_x86_feature_detected!("bmi2")
                    && std::arch::is_x86_feature_detected!("popcnt")
                    && std::arch::is_x86_feature_detected!("lzcnt")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                Self::Avx2.is_available()
                    && std::arch::is_x86_feature_detected!("avx512f")
                    && std::arch::is_x86_feature_detected!("avx512bw")
                    && std::arch::is_x86_feature_detected!("avx512dq")
                    && std::arch::is_x86_feature_detected!("avx512vl")
            }
        }
    }

    /// Its short name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "avx512",
        }
    }
}

/// Runs a warp with the code of an instruction set.
pub(crate) fn run(
    isa: Isa,
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    left: &mut u64,
) -> Stop {
    match isa {
        Isa::Portable => portable(exec, block, warp, left),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a machine only takes an instruction set that is available.
        Isa::Avx2 => unsafe { avx2(exec, block, warp, left) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Avx512 => unsafe { avx512(exec, block, warp, left) },
    }
}

#[inline(never)]
fn portable(exec: &mut Exec<'_>, block: &mut Shared, warp: &mut Warp, left: &mut u64) -> Stop {
    interpret::run::<Portable>(exec, block, warp, left)
}

#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt")]
fn avx2(exec: &mut Exec<'_>, block: &mut Shared, warp: &mut Warp, left: &mut u64) -> Stop {
    interpret::run::<avx2::Avx2>(exec, block, warp, left)
}

#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt"
)]
fn avx512(exec: &mut Exec<'_>, block: &mut Shared, warp: &mut Warp, left: &mut u64) -> Stop {
    interpret::run::<avx512::Avx512>(exec, block, warp, left)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
