//! Matrix fragments and the multiply-add of tensor cores.

/// Which tensor instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TensorKind {
    /// `ldmatrix` of 8x8 halves: 1, 2 or 4 matrices, transposed or not.
    LoadMatrix { count: u8, transposed: bool },
}

impl TensorKind {
    /// Multiply-adds of one warp instruction.
    pub(crate) fn macs(self) -> u64 {
        match self {
            Self::LoadMatrix { .. } => 0,
        }
    }
}
