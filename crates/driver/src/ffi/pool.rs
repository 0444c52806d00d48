//! Memory pools and stream-ordered allocation.

use crate::code::Code;
use crate::handle::PoolHandle;
use crate::state::PoolAttribute;

use super::entries;
use super::pointer::{Host, In, Out};
use super::stream::named;

/// The leading fields of a pool's properties (`CUmemPoolProps`).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct PoolProperties {
    allocation: u32,
    handles: u32,
    location: u32,
    id: i32,
}

/// The only allocation type: pinned.
const ALLOCATION_PINNED: u32 = 1;
/// Location type: a device.
const LOCATION_DEVICE: u32 = 1;

fn pool_of(pool: Host) -> PoolHandle {
    PoolHandle(pool.address())
}

entries! {
    /// Allocates in stream order.
    fn cuMemAllocAsync(address: Out<u64>, bytes: usize, stream: Host) |driver| {
        let address = address.required()?;
        address.set(driver.allocate_ordered(bytes as u64, None, named(stream))?)
    }

    /// Allocates in stream order from a pool.
    fn cuMemAllocFromPoolAsync(address: Out<u64>, bytes: usize, pool: Host, stream: Host) |driver| {
        let address = address.required()?;
        address.set(driver.allocate_ordered(bytes as u64, Some(pool_of(pool)), named(stream))?)
    }

    /// Frees in stream order.
    fn cuMemFreeAsync(address: u64, stream: Host) |driver| {
        driver.free_ordered(address, named(stream))
    }

    /// The device's default pool.
    fn cuDeviceGetDefaultMemPool(pool: Out<u64>, device: i32) |driver| {
        pool.set(driver.default_pool(device)?.0)
    }

    /// The device's current pool.
    fn cuDeviceGetMemPool(pool: Out<u64>, device: i32) |driver| {
        pool.set(driver.device_pool(device)?.0)
    }

    /// Sets the device's current pool.
    fn cuDeviceSetMemPool(device: i32, pool: Host) |driver| {
        driver.set_device_pool(device, pool_of(pool))
    }

    /// Creates a pool of device memory. Pools that are shared between processes are not supported.
    fn cuMemPoolCreate(pool: Out<u64>, properties: In<PoolProperties>) |driver| {
        let pool = pool.required()?;
        let properties = properties.get()?;
        if properties.allocation != ALLOCATION_PINNED || properties.location != LOCATION_DEVICE {
            return Err(Code::INVALID_VALUE);
        }
        driver.check_device(properties.id)?;
        if properties.handles != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        pool.set(driver.create_pool()?.0)
    }

    /// Destroys a pool.
    fn cuMemPoolDestroy(pool: Host) |driver| { driver.destroy_pool(pool_of(pool)) }

    /// Releases unused memory; does nothing, because a pool holds none.
    fn cuMemPoolTrimTo(pool: Host, _bytes_to_keep: usize) |driver| {
        driver.check_pool(pool_of(pool))
    }

    /// Reads an attribute of a pool. Switches are 32-bit numbers, sizes are 64-bit numbers.
    fn cuMemPoolGetAttribute(pool: Host, attribute: u32, value: Host) |driver| {
        let attribute = PoolAttribute::from_number(attribute)?;
        let found = driver.pool_attribute(pool_of(pool), attribute)?.to_le_bytes();
        let width = attribute_bytes(attribute);
        value.bytes_mut(width)?.copy_from_slice(&found[..width]);
        Ok(())
    }

    /// Sets an attribute of a pool.
    fn cuMemPoolSetAttribute(pool: Host, attribute: u32, value: Host) |driver| {
        let attribute = PoolAttribute::from_number(attribute)?;
        let width = attribute_bytes(attribute);
        let mut bytes = [0; 8];
        bytes[..width].copy_from_slice(value.bytes(width)?);
        driver.set_pool_attribute(pool_of(pool), attribute, u64::from_le_bytes(bytes))
    }
}

fn attribute_bytes(attribute: PoolAttribute) -> usize {
    match attribute {
        PoolAttribute::Reuse(_) => 4,
        PoolAttribute::ReleaseThreshold | PoolAttribute::Usage => 8,
    }
}
