//! Device memory that is freed when its value is dropped, optionally next to unmapped guard addresses, at which the
//! hardware stops an access.

use std::ptr;

use cudarc::driver::{result, sys};

use super::{DriverError, checked, record_release_error};

/// A range of device memory.
#[derive(Debug)]
pub struct Allocation {
    base: sys::CUdeviceptr,
    bytes: usize,
    backing: Backing,
}

/// The side of a guarded range on which the guard lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// The addresses before the range are unmapped.
    Before,
    /// The addresses after the range are unmapped.
    Behind,
}

/// The kind of memory of a range.
#[derive(Debug)]
enum Backing {
    /// The driver's allocator.
    Heap,
    /// A mapping of one or more of the device's smallest units, between reserved units without mappings.
    Mapping(Mapping),
}

/// Memory mapped into the middle of a reserved range. Each part that was created is released.
#[derive(Debug)]
struct Mapping {
    reserved: sys::CUdeviceptr,
    reserved_bytes: usize,
    place: sys::CUmemLocation,
    memory: Option<sys::CUmemGenericAllocationHandle>,
    mapped: Option<(sys::CUdeviceptr, usize)>,
}

impl Allocation {
    /// Allocates `bytes` bytes, at least one, with unspecified content.
    ///
    /// # Errors
    /// The driver's error, usually out of memory.
    pub fn new(bytes: usize) -> Result<Self, DriverError> {
        // SAFETY: a context is current on this thread wherever this module is used.
        let base = unsafe { result::malloc_sync(bytes.max(1)) };
        checked("cuMemAlloc", base).map(|base| Self {
            base,
            bytes,
            backing: Backing::Heap,
        })
    }

    /// Allocates `bytes` bytes, at least one, next to unmapped addresses.
    ///
    /// # Errors
    /// The driver's error.
    pub fn new_guarded(
        bytes: usize,
        guard: Guard,
        device: sys::CUdevice,
    ) -> Result<Self, DriverError> {
        let place = sys::CUmemLocation {
            type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: device,
        };
        // SAFETY: zero is a valid value of every field of this structure of the C interface.
        let mut wanted: sys::CUmemAllocationProp = unsafe { std::mem::zeroed() };
        wanted.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        wanted.location = place;
        let least = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        let mut unit = 0;
        // SAFETY: both pointers are valid, the first for a write.
        let asked =
            unsafe { sys::cuMemGetAllocationGranularity(&raw mut unit, &raw const wanted, least) };
        checked("cuMemGetAllocationGranularity", asked.result())?;
        let size = bytes.max(1).next_multiple_of(unit.max(1));
        let reserved_bytes = size + 2 * unit;
        let mut reserved = 0;
        // SAFETY: the pointer is valid for a write.
        let asked = unsafe { sys::cuMemAddressReserve(&raw mut reserved, reserved_bytes, 0, 0, 0) };
        checked("cuMemAddressReserve", asked.result())?;
        let mut mapping = Mapping {
            reserved,
            reserved_bytes,
            place,
            memory: None,
            mapped: None,
        };
        let mut memory = 0;
        // SAFETY: both pointers are valid, the first for a write.
        let asked = unsafe { sys::cuMemCreate(&raw mut memory, size, &raw const wanted, 0) };
        checked("cuMemCreate", asked.result())?;
        mapping.memory = Some(memory);
        let start = reserved + unit as u64;
        // SAFETY: the addresses were reserved and the memory created, both above.
        let asked = unsafe { sys::cuMemMap(start, size, 0, memory, 0) };
        checked("cuMemMap", asked.result())?;
        mapping.mapped = Some((start, size));
        mapping.set_access(sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE)?;
        let base = match guard {
            Guard::Before => start,
            Guard::Behind => start + (size - bytes) as u64,
        };
        Ok(Self {
            base,
            bytes,
            backing: Backing::Mapping(mapping),
        })
    }

    /// Makes a guarded range read-only, for the host as well. Returns false if the driver cannot map memory for
    /// reading only, or if the range has no guard.
    ///
    /// # Errors
    /// Any other error of the driver.
    pub fn make_read_only(&mut self) -> Result<bool, DriverError> {
        let Backing::Mapping(mapping) = &mut self.backing else {
            return Ok(false);
        };
        granted(mapping.set_access(sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ))
    }

    /// Number of bytes between the start of the driver's allocation and the range.
    pub fn leading_bytes(&self) -> usize {
        match &self.backing {
            Backing::Mapping(Mapping {
                mapped: Some((start, _)),
                ..
            }) => usize::try_from(self.base - start).expect("the range lies in its mapping"),
            _ => 0,
        }
    }

    /// Address of the first byte.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Copies `content` to the start of the range and waits for it.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Panics
    /// If `content` is longer than the range.
    pub fn upload(&mut self, content: &[u8]) -> Result<(), DriverError> {
        assert!(content.len() <= self.bytes, "an upload stays inside");
        // SAFETY: the range exists and is at least as long as `content`.
        let copied = unsafe { result::memcpy_htod_sync(self.base, content) };
        checked("cuMemcpyHtoD", copied)
    }

    /// Copies the whole range to the host.
    ///
    /// # Errors
    /// The driver's error, which may be the error of an earlier launch.
    pub fn download(&self) -> Result<Vec<u8>, DriverError> {
        let mut content = vec![0_u8; self.bytes];
        // SAFETY: the range exists and is as long as `content`.
        let copied = unsafe { result::memcpy_dtoh_sync(&mut content, self.base) };
        checked("cuMemcpyDtoH", copied)?;
        Ok(content)
    }

    /// Copies `content` to the range, starting at `offset`.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Panics
    /// If the part is not inside the range.
    pub fn write(&mut self, offset: usize, content: &[u8]) -> Result<(), DriverError> {
        assert!(
            self.contains_range(offset, content.len()),
            "a copy stays inside the range"
        );
        // SAFETY: the part lies inside the range, which exists.
        let copied = unsafe { result::memcpy_htod_sync(self.base + offset as u64, content) };
        checked("cuMemcpyHtoD", copied)
    }

    /// Copies part of the range, starting at `offset`, to `content`.
    ///
    /// # Errors
    /// The driver's error, which may be the error of an earlier launch.
    ///
    /// # Panics
    /// If the part is not inside the range.
    pub fn read(&self, offset: usize, content: &mut [u8]) -> Result<(), DriverError> {
        assert!(
            self.contains_range(offset, content.len()),
            "a copy stays inside the range"
        );
        // SAFETY: the part lies inside the range, which exists.
        let copied = unsafe { result::memcpy_dtoh_sync(content, self.base + offset as u64) };
        checked("cuMemcpyDtoH", copied)
    }

    /// Returns true if a part lies inside the range.
    pub fn contains_range(&self, offset: usize, bytes: usize) -> bool {
        offset
            .checked_add(bytes)
            .is_some_and(|end| end <= self.bytes)
    }

    /// Sets `bytes` bytes from `offset` on to one value, in the order of the launches, as a step of a plan.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Panics
    /// If the part is not inside the range.
    pub fn fill_in_order(
        &mut self,
        offset: usize,
        bytes: usize,
        value: u8,
    ) -> Result<(), DriverError> {
        assert!(self.contains_range(offset, bytes), "a fill stays inside");
        let address = self.base + offset as u64;
        // SAFETY: the part lies inside the range, which is alive; the null stream is the context's own.
        let filled = unsafe { result::memset_d8_async(address, value, bytes, ptr::null_mut()) };
        checked("cuMemsetD8Async", filled)
    }

    /// Sets `bytes` bytes, starting at `offset`, to one value.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Panics
    /// If the part is not inside the range.
    pub fn fill(&mut self, offset: usize, bytes: usize, value: u8) -> Result<(), DriverError> {
        assert!(self.contains_range(offset, bytes), "a fill stays inside");
        // SAFETY: the part lies inside the range, which exists.
        let filled = unsafe { result::memset_d8_sync(self.base + offset as u64, value, bytes) };
        checked("cuMemsetD8", filled)
    }
}

/// Returns true if access was granted, and false for the two errors of a driver that does not support such rights.
///
/// # Errors
/// Any other error of the driver.
pub(super) fn granted(asked: Result<(), DriverError>) -> Result<bool, DriverError> {
    const UNKNOWN: [u32; 2] = [
        sys::CUresult::CUDA_ERROR_INVALID_VALUE as u32,
        sys::CUresult::CUDA_ERROR_NOT_SUPPORTED as u32,
    ];
    match asked {
        Ok(()) => Ok(true),
        Err(refusal) if UNKNOWN.contains(&refusal.code) => Ok(false),
        Err(refusal) => Err(refusal),
    }
}

impl Mapping {
    /// Sets the access rights of the mapping; does nothing if nothing is mapped.
    fn set_access(&mut self, flags: sys::CUmemAccess_flags) -> Result<(), DriverError> {
        let Some((start, size)) = self.mapped else {
            return Ok(());
        };
        let access = sys::CUmemAccessDesc {
            location: self.place,
            flags,
        };
        // SAFETY: the range is mapped, and one description can be read.
        let asked = unsafe { sys::cuMemSetAccess(start, size, &raw const access, 1) };
        checked("cuMemSetAccess", asked.result())
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if matches!(self.backing, Backing::Mapping(_)) {
            return;
        }
        // SAFETY: the range exists and is not used afterwards. After a fault of the device the driver refuses, and
        // the memory is released when the process ends.
        let freed = unsafe { result::free_sync(self.base) };
        record_release_error(checked("cuMemFree", freed));
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if let Some((start, size)) = self.mapped {
            // SAFETY: the range was mapped and is not used afterwards.
            let unmapped = unsafe { sys::cuMemUnmap(start, size) };
            record_release_error(checked("cuMemUnmap", unmapped.result()));
        }
        if let Some(memory) = self.memory {
            // SAFETY: the memory was created and is no longer mapped.
            let released = unsafe { sys::cuMemRelease(memory) };
            record_release_error(checked("cuMemRelease", released.result()));
        }
        // SAFETY: the addresses were reserved and contain no mapping any more.
        let freed = unsafe { sys::cuMemAddressFree(self.reserved, self.reserved_bytes) };
        record_release_error(checked("cuMemAddressFree", freed.result()));
    }
}
