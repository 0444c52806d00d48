//! Page-locked and managed host memory.

use crate::code::Code;
use crate::state::{Driver, MemoryKind};

use super::entries;
use super::pointer::{Host, Out};

/// Flags of page-locked memory: portable, mapped, write-combined.
const ALLOCATION_FLAGS: u32 = 7;
/// Flags of a registration: portable, mapped, input/output memory, read-only.
const REGISTRATION_FLAGS: u32 = 15;
/// Initial attachment of managed memory: global, or host only. Attachment to a single stream has its own function.
const ATTACH_FLAGS: std::ops::RangeInclusive<u32> = 1..=2;

entries! {
    /// Allocates page-locked memory.
    fn cuMemAllocHost_v2(memory: Out<u64>, bytes: usize) |driver| {
        let memory = memory.required()?;
        memory.set(driver.allocate_host(bytes, 0)?)
    }

    /// Allocates page-locked memory. All contexts can access it, whatever the flags say.
    fn cuMemHostAlloc(memory: Out<u64>, bytes: usize, flags: u32) |driver| {
        let memory = memory.required()?;
        driver.check_context()?;
        if flags & !ALLOCATION_FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        memory.set(driver.allocate_host(bytes, flags)?)
    }

    /// Frees page-locked memory.
    fn cuMemFreeHost(memory: Host) |driver| { driver.free_host(memory.address()) }

    /// Registers the caller's memory as page-locked.
    fn cuMemHostRegister_v2(memory: Host, bytes: usize, flags: u32) |driver| {
        driver.check_context()?;
        if flags & !REGISTRATION_FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        driver.register_host_memory(memory.address(), bytes, flags)
    }

    /// Unregisters the caller's memory.
    fn cuMemHostUnregister(memory: Host) |driver| {
        driver.unregister_host_memory(memory.address())
    }

    /// The device address of page-locked memory, which is the host address.
    fn cuMemHostGetDevicePointer_v2(address: Out<u64>, memory: Host, flags: u32) |driver| {
        driver.check_context()?;
        let address = address.required()?;
        match driver.classify(memory.address()) {
            Some((MemoryKind::Host, ..)) if flags == 0 => address.set(memory.address()),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    /// The flags that page-locked memory was allocated with.
    fn cuMemHostGetFlags(flags: Out<u32>, memory: Host) |driver| {
        let flags = flags.required()?;
        flags.set(driver.host_memory_flags(memory.address())?)
    }

    /// Allocates memory that host and device share.
    fn cuMemAllocManaged(address: Out<u64>, bytes: usize, flags: u32) |driver| {
        let address = address.required()?;
        driver.check_context()?;
        if !ATTACH_FLAGS.contains(&flags) {
            return Err(Code::INVALID_VALUE);
        }
        address.set(driver.allocate_managed(bytes)?)
    }

    /// Prefetches managed memory to a device; does nothing, because it is accessible everywhere.
    fn cuMemPrefetchAsync(address: u64, bytes: usize, device: i32, stream: Host) |driver| {
        driver.check_stream(super::stream::named(stream))?;
        MemoryLocation::of_device(device).check(driver)?;
        driver.check_managed(address, bytes as u64)?;
        driver.refuse_capture(super::stream::named(stream))
    }

    /// Prefetches managed memory to a location.
    fn cuMemPrefetchAsync_v2(address: u64, bytes: usize, location: MemoryLocation, flags: u32, stream: Host) |driver| {
        driver.check_stream(super::stream::named(stream))?;
        location.check(driver)?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        driver.check_managed(address, bytes as u64)?;
        driver.refuse_capture(super::stream::named(stream))
    }

    /// Advises how managed memory will be used; does nothing.
    fn cuMemAdvise(address: u64, bytes: usize, advice: u32, device: i32) |driver| {
        driver.check_context()?;
        check_advice(driver, advice, MemoryLocation::of_device(device))?;
        driver.check_managed(address, bytes as u64)
    }

    /// Advises how managed memory will be used, with a location instead of a device.
    fn cuMemAdvise_v2(address: u64, bytes: usize, advice: u32, location: MemoryLocation) |driver| {
        driver.check_context()?;
        check_advice(driver, advice, location)?;
        driver.check_managed(address, bytes as u64)
    }

    /// Attaches managed memory to a stream; does nothing, because every call is complete when it returns.
    fn cuStreamAttachMemAsync(stream: Host, address: u64, _bytes: usize, flags: u32) |driver| {
        driver.refuse_capture(super::stream::named(stream))?;
        match driver.classify(address) {
            Some((MemoryKind::Managed, ..)) if matches!(flags, 1 | 2 | 4) => Ok(()),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}

/// A location of managed memory (`CUmemLocation`).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct MemoryLocation {
    kind: u32,
    id: i32,
}

impl MemoryLocation {
    const DEVICE: u32 = 1;
    const HOST: u32 = 2;
    /// NUMA nodes of the host: a given one, and the caller's own.
    const NODES: std::ops::RangeInclusive<u32> = 3..=4;
    /// The host's number in the older functions.
    const HOST_ORDINAL: i32 = -1;

    fn of_device(ordinal: i32) -> Self {
        match ordinal {
            Self::HOST_ORDINAL => Self {
                kind: Self::HOST,
                id: 0,
            },
            id => Self {
                kind: Self::DEVICE,
                id,
            },
        }
    }

    fn check(self, driver: &Driver) -> Result<(), Code> {
        match self.kind {
            Self::DEVICE => driver.check_device(self.id),
            Self::HOST => Ok(()),
            kind if Self::NODES.contains(&kind) => Ok(()),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}

/// Advice with a location: preferred location, accessed by, and no longer accessed by.
const ADVICE_WITH_LOCATION: [u32; 3] = [3, 5, 6];

fn check_advice(driver: &Driver, advice: u32, location: MemoryLocation) -> Result<(), Code> {
    match advice {
        advice if ADVICE_WITH_LOCATION.contains(&advice) => location.check(driver),
        1..=6 => Ok(()),
        _ => Err(Code::INVALID_VALUE),
    }
}
