//! Launches with the API from before CUDA 4: separate calls set the block, the shared memory and the parameters of a
//! kernel, and a further call launches it with a grid.

use crate::code::Code;
use crate::handle::{FunctionHandle, StreamHandle};

use super::{Dimensions, Driver, LaunchRequest};

/// Largest parameter block of a kernel on any device in bytes.
const MAX_PARAMETER_BYTES: usize = 32_764;

/// The launch parameters that were set so far.
#[derive(Debug, Default)]
pub(super) struct LegacyLaunch {
    block: [u32; 3],
    shared: u32,
    bytes: usize,
    parameters: Vec<u8>,
}

impl Driver {
    /// Sets the block size of the next launches.
    ///
    /// # Errors
    /// When the handle is stale, or the block exceeds the device's limits.
    pub fn set_block(&mut self, function: FunctionHandle, block: [i32; 3]) -> Result<(), Code> {
        self.usable_context()?;
        self.known_function(function)?;
        let mut checked = [0; 3];
        for ((checked_extent, extent), most) in
            checked.iter_mut().zip(block).zip(self.device.limits.block)
        {
            let extent = u32::try_from(extent).map_err(|_| Code::INVALID_VALUE)?;
            if !(1..=most).contains(&extent) {
                return Err(Code::INVALID_VALUE);
            }
            *checked_extent = extent;
        }
        self.known_function_mut(function)?.legacy_launch.block = checked;
        Ok(())
    }

    /// Sets the dynamic shared memory of the next launches in bytes. The launch checks it.
    ///
    /// # Errors
    /// When the handle is stale.
    pub fn set_shared(&mut self, function: FunctionHandle, bytes: u32) -> Result<(), Code> {
        self.usable_context()?;
        self.known_function_mut(function)?.legacy_launch.shared = bytes;
        Ok(())
    }

    /// Sets the size of the parameters in bytes.
    ///
    /// # Errors
    /// When the handle is stale, or the size exceeds every device's limit.
    pub fn set_parameter_bytes(
        &mut self,
        function: FunctionHandle,
        bytes: u32,
    ) -> Result<(), Code> {
        self.usable_context()?;
        let function = self.known_function_mut(function)?;
        let bytes = bytes as usize;
        if bytes > MAX_PARAMETER_BYTES {
            return Err(Code::INVALID_VALUE);
        }
        function.legacy_launch.bytes = bytes;
        Ok(())
    }

    /// Writes part of the parameters at a byte offset.
    ///
    /// # Errors
    /// When the handle is stale, or the part ends beyond every device's limit.
    pub fn set_parameter(
        &mut self,
        function: FunctionHandle,
        offset: i32,
        value: &[u8],
    ) -> Result<(), Code> {
        self.usable_context()?;
        let function = self.known_function_mut(function)?;
        let start = usize::try_from(offset).map_err(|_| Code::INVALID_VALUE)?;
        let end = start.checked_add(value.len());
        let end = end
            .filter(|end| *end <= MAX_PARAMETER_BYTES)
            .ok_or(Code::INVALID_VALUE)?;
        let parameters = &mut function.legacy_launch.parameters;
        if parameters.len() < end {
            parameters.resize(end, 0);
        }
        parameters[start..end].copy_from_slice(value);
        Ok(())
    }

    /// Launches the kernel with the parameters that were set.
    ///
    /// # Errors
    /// As [`Self::launch`], and when fewer bytes were set than the kernel's parameters take.
    pub fn launch_legacy(
        &mut self,
        function: FunctionHandle,
        grid: [i32; 2],
        stream: StreamHandle,
    ) -> Result<(), Code> {
        self.check_stream(stream)?;
        let needed = self.parameters(function)?;
        let needed = needed.last().map_or(0, |slot| slot.offset + slot.bytes);
        let block_bytes = self.parameter_bytes(function)?;
        let set = &self.known_function(function)?.legacy_launch;
        if set.bytes < needed {
            return Err(Code::INVALID_VALUE);
        }
        let mut parameters = set.parameters.clone();
        parameters.resize(block_bytes, 0);
        let [x, y] = grid.map(|extent| u32::try_from(extent).map_err(|_| Code::INVALID_VALUE));
        let request = LaunchRequest {
            function,
            dimensions: Dimensions {
                grid: [x?, y?, 1],
                block: set.block,
            },
            dynamic_shared: set.shared,
            stream,
            parameters: &parameters,
            cooperative: false,
            persisting: 0..0,
        };
        self.launch(&request)
    }
}
