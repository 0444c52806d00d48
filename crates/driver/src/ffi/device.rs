//! Initialisation, version, error texts and the device.

use std::ffi::c_char;

use crate::code::{self, Code};
use crate::state::DRIVER_VERSION;

use super::entries;
use super::pointer::{CallerString, Host, Out, write_text};

entries! { anytime
    /// Initialises the driver.
    fn cuInit(flags: u32) |driver| { driver.initialise(flags) }

    /// The CUDA version of this driver.
    fn cuDriverGetVersion(version: Out<i32>) |_driver| { version.set(DRIVER_VERSION as i32) }
}

entries! {
    /// Number of devices: one.
    fn cuDeviceGetCount(count: Out<i32>) |_driver| { count.set(1) }

    /// The device with an ordinal.
    fn cuDeviceGet(device: Out<i32>, ordinal: i32) |driver| {
        driver.check_device(ordinal)?;
        device.set(ordinal)
    }

    /// The device's name.
    fn cuDeviceGetName(name: Host, capacity: i32, device: i32) |driver| {
        driver.check_device(device)?;
        let capacity = usize::try_from(capacity).map_err(|_| Code::INVALID_VALUE)?;
        write_text(name, capacity, &driver.device_name())
    }

    /// The device's identity.
    fn cuDeviceGetUuid(uuid: Out<[u8; 16]>, device: i32) |driver| {
        driver.check_device(device)?;
        uuid.set(driver.device_uuid())
    }

    /// The device's identity, which is the same as in the first version because the device has no partitions.
    fn cuDeviceGetUuid_v2(uuid: Out<[u8; 16]>, device: i32) |driver| {
        driver.check_device(device)?;
        uuid.set(driver.device_uuid())
    }

    /// Bytes of device memory.
    fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: i32) |driver| {
        driver.check_device(device)?;
        bytes.set(driver.device().memory.bytes as usize)
    }

    /// An attribute of the device.
    fn cuDeviceGetAttribute(value: Out<i32>, attribute: u32, device: i32) |driver| {
        value.set(driver.device_attribute(attribute, device)?)
    }

    /// Major and minor compute capability.
    fn cuDeviceComputeCapability(major: Out<i32>, minor: Out<i32>, device: i32) |driver| {
        driver.check_device(device)?;
        let [major_value, minor_value] = driver.device().compute_capability;
        major.set(major_value as i32)?;
        minor.set(minor_value as i32)
    }

    /// The device with a PCI address; there is only one.
    fn cuDeviceGetByPCIBusId(device: Out<i32>, id: CallerString) |_driver| {
        match id.str()? {
            BUS_ID | "00:00.0" => device.set(0),
            _ => Err(Code::INVALID_DEVICE),
        }
    }

    /// The device's PCI address.
    fn cuDeviceGetPCIBusId(id: Host, capacity: i32, device: i32) |driver| {
        driver.check_device(device)?;
        let capacity = usize::try_from(capacity).map_err(|_| Code::INVALID_VALUE)?;
        write_text(id, capacity, BUS_ID)
    }

    /// Reports whether a device can access a peer's memory: always 0, because there is no second device.
    fn cuDeviceCanAccessPeer(can: Out<i32>, device: i32, peer: i32) |driver| {
        driver.check_device(device)?;
        driver.check_device(peer)?;
        can.set(0)
    }
}

const BUS_ID: &str = "0000:00:00.0";

/// The name of an error number.
#[unsafe(no_mangle)]
pub extern "C" fn cuGetErrorName(error: u32, name: Out<*const c_char>) -> u32 {
    text_of(code::name(error), name)
}

/// The description of an error number.
#[unsafe(no_mangle)]
pub extern "C" fn cuGetErrorString(error: u32, description: Out<*const c_char>) -> u32 {
    text_of(code::description(error), description)
}

/// Writes an error text. Its two callers bypass [`process::call`](super::process::call), because they must work in
/// every state of the driver.
fn text_of(text: Option<&'static std::ffi::CStr>, output: Out<*const c_char>) -> u32 {
    let pointer = text.map_or(std::ptr::null(), std::ffi::CStr::as_ptr);
    match output.set(pointer) {
        Ok(()) if text.is_some() => 0,
        _ => Code::INVALID_VALUE.0,
    }
}
