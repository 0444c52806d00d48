//! Device memory, managed memory, copies and fills. Page-locked memory and pools have their own modules.

mod page_locked;
mod pool;

use ptx::HostAccessError;

use crate::code::Code;
use crate::fault::Tamper;
use crate::handle::{ContextHandle, PoolHandle, StreamHandle};
use crate::host_memory::HostMemory;

pub(super) use page_locked::PageLocked;
pub(super) use pool::Pool;
pub use pool::PoolAttribute;

use super::{CopyLocation, CopyWork, Driver, FillWork, MemoryType, Work};

/// Alignment of pitched rows in bytes.
const PITCH: u64 = 512;

/// The owner of an allocation.
#[derive(Debug)]
pub(super) struct Ownership {
    context: ContextHandle,
    /// The host memory of a managed allocation.
    managed: Option<HostMemory>,
}

/// The kind of memory that an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKind {
    /// Page-locked host memory of this driver.
    Host,
    /// Device memory.
    Device,
    /// Managed memory, which host and device share.
    Managed,
}

fn refused(error: &HostAccessError) -> Code {
    match error {
        HostAccessError::NoAllocation { .. }
        | HostAccessError::PastEnd { .. }
        | HostAccessError::Sealed { .. }
        | HostAccessError::NotABase { .. } => Code::INVALID_VALUE,
    }
}

impl Driver {
    /// Allocates device memory in the current context.
    ///
    /// # Errors
    /// For zero bytes, or when the device is full.
    pub fn allocate(&mut self, bytes: u64) -> Result<u64, Code> {
        self.usable_context()?;
        self.check_capture_modes()?;
        self.allocate_at_once(bytes)
    }

    fn allocate_at_once(&mut self, bytes: u64) -> Result<u64, Code> {
        let context = self.usable_context()?;
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let address = self
            .machine
            .allocate(bytes)
            .map_err(|_| Code::OUT_OF_MEMORY)?;
        let owner = Ownership {
            context,
            managed: None,
        };
        self.allocations.insert(address, owner);
        // Addresses only increase, so one range holds all that were ever allocated.
        if self.device_address_span.is_empty() {
            self.device_address_span.start = address;
        }
        self.device_address_span.end = address.saturating_add(bytes);
        Ok(address)
    }

    /// Returns true if an address was device memory once and is not allocated now.
    #[must_use]
    pub fn is_stale(&self, address: u64) -> bool {
        self.device_address_span.contains(&address) && self.classify(address).is_none()
    }

    /// Allocates memory that host and device share, in the current context.
    ///
    /// # Errors
    /// For zero bytes, or more than the host has.
    pub fn allocate_managed(&mut self, bytes: usize) -> Result<u64, Code> {
        let context = self.usable_context()?;
        self.check_capture_modes()?;
        let memory = HostMemory::allocate(bytes)?;
        self.lend(&memory)?;
        let address = memory.address();
        let owner = Ownership {
            context,
            managed: Some(memory),
        };
        self.allocations.insert(address, owner);
        Ok(address)
    }

    /// Checks that a range is managed memory.
    ///
    /// # Errors
    /// Without a context, or when it is not.
    pub fn check_managed(&self, address: u64, bytes: u64) -> Result<(), Code> {
        self.usable_context()?;
        match self.classify(address) {
            Some((MemoryKind::Managed, base, size))
                if bytes > 0 && bytes <= size - (address - base) =>
            {
                Ok(())
            }
            _ => Err(Code::INVALID_VALUE),
        }
    }

    /// Gives the machine access to host memory.
    fn lend(&mut self, memory: &HostMemory) -> Result<(), Code> {
        let (start, cells) = memory.cells();
        let bytes = memory.address() - start + memory.bytes() as u64;
        self.machine
            .lend(start, bytes, cells)
            .map_err(|_| Code::OUT_OF_MEMORY)
    }

    fn take_back(&mut self, memory: &HostMemory) {
        let (start, _) = memory.cells();
        let lent = self.machine.give_back(start);
        debug_assert!(lent, "every range was lent when it was taken in");
    }

    /// Allocates rows with aligned start addresses. Returns the address, and the distance between rows in bytes.
    ///
    /// # Errors
    /// For empty rows, an unknown element size, or when the device is full.
    pub fn allocate_pitched(
        &mut self,
        width: u64,
        height: u64,
        element: u32,
    ) -> Result<(u64, u64), Code> {
        if !matches!(element, 4 | 8 | 16) {
            return Err(Code::INVALID_VALUE);
        }
        let pitch = width
            .checked_next_multiple_of(PITCH)
            .ok_or(Code::INVALID_VALUE)?;
        let bytes = pitch.checked_mul(height).ok_or(Code::OUT_OF_MEMORY)?;
        Ok((self.allocate(bytes)?, pitch))
    }

    /// Frees device memory after waiting for the device. Freeing null does nothing.
    ///
    /// # Errors
    /// When the address starts no live allocation; a kernel's fault surfaces here.
    pub fn free(&mut self, address: u64) -> Result<(), Code> {
        self.check_synchronising_call()?;
        self.release(address)
    }

    /// Allocates in stream order.
    ///
    /// # Errors
    /// As [`Self::allocate`], and for an invalid stream or pool. Graphs that allocate memory are not supported.
    pub fn allocate_ordered(
        &mut self,
        bytes: u64,
        pool: Option<PoolHandle>,
        stream: StreamHandle,
    ) -> Result<u64, Code> {
        self.refuse_capture(stream)?;
        if let Some(pool) = pool {
            self.pool(pool)?;
        }
        self.allocate_at_once(bytes)
    }

    /// Frees in stream order.
    ///
    /// # Errors
    /// When the address starts no live allocation, or the stream is invalid.
    pub fn free_ordered(&mut self, address: u64, stream: StreamHandle) -> Result<(), Code> {
        self.refuse_capture(stream)?;
        self.release(address)
    }

    fn release(&mut self, address: u64) -> Result<(), Code> {
        if address == 0 {
            return Ok(());
        }
        let owner = self
            .allocations
            .remove(&address)
            .ok_or(Code::INVALID_VALUE)?;
        match owner.managed {
            Some(memory) => {
                self.take_back(&memory);
                Ok(())
            }
            None => self.machine.free(address).map_err(|error| refused(&error)),
        }
    }

    pub(super) fn free_allocations_of(&mut self, context: ContextHandle) {
        let gone: Vec<u64> = self
            .allocations
            .iter()
            .filter(|(_, owner)| owner.context == context)
            .map(|(&address, _)| address)
            .collect();
        for address in gone {
            self.release(address)
                .expect("an owned allocation is alive until its owner goes");
        }
    }

    /// Free and total device memory in bytes. The free size is what the emulation can still allocate in the host's
    /// memory.
    ///
    /// # Errors
    /// Without a context.
    pub fn memory_info(&self) -> Result<(u64, u64), Code> {
        self.usable_context()?;
        let (used, capacity) = self.machine.memory_in_use();
        Ok((capacity - used, self.device.memory.bytes))
    }

    /// Start and size of the allocation that holds an address.
    ///
    /// # Errors
    /// When no allocation does.
    pub fn address_range(&self, address: u64) -> Result<(u64, u64), Code> {
        self.usable_context()?;
        self.machine
            .allocation_of(address)
            .ok_or(Code::INVALID_VALUE)
    }

    /// The kind of memory that an address belongs to, with the start and size of its range.
    #[must_use]
    pub fn classify(&self, address: u64) -> Option<(MemoryKind, u64, u64)> {
        if let Some((base, memory)) = self.page_locked(address) {
            return Some((MemoryKind::Host, base, memory.memory.bytes() as u64));
        }
        let (base, bytes) = self.machine.allocation_of(address)?;
        let managed = self
            .allocations
            .get(&base)
            .is_some_and(|owner| owner.managed.is_some());
        let kind = if managed {
            MemoryKind::Managed
        } else {
            MemoryKind::Device
        };
        Some((kind, base, bytes))
    }

    /// The context that owns an allocation.
    #[must_use]
    pub fn owner_of(&self, base: u64) -> Option<ContextHandle> {
        self.allocations.get(&base).map(|owner| owner.context)
    }

    /// Copies from the host to the device in stream order; `None` is a synchronous call, which waits first.
    ///
    /// # Errors
    /// When the range exceeds its allocation; for synchronous calls also a kernel's fault.
    pub fn upload(
        &mut self,
        address: u64,
        data: &[u8],
        stream: Option<StreamHandle>,
    ) -> Result<(), Code> {
        if let Some(stream) = stream
            && self.captured_copy(stream, address, data.as_ptr() as u64, data.len())?
        {
            return Ok(());
        }
        if self.enqueue(stream)? || data.is_empty() {
            return Ok(());
        }
        self.machine
            .write(address, data)
            .map_err(|error| refused(&error))?;
        self.spend_host_copy(stream, data.len());
        if stream.is_none() {
            self.host_waits_for(StreamHandle::LEGACY);
        }
        Ok(())
    }

    /// Copies from the device to the host. The call always waits for the copy and reports a kernel's fault, even in
    /// its asynchronous form, because the caller's memory may be pageable.
    ///
    /// # Errors
    /// When the range exceeds its allocation, or for a kernel's fault.
    pub fn download(
        &mut self,
        address: u64,
        data: &mut [u8],
        stream: Option<StreamHandle>,
    ) -> Result<(), Code> {
        match stream {
            Some(stream)
                if self.captured_copy(stream, data.as_ptr() as u64, address, data.len())? =>
            {
                return Ok(());
            }
            Some(_) => self.report_pending_fault()?,
            None => self.check_synchronous_copy()?,
        };
        if data.is_empty() {
            return Ok(());
        }
        self.machine
            .read(address, data)
            .map_err(|error| refused(&error))?;
        self.spend_host_copy(stream, data.len());
        self.host_waits_for(stream.unwrap_or(StreamHandle::LEGACY));
        if let Some(Tamper::CorruptBytes(count)) = self.tamper.take() {
            for byte in data.iter_mut().take(count) {
                *byte ^= 0x55;
            }
        }
        Ok(())
    }

    /// Copies inside the device, in stream order.
    ///
    /// # Errors
    /// When a range exceeds its allocation.
    pub fn copy(
        &mut self,
        destination: u64,
        source: u64,
        bytes: u64,
        stream: Option<StreamHandle>,
    ) -> Result<(), Code> {
        if let Some(stream) = stream {
            let count = usize::try_from(bytes).map_err(|_| Code::INVALID_VALUE)?;
            if self.captured_copy(stream, destination, source, count)? {
                return Ok(());
            }
        }
        if self.enqueue(stream)? || bytes == 0 {
            return Ok(());
        }
        self.machine
            .copy(destination, source, bytes)
            .map_err(|error| refused(&error))?;
        self.spend_device_pass(stream, 2 * bytes);
        Ok(())
    }

    /// Repeats a pattern of 1, 2 or 4 bytes `count` times, in stream order.
    ///
    /// # Errors
    /// When the range exceeds its allocation, or the address is not a multiple of the pattern's size.
    pub fn fill(
        &mut self,
        address: u64,
        pattern: &[u8],
        count: u64,
        stream: Option<StreamHandle>,
    ) -> Result<(), Code> {
        let mut value = [0; 4];
        value[..pattern.len()].copy_from_slice(pattern);
        let work = || {
            Work::Fill(FillWork {
                address,
                pitch: 0,
                value: u32::from_le_bytes(value),
                element: pattern.len() as u32,
                width: usize::try_from(count).unwrap_or(usize::MAX),
                height: 1,
            })
        };
        if let Some(stream) = stream
            && self.captured(stream, work)?
        {
            return Ok(());
        }
        if self.enqueue(stream)? || count == 0 {
            return Ok(());
        }
        let size = pattern.len() as u64;
        if !address.is_multiple_of(size) {
            return Err(Code::INVALID_VALUE);
        }
        self.machine
            .fill(address, pattern, count)
            .map_err(|error| refused(&error))?;
        let bytes = count.saturating_mul(size);
        // A synchronous call is no part of a sequence of launches.
        if stream.is_some() {
            let time = ptx::model::modelled_fill(bytes, &self.device);
            self.journal.record_fill(&time);
        }
        self.spend_device_pass(stream, bytes);
        Ok(())
    }

    /// Checks a call that enqueues work. Returns true if an earlier kernel's fault is pending, so that later work has
    /// no effect. No stream means a synchronous call, which reports the fault.
    fn enqueue(&mut self, stream: Option<StreamHandle>) -> Result<bool, Code> {
        match stream {
            Some(stream) => {
                self.check_stream(stream)?;
                Ok(self.pending.is_some())
            }
            None => self.check_synchronous_copy().map(|_| false),
        }
    }

    /// Checks a synchronous call: it waits for the legacy stream, and for all that this stream waits for.
    fn check_synchronous_copy(&mut self) -> Result<ContextHandle, Code> {
        self.check_waitable(StreamHandle::LEGACY)?;
        self.check_synchronising_call()
    }

    /// Captures a copy of contiguous bytes if the stream is being captured. Returns true if it was captured.
    fn captured_copy(
        &mut self,
        stream: StreamHandle,
        destination: u64,
        source: u64,
        bytes: usize,
    ) -> Result<bool, Code> {
        self.captured(stream, || {
            let location = |address| CopyLocation::linear(MemoryType::Unified, address);
            Work::Copy(CopyWork::linear(
                location(destination),
                location(source),
                bytes,
            ))
        })
    }

    fn spend_host_copy(&mut self, stream: Option<StreamHandle>, bytes: usize) {
        let bandwidth = self.device.memory.host_gigabytes_per_second * 1e3;
        let time = self.device.launch.copy_microseconds + bytes as f64 / bandwidth;
        self.spend(stream.unwrap_or(StreamHandle::LEGACY), time);
    }

    fn spend_device_pass(&mut self, stream: Option<StreamHandle>, bytes: u64) {
        let memory = &self.device.memory;
        let bandwidth = memory.dram_gigabytes_per_second * memory.dram_efficiency * 1e3;
        let time = self.device.launch.microseconds + bytes as f64 / bandwidth;
        self.spend(stream.unwrap_or(StreamHandle::LEGACY), time);
    }
}
