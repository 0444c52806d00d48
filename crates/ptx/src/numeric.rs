//! The definition of each arithmetic operation for one lane. IEEE operations are exact. Approximate ones use this
//! crate's own polynomials, so that results do not depend on the host's mathematics library.
//!
//! Functions of type [`crate::code::LaneFn`] are the definitions; vector forms elsewhere must agree with them bit for bit.

pub(crate) mod approx;
pub(crate) mod directed;
pub(crate) mod float;
pub(crate) mod half;
pub(crate) mod int;
pub(crate) mod mbarrier;

/// A rounding direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// To nearest, ties to even.
    Nearest,
    Zero,
    Down,
    Up,
    /// To nearest, ties away from zero.
    Away,
}

/// Rounding, flushing and saturation of a floating-point operation, packed into the fourth operand of a lane function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) rounding: Rounding,
    /// Subnormal inputs and results become zero of their sign.
    pub(crate) flush: bool,
    /// Results are clamped to [0, 1], NaN to 0.
    pub(crate) saturate: bool,
    /// NaN wins in minimum and maximum.
    pub(crate) nan: bool,
    /// Negative results become zero.
    pub(crate) relu: bool,
    /// Overflow gives the largest finite value.
    pub(crate) finite: bool,
}

impl Mode {
    pub(crate) const PLAIN: Self = Self {
        rounding: Rounding::Nearest,
        flush: false,
        saturate: false,
        nan: false,
        relu: false,
        finite: false,
    };

    pub(crate) fn pack(self) -> u64 {
        self.rounding as u64
            | u64::from(self.flush) << 8
            | u64::from(self.saturate) << 9
            | u64::from(self.nan) << 10
            | u64::from(self.relu) << 11
            | u64::from(self.finite) << 12
    }

    pub(crate) fn unpack(bits: u64) -> Self {
        Self {
            rounding: match bits & 0xff {
                1 => Rounding::Zero,
                2 => Rounding::Down,
                3 => Rounding::Up,
                4 => Rounding::Away,
                _ => Rounding::Nearest,
            },
            flush: bits >> 8 & 1 == 1,
            saturate: bits >> 9 & 1 == 1,
            nan: bits >> 10 & 1 == 1,
            relu: bits >> 11 & 1 == 1,
            finite: bits >> 12 & 1 == 1,
        }
    }
}
