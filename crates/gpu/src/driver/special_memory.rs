//! Kinds of memory that only experiments use: mapped by page, page-locked, managed.

use std::ffi::c_void;

use cudarc::driver::sys;

use super::memory::granted;
use super::{DriverError, Gpu, check_code, is_exported, record_release_error, unsupported_error};

/// Memory that is mapped at the start of a range of addresses twice as long; the second half is unmapped.
#[derive(Debug)]
pub struct MappedMemory {
    base: sys::CUdeviceptr,
    bytes: usize,
    handle: Option<sys::CUmemGenericAllocationHandle>,
    is_mapped: bool,
}

impl MappedMemory {
    /// Maps the smallest amount that the device supports, for reading and writing.
    ///
    /// # Errors
    /// The driver's error; "not supported" if it lacks the functions.
    pub fn new(gpu: &Gpu) -> Result<Self, DriverError> {
        for name in [
            "cuMemGetAllocationGranularity",
            "cuMemAddressReserve",
            "cuMemAddressFree",
            "cuMemCreate",
            "cuMemRelease",
            "cuMemMap",
            "cuMemUnmap",
            "cuMemSetAccess",
        ] {
            if !is_exported(name) {
                return Err(unsupported_error(name));
            }
        }
        let kind = properties(gpu);
        let mut bytes = 0;
        let least =
            sys::CUmemAllocationGranularity_flags_enum::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
        // SAFETY: both pointers are valid for the call.
        let asked =
            unsafe { sys::cuMemGetAllocationGranularity(&raw mut bytes, &raw const kind, least) };
        check_code("cuMemGetAllocationGranularity", asked as u32)?;
        let mut base = 0;
        // SAFETY: the pointer is valid for a write, and any address is acceptable.
        let reserved = unsafe { sys::cuMemAddressReserve(&raw mut base, 2 * bytes, bytes, 0, 0) };
        check_code("cuMemAddressReserve", reserved as u32)?;
        let mut mapped = Self {
            base,
            bytes,
            handle: None,
            is_mapped: false,
        };
        let mut handle = 0;
        // SAFETY: both pointers are valid for the call, and the size is the granularity.
        let created = unsafe { sys::cuMemCreate(&raw mut handle, bytes, &raw const kind, 0) };
        check_code("cuMemCreate", created as u32)?;
        mapped.handle = Some(handle);
        // SAFETY: the first half of the reserved range is free, and the handle exists.
        let placed = unsafe { sys::cuMemMap(base, bytes, 0, handle, 0) };
        check_code("cuMemMap", placed as u32)?;
        mapped.is_mapped = true;
        mapped.set_access(
            gpu,
            sys::CUmemAccess_flags_enum::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        )?;
        Ok(mapped)
    }

    /// Removes the right to write. Returns false if the driver does not support that.
    ///
    /// # Errors
    /// Any other error of the driver.
    pub fn make_read_only(&self, gpu: &Gpu) -> Result<bool, DriverError> {
        let asked = self.set_access(
            gpu,
            sys::CUmemAccess_flags_enum::CU_MEM_ACCESS_FLAGS_PROT_READ,
        );
        granted(asked)
    }

    /// Address of the first byte.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Size of the mapping in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn set_access(&self, gpu: &Gpu, flags: sys::CUmemAccess_flags) -> Result<(), DriverError> {
        let access = sys::CUmemAccessDesc {
            location: properties(gpu).location,
            flags,
        };
        // SAFETY: the range is mapped, and the description is valid for the call.
        let set = unsafe { sys::cuMemSetAccess(self.base, self.bytes, &raw const access, 1) };
        check_code("cuMemSetAccess", set as u32)
    }
}

/// Properties of device memory that is private to this process.
fn properties(gpu: &Gpu) -> sys::CUmemAllocationProp {
    sys::CUmemAllocationProp {
        type_: sys::CUmemAllocationType_enum::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: sys::CUmemAllocationHandleType_enum::CU_MEM_HANDLE_TYPE_NONE,
        location: sys::CUmemLocation {
            type_: sys::CUmemLocationType_enum::CU_MEM_LOCATION_TYPE_DEVICE,
            id: gpu.ordinal,
        },
        win32HandleMetaData: std::ptr::null_mut(),
        allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    }
}

impl Drop for MappedMemory {
    fn drop(&mut self) {
        // SAFETY: each step undoes one of `new` that succeeded, in the opposite order. After a fault of the device
        // the driver refuses, and the process is about to end.
        unsafe {
            if self.is_mapped {
                let unmapped = sys::cuMemUnmap(self.base, self.bytes);
                record_release_error(check_code("cuMemUnmap", unmapped as u32));
            }
            if let Some(handle) = self.handle {
                record_release_error(check_code("cuMemRelease", sys::cuMemRelease(handle) as u32));
            }
            let freed = sys::cuMemAddressFree(self.base, 2 * self.bytes);
            record_release_error(check_code("cuMemAddressFree", freed as u32));
        }
    }
}

/// Four bytes that the host can read and that the device may be able to write.
#[derive(Debug)]
pub enum SharedWord {
    /// Ordinary memory of the process.
    Pageable(Box<u32>),
    /// Page-locked memory of the driver.
    Pinned(*mut u32),
    /// Managed memory.
    Managed(*mut u32),
}

impl SharedWord {
    /// Creates zero in ordinary memory.
    pub fn pageable() -> Self {
        Self::Pageable(Box::new(0))
    }

    /// Creates zero in page-locked memory.
    ///
    /// # Errors
    /// The driver's error.
    pub fn pinned() -> Result<Self, DriverError> {
        if !is_exported("cuMemAllocHost_v2") || !is_exported("cuMemFreeHost") {
            return Err(unsupported_error("cuMemAllocHost"));
        }
        let mut place: *mut c_void = std::ptr::null_mut();
        // SAFETY: the pointer is valid for a write.
        let allocated = unsafe { sys::cuMemAllocHost_v2(&raw mut place, 4) };
        check_code("cuMemAllocHost", allocated as u32)?;
        // SAFETY: the driver allocated four bytes, aligned to a page.
        unsafe { place.cast::<u32>().write_volatile(0) };
        Ok(Self::Pinned(place.cast()))
    }

    /// Creates zero in managed memory.
    ///
    /// # Errors
    /// The driver's error.
    pub fn managed() -> Result<Self, DriverError> {
        if !is_exported("cuMemAllocManaged") {
            return Err(unsupported_error("cuMemAllocManaged"));
        }
        let mut place = 0;
        let everywhere = sys::CUmemAttach_flags_enum::CU_MEM_ATTACH_GLOBAL as u32;
        // SAFETY: the pointer is valid for a write.
        let allocated = unsafe { sys::cuMemAllocManaged(&raw mut place, 4, everywhere) };
        check_code("cuMemAllocManaged", allocated as u32)?;
        let place = place as *mut u32;
        // SAFETY: the host may access managed memory while no kernel runs.
        unsafe { place.write_volatile(0) };
        Ok(Self::Managed(place))
    }

    /// Address of the memory.
    pub fn address(&self) -> u64 {
        match self {
            Self::Pageable(place) => std::ptr::from_ref(place.as_ref()) as u64,
            Self::Pinned(place) | Self::Managed(place) => *place as u64,
        }
    }

    /// Writes a word that kernels may be reading at the same time.
    pub fn set(&mut self, value: u32) {
        let place = match self {
            Self::Pageable(place) => std::ptr::from_mut(place.as_mut()),
            Self::Pinned(place) | Self::Managed(place) => *place,
        };
        // SAFETY: the memory exists until `self` is dropped, and is aligned for a word.
        unsafe { place.write_volatile(value) };
    }

    /// The current value. For managed memory this may only be called while no kernel runs.
    pub fn value(&self) -> u32 {
        let place = match self {
            Self::Pageable(place) => std::ptr::from_ref(place.as_ref()),
            Self::Pinned(place) | Self::Managed(place) => *place,
        };
        // SAFETY: the memory exists until `self` is dropped. A device may have changed it.
        unsafe { place.read_volatile() }
    }
}

impl Drop for SharedWord {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated with the counterparts of these functions and is not used afterwards.
        unsafe {
            match self {
                Self::Pageable(_) => {}
                Self::Pinned(place) => {
                    let freed = sys::cuMemFreeHost((*place).cast());
                    record_release_error(check_code("cuMemFreeHost", freed as u32));
                }
                Self::Managed(place) => {
                    let freed = sys::cuMemFree_v2(*place as u64);
                    record_release_error(check_code("cuMemFree", freed as u32));
                }
            }
        }
    }
}
