//! Virtual memory management, which programs use for guard pages or growing buffers.

use crate::code::Code;
use crate::handle::PhysicalHandle;
use crate::state::{GRANULE, ORDINAL, Rights};

use super::entries;
use super::pointer::{In, Out};

/// Numbers of the API: pinned memory, location type device, access for reading, access for reading and writing.
const PINNED: u32 = 1;
const DEVICE: u32 = 1;
const READ: u32 = 1;
const READ_WRITE: u32 = 3;

/// `CUmemLocation`.
#[derive(Clone, Copy)]
#[repr(C)]
struct MemoryLocation {
    kind: u32,
    id: i32,
}

impl MemoryLocation {
    fn check(self) -> Result<(), Code> {
        if self.kind == DEVICE && self.id == ORDINAL {
            Ok(())
        } else {
            Err(Code::INVALID_DEVICE)
        }
    }
}

/// The leading fields of `CUmemAllocationProp`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct AllocationProperties {
    kind: u32,
    handles: u32,
    location: MemoryLocation,
}

impl AllocationProperties {
    fn check(self) -> Result<(), Code> {
        self.location.check()?;
        match (self.kind, self.handles) {
            (PINNED, 0) => Ok(()),
            (PINNED, _) => Err(Code::NOT_SUPPORTED),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}

/// `CUmemAccessDesc`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Access {
    location: MemoryLocation,
    flags: u32,
}

entries! {
    /// The granularity of sizes and addresses in bytes.
    fn cuMemGetAllocationGranularity(granule: Out<usize>, properties: In<AllocationProperties>, _option: u32) |driver| {
        driver.check_context()?;
        properties.get()?.check()?;
        granule.set(GRANULE as usize)
    }

    /// Reserves addresses. A requested address is ignored, as the API allows.
    fn cuMemAddressReserve(address: Out<u64>, bytes: usize, align: usize, _wish: u64, flags: u64) |driver| {
        let address = address.required()?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        address.set(driver.reserve_addresses(bytes as u64, align as u64)?)
    }

    /// Frees reserved addresses.
    fn cuMemAddressFree(address: u64, bytes: usize) |driver| {
        driver.free_addresses(address, bytes as u64)
    }

    /// Creates physical memory without an address.
    fn cuMemCreate(handle: Out<u64>, bytes: usize, properties: In<AllocationProperties>, flags: u64) |driver| {
        let handle = handle.required()?;
        properties.get()?.check()?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        handle.set(driver.create_memory(bytes as u64)?.0)
    }

    /// Releases physical memory.
    fn cuMemRelease(handle: u64) |driver| { driver.release_memory(PhysicalHandle(handle)) }

    /// Maps created memory into reserved addresses.
    fn cuMemMap(address: u64, bytes: usize, offset: usize, handle: u64, flags: u64) |driver| {
        if offset != 0 || flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        driver.map(address, bytes as u64, PhysicalHandle(handle))
    }

    /// Removes a mapping.
    fn cuMemUnmap(address: u64, bytes: usize) |driver| { driver.unmap(address, bytes as u64) }

    /// Grants access to a mapping, for reading or for reading and writing. Access cannot be revoked.
    fn cuMemSetAccess(address: u64, bytes: usize, access: In<Access>, count: usize) |driver| {
        if count != 1 {
            return Err(Code::INVALID_VALUE);
        }
        let access = access.get()?;
        access.location.check()?;
        let rights = match access.flags {
            READ => Rights::Read,
            READ_WRITE => Rights::ReadWrite,
            _ => return Err(Code::NOT_SUPPORTED),
        };
        driver.grant_access(address, bytes as u64, rights)
    }
}
