//! Accesses that persist in the L2 cache, which a plan may ask for and kernels may hint at.

use std::ffi::c_void;

use cudarc::driver::sys::{
    CUaccessPolicyWindow, CUaccessProperty, CUdevice_attribute, CUlaunchAttribute,
    CUlaunchAttributeID, CUlaunchAttributeValue, CUlimit, CUresult,
};

use super::{DriverError, Gpu, check_code, symbol};

/// Error codes of a device or driver without persisting accesses.
const UNSUPPORTED_CODES: [u32; 3] = [
    CUresult::CUDA_ERROR_INVALID_VALUE as u32,
    CUresult::CUDA_ERROR_UNSUPPORTED_LIMIT as u32,
    CUresult::CUDA_ERROR_NOT_SUPPORTED as u32,
];

impl Gpu {
    /// The largest window of addresses whose accesses can persist, bytes; 0 where the device or its driver has none.
    pub fn largest_persisting_window(&self) -> u64 {
        let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE;
        self.attribute(attribute).map_or(0, u64::from)
    }

    /// Sets the part of the L2 cache for persisting accesses, of which the driver gives at most what the device has.
    /// Without such a part, requests of kernels are only hints.
    ///
    /// # Errors
    /// The driver's error.
    pub fn set_persisting_cache(&self, bytes: u64) -> Result<(), DriverError> {
        type Set = unsafe extern "C" fn(u32, usize) -> u32;
        let Some((call, set)) = symbol::<Set>("cuCtxSetLimit") else {
            return Ok(());
        };
        let limit = CUlimit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE as u32;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: `Set` is the function's type with its enumeration as the integer it is.
        ignore_unsupported(check_code(call, unsafe { set(limit, bytes) }))
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

/// A window of addresses whose accesses by a launch persist in the L2 cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PersistingWindow {
    /// Its first address.
    pub address: u64,
    /// Its size in bytes, at most [`Gpu::largest_persisting_window`].
    pub bytes: u64,
    /// The share of it that is to persist, above 0 to 1.
    pub hit_ratio: f64,
}

impl PersistingWindow {
    /// The launch's attribute. What does not persist is taken as read once.
    pub(super) fn attribute(&self) -> CUlaunchAttribute {
        CUlaunchAttribute {
            id: CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
            pad: [0; 4],
            value: CUlaunchAttributeValue {
                accessPolicyWindow: CUaccessPolicyWindow {
                    base_ptr: self.address as *mut c_void,
                    num_bytes: usize::try_from(self.bytes).unwrap_or(usize::MAX),
                    hitRatio: self.hit_ratio as f32,
                    hitProp: CUaccessProperty::CU_ACCESS_PROPERTY_PERSISTING,
                    missProp: CUaccessProperty::CU_ACCESS_PROPERTY_STREAMING,
                },
            },
        }
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
