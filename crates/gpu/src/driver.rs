//! A CUDA driver as safe types: one device, one context, one stream.
//!
//! The loader decides whether it is NVIDIA's driver or the emulated one. The only trace of it here is
//! [`emulator::Emulator`], which exists if the library exports one more symbol. cudarc panics if the library or a
//! symbol is missing, so both are looked up first. The module knows no plan and no tensor.

pub mod emulator;
mod event;
mod memory;
mod module;
mod persisting;
mod special_memory;
mod stream;

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUdevice_attribute};
use domain::device::{Device, DeviceKind, Limits};

use crate::role_error::RoleError;
use emulator::Emulator;

pub use event::Stopwatch;
pub use memory::{Allocation, Guard};
pub use module::{Kernel, Module, Shape, Variable};
pub use persisting::PersistingWindow;
pub use special_memory::{MappedMemory, SharedWord};
pub use stream::{Stream, synchronize_own_stream};

/// The entry points that every role needs. Event times and the device's identity have two versions each, which are
/// looked up at their use.
const REQUIRED: [&str; 38] = [
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuDeviceGet",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDeviceTotalMem_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemcpyHtoD_v2",
    "cuMemcpyDtoH_v2",
    "cuMemsetD8Async",
    "cuMemsetD8_v2",
    "cuMemGetAllocationGranularity",
    "cuMemAddressReserve",
    "cuMemAddressFree",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemSetAccess",
    "cuModuleLoadDataEx",
    "cuModuleUnload",
    "cuModuleGetFunction",
    "cuFuncGetParamInfo",
    "cuFuncSetAttribute",
    "cuLaunchKernel",
    "cuLaunchCooperativeKernel",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuEventDestroy_v2",
];

/// An error of a driver call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverError {
    /// Name of the function.
    pub call: &'static str,
    /// The driver's error code.
    pub code: u32,
    /// Name of the error code.
    pub name: String,
    /// The driver's error log of an image that it could not load.
    pub log: Option<String>,
}

impl DriverError {
    /// Converts to a fault, for calls that no kernel can have affected.
    pub fn into_role_error(self, action: &str) -> RoleError {
        RoleError::Driver {
            action: action.to_owned(),
            call: self.call.to_owned(),
            code: self.code,
            name: self.name,
        }
    }
}

/// The first device, with a context that is current on this thread.
#[derive(Debug)]
pub struct Gpu {
    ordinal: sys::CUdevice,
    emulator: Option<Emulator>,
}

impl Gpu {
    /// Finds the driver, initialises it and makes a context on its first device.
    ///
    /// # Errors
    /// A [`RoleError`] that names what is missing, or the call that the driver refused.
    pub fn open() -> Result<Self, RoleError> {
        // SAFETY: this only opens the library; a driver's initialisers have no preconditions.
        if !unsafe { sys::is_culib_present() } {
            return Err(RoleError::NoDriver);
        }
        if let Some(missing) = REQUIRED.iter().find(|symbol| !is_exported(symbol)) {
            return Err(RoleError::OldDriver {
                symbol: (*missing).to_owned(),
            });
        }
        let fault = |refusal: DriverError| refusal.into_role_error("open the GPU");
        checked("cuInit", result::init()).map_err(fault)?;
        let ordinal = checked("cuDeviceGet", result::device::get(0)).map_err(fault)?;
        // SAFETY: the ordinal is the driver's.
        let context = unsafe { result::primary_ctx::retain(ordinal) };
        let context = checked("cuDevicePrimaryCtxRetain", context).map_err(fault)?;
        // SAFETY: the context was retained above and is released only when `self` goes.
        let current = unsafe { result::ctx::set_current(context) };
        checked("cuCtxSetCurrent", current).map_err(fault)?;
        Ok(Self {
            ordinal,
            emulator: Emulator::find(),
        })
    }

    /// The interface of the emulated device; none on a GPU.
    pub fn emulator(&self) -> Option<&Emulator> {
        self.emulator.as_ref()
    }

    /// Allocates a range of memory with inaccessible addresses before or after it.
    ///
    /// # Errors
    /// The driver's error.
    pub fn allocate_guarded(&self, bytes: usize, guard: Guard) -> Result<Allocation, DriverError> {
        Allocation::new_guarded(bytes, guard, self.ordinal)
    }

    /// Waits until everything launched has ended. The first error of these launches is returned here.
    ///
    /// # Errors
    /// The driver's error.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        checked("cuCtxSynchronize", result::ctx::synchronize())
    }

    /// Free device memory, bytes.
    ///
    /// # Errors
    /// The driver's error.
    pub fn free_memory(&self) -> Result<u64, DriverError> {
        let (free, _) = checked("cuMemGetInfo", result::mem_get_info())?;
        Ok(free as u64)
    }

    /// The device's description, as the driver reports it.
    ///
    /// # Errors
    /// A [`RoleError`] with the call that the driver refused.
    pub fn describe(&self) -> Result<Device, RoleError> {
        use CUdevice_attribute as A;
        let fault = |refusal: DriverError| refusal.into_role_error("ask the device for its facts");
        let attribute = |attribute| self.attribute(attribute).map_err(fault);
        let name = checked("cuDeviceGetName", result::device::get_name(self.ordinal));
        // SAFETY: the ordinal is the driver's.
        let memory = unsafe { result::device::total_mem(self.ordinal) };
        let memory = checked("cuDeviceTotalMem", memory).map_err(fault)?;
        let mut version = 0;
        // SAFETY: the pointer is valid for a write.
        let asked = unsafe { sys::cuDriverGetVersion(&raw mut version) }.result();
        checked("cuDriverGetVersion", asked).map_err(fault)?;
        let kind = if self.emulator.is_some() {
            DeviceKind::Emulated
        } else {
            DeviceKind::Nvidia
        };
        Ok(Device {
            name: name.map_err(fault)?,
            kind,
            uuid: self.uuid().map_err(fault)?,
            compute_capability: (
                attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            driver_version: version.unsigned_abs(),
            memory_bytes: memory as u64,
            l2_bytes: u64::from(attribute(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?),
            limits: Limits {
                sm_count: attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
                threads_per_block: attribute(A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
                block: [
                    attribute(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?,
                    attribute(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?,
                    attribute(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?,
                ],
                grid: [
                    attribute(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
                    attribute(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
                    attribute(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
                ],
                shared_per_block: attribute(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?,
                shared_per_block_optin: attribute(
                    A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
                )?,
                shared_per_sm: attribute(
                    A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
                )?,
                registers_per_block: attribute(A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK)?,
                registers_per_sm: attribute(
                    A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
                )?,
                threads_per_sm: attribute(A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
                blocks_per_sm: attribute(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR)?,
            },
        })
    }

    /// Returns true if kernels can access all memory of the process by its address.
    ///
    /// # Errors
    /// The driver's error.
    pub fn can_access_pageable_memory(&self) -> Result<bool, DriverError> {
        self.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS)
            .map(|value| value != 0)
    }

    fn attribute(&self, attribute: CUdevice_attribute) -> Result<u32, DriverError> {
        // SAFETY: the ordinal is the driver's.
        let value = unsafe { result::device::get_attribute(self.ordinal, attribute) };
        checked("cuDeviceGetAttribute", value).map(i32::unsigned_abs)
    }

    /// The card's identity in the form of the driver's tools.
    fn uuid(&self) -> Result<String, DriverError> {
        type Ask = unsafe extern "C" fn(*mut sys::CUuuid, sys::CUdevice) -> u32;
        // The second version differs only for partitions of a card, and drivers before 570 lack it.
        let (call, ask) = symbol::<Ask>("cuDeviceGetUuid_v2")
            .or_else(|| symbol::<Ask>("cuDeviceGetUuid"))
            .ok_or_else(|| unsupported_error("cuDeviceGetUuid"))?;
        let mut uuid = sys::CUuuid { bytes: [0; 16] };
        // SAFETY: `Ask` is the function's type in NVIDIA's header, and the pointer is valid for a write.
        check_code(call, unsafe { ask(&raw mut uuid, self.ordinal) })?;
        let hex = |from: usize, to: usize| -> String {
            uuid.bytes[from..to]
                .iter()
                .map(|byte| format!("{:02x}", byte.cast_unsigned()))
                .collect()
        };
        Ok(format!(
            "GPU-{}-{}-{}-{}-{}",
            hex(0, 4),
            hex(4, 6),
            hex(6, 8),
            hex(8, 10),
            hex(10, 16)
        ))
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: the context was retained in `open`. A refusal means that the context is broken already, and the
        // process is about to end.
        let _ = unsafe { result::primary_ctx::release(self.ordinal) };
    }
}

thread_local! {
    /// The first error of a destructor that has not been reported yet.
    static RELEASE_ERROR: std::cell::Cell<Option<DriverError>> = const { std::cell::Cell::new(None) };
}

/// Keeps an error of a destructor until [`take_release_error`] reports it. It must neither be lost nor be reported by the next
/// unrelated call.
fn record_release_error(released: Result<(), DriverError>) {
    if let Err(refusal) = released {
        let first = RELEASE_ERROR.take().unwrap_or(refusal);
        RELEASE_ERROR.set(Some(first));
    }
}

/// Reports whether all resources were released since the last call of this function.
///
/// # Errors
/// The first error of a destructor.
pub fn take_release_error() -> Result<(), DriverError> {
    RELEASE_ERROR.take().map_or(Ok(()), Err)
}

/// Adds the function's name to cudarc's error.
fn checked<T>(
    call: &'static str,
    answer: Result<T, cudarc::driver::DriverError>,
) -> Result<T, DriverError> {
    answer.map_err(|error| DriverError {
        call,
        code: error.0 as u32,
        name: name_of(error.0 as u32),
        log: None,
    })
}

/// Checks the code returned by a function called without cudarc. The code may be newer than the bindings.
fn check_code(call: &'static str, code: u32) -> Result<(), DriverError> {
    if code == 0 {
        return Ok(());
    }
    Err(DriverError {
        call,
        code,
        name: name_of(code),
        log: None,
    })
}

/// The error for a function that the driver lacks although it is old enough to be expected.
fn unsupported_error(call: &'static str) -> DriverError {
    check_code(call, sys::CUresult::CUDA_ERROR_NOT_SUPPORTED as u32)
        .expect_err("the code is not zero")
}

/// The name of an error code, in the driver's spelling.
fn name_of(code: u32) -> String {
    type Ask = unsafe extern "C" fn(u32, *mut *const std::ffi::c_char) -> u32;
    let unknown = || format!("error {code}");
    let Some((_, ask)) = symbol::<Ask>("cuGetErrorName") else {
        return unknown();
    };
    let mut name = std::ptr::null();
    // SAFETY: `Ask` is the function's type with its enumeration as the integer it is, so that a code unknown to the
    // bindings is no undefined behaviour; the pointer is valid for a write.
    let code = unsafe { ask(code, &raw mut name) };
    if code != 0 || name.is_null() {
        return unknown();
    }
    // SAFETY: on success the pointer is a static string of the driver.
    unsafe { std::ffi::CStr::from_ptr(name) }
        .to_string_lossy()
        .into_owned()
}

/// A function of the driver with its name. Its type is the responsibility of the caller, who calls it in an unsafe
/// block.
fn symbol<T: Copy>(name: &'static str) -> Option<(&'static str, T)> {
    // SAFETY: the library is loaded wherever this module's types exist. Reading the symbol as a pointer-sized `T` is
    // harmless; calling it needs the caller's own unsafe block.
    let found = unsafe { sys::culib().get::<T>(name.as_bytes()) };
    found.ok().map(|function| (name, *function))
}

fn is_exported(name: &str) -> bool {
    // SAFETY: the library is loaded; the symbol is only looked up and never called with this type.
    unsafe { sys::culib().get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_ok()
}
