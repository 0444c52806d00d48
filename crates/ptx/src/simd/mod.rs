//! The one interpreter, compiled for several instruction sets and chosen at run time.
//!
//! The only `unsafe` of the crate: calling functions compiled for instructions the processor was asked about. What an
//! instruction set does better than a compiler makes of a loop over lanes is in [`Forms`]; a new set is one more
//! variant of [`Isa`], one more file beside `avx2`, and one more arm in [`run`].
#![expect(
    unsafe_code,
    reason = "a function with target features may only be called after asking the processor"
)]

#[cfg(target_arch = "x86_64")]
mod avx2;
mod forms;

use forms::Portable;
pub(crate) use forms::{Factor, Forms, Pair, Slot};

use crate::machine::block::Shared;
use crate::machine::exec::Exec;
use crate::machine::interpret::{self, Stop};
use crate::machine::warp::Warp;

/// An instruction set the interpreter is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isa {
    /// What every processor of the target has.
    Portable,
    /// AVX2 with FMA, F16C, BMI and POPCNT.
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Isa {
    /// The best one this processor has.
    #[must_use]
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("fma")
            && std::arch::is_x86_feature_detected!("f16c")
            && std::arch::is_x86_feature_detected!("bmi1")
            && std::arch::is_x86_feature_detected!("bmi2")
            && std::arch::is_x86_feature_detected!("popcnt")
            && std::arch::is_x86_feature_detected!("lzcnt")
        {
            return Self::Avx2;
        }
        Self::Portable
    }

    /// Its short name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "avx2",
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
        // SAFETY: `Avx2` is only made by `detect`, or by a caller that compared with it, so the features are there.
        Isa::Avx2 => unsafe { avx2(exec, block, warp, left) },
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
