//! The dims, tensor sizes and alignments for which a candidate was verified.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::evaluation::CheckOutcome;
use crate::task::{Case, Range, Task};

/// The bounds of the shapes on which a candidate gave right outputs, and the alignments of the
/// buffers in these executions. Inside the bounds shapes were sampled; outside nothing was executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Preconditions {
    /// The values of each dim, by name.
    pub dims: BTreeMap<String, DimBounds>,
    /// Each tensor's limits, by name.
    pub tensors: BTreeMap<String, TensorLimits>,
    /// The number of different shapes on which every output was right.
    pub shapes: u32,
}

/// The values of a dim in the verified shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DimBounds {
    /// The smallest.
    pub min: i64,
    /// The largest.
    pub max: i64,
    /// The greatest common divisor of all.
    pub multiple: i64,
    /// The maximum that the task states, where executions did not reach it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_max: Option<i64>,
}

/// The limits of a tensor in the verified shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TensorLimits {
    /// The alignment of the base address that sufficed, bytes.
    pub align: u64,
    /// The largest number of elements.
    pub max_elements: u64,
}

impl Preconditions {
    /// The preconditions that follow from compared outputs, all of which passed. `task` has every
    /// case that the evaluation added; a case that it does not have is left out. None without a case.
    pub fn of(task: &Task, checks: &[CheckOutcome]) -> Option<Self> {
        let names = checks.iter().map(|check| check.case.as_str());
        let names = names.collect::<BTreeSet<_>>();
        let cases = names.into_iter().filter_map(|name| task.case(name));
        let cases = cases.collect::<Vec<_>>();
        let mut dims = BTreeMap::new();
        for (dim, value) in cases.iter().flat_map(|case| &case.dims) {
            let bounds = dims.entry(dim.clone()).or_insert(DimBounds {
                min: *value,
                max: *value,
                multiple: *value,
                task_max: None,
            });
            bounds.min = bounds.min.min(*value);
            bounds.max = bounds.max.max(*value);
            bounds.multiple = greatest_common_divisor(bounds.multiple, *value);
        }
        for (dim, bounds) in &mut dims {
            let stated = task.free_dims.get(dim).and_then(Range::stated_maximum);
            bounds.task_max = stated.filter(|stated| *stated > bounds.max);
        }
        let largest = |tensor| {
            let sizes = cases.iter().map(|case| elements(task, tensor, case));
            sizes.max().unwrap_or_default()
        };
        let tensors = task.tensors.iter().map(|tensor| {
            let limits = TensorLimits {
                align: tensor.align,
                max_elements: largest(tensor),
            };
            (tensor.name.clone(), limits)
        });
        let shapes = cases.iter().map(|case| &case.dims).collect::<BTreeSet<_>>();
        Some(Self {
            dims,
            tensors: tensors.collect(),
            shapes: u32::try_from(shapes.len())
                .ok()
                .filter(|count| *count > 0)?,
        })
    }
}

fn elements(task: &Task, tensor: &crate::task::Tensor, case: &Case) -> u64 {
    let extents = task.extents(tensor, case).unwrap_or_default();
    extents.into_iter().fold(1, u64::saturating_mul)
}

fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

impl fmt::Display for DimBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            min, max, multiple, ..
        } = self;
        write!(f, "{min}")?;
        if min != max {
            write!(f, " to {max}")?;
            if *multiple != 1 {
                write!(f, " by {multiple}")?;
            }
        }
        match self.task_max {
            Some(stated) => write!(f, " (the task allows {stated})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Preconditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (dim, bounds) in &self.dims {
            write!(f, "{dim} {bounds}; ")?;
        }
        for (tensor, limits) in &self.tensors {
            let TensorLimits {
                align,
                max_elements,
            } = limits;
            write!(f, "{tensor} at {align} bytes, to {max_elements} elements; ")?;
        }
        write!(f, "{} shapes executed", self.shapes)
    }
}
