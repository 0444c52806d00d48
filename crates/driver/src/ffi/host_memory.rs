//! Page-locked and managed host memory.

use crate::code::Code;
use crate::state::MemoryKind;

use super::entries;
use super::pointer::{Host, Out};

/// Flags of page-locked memory: portable, mapped, write-combined.
const ALLOCATION_FLAGS: u32 = 7;
/// Flags of a registration: portable, mapped, input/output memory, read-only.
const REGISTRATION_FLAGS: u32 = 15;
/// Who may use managed memory at first: everybody, or the host alone. A single stream is named later.
const ATTACH_FLAGS: std::ops::RangeInclusive<u32> = 1..=2;

entries! {
    /// Allocates page-locked memory.
    fn cuMemAllocHost_v2(memory: Out<u64>, bytes: usize) |driver| {
        let memory = memory.required()?;
        memory.set(driver.allocate_host(bytes, 0)?)
    }

    /// Allocates page-locked memory. Every context sees it, whatever the flags say.
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

    /// Undoes a registration.
    fn cuMemHostUnregister(memory: Host) |driver| {
        driver.unregister_host_memory(memory.address())
    }

    /// Where kernels find page-locked memory: at the host's own address.
    fn cuMemHostGetDevicePointer_v2(address: Out<u64>, memory: Host, flags: u32) |driver| {
        driver.check_context()?;
        let address = address.required()?;
        match driver.classify(memory.address()) {
            Some((MemoryKind::Host, ..)) if flags == 0 => address.set(memory.address()),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    /// The flags page-locked memory was allocated with.
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

    /// Says where managed memory will be used. It is everywhere already.
    fn cuMemPrefetchAsync(address: u64, bytes: usize, _device: i32, stream: Host) |driver| {
        driver.check_stream(super::stream::named(stream))?;
        driver.check_managed(address, bytes as u64)
    }

    /// As before, with a place instead of a device.
    fn cuMemPrefetchAsync_v2(address: u64, bytes: usize, _place: u64, flags: u32, stream: Host) |driver| {
        driver.check_stream(super::stream::named(stream))?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        driver.check_managed(address, bytes as u64)
    }

    /// Says how managed memory will be used, which changes nothing here.
    fn cuMemAdvise(address: u64, bytes: usize, advice: u32, _device: i32) |driver| {
        driver.check_context()?;
        check_advice(advice)?;
        driver.check_managed(address, bytes as u64)
    }

    /// As before, with a place instead of a device.
    fn cuMemAdvise_v2(address: u64, bytes: usize, advice: u32, _place: u64) |driver| {
        driver.check_context()?;
        check_advice(advice)?;
        driver.check_managed(address, bytes as u64)
    }

    /// Ties managed memory to a stream, which changes nothing where every call is over when it returns.
    fn cuStreamAttachMemAsync(stream: Host, address: u64, _bytes: usize, flags: u32) |driver| {
        driver.check_stream(super::stream::named(stream))?;
        match driver.classify(address) {
            Some((MemoryKind::Managed, ..)) if matches!(flags, 1 | 2 | 4) => Ok(()),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}

fn check_advice(advice: u32) -> Result<(), Code> {
    if (1..=6).contains(&advice) {
        Ok(())
    } else {
        Err(Code::INVALID_VALUE)
    }
}
