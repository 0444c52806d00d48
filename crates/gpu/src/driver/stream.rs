//! A second stream, which does not synchronise with the context's own stream.

use std::ptr;

use cudarc::driver::sys;

use super::{DriverError, check_code, is_exported, record_release_error, unsupported_error};

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
                return Err(unsupported_error(name));
            }
        }
        let apart = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        let mut stream = ptr::null_mut();
        // SAFETY: the pointer is valid for a write.
        let made = unsafe { sys::cuStreamCreate(&raw mut stream, apart) };
        check_code("cuStreamCreate", made as u32)?;
        Ok(Self(stream))
    }

    /// Waits until everything launched on this stream has ended.
    ///
    /// # Errors
    /// The driver's error.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        // SAFETY: the stream exists.
        let waited = unsafe { sys::cuStreamSynchronize(self.0) };
        check_code("cuStreamSynchronize", waited as u32)
    }

    pub(super) fn raw(&self) -> sys::CUstream {
        self.0
    }
}

/// Waits until everything launched on the context's own stream has ended, independent of other streams.
///
/// # Errors
/// The driver's error, which may be the error of the work itself.
pub fn synchronize_own_stream() -> Result<(), DriverError> {
    if !is_exported("cuStreamSynchronize") {
        return Err(unsupported_error("cuStreamSynchronize"));
    }
    // SAFETY: the null stream is the context's own.
    let waited = unsafe { sys::cuStreamSynchronize(ptr::null_mut()) };
    check_code("cuStreamSynchronize", waited as u32)
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream exists and is not used afterwards.
        let destroyed = unsafe { sys::cuStreamDestroy_v2(self.0) };
        record_release_error(check_code("cuStreamDestroy", destroyed as u32));
    }
}
