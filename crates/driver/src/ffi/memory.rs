//! Device memory, copies, fills and what an address is.

use crate::code::Code;
use crate::handle::StreamHandle;
use crate::state::{Driver, MemoryKind};

use super::entries;
use super::pointer::{Host, In, Out};
use super::stream::named;

/// Numbers of the API's memory types.
const HOST: u32 = 1;
const DEVICE: u32 = 2;
const UNIFIED: u32 = 4;

entries! {
    /// Allocates device memory.
    fn cuMemAlloc_v2(address: Out<u64>, bytes: usize) |driver| {
        let address = address.required()?;
        address.set(driver.allocate(bytes as u64)?)
    }

    /// Allocates rows at aligned addresses.
    fn cuMemAllocPitch_v2(address: Out<u64>, pitch: Out<usize>, width: usize, height: usize, element: u32) |driver| {
        let (address, pitch) = (address.required()?, pitch.required()?);
        let (start, distance) = driver.allocate_pitched(width as u64, height as u64, element)?;
        address.set(start)?;
        pitch.set(distance as usize)
    }

    /// Frees device memory.
    fn cuMemFree_v2(address: u64) |driver| { driver.free(address) }

    /// Free and total device memory.
    fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) |driver| {
        let (left, all) = driver.memory_info()?;
        free.offer(left as usize);
        total.offer(all as usize);
        Ok(())
    }

    /// The allocation that holds an address.
    fn cuMemGetAddressRange_v2(base: Out<u64>, bytes: Out<usize>, address: u64) |driver| {
        let (start, size) = driver.address_range(address)?;
        base.offer(start);
        bytes.offer(size as usize);
        Ok(())
    }

    /// Copies between any two addresses, waiting for the copy.
    fn cuMemcpy(destination: u64, source: u64, bytes: usize) |driver| {
        copy_anywhere(driver, destination, source, bytes, None)
    }

    /// Copies between any two addresses in stream order.
    fn cuMemcpyAsync(destination: u64, source: u64, bytes: usize, stream: Host) |driver| {
        copy_anywhere(driver, destination, source, bytes, Some(named(stream)))
    }

    /// Copies to the device.
    fn cuMemcpyHtoD_v2(destination: u64, source: Host, bytes: usize) |driver| {
        driver.upload(destination, source.bytes(bytes)?, None)
    }

    /// Copies to the device in stream order.
    fn cuMemcpyHtoDAsync_v2(destination: u64, source: Host, bytes: usize, stream: Host) |driver| {
        driver.upload(destination, source.bytes(bytes)?, Some(named(stream)))
    }

    /// Copies to the host.
    fn cuMemcpyDtoH_v2(destination: Host, source: u64, bytes: usize) |driver| {
        driver.download(source, destination.bytes_mut(bytes)?, None)
    }

    /// Copies to the host in stream order.
    fn cuMemcpyDtoHAsync_v2(destination: Host, source: u64, bytes: usize, stream: Host) |driver| {
        driver.download(source, destination.bytes_mut(bytes)?, Some(named(stream)))
    }

    /// Copies inside the device.
    fn cuMemcpyDtoD_v2(destination: u64, source: u64, bytes: usize) |driver| {
        driver.copy(destination, source, bytes as u64, None)
    }

    /// Copies inside the device in stream order.
    fn cuMemcpyDtoDAsync_v2(destination: u64, source: u64, bytes: usize, stream: Host) |driver| {
        driver.copy(destination, source, bytes as u64, Some(named(stream)))
    }

    /// Copies between contexts, which share one device.
    fn cuMemcpyPeer(destination: u64, to: Host, source: u64, from: Host, bytes: usize) |driver| {
        check_contexts(driver, [to, from])?;
        driver.copy(destination, source, bytes as u64, None)
    }

    /// Copies between contexts in stream order.
    fn cuMemcpyPeerAsync(destination: u64, to: Host, source: u64, from: Host, bytes: usize, stream: Host) |driver| {
        check_contexts(driver, [to, from])?;
        driver.copy(destination, source, bytes as u64, Some(named(stream)))
    }

    /// Copies a rectangle.
    fn cuMemcpy2D_v2(plan: In<Rectangle>) |driver| { copy_rectangle(driver, &plan.get()?, None) }

    /// Copies a rectangle of any alignment, which is the same here.
    fn cuMemcpy2DUnaligned_v2(plan: In<Rectangle>) |driver| {
        copy_rectangle(driver, &plan.get()?, None)
    }

    /// Copies a rectangle in stream order.
    fn cuMemcpy2DAsync_v2(plan: In<Rectangle>, stream: Host) |driver| {
        copy_rectangle(driver, &plan.get()?, Some(named(stream)))
    }

    /// Fills bytes.
    fn cuMemsetD8_v2(address: u64, value: u8, count: usize) |driver| {
        driver.fill(address, &[value], count as u64, None)
    }

    /// Fills 16-bit values.
    fn cuMemsetD16_v2(address: u64, value: u16, count: usize) |driver| {
        driver.fill(address, &value.to_le_bytes(), count as u64, None)
    }

    /// Fills 32-bit values.
    fn cuMemsetD32_v2(address: u64, value: u32, count: usize) |driver| {
        driver.fill(address, &value.to_le_bytes(), count as u64, None)
    }

    /// Fills bytes in stream order.
    fn cuMemsetD8Async(address: u64, value: u8, count: usize, stream: Host) |driver| {
        driver.fill(address, &[value], count as u64, Some(named(stream)))
    }

    /// Fills 16-bit values in stream order.
    fn cuMemsetD16Async(address: u64, value: u16, count: usize, stream: Host) |driver| {
        driver.fill(address, &value.to_le_bytes(), count as u64, Some(named(stream)))
    }

    /// Fills 32-bit values in stream order.
    fn cuMemsetD32Async(address: u64, value: u32, count: usize, stream: Host) |driver| {
        driver.fill(address, &value.to_le_bytes(), count as u64, Some(named(stream)))
    }

    /// Fills rows of bytes.
    fn cuMemsetD2D8_v2(address: u64, pitch: usize, value: u8, width: usize, height: usize) |driver| {
        fill_rows(driver, address, pitch, &[value], [width, height], None)
    }

    /// Fills rows of 16-bit values.
    fn cuMemsetD2D16_v2(address: u64, pitch: usize, value: u16, width: usize, height: usize) |driver| {
        fill_rows(driver, address, pitch, &value.to_le_bytes(), [width, height], None)
    }

    /// Fills rows of 32-bit values.
    fn cuMemsetD2D32_v2(address: u64, pitch: usize, value: u32, width: usize, height: usize) |driver| {
        fill_rows(driver, address, pitch, &value.to_le_bytes(), [width, height], None)
    }

    /// Fills rows of bytes in stream order.
    fn cuMemsetD2D8Async(address: u64, pitch: usize, value: u8, width: usize, height: usize, stream: Host) |driver| {
        fill_rows(driver, address, pitch, &[value], [width, height], Some(named(stream)))
    }

    /// Fills rows of 16-bit values in stream order.
    fn cuMemsetD2D16Async(address: u64, pitch: usize, value: u16, width: usize, height: usize, stream: Host) |driver| {
        fill_rows(driver, address, pitch, &value.to_le_bytes(), [width, height], Some(named(stream)))
    }

    /// Fills rows of 32-bit values in stream order.
    fn cuMemsetD2D32Async(address: u64, pitch: usize, value: u32, width: usize, height: usize, stream: Host) |driver| {
        fill_rows(driver, address, pitch, &value.to_le_bytes(), [width, height], Some(named(stream)))
    }

    /// One attribute of an address.
    fn cuPointerGetAttribute(value: Host, attribute: u32, address: u64) |driver| {
        driver.check_context()?;
        let found = pointer_attribute(driver, attribute, address)?.ok_or(Code::INVALID_VALUE)?;
        write_attribute(value, found)
    }

    /// Several attributes of an address; those it does not have are zero.
    fn cuPointerGetAttributes(count: u32, attributes: In<u32>, values: In<Host>, address: u64) |driver| {
        driver.check_context()?;
        for index in 0..count as usize {
            let attribute = attributes.at(index)?;
            let found = pointer_attribute(driver, attribute, address)?
                .unwrap_or((0, attribute_bytes(attribute)));
            write_attribute(values.at(index)?, found)?;
        }
        Ok(())
    }

    /// Accepted for device memory: copies here are always synchronous.
    fn cuPointerSetAttribute(value: Host, attribute: u32, address: u64) |driver| {
        driver.check_context()?;
        // A switch: whatever it says is so already.
        value.bytes(4)?;
        match driver.classify(address) {
            Some((MemoryKind::Device | MemoryKind::Managed, ..)) if attribute == SYNC_MEMOPS => Ok(()),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}

fn check_contexts(driver: &Driver, contexts: [Host; 2]) -> Result<(), Code> {
    contexts.iter().try_for_each(|context| {
        driver.known_context(crate::handle::ContextHandle(context.address()))
    })
}

fn is_device(driver: &Driver, address: u64) -> bool {
    let found = driver.classify(address).map(|(kind, ..)| kind);
    matches!(found, Some(MemoryKind::Device | MemoryKind::Managed))
}

/// Copies between host and device memory, told apart by address.
fn copy_anywhere(
    driver: &mut Driver,
    destination: u64,
    source: u64,
    bytes: usize,
    stream: Option<StreamHandle>,
) -> Result<(), Code> {
    if bytes == 0 {
        return driver.copy(destination, source, 0, stream);
    }
    driver.check_context()?;
    // What was device memory once is no host memory now, whatever it is.
    if [destination, source]
        .iter()
        .any(|&address| driver.is_stale(address))
    {
        return Err(Code::INVALID_VALUE);
    }
    match (is_device(driver, destination), is_device(driver, source)) {
        (true, true) => driver.copy(destination, source, bytes as u64, stream),
        (true, false) => driver.upload(destination, Host::at_address(source).bytes(bytes)?, stream),
        (false, true) => driver.download(
            source,
            Host::at_address(destination).bytes_mut(bytes)?,
            stream,
        ),
        (false, false) => {
            driver.check_stream(stream.unwrap_or(StreamHandle::LEGACY))?;
            let data = Host::at_address(source).bytes(bytes)?.to_vec();
            Host::at_address(destination)
                .bytes_mut(bytes)?
                .copy_from_slice(&data);
            Ok(())
        }
    }
}

/// One side of a rectangle copy, as the API lays it out.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Side {
    x_bytes: usize,
    y: usize,
    memory_type: u32,
    host: Host,
    device: u64,
    array: Host,
    pitch: usize,
}

/// A rectangle copy, as the API lays it out.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Rectangle {
    source: Side,
    destination: Side,
    width_bytes: usize,
    height: usize,
}

impl Side {
    /// Address of a row's first byte.
    fn row(&self, row: usize, width: usize) -> Result<u64, Code> {
        let base = match self.memory_type {
            HOST => self.host.address(),
            DEVICE | UNIFIED => self.device,
            _ => return Err(Code::NOT_SUPPORTED),
        };
        let pitch = if self.pitch == 0 { width } else { self.pitch };
        self.y
            .checked_add(row)
            .and_then(|rows| rows.checked_mul(pitch))
            .and_then(|offset| offset.checked_add(self.x_bytes))
            .and_then(|offset| base.checked_add(offset as u64))
            .ok_or(Code::INVALID_VALUE)
    }
}

fn copy_rectangle(
    driver: &mut Driver,
    plan: &Rectangle,
    stream: Option<StreamHandle>,
) -> Result<(), Code> {
    for side in [&plan.source, &plan.destination] {
        if side.pitch != 0 && side.pitch < plan.width_bytes {
            return Err(Code::INVALID_VALUE);
        }
    }
    if plan.width_bytes == 0 {
        return driver.copy(0, 0, 0, stream);
    }
    for row in 0..plan.height {
        let source = plan.source.row(row, plan.width_bytes)?;
        let destination = plan.destination.row(row, plan.width_bytes)?;
        copy_anywhere(driver, destination, source, plan.width_bytes, stream)?;
    }
    Ok(())
}

fn fill_rows(
    driver: &mut Driver,
    address: u64,
    pitch: usize,
    pattern: &[u8],
    [width, height]: [usize; 2],
    stream: Option<StreamHandle>,
) -> Result<(), Code> {
    let row_bytes = width
        .checked_mul(pattern.len())
        .ok_or(Code::INVALID_VALUE)?;
    if height > 1 && pitch < row_bytes {
        return Err(Code::INVALID_VALUE);
    }
    if row_bytes == 0 || height == 0 {
        return driver.fill(address, pattern, 0, stream);
    }
    for row in 0..height {
        let start = (row as u64)
            .checked_mul(pitch as u64)
            .and_then(|offset| address.checked_add(offset))
            .ok_or(Code::INVALID_VALUE)?;
        driver.fill(start, pattern, width as u64, stream)?;
    }
    Ok(())
}

const CONTEXT: u32 = 1;
const MEMORY_TYPE: u32 = 2;
const DEVICE_POINTER: u32 = 3;
const HOST_POINTER: u32 = 4;
const SYNC_MEMOPS: u32 = 6;
const BUFFER_ID: u32 = 7;
const IS_MANAGED: u32 = 8;
const DEVICE_ORDINAL: u32 = 9;
const RANGE_START: u32 = 11;
const RANGE_SIZE: u32 = 12;
const MAPPED: u32 = 13;

fn attribute_bytes(attribute: u32) -> usize {
    match attribute {
        CONTEXT | DEVICE_POINTER | HOST_POINTER | BUFFER_ID | RANGE_START | RANGE_SIZE => 8,
        5 | 14 | 17 => 8,
        _ => 4,
    }
}

/// Value and width of an attribute; none if the address is nothing of this driver's.
fn pointer_attribute(
    driver: &Driver,
    attribute: u32,
    address: u64,
) -> Result<Option<(u64, usize)>, Code> {
    if !(1..=17).contains(&attribute) {
        return Err(Code::INVALID_VALUE);
    }
    let Some((kind, base, bytes)) = driver.classify(address) else {
        return Ok(None);
    };
    let on_host = kind != MemoryKind::Device;
    let on_device = kind != MemoryKind::Host;
    let value = match attribute {
        CONTEXT => driver.owner_of(base).map(|context| context.0),
        MEMORY_TYPE => Some(u64::from(if on_device { DEVICE } else { HOST })),
        // Page-locked memory has one address on both sides.
        DEVICE_POINTER => Some(address),
        HOST_POINTER => on_host.then_some(address),
        IS_MANAGED => Some(u64::from(kind == MemoryKind::Managed)),
        BUFFER_ID => Some(base >> 8),
        RANGE_START => Some(base),
        RANGE_SIZE => Some(bytes),
        MAPPED => Some(1),
        DEVICE_ORDINAL | SYNC_MEMOPS | 10 | 14..=17 => Some(0),
        _ => return Err(Code::NOT_SUPPORTED),
    };
    Ok(value.map(|value| (value, attribute_bytes(attribute))))
}

fn write_attribute(place: Host, (value, width): (u64, usize)) -> Result<(), Code> {
    place
        .bytes_mut(width)?
        .copy_from_slice(&value.to_le_bytes()[..width]);
    Ok(())
}
