//! Attributes of the device and of functions, by the API's numbers.

use crate::code::Code;
use crate::handle::FunctionHandle;

use super::Driver;

/// Constant memory of every architecture in bytes.
const CONSTANT_BYTES: i32 = 64 << 10;
/// Version of the PTX ISA that the parser implements, in the API's encoding (9.0).
const PTX_VERSION: i32 = 90;

/// Largest window of addresses whose accesses persist in the L2 cache, bytes: 4 KiB less than 128 MiB, as an Orin and an
/// H200 report.
pub const MOST_PERSISTING_WINDOW: u32 = 134_213_632;

/// Attributes of texture and surface extents; all are 0, because the emulated GPU has neither.
const TEXTURES: [std::ops::RangeInclusive<u32>; 4] = [21..=29, 42..=49, 51..=74, 77..=77];

fn number(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

impl Driver {
    /// An attribute of the device.
    ///
    /// # Errors
    /// For a wrong device or an unknown attribute.
    pub fn device_attribute(&self, attribute: u32, ordinal: i32) -> Result<i32, Code> {
        self.check_device(ordinal)?;
        let device = &self.device;
        let limits = &device.limits;
        let warp = 32;
        Ok(match attribute {
            1 => number(limits.threads_per_block),
            2..=4 => number(limits.block[attribute as usize - 2]),
            5..=7 => number(limits.grid[attribute as usize - 5]),
            8 => number(limits.shared_per_block),
            9 => CONSTANT_BYTES,
            10 => warp,
            11 => i32::MAX,
            12 => number(limits.registers_per_block),
            13 => number(device.clocks.core_mhz.saturating_mul(1000)),
            14 => 512,
            // Copy engines, one for each direction, and concurrent kernels: they overlap in modelled time.
            15 | 31 => 1,
            16 => number(device.multiprocessors),
            // Run time limit, integrated.
            17 | 18 => 0,
            // Mapped host memory.
            19 => 1,
            // Compute mode: default.
            20 => 0,
            30 => 512,
            // ECC, bus, device, domain, TCC.
            32..=35 | 50 => 0,
            36 => number(device.clocks.memory_mhz.saturating_mul(1000)),
            37 => number(device.memory.bus_bits),
            38 => i32::try_from(device.memory.l2_bytes).unwrap_or(i32::MAX),
            39 => number(limits.warps_per_multiprocessor) * warp,
            40 => 2,
            41 => 1,
            75 => number(device.compute_capability[0]),
            76 => number(device.compute_capability[1]),
            78..=80 => 1,
            81 => number(limits.shared_per_multiprocessor),
            82 => number(limits.registers_per_multiprocessor),
            // Managed memory.
            83 => 1,
            // Boards, native host atomics.
            84..=86 => 0,
            87 => (device.rates.fp32 / device.rates.fp64).round() as i32,
            // Pageable memory.
            88 => 0,
            // Host and device may access managed memory at the same time, because it is the same memory.
            89 => 1,
            // Pre-emption.
            90 => 0,
            // Registered memory has one address on both sides.
            91 => 1,
            92..=94 => 0,
            95 => 1,
            96 | 98 => 0,
            97 => number(limits.shared_per_block_optin),
            99 => 1,
            100..=105 => 0,
            106 => number(limits.blocks_per_multiprocessor),
            107 | 110 => 0,
            108 => i32::try_from(device.memory.l2_persisting_bytes).unwrap_or(i32::MAX),
            109 => number(MOST_PERSISTING_WINDOW),
            111 => number(limits.shared_reserved_per_block),
            112..=114 => 0,
            115 => 1,
            116..=149 => 0,
            number if TEXTURES.iter().any(|range| range.contains(&number)) => 0,
            _ => return Err(Code::INVALID_VALUE),
        })
    }

    /// The device's name, which says that it is emulated.
    #[must_use]
    pub fn device_name(&self) -> String {
        format!("Kernelwright emulated {}", self.device.name)
    }

    /// An identifier that is the same in every process and different for every device file.
    #[must_use]
    pub fn device_uuid(&self) -> [u8; 16] {
        let mut uuid = *b"kernelwright\0\0\0\0";
        for (index, byte) in self.device.id.bytes().enumerate() {
            uuid[12 + index % 4] ^= byte.rotate_left(index as u32 / 4);
        }
        uuid
    }

    /// An attribute of a function.
    ///
    /// # Errors
    /// When the handle is stale or there is no such attribute.
    pub fn function_attribute(&self, attribute: u32, handle: FunctionHandle) -> Result<i32, Code> {
        self.usable_context()?;
        let function = self.known_function(handle)?;
        let info = self.kernel_info(function)?;
        Ok(match attribute {
            0 => number(info.max_threads.min(self.device.limits.threads_per_block)),
            1 => number(info.static_shared),
            2 => number(self.constant_bytes_of(function)?),
            7 => 0,
            3 => number(info.local_bytes),
            4 => number(self.registers_of(&info.name, info.registers_estimate)),
            5 => PTX_VERSION,
            6 => number(self.device.architecture()),
            8 => number(function.max_dynamic_shared),
            9 => function.carveout,
            // Clusters, which the emulated GPU does not have.
            10..=15 => 0,
            _ => return Err(Code::INVALID_VALUE),
        })
    }

    /// Bytes of constant variables in the function's module.
    fn constant_bytes_of(&self, function: &super::module::Function) -> Result<u32, Code> {
        let handle = self.machine_module(function)?;
        let module = self.machine.module(handle).ok_or(Code::INVALID_HANDLE)?;
        let variables = module.variables().iter();
        let bytes: u64 = variables.filter(|v| v.constant).map(|v| v.bytes).sum();
        Ok(u32::try_from(bytes).unwrap_or(u32::MAX))
    }

    /// Sets an attribute of a function.
    ///
    /// # Errors
    /// When the handle is stale, the attribute cannot be set, or the value is out of range.
    pub fn set_function_attribute(
        &mut self,
        handle: FunctionHandle,
        attribute: u32,
        value: i32,
    ) -> Result<(), Code> {
        self.usable_context()?;
        let static_shared = self
            .kernel_info(self.known_function(handle)?)?
            .static_shared;
        let most = self
            .device
            .limits
            .shared_per_block_optin
            .saturating_sub(static_shared);
        let function = self.known_function_mut(handle)?;
        match attribute {
            8 => {
                let bytes = u32::try_from(value).map_err(|_| Code::INVALID_VALUE)?;
                if bytes > most {
                    return Err(Code::INVALID_VALUE);
                }
                function.max_dynamic_shared = bytes;
                Ok(())
            }
            9 if (-1..=100).contains(&value) => {
                function.carveout = value;
                Ok(())
            }
            _ => Err(Code::INVALID_VALUE),
        }
    }
}
