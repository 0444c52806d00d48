//! Page-locked host memory: allocated by the driver, or registered by its caller.

use crate::code::Code;
use crate::host_memory::HostMemory;
use crate::state::Driver;

/// Page-locked host memory: allocated by this driver, or the caller's own memory that was registered.
#[derive(Debug)]
pub(in crate::state) struct PageLocked {
    pub(super) memory: HostMemory,
    flags: u32,
}

impl Driver {
    /// Allocates page-locked host memory.
    ///
    /// # Errors
    /// Without a context, for zero bytes, or for more than the host has.
    pub fn allocate_host(&mut self, bytes: usize, flags: u32) -> Result<u64, Code> {
        self.usable_context()?;
        self.check_capture_modes()?;
        let memory = HostMemory::allocate(bytes)?;
        let address = memory.address();
        self.lend(&memory)?;
        self.host_memory
            .insert(address, PageLocked { memory, flags });
        Ok(address)
    }

    /// Frees page-locked host memory.
    ///
    /// # Errors
    /// When the address is not the start of memory that this driver allocated.
    pub fn free_host(&mut self, address: u64) -> Result<(), Code> {
        self.usable_context()?;
        self.check_capture_modes()?;
        self.drop_page_locked(address, |memory| !memory.is_registered())
            .ok_or(Code::INVALID_VALUE)
    }

    /// Registers the caller's own memory as page-locked.
    ///
    /// # Errors
    /// For an empty range, or one that overlaps memory that is page-locked already.
    pub fn register_host_memory(
        &mut self,
        address: u64,
        bytes: usize,
        flags: u32,
    ) -> Result<(), Code> {
        self.usable_context()?;
        self.check_capture_modes()?;
        let memory = HostMemory::registered(address, bytes)?;
        self.lend(&memory)
            .map_err(|_| Code::HOST_MEMORY_ALREADY_REGISTERED)?;
        self.host_memory
            .insert(address, PageLocked { memory, flags });
        Ok(())
    }

    /// Unregisters the caller's memory.
    ///
    /// # Errors
    /// When the address is not the start of a registered range.
    pub fn unregister_host_memory(&mut self, address: u64) -> Result<(), Code> {
        self.usable_context()?;
        self.check_capture_modes()?;
        self.drop_page_locked(address, HostMemory::is_registered)
            .ok_or(Code::HOST_MEMORY_NOT_REGISTERED)
    }

    /// Removes page-locked memory, and frees it if it was allocated. None if the address does not start a range of
    /// that kind.
    fn drop_page_locked(
        &mut self,
        address: u64,
        of_kind: impl Fn(&HostMemory) -> bool,
    ) -> Option<()> {
        of_kind(&self.host_memory.get(&address)?.memory).then_some(())?;
        let gone = self.host_memory.remove(&address)?;
        self.take_back(&gone.memory);
        Some(())
    }

    /// The flags that page-locked memory was allocated or registered with.
    ///
    /// # Errors
    /// Without a context, or when the address is not in page-locked memory.
    pub fn host_memory_flags(&self, address: u64) -> Result<u32, Code> {
        self.usable_context()?;
        let (_, found) = self.page_locked(address).ok_or(Code::INVALID_VALUE)?;
        Ok(found.flags)
    }

    /// The page-locked range that holds an address, with its start.
    pub(super) fn page_locked(&self, address: u64) -> Option<(u64, &PageLocked)> {
        let (&base, found) = self.host_memory.range(..=address).next_back()?;
        (address - base < found.memory.bytes() as u64).then_some((base, found))
    }
}
