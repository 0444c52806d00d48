//! Addresses and memory apart, as programs that want guard pages or growing buffers use them.

use crate::code::Code;
use crate::handle::PhysicalHandle;
use crate::state::{GRANULE, ORDINAL, Rights};

use super::entries;
use super::pointer::{In, Out};

/// Numbers of the API: device memory that stays where it is, the device as a place, reading, reading and writing.
const PINNED: u32 = 1;
const DEVICE: u32 = 1;
const READ: u32 = 1;
const READ_WRITE: u32 = 3;

/// `CUmemLocation`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Place {
    kind: u32,
    id: i32,
}

impl Place {
    fn check(self) -> Result<(), Code> {
        if self.kind == DEVICE && self.id == ORDINAL {
            Ok(())
        } else {
            Err(Code::INVALID_DEVICE)
        }
    }
}

/// The beginning of `CUmemAllocationProp`, up to what matters here.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Properties {
    kind: u32,
    handles: u32,
    place: Place,
}

impl Properties {
    fn check(self) -> Result<(), Code> {
        self.place.check()?;
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
    place: Place,
    flags: u32,
}

entries! {
    /// What sizes and addresses must be multiples of.
    fn cuMemGetAllocationGranularity(granule: Out<usize>, properties: In<Properties>, _option: u32) |driver| {
        driver.check_context()?;
        properties.get()?.check()?;
        granule.set(GRANULE as usize)
    }

    /// Reserves addresses; a wish for particular ones is not heeded, as the API allows.
    fn cuMemAddressReserve(address: Out<u64>, bytes: usize, align: usize, _wish: u64, flags: u64) |driver| {
        let address = address.required()?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        address.set(driver.reserve_addresses(bytes as u64, align as u64)?)
    }

    /// Gives reserved addresses back.
    fn cuMemAddressFree(address: u64, bytes: usize) |driver| {
        driver.free_addresses(address, bytes as u64)
    }

    /// Creates memory that is nowhere yet.
    fn cuMemCreate(handle: Out<u64>, bytes: usize, properties: In<Properties>, flags: u64) |driver| {
        let handle = handle.required()?;
        properties.get()?.check()?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        handle.set(driver.create_memory(bytes as u64)?.0)
    }

    /// Lets created memory go.
    fn cuMemRelease(handle: u64) |driver| { driver.release_memory(PhysicalHandle(handle)) }

    /// Maps created memory into reserved addresses.
    fn cuMemMap(address: u64, bytes: usize, offset: usize, handle: u64, flags: u64) |driver| {
        if offset != 0 || flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        driver.map(address, bytes as u64, PhysicalHandle(handle))
    }

    /// Takes a mapping away.
    fn cuMemUnmap(address: u64, bytes: usize) |driver| { driver.unmap(address, bytes as u64) }

    /// Grants access to a mapping, to read or to write as well. Access cannot be revoked.
    fn cuMemSetAccess(address: u64, bytes: usize, access: In<Access>, count: usize) |driver| {
        if count != 1 {
            return Err(Code::INVALID_VALUE);
        }
        let access = access.get()?;
        access.place.check()?;
        let rights = match access.flags {
            READ => Rights::Read,
            READ_WRITE => Rights::ReadWrite,
            _ => return Err(Code::NOT_SUPPORTED),
        };
        driver.grant_access(address, bytes as u64, rights)
    }
}
