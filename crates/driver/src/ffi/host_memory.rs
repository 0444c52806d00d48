//! Page-locked host memory.

use std::alloc::{self, Layout};

use crate::code::Code;

use super::entries;
use super::pointer::{Host, Out};

/// Page-locked memory starts on a page.
const PAGE: usize = 4096;

fn layout(bytes: usize) -> Result<Layout, Code> {
    Layout::from_size_align(bytes, PAGE).map_err(|_| Code::OUT_OF_MEMORY)
}

fn allocate(bytes: usize) -> Result<u64, Code> {
    if bytes == 0 {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: the layout's size is not zero.
    let memory = unsafe { alloc::alloc_zeroed(layout(bytes)?) };
    if memory.is_null() {
        Err(Code::OUT_OF_MEMORY)
    } else {
        Ok(memory as u64)
    }
}

fn release(address: u64, bytes: usize) -> Result<(), Code> {
    // SAFETY: the driver keeps the address and size of what `allocate` made, and gives each out once.
    unsafe { alloc::dealloc(address as *mut u8, layout(bytes)?) };
    Ok(())
}

entries! {
    /// Allocates page-locked memory.
    fn cuMemAllocHost_v2(memory: Out<u64>, bytes: usize) |driver| {
        let memory = memory.required()?;
        driver.check_context()?;
        let address = allocate(bytes)?;
        driver.adopt_host_memory(address, bytes)?;
        memory.set(address)
    }

    /// Allocates page-locked memory. Every context sees it; none of the flags changes anything here.
    fn cuMemHostAlloc(memory: Out<u64>, bytes: usize, flags: u32) |driver| {
        let memory = memory.required()?;
        driver.check_context()?;
        if flags > 7 {
            return Err(Code::INVALID_VALUE);
        }
        let address = allocate(bytes)?;
        driver.adopt_host_memory(address, bytes)?;
        memory.set(address)
    }

    /// Frees page-locked memory.
    fn cuMemFreeHost(memory: Host) |driver| {
        let bytes = driver.release_host_memory(memory.address())?;
        release(memory.address(), bytes)
    }

    /// Registers the caller's memory as page-locked.
    fn cuMemHostRegister_v2(memory: Host, bytes: usize, _flags: u32) |driver| {
        driver.register_host_memory(memory.address(), bytes)
    }

    /// Undoes a registration.
    fn cuMemHostUnregister(memory: Host) |driver| {
        driver.unregister_host_memory(memory.address())
    }

    /// Kernels cannot reach host memory here.
    fn cuMemHostGetDevicePointer_v2(address: Out<u64>, _memory: Host, _flags: u32) |driver| {
        driver.check_context()?;
        address.offer(0);
        Err(Code::NOT_SUPPORTED)
    }

    /// The flags of page-locked memory: none are kept.
    fn cuMemHostGetFlags(flags: Out<u32>, memory: Host) |driver| {
        driver.check_context()?;
        match driver.classify(memory.address()) {
            Some((crate::state::MemoryKind::Host, ..)) => flags.set(0),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}
