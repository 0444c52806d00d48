//! Kernel launches: parameters as pointers or as one packed block, and launches with attributes.

use std::ops::Range;

use crate::code::Code;
use crate::handle::{FunctionHandle, StreamHandle};
use crate::state::{Dimensions, Driver, LaunchRequest, MOST_PERSISTING_WINDOW};

use super::entries;
use super::pointer::{Host, In};
use super::stream::named;

/// Keys of the list (`extra`) that passes one packed parameter block.
const EXTRA_END: u64 = 0;
const EXTRA_POINTER: u64 = 1;
const EXTRA_SIZE: u64 = 2;
/// Most pairs in such a list that are read.
const EXTRA_LIMIT: usize = 8;

/// The launch attributes that have an effect.
const ATTRIBUTE_ACCESS_POLICY_WINDOW: u32 = 1;
const ATTRIBUTE_COOPERATIVE: u32 = 2;
const ATTRIBUTE_CLUSTER: u32 = 4;
/// Kinds of access (`CUaccessProperty`): the highest number, and accesses that persist in the L2 cache.
const LAST_ACCESS_PROPERTY: u32 = 2;
const ACCESS_PERSISTING: u32 = 2;
/// Largest number of launch attributes.
const ATTRIBUTE_LIMIT: u32 = 64;

/// The configuration of a launch with attributes (`CUlaunchConfig`).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct LaunchDescription {
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_shared: u32,
    stream: Host,
    attributes: In<Attribute>,
    attribute_count: u32,
}

/// One launch attribute (`CUlaunchAttribute`).
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
pub struct Attribute {
    id: u32,
    padding: u32,
    value: [u32; 16],
}

/// A launch without its parameters.
struct Launch {
    function: FunctionHandle,
    dimensions: Dimensions,
    dynamic_shared: u32,
    stream: StreamHandle,
    attributes: Attributes,
}

/// The attributes of a launch that have an effect.
#[derive(Default)]
struct Attributes {
    cooperative: bool,
    persisting: Range<u64>,
}

impl Launch {
    fn run(self, driver: &mut Driver, values: In<Host>, extra: In<u64>) -> Result<(), Code> {
        let parameters = parameter_block(driver, self.function, values, extra)?;
        driver.launch(&LaunchRequest {
            function: self.function,
            dimensions: self.dimensions,
            dynamic_shared: self.dynamic_shared,
            stream: self.stream,
            parameters: &parameters,
            cooperative: self.attributes.cooperative,
            persisting: self.attributes.persisting,
        })
    }
}

/// Builds the parameter block from an array of pointers to values, or from one packed block.
pub fn parameter_block(
    driver: &Driver,
    function: FunctionHandle,
    values: In<Host>,
    extra: In<u64>,
) -> Result<Vec<u8>, Code> {
    let slots = driver.parameters(function)?;
    let mut block = vec![0; driver.parameter_bytes(function)?];
    if !extra.is_null() {
        if !values.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let packed = packed_block(extra)?;
        // A packed block may omit the padding after its last parameter.
        let needed = slots.last().map_or(0, |slot| slot.offset + slot.bytes);
        if packed.len() < needed {
            return Err(Code::INVALID_VALUE);
        }
        let count = packed.len().min(block.len());
        block[..count].copy_from_slice(&packed[..count]);
        return Ok(block);
    }
    for (index, slot) in slots.iter().enumerate() {
        let value = values.at(index)?.bytes(slot.bytes)?;
        block
            .get_mut(slot.offset..slot.offset + slot.bytes)
            .ok_or(Code::INVALID_VALUE)?
            .copy_from_slice(value);
    }
    Ok(block)
}

fn packed_block<'a>(extra: In<u64>) -> Result<&'a [u8], Code> {
    let mut pointer = None;
    let mut size = None;
    for pair in 0..EXTRA_LIMIT {
        match extra.at(pair * 2)? {
            EXTRA_END => {
                let pointer: Host = pointer.ok_or(Code::INVALID_VALUE)?;
                return pointer.bytes(size.ok_or(Code::INVALID_VALUE)?);
            }
            EXTRA_POINTER => pointer = Some(Host::at_address(extra.at(pair * 2 + 1)?)),
            EXTRA_SIZE => {
                let size_input: In<usize> = In::at_address(extra.at(pair * 2 + 1)?);
                size = Some(size_input.get()?);
            }
            _ => return Err(Code::INVALID_VALUE),
        }
    }
    Err(Code::INVALID_VALUE)
}

/// Reads the attributes of a launch. Clusters of one block are accepted, because they equal a launch without clusters.
fn attributes(description: &LaunchDescription) -> Result<Attributes, Code> {
    let mut attributes = Attributes::default();
    if description.attribute_count > ATTRIBUTE_LIMIT {
        return Err(Code::INVALID_VALUE);
    }
    for index in 0..description.attribute_count as usize {
        let attribute = description.attributes.at(index)?;
        match attribute.id {
            ATTRIBUTE_ACCESS_POLICY_WINDOW => {
                attributes.persisting = persisting_addresses(&attribute.value)?;
            }
            ATTRIBUTE_COOPERATIVE => attributes.cooperative = attribute.value[0] != 0,
            ATTRIBUTE_CLUSTER if attribute.value[..3] != [1; 3] => return Err(Code::NOT_SUPPORTED),
            _ => {}
        }
    }
    Ok(attributes)
}

/// The addresses of a launch's window whose accesses persist in the L2 cache (`CUaccessPolicyWindow`). Where only a share of
/// the window persists, they are its first ones; a GPU draws them at random. Other kinds of access have no effect here.
fn persisting_addresses(value: &[u32; 16]) -> Result<Range<u64>, Code> {
    let wide = |low: usize| u64::from(value[low]) | u64::from(value[low + 1]) << 32;
    let (address, bytes, hit_ratio) = (wide(0), wide(2), f32::from_bits(value[4]));
    let (hit, miss) = (value[5], value[6]);
    if bytes > u64::from(MOST_PERSISTING_WINDOW)
        || !(0.0..=1.0).contains(&hit_ratio)
        || hit > LAST_ACCESS_PROPERTY
        || miss >= ACCESS_PERSISTING
    {
        return Err(Code::INVALID_VALUE);
    }
    let persisting = (bytes as f64 * f64::from(hit_ratio)) as u64;
    let end = address.saturating_add(persisting);
    Ok(if hit == ACCESS_PERSISTING {
        address..end
    } else {
        0..0
    })
}

entries! {
    /// Launches a kernel.
    fn cuLaunchKernel(function: Host, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, dynamic_shared: u32, stream: Host, values: In<Host>, extra: In<u64>) |driver| {
        Launch {
            function: FunctionHandle(function.address()),
            dimensions: Dimensions { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z] },
            dynamic_shared,
            stream: named(stream),
            attributes: Attributes::default(),
        }
        .run(driver, values, extra)
    }

    /// Launches a kernel whose blocks may synchronise across the grid.
    fn cuLaunchCooperativeKernel(function: Host, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, dynamic_shared: u32, stream: Host, values: In<Host>) |driver| {
        Launch {
            function: FunctionHandle(function.address()),
            dimensions: Dimensions { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z] },
            dynamic_shared,
            stream: named(stream),
            attributes: Attributes { cooperative: true, ..Attributes::default() },
        }
        .run(driver, values, In::at_address(0))
    }

    /// Launches a kernel with attributes.
    fn cuLaunchKernelEx(description: In<LaunchDescription>, function: Host, values: In<Host>, extra: In<u64>) |driver| {
        let description = description.get()?;
        Launch {
            function: FunctionHandle(function.address()),
            dimensions: Dimensions { grid: description.grid, block: description.block },
            dynamic_shared: description.dynamic_shared,
            stream: named(description.stream),
            attributes: attributes(&description)?,
        }
        .run(driver, values, extra)
    }
}
