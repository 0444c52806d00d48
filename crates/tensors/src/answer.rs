//! The answer of a reference as the bytes of a file that shows its own damage.
//!
//! The bytes are the XXH64 checksum of the content, 8 bytes in little-endian order, and then the content: binary64
//! values in little-endian order. The checksum finds damage and no forgery. Answers are up to eight times as large as
//! the outputs, and SHA-256 took a fifth of an evaluation's processor time where the processor has no instructions for
//! it, as on the hosts of most L4s.

use domain::dtype::Dtype;
use twox_hash::XxHash64;

use crate::inputs;

/// Puts the checksum before the content, which is binary64 values in little-endian order.
pub fn seal(content: &[u8]) -> Vec<u8> {
    [&checksum(content), content].concat()
}

/// Reads the values of sealed bytes; none if they are damaged or not exactly `elements` values.
pub fn unseal(sealed: &[u8], elements: u64) -> Option<Vec<f64>> {
    let (stored, content) = sealed.split_first_chunk()?;
    let whole =
        content.len() as u64 == elements * Dtype::F64.bytes() && checksum(content) == *stored;
    whole.then(|| inputs::decode(Dtype::F64, content))
}

fn checksum(content: &[u8]) -> [u8; 8] {
    XxHash64::oneshot(0, content).to_le_bytes()
}
