//! Device memory: allocations in far-apart windows of a 64-bit address space, with a valid bit per byte.
//!
//! Words are relaxed atomics, so that blocks may run on several host threads without `unsafe`. Illegal accesses are
//! detected here or in the accessors on top; `check` words the findings.

mod allocation;
pub(crate) mod window;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

pub(crate) use allocation::{Allocation, SECTOR, zeros};

/// Distance between two allocations in bytes: a smaller overrun does not reach a neighbour.
const GAP: u64 = 4 << 20;
/// Base address of the first allocation, far from null and small integers.
const HEAP_BASE: u64 = 0x0000_0010_0000_0000;
/// Alignment of every base address, as on GPUs.
const BASE_ALIGN: u64 = 256;

/// The error of an allocation for which no memory is left.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("allocate {wanted} bytes: {free} of {total} bytes are free")]
pub struct OutOfMemory {
    /// Bytes asked for.
    pub wanted: u64,
    /// Bytes left.
    pub free: u64,
    /// Bytes of the machine.
    pub total: u64,
}

/// The error of a host access outside every allocation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostAccessError {
    /// The pointer belongs to no live allocation.
    #[error("access {pointer:#x}: no live allocation holds it")]
    NoAllocation {
        /// The address.
        pointer: u64,
    },
    /// The range leaves its allocation.
    #[error("access {bytes} bytes at {pointer:#x}: only {left} are left in the allocation")]
    PastEnd {
        /// The address.
        pointer: u64,
        /// Bytes asked for.
        bytes: u64,
        /// Bytes from the address to the allocation's end.
        left: u64,
    },
    /// The range is mapped for reading only.
    #[error("write to {pointer:#x}: the range is mapped for reading only")]
    Sealed {
        /// The address.
        pointer: u64,
    },
    /// A free of an address that is no allocation's start.
    #[error("free {pointer:#x}: it is not the start of a live allocation")]
    NotABase {
        /// The address.
        pointer: u64,
    },
}

/// The error of mapping host memory into the device's address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "lend {bytes} bytes at {base:#x} to the device: the range overlaps another window, or wraps around"
)]
pub struct LendError {
    /// The address.
    pub base: u64,
    /// Bytes of the range.
    pub bytes: u64,
}

/// The uninitialised bytes of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unwritten {
    /// Bytes that are not initialised.
    pub count: u64,
    /// Offset of the first of them from the range's start.
    pub first: Option<u64>,
}

/// All allocations of one machine.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Sorted by base address.
    allocations: Vec<Arc<Allocation>>,
    next: u64,
    used: u64,
    total: u64,
    /// Ranges of addresses whose accesses persist in the L2 cache, the one that was asked for last at the end.
    persisting: Vec<Range<u64>>,
}

impl Memory {
    pub(crate) fn new(total: u64) -> Self {
        Self {
            allocations: Vec::new(),
            next: HEAP_BASE,
            used: 0,
            total,
            persisting: Vec::new(),
        }
    }

    /// All allocations, by base address.
    pub(crate) fn allocations(&self) -> &[Arc<Allocation>] {
        &self.allocations
    }

    /// Number of sectors that the L2 cache may hold.
    pub(crate) fn cached_sectors(&self) -> u64 {
        self.allocations.iter().map(|a| a.cached_sectors()).sum()
    }

    /// Marks all sectors as not being in the L2 cache, but for those that persist.
    pub(crate) fn evict(&self) {
        for allocation in &self.allocations {
            allocation.evict_all_but(&self.persisting);
        }
    }

    /// The ranges of addresses whose accesses persist in the L2 cache.
    pub(crate) fn persisting(&self) -> &[Range<u64>] {
        &self.persisting
    }

    /// Number of sectors that the L2 cache may hold and that persist in it.
    pub(crate) fn persisting_sectors(&self) -> u64 {
        let held = |allocation: &Arc<Allocation>| {
            let persisting = allocation.sectors_in(&self.persisting);
            allocation.cached_among(persisting.into_iter())
        };
        self.allocations.iter().map(held).sum()
    }

    /// Makes accesses to a further range of addresses persist, in a part of the L2 cache of `capacity` bytes. What does
    /// not fit there is ordinary: of earlier ranges, and of the end of this one.
    pub(crate) fn persist(&mut self, range: Range<u64>, capacity: u64) {
        self.persisting.retain(|before| before.start != range.start);
        self.persisting.push(range);
        let mut room = capacity;
        for range in self.persisting.iter_mut().rev() {
            range.end = range.end.min(range.start.saturating_add(room));
            room -= range.end - range.start;
        }
        self.persisting.retain(|range| !range.is_empty());
    }

    /// Makes all sectors of the L2 cache ordinary.
    pub(crate) fn reset_persisting(&mut self) {
        self.persisting.clear();
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    pub(crate) fn allocate(
        &mut self,
        bytes: u64,
        label: Option<&str>,
        constant: bool,
    ) -> Result<u64, OutOfMemory> {
        let full = OutOfMemory {
            wanted: bytes,
            free: self.total - self.used,
            total: self.total,
        };
        let held = match bytes.max(1).checked_next_multiple_of(BASE_ALIGN) {
            Some(held) if held <= full.free => held,
            _ => return Err(full),
        };
        let base = self.next;
        let allocation = Allocation::new(base, bytes, label, constant).ok_or(full)?;
        self.next = (base + held + GAP).next_multiple_of(GAP);
        self.used += held;
        let index = self.allocations.partition_point(|a| a.base() < base);
        self.allocations.insert(index, Arc::new(allocation));
        Ok(base)
    }

    /// Reserves an unused range of addresses, in which no other allocation will be placed.
    pub(crate) fn reserve(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let base = self.next.checked_next_multiple_of(align.max(GAP))?;
        let end = base.checked_add(bytes)?.checked_add(GAP)?;
        if window::of(end) != 0 {
            return None;
        }
        self.next = end.next_multiple_of(GAP);
        Some(base)
    }

    /// Allocates memory in a reserved range.
    pub(crate) fn allocate_at(&mut self, base: u64, bytes: u64) -> Result<(), OutOfMemory> {
        let full = OutOfMemory {
            wanted: bytes,
            free: self.total - self.used,
            total: self.total,
        };
        let held = match bytes.max(1).checked_next_multiple_of(BASE_ALIGN) {
            Some(held) if held <= full.free => held,
            _ => return Err(full),
        };
        let index = self
            .allocations
            .partition_point(|a| a.base() < base + bytes);
        let before = index.checked_sub(1).map(|index| &self.allocations[index]);
        if before.is_some_and(|a| a.base() + a.bytes() > base) {
            return Err(full);
        }
        let allocation = Allocation::new(base, bytes, None, false).ok_or(full)?;
        self.used += held;
        self.allocations.insert(index, Arc::new(allocation));
        Ok(())
    }

    /// Maps host memory into the device's address space at the same address. It does not count against the device's
    /// capacity.
    pub(crate) fn lend(
        &mut self,
        base: u64,
        bytes: u64,
        words: &'static [AtomicU32],
    ) -> Result<(), LendError> {
        let refusal = LendError { base, bytes };
        let end = base.checked_add(bytes).ok_or(refusal)?;
        let index = self.allocations.partition_point(|a| a.base() < end);
        let before = index.checked_sub(1).map(|index| &self.allocations[index]);
        let overlaps = before.is_some_and(|a| a.base() + a.bytes() > base);
        let special = window::of(base) != 0 || window::of(end) != 0;
        if overlaps || special || words.len() as u64 * 4 < bytes {
            return Err(refusal);
        }
        let allocation = Allocation::lent(base, bytes, words).ok_or(refusal)?;
        self.allocations.insert(index, Arc::new(allocation));
        Ok(())
    }

    /// Unmaps host memory; false if it is not mapped.
    pub(crate) fn give_back(&mut self, base: u64) -> bool {
        let found = self
            .allocations
            .binary_search_by_key(&base, |a| a.base())
            .ok()
            .filter(|index| self.allocations[*index].is_lent());
        found.map(|index| self.allocations.remove(index)).is_some()
    }

    pub(crate) fn free(&mut self, pointer: u64) -> Result<(), HostAccessError> {
        let index = self
            .allocations
            .binary_search_by_key(&pointer, |a| a.base())
            .ok()
            .filter(|index| !self.allocations[*index].is_lent())
            .ok_or(HostAccessError::NotABase { pointer })?;
        let gone = self.allocations.remove(index);
        self.used -= gone.bytes().max(1).next_multiple_of(BASE_ALIGN);
        Ok(())
    }

    /// The allocation whose window holds the address.
    pub(crate) fn find(&self, pointer: u64) -> Option<&Arc<Allocation>> {
        let candidate = self.nearest(pointer)?;
        (pointer < candidate.base() + candidate.bytes()).then_some(candidate)
    }

    /// The last allocation that starts at or before the address, whether or not it reaches that far.
    pub(crate) fn nearest(&self, pointer: u64) -> Option<&Arc<Allocation>> {
        let after = self.allocations.partition_point(|a| a.base() <= pointer);
        self.allocations.get(after.checked_sub(1)?)
    }

    pub(crate) fn label(&mut self, pointer: u64, name: &str) -> Result<(), HostAccessError> {
        let found = self
            .find(pointer)
            .ok_or(HostAccessError::NoAllocation { pointer })?;
        found.set_label(name);
        Ok(())
    }

    /// Sets the first address that kernels may access in the allocation that contains it.
    pub(crate) fn begin_at(&mut self, pointer: u64) -> Result<(), HostAccessError> {
        let found = self
            .find(pointer)
            .ok_or(HostAccessError::NoAllocation { pointer })?;
        found.begin_at(pointer);
        Ok(())
    }

    /// Makes an allocation read-only, or writable again.
    pub(crate) fn seal(&mut self, pointer: u64, sealed: bool) -> Result<(), HostAccessError> {
        let found = self
            .find(pointer)
            .ok_or(HostAccessError::NoAllocation { pointer })?;
        found.set_sealed(sealed);
        Ok(())
    }

    /// [`Self::range`] for a range that will be written.
    fn range_to_write(
        &self,
        pointer: u64,
        bytes: u64,
    ) -> Result<(&Allocation, u64), HostAccessError> {
        let (holder, offset) = self.range(pointer, bytes)?;
        if holder.is_sealed() {
            return Err(HostAccessError::Sealed { pointer });
        }
        Ok((holder, offset))
    }

    /// The allocation and byte offset of a host range.
    fn range(&self, pointer: u64, bytes: u64) -> Result<(&Allocation, u64), HostAccessError> {
        // An empty range may be at the end of its allocation.
        let holder = self
            .nearest(pointer)
            .filter(|a| {
                pointer - a.base() < a.bytes().max(1)
                    || (bytes == 0 && pointer - a.base() == a.bytes())
            })
            .ok_or(HostAccessError::NoAllocation { pointer })?;
        let offset = pointer - holder.base();
        let left = holder.bytes().saturating_sub(offset);
        if bytes > left {
            return Err(HostAccessError::PastEnd {
                pointer,
                bytes,
                left,
            });
        }
        Ok((holder, offset))
    }

    pub(crate) fn write(&self, pointer: u64, data: &[u8]) -> Result<(), HostAccessError> {
        let (holder, offset) = self.range_to_write(pointer, data.len() as u64)?;
        holder.write(offset, data);
        holder.set_valid(offset, data.len() as u64);
        holder.evict_all_but(&[]);
        Ok(())
    }

    pub(crate) fn read(&self, pointer: u64, data: &mut [u8]) -> Result<(), HostAccessError> {
        let (holder, offset) = self.range(pointer, data.len() as u64)?;
        holder.read(offset, data);
        Ok(())
    }

    /// Repeats a pattern of 1, 2 or 4 bytes `count` times.
    pub(crate) fn fill(
        &self,
        pointer: u64,
        pattern: &[u8],
        count: u64,
    ) -> Result<(), HostAccessError> {
        let bytes = count.saturating_mul(pattern.len() as u64);
        let (holder, offset) = self.range_to_write(pointer, bytes)?;
        let chunk: Vec<u8> = pattern.iter().copied().cycle().take(4096).collect();
        let mut at = 0;
        while at < bytes {
            let step = (bytes - at).min(chunk.len() as u64);
            holder.write(offset + at, &chunk[..step as usize]);
            at += step;
        }
        holder.set_valid(offset, bytes);
        holder.cache_range(offset, bytes);
        Ok(())
    }

    /// Copies bytes and their valid bits; the ranges may overlap.
    pub(crate) fn copy(
        &self,
        destination: u64,
        source: u64,
        bytes: u64,
    ) -> Result<(), HostAccessError> {
        let (from, from_offset) = self.range(source, bytes)?;
        let (to, to_offset) = self.range_to_write(destination, bytes)?;
        let mut data = vec![0; bytes as usize];
        from.read(from_offset, &mut data);
        let valid: Vec<bool> = (0..bytes)
            .map(|i| from.is_valid(from_offset + i, 1))
            .collect();
        to.write(to_offset, &data);
        to.set_valid(to_offset, bytes);
        from.cache_range(from_offset, bytes);
        to.cache_range(to_offset, bytes);
        for (i, _) in valid.iter().enumerate().filter(|(_, valid)| !**valid) {
            to.clear_valid(to_offset + i as u64, 1);
        }
        Ok(())
    }

    pub(crate) fn forget(&self, pointer: u64, bytes: u64) -> Result<(), HostAccessError> {
        let (holder, offset) = self.range(pointer, bytes)?;
        holder.clear_valid(offset, bytes);
        Ok(())
    }

    pub(crate) fn unwritten(&self, pointer: u64, bytes: u64) -> Result<Unwritten, HostAccessError> {
        let (holder, offset) = self.range(pointer, bytes)?;
        Ok(holder.unwritten(offset, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_far_apart_and_fresh_memory_is_uninitialised() {
        let mut memory = Memory::new(1 << 30);
        let a = memory.allocate(100, None, false).unwrap();
        let b = memory.allocate(100, None, false).unwrap();
        assert!(b - a >= GAP);
        assert_eq!(a % BASE_ALIGN, 0);
        assert_eq!(
            memory.unwritten(a, 100).unwrap(),
            Unwritten {
                count: 100,
                first: Some(0)
            }
        );
        memory.write(a + 3, &[1, 2, 3, 4, 5]).unwrap();
        assert_eq!(
            memory.unwritten(a, 100).unwrap(),
            Unwritten {
                count: 95,
                first: Some(0)
            }
        );
        assert_eq!(
            memory.unwritten(a + 3, 5).unwrap(),
            Unwritten {
                count: 0,
                first: None
            }
        );
        let mut back = [0; 5];
        memory.read(a + 3, &mut back).unwrap();
        assert_eq!(back, [1, 2, 3, 4, 5]);
        memory.forget(a + 4, 2).unwrap();
        assert_eq!(
            memory.unwritten(a + 3, 5).unwrap(),
            Unwritten {
                count: 2,
                first: Some(1)
            }
        );
    }

    #[test]
    fn host_ranges_are_checked() {
        let mut memory = Memory::new(1 << 20);
        let a = memory.allocate(16, None, false).unwrap();
        assert_eq!(
            memory.write(a + 10, &[0; 7]),
            Err(HostAccessError::PastEnd {
                pointer: a + 10,
                bytes: 7,
                left: 6
            })
        );
        assert_eq!(
            memory.write(a - 1, &[0]),
            Err(HostAccessError::NoAllocation { pointer: a - 1 })
        );
        assert_eq!(
            memory.free(a + 1),
            Err(HostAccessError::NotABase { pointer: a + 1 })
        );
        assert!(memory.allocate(1 << 21, None, false).is_err());
        assert!(memory.allocate(u64::MAX, None, false).is_err());
        memory.free(a).unwrap();
        assert_eq!(memory.used(), 0);
        assert_eq!(
            memory.write(a, &[0]),
            Err(HostAccessError::NoAllocation { pointer: a })
        );
    }

    #[test]
    fn lent_memory_is_reached_at_the_hosts_own_address_and_never_uninitialised() {
        let words: &'static [AtomicU32] = Vec::leak((0..4).map(AtomicU32::new).collect());
        let base = words.as_ptr() as u64;
        let mut memory = Memory::new(1 << 20);
        memory.lend(base, 14, words).unwrap();
        let mut back = [0; 4];
        memory.read(base + 8, &mut back).unwrap();
        assert_eq!(back, [2, 0, 0, 0]);
        memory.write(base + 4, &[9]).unwrap();
        assert_eq!(words[1].load(std::sync::atomic::Ordering::Relaxed), 9);
        memory.forget(base, 14).unwrap();
        assert_eq!(memory.unwritten(base, 14).unwrap().count, 0);
        assert!(memory.write(base + 12, &[0; 3]).is_err(), "past its end");
        assert_eq!(memory.used(), 0, "it is no device memory");

        let refusal = LendError {
            base: base + 4,
            bytes: 4,
        };
        assert_eq!(memory.lend(base + 4, 4, &words[1..]), Err(refusal));
        assert!(memory.lend(window::SHARED, 4, words).is_err());
        assert!(memory.lend(u64::MAX - 2, 4, words).is_err());
        assert!(memory.free(base).is_err(), "it is not freed but given back");
        assert!(memory.give_back(base));
        assert!(!memory.give_back(base));
        assert!(memory.read(base, &mut back).is_err());
        let own = memory.allocate(16, None, false).unwrap();
        assert!(!memory.give_back(own));
    }

    #[test]
    fn a_copy_carries_valid_bits() {
        let mut memory = Memory::new(1 << 20);
        let a = memory.allocate(16, None, false).unwrap();
        let b = memory.allocate(16, None, false).unwrap();
        memory.fill(a, &[7, 8], 4).unwrap();
        memory.copy(b, a, 16).unwrap();
        assert_eq!(
            memory.unwritten(b, 16).unwrap(),
            Unwritten {
                count: 8,
                first: Some(8)
            }
        );
    }
}
