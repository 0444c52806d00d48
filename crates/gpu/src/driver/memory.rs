//! Device memory that frees itself.

use cudarc::driver::{result, sys};

use super::{Refusal, checked, note_release};

/// A range of device memory.
#[derive(Debug)]
pub struct Allocation {
    base: sys::CUdeviceptr,
    bytes: usize,
}

impl Allocation {
    /// Takes `bytes` bytes, at least one, with unspecified content.
    ///
    /// # Errors
    /// The driver's refusal, out of memory above all.
    pub fn new(bytes: usize) -> Result<Self, Refusal> {
        // SAFETY: a context is current on this thread wherever this module is used.
        let base = unsafe { result::malloc_sync(bytes.max(1)) };
        checked("cuMemAlloc", base).map(|base| Self { base, bytes })
    }

    /// The first address.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Copies `content` to the start of the range and waits for it.
    ///
    /// # Errors
    /// The driver's refusal.
    ///
    /// # Panics
    /// If `content` is longer than the range.
    pub fn upload(&mut self, content: &[u8]) -> Result<(), Refusal> {
        assert!(content.len() <= self.bytes, "an upload stays inside");
        // SAFETY: the range is alive and at least as long as `content`.
        let copied = unsafe { result::memcpy_htod_sync(self.base, content) };
        checked("cuMemcpyHtoD", copied)
    }

    /// Copies the whole range to the host.
    ///
    /// # Errors
    /// The driver's refusal, which may be the error of an earlier launch.
    pub fn download(&self) -> Result<Vec<u8>, Refusal> {
        let mut content = vec![0_u8; self.bytes];
        // SAFETY: the range is alive and as long as `content`.
        let copied = unsafe { result::memcpy_dtoh_sync(&mut content, self.base) };
        checked("cuMemcpyDtoH", copied)?;
        Ok(content)
    }

    /// Copies `content` to the range from `offset` on.
    ///
    /// # Errors
    /// The driver's refusal.
    ///
    /// # Panics
    /// If the part is not inside the range.
    pub fn write(&mut self, offset: usize, content: &[u8]) -> Result<(), Refusal> {
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
    /// The driver's refusal, which may be the error of an earlier launch.
    ///
    /// # Panics
    /// If the part is not inside the range.
    pub fn read(&self, offset: usize, content: &mut [u8]) -> Result<(), Refusal> {
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
    /// The driver's refusal.
    ///
    /// # Panics
    /// If the part is not inside the range.
    pub fn fill(&mut self, offset: usize, bytes: usize, value: u8) -> Result<(), Refusal> {
        assert!(self.holds(offset, bytes), "a fill stays inside");
        // SAFETY: the part lies inside the range, which is alive.
        let filled = unsafe { result::memset_d8_sync(self.base + offset as u64, value, bytes) };
        checked("cuMemsetD8", filled)
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: the range is alive and used by nobody afterwards. After a fault of the device
        // the driver refuses, and the memory goes with the process.
        let freed = unsafe { result::free_sync(self.base) };
        note_release(checked("cuMemFree", freed));
    }
}
