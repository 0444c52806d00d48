//! Occupancy questions.

use crate::code::Code;
use crate::handle::FunctionHandle;
use crate::state::Driver;

use super::entries;
use super::pointer::{Host, Out};

/// A caller's function from block size to dynamic shared memory.
pub type SharedForBlock = Option<extern "C" fn(i32) -> usize>;

fn resident(driver: &Driver, function: Host, threads: i32, shared: usize) -> Result<i32, Code> {
    let threads = u32::try_from(threads).map_err(|_| Code::INVALID_VALUE)?;
    let occupancy = driver.occupancy(FunctionHandle(function.address()), threads, shared as u64)?;
    Ok(occupancy.blocks_per_multiprocessor as i32)
}

/// The block size with the most resident threads; among equals the largest.
fn best_block(
    driver: &Driver,
    function: Host,
    shared_for: SharedForBlock,
    shared: usize,
    limit: i32,
) -> Result<(i32, i32), Code> {
    let handle = FunctionHandle(function.address());
    let most = driver.function_attribute(0, handle)?;
    let most = if limit > 0 { most.min(limit) } else { most };
    let mut best = (0, 0);
    let mut most_threads = 0;
    for threads in (1..=most / 32).rev().map(|warps| warps * 32) {
        let shared = shared_for.map_or(shared, |shared_for| shared_for(threads));
        let blocks = resident(driver, function, threads, shared)?;
        if blocks * threads > most_threads {
            most_threads = blocks * threads;
            best = (blocks * driver.device().multiprocessors as i32, threads);
        }
    }
    Ok(best)
}

entries! {
    /// Blocks resident on a multiprocessor.
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: Out<i32>, function: Host, threads: i32, shared: usize) |driver| {
        blocks.set(resident(driver, function, threads, shared)?)
    }

    /// Blocks resident on a multiprocessor; the flag concerns caches.
    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks: Out<i32>, function: Host, threads: i32, shared: usize, _flags: u32) |driver| {
        blocks.set(resident(driver, function, threads, shared)?)
    }

    /// The block size that fills the device best, and the grid that does.
    fn cuOccupancyMaxPotentialBlockSize(grid: Out<i32>, block: Out<i32>, function: Host, shared_for: SharedForBlock, shared: usize, limit: i32) |driver| {
        let (blocks, threads) = best_block(driver, function, shared_for, shared, limit)?;
        grid.set(blocks)?;
        block.set(threads)
    }

    /// The block size that fills the device best, and the grid that does; the flag concerns caches.
    fn cuOccupancyMaxPotentialBlockSizeWithFlags(grid: Out<i32>, block: Out<i32>, function: Host, shared_for: SharedForBlock, shared: usize, limit: i32, _flags: u32) |driver| {
        let (blocks, threads) = best_block(driver, function, shared_for, shared, limit)?;
        grid.set(blocks)?;
        block.set(threads)
    }

    /// Dynamic shared memory that so many resident blocks leave each other.
    fn cuOccupancyAvailableDynamicSMemPerBlock(bytes: Out<usize>, function: Host, blocks: i32, threads: i32) |driver| {
        let blocks = u32::try_from(blocks).map_err(|_| Code::INVALID_VALUE)?;
        let threads = u32::try_from(threads).map_err(|_| Code::INVALID_VALUE)?;
        bytes.set(driver.available_shared(FunctionHandle(function.address()), blocks, threads)? as usize)
    }
}
