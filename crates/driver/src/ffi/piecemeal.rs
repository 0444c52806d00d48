//! Launches of before CUDA 4, which programs of that time still use in part.

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

    /// Sets how many bytes the parameters take.
    fn cuParamSetSize(function: Host, bytes: u32) |driver| {
        driver.set_parameter_bytes(function_of(function), bytes)
    }

    /// Sets a whole number among the parameters.
    fn cuParamSeti(function: Host, offset: i32, value: u32) |driver| {
        driver.set_parameter(function_of(function), offset, &value.to_le_bytes())
    }

    /// Sets a floating-point number among the parameters.
    fn cuParamSetf(function: Host, offset: i32, value: f32) |driver| {
        driver.set_parameter(function_of(function), offset, &value.to_le_bytes())
    }

    /// Sets bytes of the parameters.
    fn cuParamSetv(function: Host, offset: i32, value: Host, bytes: u32) |driver| {
        driver.set_parameter(function_of(function), offset, value.bytes(bytes as usize)?)
    }

    /// Launches one block.
    fn cuLaunch(function: Host) |driver| {
        driver.launch_piecemeal(function_of(function), [1, 1], StreamHandle::LEGACY)
    }

    /// Launches a grid.
    fn cuLaunchGrid(function: Host, width: i32, height: i32) |driver| {
        driver.launch_piecemeal(function_of(function), [width, height], StreamHandle::LEGACY)
    }

    /// Launches a grid on a stream.
    fn cuLaunchGridAsync(function: Host, width: i32, height: i32, stream: Host) |driver| {
        driver.launch_piecemeal(function_of(function), [width, height], named(stream))
    }
}
