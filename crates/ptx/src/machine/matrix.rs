//! Tensor-core instructions of a warp.

use super::block::Shared;
use super::exec::{Exec, Fatal};
use super::warp::Warp;

/// Runs entry `x` of the tensor table.
#[inline(never)]
pub(crate) fn run(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    x: usize,
    pc: u32,
) -> Result<(), Fatal> {
    let _ = (exec, block, warp, x, pc);
    Ok(())
}
