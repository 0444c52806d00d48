//! Occupancy queries.

use crate::code::Code;
use crate::handle::FunctionHandle;
use crate::state::Driver;

use super::entries;
use super::pointer::{Host, Out};
use super::process;

/// A caller's function from block size to dynamic shared memory in bytes.
pub type SharedForBlock = Option<extern "C" fn(i32) -> usize>;

fn resident(driver: &Driver, function: Host, threads: i32, shared: usize) -> Result<i32, Code> {
    let threads = u32::try_from(threads).map_err(|_| Code::INVALID_VALUE)?;
    let occupancy = driver.occupancy(FunctionHandle(function.address()), threads, shared as u64)?;
    Ok(occupancy.blocks_per_multiprocessor as i32)
}

/// Candidate block sizes, largest first, each with its dynamic shared memory in bytes.
type BlockSizes = Vec<(i32, usize)>;

fn sizes(driver: &Driver, function: Host, shared: usize, limit: i32) -> Result<BlockSizes, Code> {
    let most = driver.function_attribute(0, FunctionHandle(function.address()))?;
    let most = if limit > 0 { most.min(limit) } else { most };
    let warps = (1..=most / 32).rev();
    Ok(warps.map(|warps| (warps * 32, shared)).collect())
}

/// The grid that fills the device, and the block size with the most resident threads; of equal sizes the largest.
fn best(driver: &Driver, function: Host, sizes: &[(i32, usize)]) -> Result<(i32, i32), Code> {
    let mut best = (0, 0);
    let mut most_threads = 0;
    for &(threads, shared) in sizes {
        let blocks = resident(driver, function, threads, shared)?;
        if blocks * threads > most_threads {
            most_threads = blocks * threads;
            best = (blocks * driver.device().multiprocessors as i32, threads);
        }
    }
    Ok(best)
}

/// Arguments of the search for a block size.
struct BlockSizeSearch {
    grid: Out<i32>,
    block: Out<i32>,
    function: Host,
    shared_for: SharedForBlock,
    shared: usize,
    limit: i32,
}

impl BlockSizeSearch {
    fn run(self, name: &'static str) -> u32 {
        let mut candidates = BlockSizes::new();
        let asked = process::call(name, |driver| {
            self.grid.required()?;
            self.block.required()?;
            candidates = sizes(driver, self.function, self.shared, self.limit)?;
            Ok(())
        });
        if asked != 0 {
            return asked;
        }
        if let Some(shared_for) = self.shared_for {
            // Called without the driver's lock, because the caller's function may call the driver.
            for (threads, shared) in &mut candidates {
                *shared = shared_for(*threads);
            }
        }
        let answered = process::with_driver(INTERNAL, |driver| {
            let (blocks, threads) = best(driver, self.function, &candidates)?;
            self.grid.set(blocks)?;
            self.block.set(threads)
        });
        match answered {
            Ok(Ok(())) => 0,
            Ok(Err(code)) | Err(code) => code.0,
        }
    }
}

/// Name of the second half of the call; it is not a function of the API, so that fault plans do not count it.
const INTERNAL: &str = "the search for a block size";

entries! {
    /// Number of blocks resident on a multiprocessor.
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: Out<i32>, function: Host, threads: i32, shared: usize) |driver| {
        blocks.set(resident(driver, function, threads, shared)?)
    }

    /// Number of blocks resident on a multiprocessor; the flags, which concern caches, are ignored.
    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks: Out<i32>, function: Host, threads: i32, shared: usize, _flags: u32) |driver| {
        blocks.set(resident(driver, function, threads, shared)?)
    }

    /// Dynamic shared memory in bytes that each of this many resident blocks can have.
    fn cuOccupancyAvailableDynamicSMemPerBlock(bytes: Out<usize>, function: Host, blocks: i32, threads: i32) |driver| {
        let blocks = u32::try_from(blocks).map_err(|_| Code::INVALID_VALUE)?;
        let threads = u32::try_from(threads).map_err(|_| Code::INVALID_VALUE)?;
        bytes.set(driver.available_shared(FunctionHandle(function.address()), blocks, threads)? as usize)
    }
}

/// The block size with the most resident threads, and the grid that fills the device.
#[unsafe(no_mangle)]
pub extern "C" fn cuOccupancyMaxPotentialBlockSize(
    grid: Out<i32>,
    block: Out<i32>,
    function: Host,
    shared_for: SharedForBlock,
    shared: usize,
    limit: i32,
) -> u32 {
    let search = BlockSizeSearch {
        grid,
        block,
        function,
        shared_for,
        shared,
        limit,
    };
    search.run("cuOccupancyMaxPotentialBlockSize")
}

/// The block size with the most resident threads, and the grid that fills the device; the flags, which concern
/// caches, are ignored.
#[unsafe(no_mangle)]
pub extern "C" fn cuOccupancyMaxPotentialBlockSizeWithFlags(
    grid: Out<i32>,
    block: Out<i32>,
    function: Host,
    shared_for: SharedForBlock,
    shared: usize,
    limit: i32,
    _flags: u32,
) -> u32 {
    let search = BlockSizeSearch {
        grid,
        block,
        function,
        shared_for,
        shared,
        limit,
    };
    search.run("cuOccupancyMaxPotentialBlockSizeWithFlags")
}
