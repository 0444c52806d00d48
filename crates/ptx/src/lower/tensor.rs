//! Tensor-core instructions and the matrix loads that feed them.

use super::{Lowering, Unknown};
use crate::ir::Instruction;

impl Lowering<'_> {
    pub(super) fn tensor(&mut self, i: &Instruction) -> Result<(), Unknown> {
        let _ = i;
        Err(Unknown)
    }
}
