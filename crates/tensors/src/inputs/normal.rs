//! The quantile function of the normal distribution, without the host's mathematical library.
//!
//! Wichura's algorithm AS 241 (Applied Statistics 37, 1988), whose relative error is about 1e-16, with an own
//! implementation of the logarithm: libraries round the last bit of `ln` differently, and the inputs of a task must
//! be the same bytes on every machine.

use std::f64::consts::{LN_2, SQRT_2};

/// The value below which a normal draw falls with `probability`. Intended for probabilities between 1.4e-11 and its
/// complement; uniform draws of 32 bits stay inside this range.
pub fn quantile(probability: f64) -> f64 {
    let centred = probability - 0.5;
    if centred.abs() <= 0.425 {
        let r = 0.180_625 - centred * centred;
        return centred * polynomial(&CENTRE_ABOVE, r) / polynomial(&CENTRE_BELOW, r);
    }
    let tail = if centred < 0.0 {
        probability
    } else {
        1.0 - probability
    };
    let r = (-logarithm(tail)).sqrt() - 1.6;
    let magnitude = polynomial(&TAIL_ABOVE, r) / polynomial(&TAIL_BELOW, r);
    magnitude.copysign(centred)
}

/// Coefficients from the constant term upwards.
fn polynomial(coefficients: &[f64; 8], x: f64) -> f64 {
    coefficients
        .iter()
        .rev()
        .fold(0.0, |sum, coefficient| sum * x + coefficient)
}

/// The natural logarithm of a positive normal number: x = m 2^e with m near 1, and
/// ln m = 2 artanh((m - 1) / (m + 1)) as its odd series, which has converged after s^21 since
/// |s| < 0.172.
fn logarithm(x: f64) -> f64 {
    const EXPONENT_BITS: u64 = 0x7ff << 52;
    let bits = x.to_bits();
    let mut exponent = i32::try_from((bits & EXPONENT_BITS) >> 52).expect("eleven bits") - 1023;
    let mut mantissa = f64::from_bits(bits & !EXPONENT_BITS | 1023 << 52);
    if mantissa > SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let series = (0..=10)
        .rev()
        .fold(0.0, |sum, n| sum * square + 1.0 / f64::from(2 * n + 1));
    f64::from(exponent) * LN_2 + 2.0 * s * series
}

const CENTRE_ABOVE: [f64; 8] = [
    3.387_132_872_796_366_5,
    1.331_416_678_917_843_8e2,
    1.971_590_950_306_551_3e3,
    1.373_169_376_550_946e4,
    4.592_195_393_154_987e4,
    6.726_577_092_700_87e4,
    3.343_057_558_358_813e4,
    2.509_080_928_730_122_7e3,
];
const CENTRE_BELOW: [f64; 8] = [
    1.0,
    4.231_333_070_160_091e1,
    6.871_870_074_920_579e2,
    5.394_196_021_424_751e3,
    2.121_379_430_158_659_7e4,
    3.930_789_580_009_271e4,
    2.872_908_573_572_194_3e4,
    5.226_495_278_852_854e3,
];
const TAIL_ABOVE: [f64; 8] = [
    1.423_437_110_749_683_5,
    4.630_337_846_156_546,
    5.769_497_221_460_691,
    3.647_848_324_763_204_5,
    1.270_458_252_452_368_4,
    2.417_807_251_774_506e-1,
    2.272_384_498_926_918_4e-2,
    7.745_450_142_783_414e-4,
];
const TAIL_BELOW: [f64; 8] = [
    1.0,
    2.053_191_626_637_759,
    1.676_384_830_183_803_8,
    6.897_673_349_851e-1,
    1.481_039_764_274_800_8e-1,
    1.519_866_656_361_645_7e-2,
    5.475_938_084_995_345e-4,
    1.050_750_071_644_416_9e-9,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_tabulated_ones() {
        for (probability, expected) in [
            (0.5, 0.0),
            (0.6, 0.253_347_103_135_799_7),
            (0.841_344_746_068_542_9, 1.0),
            (0.975, 1.959_963_984_540_054),
            (0.025, -1.959_963_984_540_054),
            (0.999, 3.090_232_306_167_813_5),
            (1e-6, -4.753_424_308_822_899),
            (1e-9, -5.997_807_015_007_687),
        ] {
            let found = quantile(probability);
            assert!(
                (found - expected).abs() < 1e-13 * (1.0 + expected.abs()),
                "{probability}: {found}, expected {expected}"
            );
        }
    }

    #[test]
    fn the_logarithm_agrees_with_the_library() {
        for x in [1e-300, 2.3e-10, 0.3, 0.999_999, 1.0, 1.5, 7.25, 1e20] {
            let expected = f64::ln(x);
            assert!(
                (logarithm(x) - expected).abs() <= 4e-16 * expected.abs().max(1.0),
                "{x}"
            );
        }
    }
}
