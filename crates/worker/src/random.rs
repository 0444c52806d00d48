//! Random bytes for nonces, poison and the seeds of schedules, which no candidate may predict.

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
