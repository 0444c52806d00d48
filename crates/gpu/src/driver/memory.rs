//! Device memory that frees itself, with or without a guard: addresses beside it at which there is
//! nothing, so that the hardware itself stops whoever goes there.

use cudarc::driver::{result, sys};

use super::{DriverError, checked, note_release};

/// A range of device memory.
#[derive(Debug)]
pub struct Allocation {
    base: sys::CUdeviceptr,
    bytes: usize,
    backing: Backing,
}

/// Which end of a guarded range touches the guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// What lies in front of the range is not there.
    Before,
    /// What lies behind the range is not there.
    Behind,
}

/// What holds a range.
#[derive(Debug)]
enum Backing {
    /// The driver's allocator.
    Heap,
    /// A mapping of the device's smallest unit or several, between reserved units with nothing in.
    Mapping(Mapping),
}

/// Memory mapped into the middle of a reserved range. Each part is given back if it came to be.
#[derive(Debug)]
struct Mapping {
    reserved: sys::CUdeviceptr,
    reserved_bytes: usize,
    place: sys::CUmemLocation,
    memory: Option<sys::CUmemGenericAllocationHandle>,
    mapped: Option<(sys::CUdeviceptr, usize)>,
}

impl Allocation {
    /// Takes `bytes` bytes, at least one, with unspecified content.
    ///
    /// # Errors
    /// The driver's error, out of memory above all.
    pub fn new(bytes: usize) -> Result<Self, DriverError> {
        // SAFETY: a context is current on this thread wherever this module is used.
        let base = unsafe { result::malloc_sync(bytes.max(1)) };
        checked("cuMemAlloc", base).map(|base| Self {
            base,
            bytes,
            backing: Backing::Heap,
        })
    }

    /// Takes `bytes` bytes, at least one, that begin or end where nothing can be reached.
    ///
    /// # Errors
    /// The driver's error.
    pub fn guarded(bytes: usize, guard: Guard, device: sys::CUdevice) -> Result<Self, DriverError> {
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
        mapping.allow(sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE)?;
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

    /// Takes the right to write to a guarded range away, from the host as well. Says whether the
    /// driver maps memory for reading alone; of a range without a guard it never does.
    ///
    /// # Errors
    /// The driver's error for another reason.
    pub fn protect(&mut self) -> Result<bool, DriverError> {
        let Backing::Mapping(mapping) = &mut self.backing else {
            return Ok(false);
        };
        granted(mapping.allow(sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ))
    }

    /// Bytes of the driver's allocation in front of the range.
    pub fn lead(&self) -> usize {
        match &self.backing {
            Backing::Mapping(Mapping {
                mapped: Some((start, _)),
                ..
            }) => usize::try_from(self.base - start).expect("the range lies in its mapping"),
            _ => 0,
        }
    }

    /// The first address.
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
        // SAFETY: the range is alive and at least as long as `content`.
        let copied = unsafe { result::memcpy_htod_sync(self.base, content) };
        checked("cuMemcpyHtoD", copied)
    }

    /// Copies the whole range to the host.
    ///
    /// # Errors
    /// The driver's error, which may be the error of an earlier launch.
    pub fn download(&self) -> Result<Vec<u8>, DriverError> {
        let mut content = vec![0_u8; self.bytes];
        // SAFETY: the range is alive and as long as `content`.
        let copied = unsafe { result::memcpy_dtoh_sync(&mut content, self.base) };
        checked("cuMemcpyDtoH", copied)?;
        Ok(content)
    }

    /// Copies `content` to the range from `offset` on.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Panics
    /// If the part is not inside the range.
    pub fn write(&mut self, offset: usize, content: &[u8]) -> Result<(), DriverError> {
        assert!(
            self.holds(offset, content.len()),
            "a copy stays inside the range"
        );
        // SAFETY: the part lies inside the range, which is alive.
        let copied = unsafe { result::memcpy_htod_sync(self.base + offset as u64, content) };
        checked("cuMemcpyHtoD", copied)
    }

    /// Copies the range from `offset` on to `content`.
    ///
    /// # Errors
    /// The driver's error, which may be the error of an earlier launch.
    ///
    /// # Panics
    /// If the part is not inside the range.
    pub fn read(&self, offset: usize, content: &mut [u8]) -> Result<(), DriverError> {
        assert!(
            self.holds(offset, content.len()),
            "a copy stays inside the range"
        );
        // SAFETY: the part lies inside the range, which is alive.
        let copied = unsafe { result::memcpy_dtoh_sync(content, self.base + offset as u64) };
        checked("cuMemcpyDtoH", copied)
    }

    /// Whether a part lies inside the range.
    pub fn holds(&self, offset: usize, bytes: usize) -> bool {
        offset
            .checked_add(bytes)
            .is_some_and(|end| end <= self.bytes)
    }

    /// Sets `bytes` bytes from `offset` on to one value.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Panics
    /// If the part is not inside the range.
    pub fn fill(&mut self, offset: usize, bytes: usize, value: u8) -> Result<(), DriverError> {
        assert!(self.holds(offset, bytes), "a fill stays inside");
        // SAFETY: the part lies inside the range, which is alive.
        let filled = unsafe { result::memset_d8_sync(self.base + offset as u64, value, bytes) };
        checked("cuMemsetD8", filled)
    }
}

/// Whether rights were granted; a driver that knows no such rights refuses in one of two ways.
///
/// # Errors
/// The driver's error for another reason.
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
    /// Lets the device use what is mapped in this way; nothing if nothing is.
    fn allow(&mut self, flags: sys::CUmemAccess_flags) -> Result<(), DriverError> {
        let Some((start, size)) = self.mapped else {
            return Ok(());
        };
        let access = sys::CUmemAccessDesc {
            location: self.place,
            flags,
        };
        // SAFETY: the range is mapped, and one description is there to be read.
        let asked = unsafe { sys::cuMemSetAccess(start, size, &raw const access, 1) };
        checked("cuMemSetAccess", asked.result())
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if matches!(self.backing, Backing::Mapping(_)) {
            return;
        }
        // SAFETY: the range is alive and used by nobody afterwards. After a fault of the device
        // the driver refuses, and the memory goes with the process.
        let freed = unsafe { result::free_sync(self.base) };
        note_release(checked("cuMemFree", freed));
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if let Some((start, size)) = self.mapped {
            // SAFETY: the range was mapped and is used by nobody afterwards.
            let unmapped = unsafe { sys::cuMemUnmap(start, size) };
            note_release(checked("cuMemUnmap", unmapped.result()));
        }
        if let Some(memory) = self.memory {
            // SAFETY: the memory was created and nothing maps it any more.
            let released = unsafe { sys::cuMemRelease(memory) };
            note_release(checked("cuMemRelease", released.result()));
        }
        // SAFETY: the addresses were reserved and hold nothing any more.
        let freed = unsafe { sys::cuMemAddressFree(self.reserved, self.reserved_bytes) };
        note_release(checked("cuMemAddressFree", freed.result()));
    }
}
