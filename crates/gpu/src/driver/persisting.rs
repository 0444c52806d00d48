//! What kernels may ask to stay in the second level cache against its usual course.

use cudarc::driver::sys::{CUlimit, CUresult};

use super::{DriverError, Gpu, accepted, symbol};

/// Answers of a device or driver where nothing persists.
const NOTHING_PERSISTS: [u32; 3] = [
    CUresult::CUDA_ERROR_INVALID_VALUE as u32,
    CUresult::CUDA_ERROR_UNSUPPORTED_LIMIT as u32,
    CUresult::CUDA_ERROR_NOT_SUPPORTED as u32,
];

impl Gpu {
    /// Has no part of the cache set aside for what is to persist. Without that, what kernels ask for
    /// is a hint.
    ///
    /// # Errors
    /// The driver's error.
    pub fn set_nothing_aside(&self) -> Result<(), DriverError> {
        type Set = unsafe extern "C" fn(u32, usize) -> u32;
        let Some((call, set)) = symbol::<Set>("cuCtxSetLimit") else {
            return Ok(());
        };
        let limit = CUlimit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE as u32;
        // SAFETY: `Set` is the function's type with its enumeration as the integer it is.
        tolerated(accepted(call, unsafe { set(limit, 0) }))
    }

    /// Makes whatever persists in the cache ordinary again.
    ///
    /// # Errors
    /// The driver's error, which may be the error of an earlier launch.
    pub fn let_nothing_persist(&self) -> Result<(), DriverError> {
        type Reset = unsafe extern "C" fn() -> u32;
        let Some((call, reset)) = symbol::<Reset>("cuCtxResetPersistingL2Cache") else {
            return Ok(());
        };
        // SAFETY: `Reset` is the function's type.
        tolerated(accepted(call, unsafe { reset() }))
    }
}

fn tolerated(answer: Result<(), DriverError>) -> Result<(), DriverError> {
    answer.or_else(|refusal| {
        if NOTHING_PERSISTS.contains(&refusal.code) {
            Ok(())
        } else {
            Err(refusal)
        }
    })
}
