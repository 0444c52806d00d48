//! Launches with the API from before CUDA 4, parts of which old programs still use.

use crate::handle::{FunctionHandle, StreamHandle};

use super::entries;
use super::pointer::Host;
use super::stream::named;

fn function_of(function: Host) -> FunctionHandle {
    FunctionHandle(function.address())
}

entries! {
    /// Sets the block of the next launches.
    fn cuFuncSetBlockShape(function: Host, x: i32, y: i32, z: i32) |driver| {
        driver.set_block(function_of(function), [x, y, z])
    }

    /// Sets the dynamic shared memory of the next launches.
    fn cuFuncSetSharedSize(function: Host, bytes: u32) |driver| {
        driver.set_shared(function_of(function), bytes)
    }

    /// Sets the size of the parameters in bytes.
    fn cuParamSetSize(function: Host, bytes: u32) |driver| {
        driver.set_parameter_bytes(function_of(function), bytes)
    }

    /// Sets an integer parameter.
    fn cuParamSeti(function: Host, offset: i32, value: u32) |driver| {
        driver.set_parameter(function_of(function), offset, &value.to_le_bytes())
    }

    /// Sets a floating-point parameter.
    fn cuParamSetf(function: Host, offset: i32, value: f32) |driver| {
        driver.set_parameter(function_of(function), offset, &value.to_le_bytes())
    }

    /// Sets bytes of the parameter block.
    fn cuParamSetv(function: Host, offset: i32, value: Host, bytes: u32) |driver| {
        driver.set_parameter(function_of(function), offset, value.bytes(bytes as usize)?)
    }

    /// Launches one block.
    fn cuLaunch(function: Host) |driver| {
        driver.launch_legacy(function_of(function), [1, 1], StreamHandle::LEGACY)
    }

    /// Launches a grid.
    fn cuLaunchGrid(function: Host, width: i32, height: i32) |driver| {
        driver.launch_legacy(function_of(function), [width, height], StreamHandle::LEGACY)
    }

    /// Launches a grid on a stream.
    fn cuLaunchGridAsync(function: Host, width: i32, height: i32, stream: Host) |driver| {
        driver.launch_legacy(function_of(function), [width, height], named(stream))
    }
}
