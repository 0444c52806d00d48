//! Secrets: nonces, poison and schedule seeds that no candidate may foresee.

use rustix::rand::{GetRandomFlags, getrandom};

/// Random bytes from the system.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())
            .expect("the system's generator blocks only before the machine is up");
    }
    bytes
}
