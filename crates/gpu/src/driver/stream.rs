//! A second stream, which does not synchronise with the context's own stream.

use std::ptr;

use cudarc::driver::sys;

use super::{DriverError, accepted, is_exported, missing, note_release};

/// A stream whose work runs concurrently with that of the context's own stream.
#[derive(Debug)]
pub struct Stream(sys::CUstream);

impl Stream {
    /// Creates a stream.
    ///
    /// # Errors
    /// The driver's error; "not supported" if it lacks the functions.
    pub fn new() -> Result<Self, DriverError> {
        for name in [
            "cuStreamCreate",
            "cuStreamSynchronize",
            "cuStreamDestroy_v2",
        ] {
            if !is_exported(name) {
                return Err(missing(name));
            }
        }
        let apart = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        let mut stream = ptr::null_mut();
        // SAFETY: the pointer is valid for a write.
        let made = unsafe { sys::cuStreamCreate(&raw mut stream, apart) };
        accepted("cuStreamCreate", made as u32)?;
        Ok(Self(stream))
    }

    /// Waits until everything launched on this stream has ended.
    ///
    /// # Errors
    /// The driver's error.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        // SAFETY: the stream exists.
        let waited = unsafe { sys::cuStreamSynchronize(self.0) };
        accepted("cuStreamSynchronize", waited as u32)
    }

    pub(super) fn raw(&self) -> sys::CUstream {
        self.0
    }
}

/// Waits until everything launched on the context's own stream has ended, independent of other streams.
///
/// # Errors
/// The driver's error, which may be the error of the work itself.
pub fn settle() -> Result<(), DriverError> {
    if !is_exported("cuStreamSynchronize") {
        return Err(missing("cuStreamSynchronize"));
    }
    // SAFETY: the null stream is the context's own.
    let waited = unsafe { sys::cuStreamSynchronize(ptr::null_mut()) };
    accepted("cuStreamSynchronize", waited as u32)
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream exists and is not used afterwards.
        let destroyed = unsafe { sys::cuStreamDestroy_v2(self.0) };
        note_release(accepted("cuStreamDestroy", destroyed as u32));
    }
}
