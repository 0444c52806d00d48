//! The symbol that is not CUDA's.

use crate::emulator;

use super::pointer::{Host, Out};
use super::process;

/// The reply is complete.
const COMPLETE: i32 = 0;
/// The reply did not fit: the needed size is known, nothing is lost, ask again.
const TOO_SMALL: i32 = 1;
/// The request was not understood or not possible; the reply says why.
const REFUSED: i32 = 2;

/// Answers one JSON request with JSON. 0 if the reply is complete, 1 if it did not fit (the size it needs is
/// written, and nothing is lost), 2 if the request is bad (the reply says why).
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
        reply_bytes.offer(answer.json.len());
        if answer.json.len() > capacity {
            return TOO_SMALL;
        }
        let Ok(place) = reply.bytes_mut(answer.json.len()) else {
            return REFUSED;
        };
        place.copy_from_slice(answer.json.as_bytes());
        emulator::delivered(driver, &answer);
        if answer.accepted { COMPLETE } else { REFUSED }
    });
    served.unwrap_or_else(|_| {
        reply_bytes.offer(0);
        REFUSED
    })
}
