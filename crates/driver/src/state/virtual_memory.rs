//! Virtual memory management: reserved address ranges, physical memory, and mappings of memory into ranges.
//!
//! Mapped memory can be accessed only after access was granted. Reserved addresses without a mapping can never be
//! accessed, so callers use them as guard pages. Access may be for reading only: a kernel that writes then ends with
//! an illegal address, and a copy to the mapping is refused. Memory is allocated when access is first granted.
//! Mapping the same memory a second time, which would give the same bytes two addresses, is not supported.
//! show the same bytes at two addresses, is not supported.

use std::collections::BTreeMap;

use crate::code::Code;
use crate::handle::PhysicalHandle;

use super::Driver;

/// Granularity of sizes and addresses in bytes, as on current devices.
pub const GRANULE: u64 = 2 << 20;

/// Reserved ranges, created memory and mappings of the process.
#[derive(Debug, Default)]
pub(super) struct VirtualMemory {
    /// Sizes of reserved ranges in bytes, by first address.
    reserved: BTreeMap<u64, u64>,
    created: BTreeMap<PhysicalHandle, Created>,
    mapped: BTreeMap<u64, Mapping>,
}

#[derive(Debug)]
struct Created {
    bytes: u64,
    mapped: bool,
    released: bool,
}

/// Access rights of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Reading only.
    Read,
    /// Reading and writing.
    ReadWrite,
}

#[derive(Debug)]
struct Mapping {
    bytes: u64,
    memory: PhysicalHandle,
    accessible: bool,
}

fn check_granularity(bytes: u64) -> Result<(), Code> {
    if bytes > 0 && bytes.is_multiple_of(GRANULE) {
        Ok(())
    } else {
        Err(Code::INVALID_VALUE)
    }
}

impl Driver {
    /// Reserves an address range.
    ///
    /// # Errors
    /// For a size that is not a multiple of the granularity, an alignment that is not a power of two, or when no
    /// range is left.
    pub fn reserve_addresses(&mut self, bytes: u64, align: u64) -> Result<u64, Code> {
        self.usable_context()?;
        check_granularity(bytes)?;
        if align != 0 && !align.is_power_of_two() {
            return Err(Code::INVALID_VALUE);
        }
        let base = self.machine.reserve(bytes, align.max(GRANULE));
        let base = base.ok_or(Code::OUT_OF_MEMORY)?;
        self.virtual_memory.reserved.insert(base, bytes);
        Ok(base)
    }

    /// Frees a reserved address range.
    ///
    /// # Errors
    /// When the range was not reserved as a whole, or something is mapped into it.
    pub fn free_addresses(&mut self, base: u64, bytes: u64) -> Result<(), Code> {
        self.usable_context()?;
        let inside = self
            .virtual_memory
            .mapped
            .range(base..base.saturating_add(bytes));
        let free = inside.count() == 0;
        if !free || self.virtual_memory.reserved.get(&base) != Some(&bytes) {
            return Err(Code::INVALID_VALUE);
        }
        self.virtual_memory.reserved.remove(&base);
        Ok(())
    }

    /// Creates physical memory without an address.
    ///
    /// # Errors
    /// For a size that is not a multiple of the granularity, or larger than the free memory.
    pub fn create_memory(&mut self, bytes: u64) -> Result<PhysicalHandle, Code> {
        self.usable_context()?;
        check_granularity(bytes)?;
        let (used, all) = self.machine.memory_in_use();
        if bytes > all.saturating_sub(used) {
            return Err(Code::OUT_OF_MEMORY);
        }
        let handle = PhysicalHandle::nth(self.next_serial());
        let created = Created {
            bytes,
            mapped: false,
            released: false,
        };
        self.virtual_memory.created.insert(handle, created);
        Ok(handle)
    }

    /// Releases physical memory; it is freed when no mapping uses it any more.
    ///
    /// # Errors
    /// When there is no such memory.
    pub fn release_memory(&mut self, handle: PhysicalHandle) -> Result<(), Code> {
        self.usable_context()?;
        let created = self.virtual_memory.created.get_mut(&handle);
        let created = created
            .filter(|created| !created.released)
            .ok_or(Code::INVALID_VALUE)?;
        created.released = true;
        if !created.mapped {
            self.virtual_memory.created.remove(&handle);
        }
        Ok(())
    }

    /// Maps physical memory as a whole into reserved addresses.
    ///
    /// # Errors
    /// When the addresses are not reserved or already mapped, the sizes differ, or the memory is already mapped.
    pub fn map(&mut self, address: u64, bytes: u64, handle: PhysicalHandle) -> Result<(), Code> {
        self.usable_context()?;
        check_granularity(bytes)?;
        let state = &mut self.virtual_memory;
        let end = address.checked_add(bytes).ok_or(Code::INVALID_VALUE)?;
        let reserved = state.reserved.range(..=address).next_back();
        let inside = reserved.is_some_and(|(base, size)| end <= base + size);
        let before = state.mapped.range(..end).next_back();
        let taken = before.is_some_and(|(base, mapping)| base + mapping.bytes > address);
        let created = state.created.get_mut(&handle);
        let created = created.ok_or(Code::INVALID_VALUE)?;
        if !inside || taken || !address.is_multiple_of(GRANULE) || created.bytes != bytes {
            return Err(Code::INVALID_VALUE);
        }
        if created.mapped {
            return Err(Code::NOT_SUPPORTED);
        }
        created.mapped = true;
        let mapping = Mapping {
            bytes,
            memory: handle,
            accessible: false,
        };
        state.mapped.insert(address, mapping);
        Ok(())
    }

    /// Grants the device access to the mapping at exactly these addresses. The last call determines the rights.
    ///
    /// # Errors
    /// When no mapping has this range, or the device is full.
    pub fn grant_access(&mut self, address: u64, bytes: u64, rights: Rights) -> Result<(), Code> {
        self.usable_context()?;
        let mapping = self.virtual_memory.mapped.get_mut(&address);
        let mapping = mapping
            .filter(|mapping| mapping.bytes == bytes)
            .ok_or(Code::INVALID_VALUE)?;
        if !mapping.accessible {
            self.machine
                .allocate_at(address, bytes)
                .map_err(|_| Code::OUT_OF_MEMORY)?;
            mapping.accessible = true;
        }
        let sealed = self.machine.seal(address, rights == Rights::Read);
        debug_assert!(sealed.is_ok(), "it was allocated when access was granted");
        Ok(())
    }

    /// Number of mappings, for tests.
    #[cfg(test)]
    pub(crate) fn mapping_count(&self) -> usize {
        self.virtual_memory.mapped.len()
    }

    /// Removes a mapping after waiting for the device.
    ///
    /// # Errors
    /// When there is no such mapping, or for a kernel's fault.
    pub fn unmap(&mut self, address: u64, bytes: u64) -> Result<(), Code> {
        self.check_synchronising_call()?;
        let state = &mut self.virtual_memory;
        if state
            .mapped
            .get(&address)
            .is_none_or(|mapping| mapping.bytes != bytes)
        {
            return Err(Code::INVALID_VALUE);
        }
        let mapping = state.mapped.remove(&address).ok_or(Code::INVALID_VALUE)?;
        if mapping.accessible {
            let freed = self.machine.free(address);
            debug_assert!(freed.is_ok(), "it was allocated when access was granted");
        }
        let created = self.virtual_memory.created.get(&mapping.memory);
        if created.is_some_and(|created| created.released) {
            self.virtual_memory.created.remove(&mapping.memory);
        }
        Ok(())
    }
}
