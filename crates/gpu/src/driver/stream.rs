//! A second queue of work, which waits for nothing of the first and which the first does not wait for.

use std::ptr;

use cudarc::driver::sys;

use super::{DriverError, accepted, is_exported, missing, note_release};

/// Work on it runs beside that of the context's own stream.
#[derive(Debug)]
pub struct Stream(sys::CUstream);

impl Stream {
    /// Makes one.
    ///
    /// # Errors
    /// The driver's error; "not supported" where it lacks the calls.
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

    /// Waits until everything launched on it has ended.
    ///
    /// # Errors
    /// The driver's error.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        // SAFETY: the stream is alive.
        let waited = unsafe { sys::cuStreamSynchronize(self.0) };
        accepted("cuStreamSynchronize", waited as u32)
    }

    pub(super) fn raw(&self) -> sys::CUstream {
        self.0
    }
}

/// Waits until everything launched on the context's own stream has ended, whatever others do.
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
        // SAFETY: the stream is alive and used by nobody afterwards.
        let destroyed = unsafe { sys::cuStreamDestroy_v2(self.0) };
        note_release(accepted("cuStreamDestroy", destroyed as u32));
    }
}
