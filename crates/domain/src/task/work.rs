//! The work of a case that no candidate can avoid.

use super::{Case, Role, Task};
use crate::expr::Expr;
use crate::problem::Problem;
use crate::statistics::{Arithmetic, Work};

/// Operations that a task says are essential.
#[derive(Debug, Clone, PartialEq)]
pub struct Essential {
    /// The number of operations, over the dims.
    pub operations: Expr,
    /// The fastest units that can do them.
    pub arithmetic: Arithmetic,
}

impl Task {
    /// The essential work of one case: every input read once, every output written once, and the
    /// operations that the task declares.
    ///
    /// # Errors
    /// A [`Problem`] for an extent without a positive value.
    pub fn work(&self, case: &Case) -> Result<Work, Problem> {
        let mut work = Work {
            read: 0.0,
            written: 0.0,
            operations: None,
        };
        for tensor in &self.tensors {
            let elements: u64 = self.extents(tensor, case)?.iter().product();
            #[expect(clippy::cast_precision_loss, reason = "a size in bytes, for a time")]
            let bytes = (elements * tensor.dtype.bytes()) as f64;
            if tensor.role != Role::Out {
                work.read += bytes;
            }
            if tensor.role != Role::In {
                work.written += bytes;
            }
        }
        if let Some(essential) = &self.essential {
            // An expression without a value was reported when the task was read.
            let operations = essential.operations.scalar(&case.dims).ok();
            work.operations = operations
                .filter(|operations| *operations > 0.0)
                .map(|operations| (essential.arithmetic, operations));
        }
        Ok(work)
    }
}
