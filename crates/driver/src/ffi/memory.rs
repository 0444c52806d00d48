//! Device memory, copies, fills, and attributes of addresses.

use crate::code::Code;
use crate::handle::StreamHandle;
use crate::state::{CopyLocation, CopyWork, Driver, FillWork, MemoryKind, MemoryType, Work};

use super::entries;
use super::pointer::{Host, In, Out};
use super::stream::named;

/// Memory types, by the API's numbers.
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
        free.set_if_given(left as usize);
        total.set_if_given(all as usize);
        Ok(())
    }

    /// Start and size of the allocation that holds an address.
    fn cuMemGetAddressRange_v2(base: Out<u64>, bytes: Out<usize>, address: u64) |driver| {
        let (start, size) = driver.address_range(address)?;
        base.set_if_given(start);
        bytes.set_if_given(size as usize);
        Ok(())
    }

    /// Copies between any two addresses and waits for the copy.
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
    fn cuMemcpy2D_v2(plan: In<Rectangle>) |driver| { copy_planned(driver, &plan.get()?.work()?, None) }

    /// Copies a rectangle without alignment requirements; the emulation has none in either form.
    fn cuMemcpy2DUnaligned_v2(plan: In<Rectangle>) |driver| {
        copy_planned(driver, &plan.get()?.work()?, None)
    }

    /// Copies a rectangle in stream order.
    fn cuMemcpy2DAsync_v2(plan: In<Rectangle>, stream: Host) |driver| {
        copy_planned(driver, &plan.get()?.work()?, Some(named(stream)))
    }

    /// Copies a box.
    fn cuMemcpy3D_v2(plan: In<BoxCopy>) |driver| {
        driver.check_context()?;
        copy_planned(driver, &plan.get()?.work()?, None)
    }

    /// Copies a box in stream order.
    fn cuMemcpy3DAsync_v2(plan: In<BoxCopy>, stream: Host) |driver| {
        driver.check_stream(named(stream))?;
        copy_planned(driver, &plan.get()?.work()?, Some(named(stream)))
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
        let fill = FillWork { address, pitch, value: u32::from(value), element: 1, width, height };
        fill_planned(driver, &fill, None)
    }

    /// Fills rows of 16-bit values.
    fn cuMemsetD2D16_v2(address: u64, pitch: usize, value: u16, width: usize, height: usize) |driver| {
        let fill = FillWork { address, pitch, value: u32::from(value), element: 2, width, height };
        fill_planned(driver, &fill, None)
    }

    /// Fills rows of 32-bit values.
    fn cuMemsetD2D32_v2(address: u64, pitch: usize, value: u32, width: usize, height: usize) |driver| {
        let fill = FillWork { address, pitch, value, element: 4, width, height };
        fill_planned(driver, &fill, None)
    }

    /// Fills rows of bytes in stream order.
    fn cuMemsetD2D8Async(address: u64, pitch: usize, value: u8, width: usize, height: usize, stream: Host) |driver| {
        let fill = FillWork { address, pitch, value: u32::from(value), element: 1, width, height };
        fill_planned(driver, &fill, Some(named(stream)))
    }

    /// Fills rows of 16-bit values in stream order.
    fn cuMemsetD2D16Async(address: u64, pitch: usize, value: u16, width: usize, height: usize, stream: Host) |driver| {
        let fill = FillWork { address, pitch, value: u32::from(value), element: 2, width, height };
        fill_planned(driver, &fill, Some(named(stream)))
    }

    /// Fills rows of 32-bit values in stream order.
    fn cuMemsetD2D32Async(address: u64, pitch: usize, value: u32, width: usize, height: usize, stream: Host) |driver| {
        let fill = FillWork { address, pitch, value, element: 4, width, height };
        fill_planned(driver, &fill, Some(named(stream)))
    }

    /// Reads one attribute of an address.
    fn cuPointerGetAttribute(value: Host, attribute: u32, address: u64) |driver| {
        driver.check_context()?;
        let found = pointer_attribute(driver, attribute, address)?.ok_or(Code::INVALID_VALUE)?;
        write_attribute(value, found)
    }

    /// Reads several attributes of an address. Attributes that it does not have are zero.
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

    /// Sets the attribute `SYNC_MEMOPS` of device memory; does nothing, because copies are always synchronous here.
    fn cuPointerSetAttribute(value: Host, attribute: u32, address: u64) |driver| {
        driver.check_context()?;
        // The value is a boolean that has no effect, but it must be readable.
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

/// Copies between host and device memory, which are distinguished by address.
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
    // An address of freed device memory is never taken for host memory.
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
            let location = |address| CopyLocation::linear(MemoryType::Unified, address);
            let plan = CopyWork::linear(location(destination), location(source), bytes);
            if let Some(stream) = stream
                && driver.captured(stream, || Work::Copy(plan))?
            {
                return Ok(());
            }
            driver.check_stream(stream.unwrap_or(StreamHandle::LEGACY))?;
            let data = Host::at_address(source).bytes(bytes)?.to_vec();
            Host::at_address(destination)
                .bytes_mut(bytes)?
                .copy_from_slice(&data);
            Ok(())
        }
    }
}

/// One side of a two-dimensional copy, a part of `CUDA_MEMCPY2D`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct RectangleSide {
    x_bytes: usize,
    y: usize,
    memory_type: u32,
    host: Host,
    device: u64,
    array: Host,
    pitch: usize,
}

/// A two-dimensional copy (`CUDA_MEMCPY2D`).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Rectangle {
    source: RectangleSide,
    destination: RectangleSide,
    width_bytes: usize,
    height: usize,
}

impl RectangleSide {
    fn location(&self) -> Result<CopyLocation, Code> {
        let (memory_type, base) = memory_type_of(self.memory_type, self.host, self.device)?;
        Ok(CopyLocation {
            memory_type,
            base,
            offset: [self.x_bytes, self.y, 0],
            pitch: self.pitch,
            rows: 0,
        })
    }
}

impl Rectangle {
    fn work(&self) -> Result<CopyWork, Code> {
        Ok(CopyWork {
            source: self.source.location()?,
            destination: self.destination.location()?,
            extent: [self.width_bytes, self.height, 1],
        })
    }
}

/// The memory type and base address of one side of a copy. Arrays are not supported.
fn memory_type_of(memory_type: u32, host: Host, device: u64) -> Result<(MemoryType, u64), Code> {
    match memory_type {
        HOST => Ok((MemoryType::Host, host.address())),
        DEVICE => Ok((MemoryType::Device, device)),
        UNIFIED => Ok((MemoryType::Unified, device)),
        _ => Err(Code::NOT_SUPPORTED),
    }
}

/// One side of a three-dimensional copy, a part of `CUDA_MEMCPY3D`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct BoxSide {
    offset: [usize; 3],
    level: usize,
    memory_type: u32,
    host: Host,
    device: u64,
    array: Host,
    reserved: u64,
    pitch: usize,
    rows: usize,
}

/// A three-dimensional copy (`CUDA_MEMCPY3D`).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct BoxCopy {
    source: BoxSide,
    destination: BoxSide,
    extent: [usize; 3],
}

impl BoxSide {
    fn location(&self) -> Result<CopyLocation, Code> {
        let (memory_type, base) = memory_type_of(self.memory_type, self.host, self.device)?;
        Ok(CopyLocation {
            memory_type,
            base,
            offset: self.offset,
            pitch: self.pitch,
            rows: self.rows,
        })
    }

    fn of(location: &CopyLocation) -> Self {
        let (memory_type, host, device) = match location.memory_type {
            MemoryType::Host => (HOST, location.base, 0),
            MemoryType::Device => (DEVICE, 0, location.base),
            MemoryType::Unified => (UNIFIED, 0, location.base),
        };
        Self {
            offset: location.offset,
            level: 0,
            memory_type,
            host: Host::at_address(host),
            device,
            array: Host::at_address(0),
            reserved: 0,
            pitch: location.pitch,
            rows: location.rows,
        }
    }
}

impl BoxCopy {
    /// The copy that this structure describes.
    pub fn work(&self) -> Result<CopyWork, Code> {
        Ok(CopyWork {
            source: self.source.location()?,
            destination: self.destination.location()?,
            extent: self.extent,
        })
    }

    /// The structure that describes a copy.
    pub fn of(work: &CopyWork) -> Self {
        Self {
            source: BoxSide::of(&work.source),
            destination: BoxSide::of(&work.destination),
            extent: work.extent,
        }
    }
}

/// Executes a copy, or captures it if the stream is being captured.
fn copy_planned(
    driver: &mut Driver,
    plan: &CopyWork,
    stream: Option<StreamHandle>,
) -> Result<(), Code> {
    if let Some(stream) = stream
        && driver.captured(stream, || Work::Copy(*plan))?
    {
        return Ok(());
    }
    copy_rows(driver, plan, stream)
}

/// Executes a copy row by row.
pub fn copy_rows(
    driver: &mut Driver,
    plan: &CopyWork,
    stream: Option<StreamHandle>,
) -> Result<(), Code> {
    let [width, height, depth] = plan.extent;
    for location in [&plan.source, &plan.destination] {
        if location.pitch != 0 && location.pitch < width
            || location.rows != 0 && location.rows < height
        {
            return Err(Code::INVALID_VALUE);
        }
    }
    if plan.is_empty() {
        return driver.copy(0, 0, 0, stream);
    }
    for slice in 0..depth {
        for row in 0..height {
            let source = plan.row(&plan.source, slice, row)?;
            let destination = plan.row(&plan.destination, slice, row)?;
            copy_anywhere(driver, destination, source, width, stream)?;
        }
    }
    Ok(())
}

/// Executes a fill, or captures it if the stream is being captured.
fn fill_planned(
    driver: &mut Driver,
    fill: &FillWork,
    stream: Option<StreamHandle>,
) -> Result<(), Code> {
    if let Some(stream) = stream
        && driver.captured(stream, || Work::Fill(*fill))?
    {
        return Ok(());
    }
    fill_rows(driver, fill, stream)
}

/// Executes a fill row by row.
pub fn fill_rows(
    driver: &mut Driver,
    fill: &FillWork,
    stream: Option<StreamHandle>,
) -> Result<(), Code> {
    let bytes = fill.row_bytes()?;
    let value = fill.value.to_le_bytes();
    let pattern = &value[..fill.element as usize];
    if bytes == 0 || fill.height == 0 {
        return driver.fill(fill.address, pattern, 0, stream);
    }
    for row in 0..fill.height {
        driver.fill(fill.row(row)?, pattern, fill.width as u64, stream)?;
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

/// Value and width of an attribute; none if the address belongs to no memory of this driver.
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
        // Host memory that kernels can access has one address on both sides.
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

fn write_attribute(location: Host, (value, width): (u64, usize)) -> Result<(), Code> {
    location
        .bytes_mut(width)?
        .copy_from_slice(&value.to_le_bytes()[..width]);
    Ok(())
}
