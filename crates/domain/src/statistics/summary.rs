//! Location and spread of a few numbers.

/// The median; none of nothing. The mean of the middle two of an even number.
///
/// # Panics
/// If a value is NaN: times are checked before they come here.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The quantile of a share from 0 to 1, interpolated linearly between neighbours (type 7 of
/// Hyndman and Fan, 1996); none of nothing.
///
/// # Panics
/// If a value is NaN.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    let sorted = sorted(values);
    #[expect(clippy::cast_precision_loss, reason = "there are few values")]
    let position = share.clamp(0.0, 1.0) * last as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a position lies within the values"
    )]
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    let part = position - position.floor();
    Some(sorted[below] + part * (sorted[above] - sorted[below]))
}

/// The median absolute deviation from the median, scaled to equal the standard deviation of
/// normal values (1 / the normal's third quartile); none of nothing.
///
/// # Panics
/// If a value is NaN.
pub fn deviation(values: &[f64]) -> Option<f64> {
    const TO_NORMAL: f64 = 1.482_602_218_505_602;
    let centre = median(values)?;
    let distances = values
        .iter()
        .map(|value| (value - centre).abs())
        .collect::<Vec<_>>();
    Some(TO_NORMAL * median(&distances)?)
}

/// The values in ascending order.
pub(super) fn sorted(values: &[f64]) -> Vec<f64> {
    assert!(
        values.iter().all(|value| !value.is_nan()),
        "values that are compared are numbers"
    );
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The arithmetic mean; none of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "there are few values")]
    let count = values.len() as f64;
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / count)
}
