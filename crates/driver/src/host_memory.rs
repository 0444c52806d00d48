//! Host memory that kernels can access: page-locked, registered and managed memory.
//!
//! On a device with unified addressing such memory has one address on both sides. Here it is the same memory: the
//! machine executes on the host and accesses the bytes in place.
#![expect(
    unsafe_code,
    reason = "callers get raw memory, and their own memory is lent to the machine"
)]

use std::alloc::{self, Layout};
use std::slice;
use std::sync::atomic::AtomicU32;

use crate::code::Code;

/// Alignment of page-locked memory in bytes.
const PAGE: usize = 4096;
/// Width of the machine's memory cells in bytes.
const CELL: u64 = 4;

/// A range of host memory, freed with this value if it was allocated here.
#[derive(Debug)]
pub struct HostMemory {
    address: u64,
    bytes: usize,
    /// Layout of the allocation; none for the caller's own memory.
    layout: Option<Layout>,
}

impl HostMemory {
    /// Allocates zeroed memory.
    ///
    /// # Errors
    /// `INVALID_VALUE` for zero bytes, `OUT_OF_MEMORY` for more than the host has.
    pub fn allocate(bytes: usize) -> Result<Self, Code> {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        // Rounded up, because the last cell belongs to the range as a whole.
        let layout = bytes
            .checked_next_multiple_of(CELL as usize)
            .and_then(|bytes| Layout::from_size_align(bytes, PAGE).ok())
            .ok_or(Code::OUT_OF_MEMORY)?;
        // SAFETY: the layout's size is not zero.
        let memory = unsafe { alloc::alloc_zeroed(layout) };
        if memory.is_null() {
            return Err(Code::OUT_OF_MEMORY);
        }
        Ok(Self {
            address: memory.expose_provenance() as u64,
            bytes,
            layout: Some(layout),
        })
    }

    /// Wraps the caller's own memory, which the caller keeps allocated until it unregisters it.
    ///
    /// # Errors
    /// For an empty range, or one that no object can have.
    pub fn registered(address: u64, bytes: usize) -> Result<Self, Code> {
        let fits = address != 0 && bytes != 0 && address.checked_add(bytes as u64).is_some();
        if !fits || bytes > isize::MAX as usize {
            return Err(Code::INVALID_VALUE);
        }
        Ok(Self {
            address,
            bytes,
            layout: None,
        })
    }

    /// Address of the first byte.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if the memory is the caller's own.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        self.layout.is_none()
    }

    /// Start address and cells of the range, for the machine. The range is extended to whole cells, so the start may
    /// lie before the range's first byte.
    pub(crate) fn cells(&self) -> (u64, &'static [AtomicU32]) {
        let start = self.address / CELL * CELL;
        let end = (self.address + self.bytes as u64).next_multiple_of(CELL);
        let count = ((end - start) / CELL) as usize;
        // SAFETY: the range is readable and writable: either `allocate` allocated it in whole cells, or the caller
        // who registered it guarantees it, and each cell shares its page with a byte of the range. Cells are atomics
        // because the host and kernels may write at any time. `Driver` removes the machine's window before this value
        // is dropped, so nothing is accessed through the `'static` lifetime after the memory is freed.
        let cells = unsafe {
            slice::from_raw_parts(
                std::ptr::with_exposed_provenance::<AtomicU32>(start as usize),
                count,
            )
        };
        (start, cells)
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if let Some(layout) = self.layout {
            let memory = std::ptr::with_exposed_provenance_mut::<u8>(self.address as usize);
            // SAFETY: `allocate` made this memory with this layout, and nothing else frees it.
            unsafe { alloc::dealloc(memory, layout) };
        }
    }
}
