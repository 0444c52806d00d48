//! Memory of the host that kernels reach, too: page-locked, registered and managed memory.
//!
//! On a device with unified addresses such memory has one address on both sides. Here it is the same memory: the
//! machine executes on the host, and is lent the bytes where they are.
#![expect(
    unsafe_code,
    reason = "callers get raw memory, and their own memory is lent to the machine"
)]

use std::alloc::{self, Layout};
use std::slice;
use std::sync::atomic::AtomicU32;

use crate::code::Code;

/// Page-locked memory starts on a page.
const PAGE: usize = 4096;
/// The machine's cells are this wide.
const CELL: u64 = 4;

/// A range of host memory, freed with this value if it was allocated here.
#[derive(Debug)]
pub struct HostMemory {
    address: u64,
    bytes: usize,
    /// None for the caller's own memory.
    layout: Option<Layout>,
}

impl HostMemory {
    /// Allocates zeroed memory.
    ///
    /// # Errors
    /// For no bytes, or more than the host has.
    pub fn allocate(bytes: usize) -> Result<Self, Code> {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        // The last cell belongs to the range, too.
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

    /// The caller's own memory, which it keeps until it takes the registration back.
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

    /// Where it starts.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it is the caller's own.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        self.layout.is_none()
    }

    /// Start and cells of the range, for the machine: whole cells, so that the start may lie before the range's.
    pub(crate) fn cells(&self) -> (u64, &'static [AtomicU32]) {
        let start = self.address / CELL * CELL;
        let end = (self.address + self.bytes as u64).next_multiple_of(CELL);
        let count = ((end - start) / CELL) as usize;
        // SAFETY: the range is readable and writable: allocated above in whole cells, or vouched for by the caller
        // who registered it, and a cell shares its page with a byte of the range. Cells are atomics because the host
        // and kernels may write at any time. The state takes the machine's window away before this value goes, so
        // nothing is reached through the lifetime that outlives the memory.
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
            // SAFETY: `allocate` made this memory with this layout, and nobody else frees it.
            unsafe { alloc::dealloc(memory, layout) };
        }
    }
}
