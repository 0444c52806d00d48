//! Double precision rounded toward zero, down or up.
//!
//! No wider format of the host holds a product of doubles, so these operations are done on whole numbers: the exact
//! result, or enough of it with a last bit that says whether more follows, and one rounding at the end.

use super::float::canon64;
use super::{Mode, Rounding};

/// A finite number: sign, and magnitude times a power of two. The last bit of the magnitude is also set when bits that
/// no longer fit were ones.
#[derive(Debug, Clone, Copy)]
struct Exact {
    negative: bool,
    magnitude: u128,
    exponent: i32,
}

/// Position of the highest bit of a magnitude in a sum: two bits below the top, which are for carries.
const TOP: u32 = 125;

fn exact(value: f64) -> Exact {
    let bits = value.to_bits();
    let (field, fraction) = (bits >> 52 & 0x7ff, bits & ((1 << 52) - 1));
    Exact {
        negative: bits >> 63 == 1,
        magnitude: u128::from(if field == 0 {
            fraction
        } else {
            fraction | 1 << 52
        }),
        exponent: field.max(1) as i32 - 1075,
    }
}

/// Shifts right; ones that fall out stay in the last bit.
fn sink(magnitude: u128, by: u32) -> u128 {
    if by == 0 {
        magnitude
    } else if by > 127 {
        u128::from(magnitude != 0)
    } else {
        magnitude >> by | u128::from(magnitude & ((1 << by) - 1) != 0)
    }
}

fn raised(number: Exact) -> Exact {
    if number.magnitude == 0 {
        return number;
    }
    let by = number.magnitude.leading_zeros() as i32 - (127 - TOP) as i32;
    Exact {
        magnitude: if by >= 0 {
            number.magnitude << by
        } else {
            sink(number.magnitude, by.unsigned_abs())
        },
        exponent: number.exponent - by,
        ..number
    }
}

fn sum(a: Exact, b: Exact) -> Exact {
    let (a, b) = (raised(a), raised(b));
    if a.magnitude == 0 {
        return b;
    }
    if b.magnitude == 0 {
        return a;
    }
    let (high, low) = if a.exponent >= b.exponent {
        (a, b)
    } else {
        (b, a)
    };
    let low_magnitude = sink(low.magnitude, (high.exponent - low.exponent).unsigned_abs());
    let (negative, magnitude) = if high.negative == low.negative {
        (high.negative, high.magnitude + low_magnitude)
    } else if high.magnitude >= low_magnitude {
        (high.negative, high.magnitude - low_magnitude)
    } else {
        (low.negative, low_magnitude - high.magnitude)
    };
    Exact {
        negative,
        magnitude,
        exponent: high.exponent,
    }
}

/// The double next to a number in a direction.
fn round(number: Exact, rounding: Rounding) -> f64 {
    let sign = if number.negative { -1.0 } else { 1.0 };
    if number.magnitude == 0 {
        return 0.0 * sign;
    }
    let high = 127 - number.magnitude.leading_zeros() as i32;
    // 53 bits, fewer for subnormal numbers, whose last bit is 2^-1074.
    let drop = (high - 52).max(-1074 - number.exponent);
    let (kept, rest) = if drop <= 0 {
        ((number.magnitude << drop.unsigned_abs()) as u64, false)
    } else if drop > 127 {
        (0, true)
    } else {
        (
            (number.magnitude >> drop) as u64,
            number.magnitude & ((1 << drop) - 1) != 0,
        )
    };
    let away = match rounding {
        Rounding::Up => !number.negative,
        Rounding::Down => number.negative,
        _ => false,
    };
    let kept = kept + u64::from(rest && away);
    let (kept, exponent) = if kept >> 53 == 1 {
        (kept >> 1, number.exponent + drop + 1)
    } else {
        (kept, number.exponent + drop)
    };
    let largest = if away { f64::INFINITY } else { f64::MAX };
    if kept >> 52 == 0 {
        return f64::from_bits(kept) * sign;
    }
    let field = exponent + 1075;
    if field >= 0x7ff {
        return largest * sign;
    }
    f64::from_bits((field as u64) << 52 | kept & ((1 << 52) - 1)) * sign
}

fn operands(v: [u64; 4]) -> (f64, f64, f64, Rounding) {
    let [a, b, c] = [v[0], v[1], v[2]].map(f64::from_bits);
    (a, b, c, Mode::unpack(v[3]).rounding)
}

fn times(a: f64, b: f64) -> Exact {
    let (x, y) = (exact(a), exact(b));
    Exact {
        negative: x.negative != y.negative,
        magnitude: x.magnitude * y.magnitude,
        exponent: x.exponent + y.exponent,
    }
}

pub(crate) fn mul64(v: [u64; 4]) -> u64 {
    let (a, b, _, rounding) = operands(v);
    if !(a.is_finite() && b.is_finite()) {
        return canon64(a * b);
    }
    round(times(a, b), rounding).to_bits()
}

pub(crate) fn fma64(v: [u64; 4]) -> u64 {
    let (a, b, c, rounding) = operands(v);
    if !(a.is_finite() && b.is_finite() && c.is_finite()) {
        return canon64(a.mul_add(b, c));
    }
    let (product, addend) = (times(a, b), exact(c));
    let total = sum(product, addend);
    if total.magnitude == 0 {
        // Zeros of one sign keep it; what cancels is positive, except when rounding down.
        let negative = if product.negative == addend.negative {
            product.negative
        } else {
            rounding == Rounding::Down
        };
        return if negative { (-0.0f64).to_bits() } else { 0 };
    }
    round(total, rounding).to_bits()
}

pub(crate) fn add64(v: [u64; 4]) -> u64 {
    fma64([v[0], 1f64.to_bits(), v[1], v[3]])
}

pub(crate) fn sub64(v: [u64; 4]) -> u64 {
    add64([v[0], v[1] ^ 1 << 63, 0, v[3]])
}

pub(crate) fn div64(v: [u64; 4]) -> u64 {
    let (a, b, _, rounding) = operands(v);
    if !(a.is_finite() && b.is_finite()) || a == 0.0 || b == 0.0 {
        return canon64(a / b);
    }
    let (x, y) = (exact(a), exact(b));
    // At least 64 bits of the quotient: the dividend has 1 to 53, the divisor as many.
    let shift = x.magnitude.leading_zeros();
    let dividend = x.magnitude << shift;
    let quotient = dividend / y.magnitude;
    let rest = dividend % y.magnitude != 0;
    let number = Exact {
        negative: x.negative != y.negative,
        magnitude: quotient | u128::from(rest),
        exponent: x.exponent - shift as i32 - y.exponent,
    };
    round(number, rounding).to_bits()
}

pub(crate) fn rcp64(v: [u64; 4]) -> u64 {
    div64([1f64.to_bits(), v[0], 0, v[3]])
}

pub(crate) fn sqrt64(v: [u64; 4]) -> u64 {
    let (a, _, _, rounding) = operands(v);
    if !a.is_finite() || a <= 0.0 {
        return canon64(a.sqrt());
    }
    let x = exact(a);
    // An even exponent, and as many bits as fit.
    let room = x.magnitude.leading_zeros() as i32;
    let shift = room - (x.exponent - room).rem_euclid(2);
    let (radicand, exponent) = (x.magnitude << shift, x.exponent - shift);
    let root = radicand.isqrt();
    let number = Exact {
        negative: false,
        magnitude: root | u128::from(root * root != radicand),
        exponent: exponent / 2,
    };
    round(number, rounding).to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::float;

    fn mode(rounding: Rounding) -> u64 {
        Mode {
            rounding,
            ..Mode::PLAIN
        }
        .pack()
    }

    /// Every result, rounded down and up, encloses the nearest one, is at most one step apart from its partner, and
    /// rounding toward zero picks the one of smaller magnitude.
    #[test]
    fn directions_enclose_the_nearest_result() {
        type Operation = fn([u64; 4]) -> u64;
        let pairs: [(Operation, Operation); 7] = [
            (mul64, float::mul64),
            (fma64, float::fma64),
            (add64, float::add64),
            (sub64, float::sub64),
            (div64, float::div64),
            (rcp64, float::rcp64),
            (sqrt64, float::sqrt64),
        ];
        let values = [
            1.0,
            -1.0,
            3.0,
            0.1,
            -7.5e-3,
            1e300,
            -1e300,
            1e-300,
            5e-324,
            -2.3e-310,
            2f64.powi(52) + 1.0,
            f64::MAX,
            f64::MIN_POSITIVE,
            0.0,
            -0.0,
            1.0 + f64::EPSILON,
        ];
        let plain = Mode::PLAIN.pack();
        for (number, (directed, nearest)) in pairs.into_iter().enumerate() {
            for a in values {
                for b in values {
                    for c in [0.0f64, 1.0, -1e-30, 1e290, -0.3] {
                        let bits = [a.to_bits(), b.to_bits(), c.to_bits()];
                        let run = |f: Operation, mode: u64| {
                            f64::from_bits(f([bits[0], bits[1], bits[2], mode]))
                        };
                        let near = run(nearest, plain);
                        let (down, up) = (
                            run(directed, mode(Rounding::Down)),
                            run(directed, mode(Rounding::Up)),
                        );
                        let zero = run(directed, mode(Rounding::Zero));
                        if near.is_nan() {
                            assert!(down.is_nan() && up.is_nan() && zero.is_nan());
                            continue;
                        }
                        let place = format!(
                            "operation {number} of {a:e}, {b:e}, {c:e}: {down:e} {near:e} {up:e}"
                        );
                        assert!(down <= near && near <= up, "{place}");
                        assert!(down == up || down.next_up() == up, "{place}");
                        assert!(near == down || near == up, "{place}");
                        assert_eq!(zero.abs(), down.abs().min(up.abs()), "{place}");
                    }
                }
            }
        }
    }

    #[test]
    fn known_results() {
        let third =
            |rounding| f64::from_bits(div64([1f64.to_bits(), 3f64.to_bits(), 0, mode(rounding)]));
        assert_eq!(third(Rounding::Down), 1.0 / 3.0);
        assert_eq!(third(Rounding::Up), (1.0f64 / 3.0).next_up());
        let root = |rounding| f64::from_bits(sqrt64([2f64.to_bits(), 0, 0, mode(rounding)]));
        assert_eq!(
            (root(Rounding::Down), root(Rounding::Up)),
            (2f64.sqrt().next_down(), 2f64.sqrt())
        );
        let exact = |rounding| f64::from_bits(sqrt64([2.25f64.to_bits(), 0, 0, mode(rounding)]));
        assert_eq!((exact(Rounding::Down), exact(Rounding::Up)), (1.5, 1.5));
        let cancelled = f64::from_bits(fma64([
            2f64.to_bits(),
            3f64.to_bits(),
            (-6f64).to_bits(),
            mode(Rounding::Down),
        ]));
        assert!(cancelled == 0.0 && cancelled.is_sign_negative());
    }
}
