//! Parsers of numbers on the command line. Their messages replace those of Rust's own parsers,
//! such as "invalid digit found in string".

use std::str::FromStr;

/// Parses a whole number from 0.
///
/// # Errors
/// A message that says which numbers are taken.
pub(super) fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| {
        if text.parse::<u128>().is_ok() {
            "the number is too large; give a smaller one, such as 45".to_owned()
        } else {
            "give a whole number from 0, such as 45".to_owned()
        }
    })
}

/// Parses a number with or without a fraction.
///
/// # Errors
/// A message that says which numbers are taken.
pub(super) fn decimal(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|number: &f64| number.is_finite())
        .ok_or_else(|| "give a number, such as 0.7".to_owned())
}
