//! Conversions of small number formats, written independently of the machine's own so that they can check it.

/// The nearest half; for values without overflow and without subnormal results.
pub fn half(value: f32) -> u16 {
    if value == 0.0 {
        return 0;
    }
    let bits = value.to_bits();
    let magnitude = (bits & 0x7fff_ffff) - 0x3800_0000;
    let rounded = (magnitude + 0xfff + (magnitude >> 13 & 1)) >> 13;
    (bits >> 16 & 0x8000) as u16 | rounded as u16
}

/// A half's value.
pub fn single(bits: u16) -> f32 {
    let magnitude = f32::from_bits(u32::from(bits & 0x7fff) << 13) * 2f32.powi(112);
    if bits & 0x8000 == 0 {
        magnitude
    } else {
        -magnitude
    }
}

/// The nearest bfloat16, ties to even.
pub fn brain(value: f32) -> u16 {
    let bits = value.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// A bfloat16's value.
pub fn brain_value(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Halves of random values between -1 and 1, away from subnormals.
pub fn halves(values: &[f32]) -> Vec<u16> {
    values
        .iter()
        .map(|value| half(if value.abs() < 1e-3 { 0.0 } else { *value }))
        .collect()
}

/// The value of an 8-bit float with a number of mantissa bits and a bias; no infinities, no NaN.
pub fn tiny(bits: u8, mantissa: u32, bias: i32) -> f32 {
    let fraction = f32::from(bits & ((1 << mantissa) - 1)) / (1u32 << mantissa) as f32;
    let exponent = i32::from(bits & 0x7f) >> mantissa;
    let magnitude = if exponent == 0 {
        fraction * 2f32.powi(1 - bias)
    } else {
        (1.0 + fraction) * 2f32.powi(exponent - bias)
    };
    if bits & 0x80 == 0 {
        magnitude
    } else {
        -magnitude
    }
}

/// Converts `f32` values to `f64`.
pub fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}
