//! L2 cache persistence, which kernels may request for their accesses.

use cudarc::driver::sys::{CUlimit, CUresult};

use super::{DriverError, Gpu, check_code, symbol};

/// Error codes of a device or driver without persisting accesses.
const UNSUPPORTED_CODES: [u32; 3] = [
    CUresult::CUDA_ERROR_INVALID_VALUE as u32,
    CUresult::CUDA_ERROR_UNSUPPORTED_LIMIT as u32,
    CUresult::CUDA_ERROR_NOT_SUPPORTED as u32,
];

impl Gpu {
    /// Sets the part of the L2 cache for persisting accesses to zero. Without such a part, requests of kernels are
    /// only hints.
    ///
    /// # Errors
    /// The driver's error.
    pub fn disable_persisting_cache(&self) -> Result<(), DriverError> {
        type Set = unsafe extern "C" fn(u32, usize) -> u32;
        let Some((call, set)) = symbol::<Set>("cuCtxSetLimit") else {
            return Ok(());
        };
        let limit = CUlimit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE as u32;
        // SAFETY: `Set` is the function's type with its enumeration as the integer it is.
        ignore_unsupported(check_code(call, unsafe { set(limit, 0) }))
    }

    /// Resets all persisting cache lines to normal.
    ///
    /// # Errors
    /// The driver's error, which may be the error of an earlier launch.
    pub fn reset_persisting_cache(&self) -> Result<(), DriverError> {
        type Reset = unsafe extern "C" fn() -> u32;
        let Some((call, reset)) = symbol::<Reset>("cuCtxResetPersistingL2Cache") else {
            return Ok(());
        };
        // SAFETY: `Reset` is the function's type.
        ignore_unsupported(check_code(call, unsafe { reset() }))
    }
}

fn ignore_unsupported(answer: Result<(), DriverError>) -> Result<(), DriverError> {
    answer.or_else(|refusal| {
        if UNSUPPORTED_CODES.contains(&refusal.code) {
            Ok(())
        } else {
            Err(refusal)
        }
    })
}
