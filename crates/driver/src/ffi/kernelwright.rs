//! The exported symbol that CUDA's API does not have.

use crate::emulator;

use super::pointer::{Host, Out};
use super::process;

/// Result: the reply is complete.
const COMPLETE: i32 = 0;
/// Result: the reply did not fit. Its size was written, no launch was dropped, and the caller can ask again.
const TOO_SMALL: i32 = 1;
/// Result: the request was not understood or not possible; the reply gives the reason.
const REFUSED: i32 = 2;

/// Answers one JSON request with JSON. Returns 0 if the reply is complete, 1 if it did not fit (its size in bytes is
/// written and the journal is unchanged), 2 if the request is invalid (the reply gives the reason).
#[unsafe(no_mangle)]
pub extern "C" fn kernelwrightEmulator(
    request: Host,
    request_bytes: usize,
    reply: Host,
    capacity: usize,
    reply_bytes: Out<usize>,
) -> i32 {
    let served = process::with_driver("kernelwrightEmulator", |driver| {
        let Ok(request) = request.bytes(request_bytes) else {
            return REFUSED;
        };
        let answer = emulator::answer(driver, request);
        reply_bytes.set_if_given(answer.json.len());
        if answer.json.len() > capacity {
            return TOO_SMALL;
        }
        let Ok(output) = reply.bytes_mut(answer.json.len()) else {
            return REFUSED;
        };
        output.copy_from_slice(answer.json.as_bytes());
        emulator::delivered(driver, &answer);
        if answer.accepted { COMPLETE } else { REFUSED }
    });
    served.unwrap_or_else(|_| {
        reply_bytes.set_if_given(0);
        REFUSED
    })
}
