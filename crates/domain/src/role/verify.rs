//! The role that compares what a candidate left with the reference.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Image, KernelResources, TensorData};
use crate::plan::ResolvedPlan;
use crate::task::Tolerance;
use crate::verdict::{WrongElement, WrongElements};

/// Compares saved outputs with the f64 reference. Runs no candidate code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerifyJob {
    /// The compiled reference.
    pub reference: Image,
    /// The reference's resources.
    pub kernels: Vec<KernelResources>,
    /// One entry per execution to verify.
    pub checks: Vec<Check>,
    /// Host threads the emulated device may use.
    pub threads: u32,
}

/// One set of outputs to compare.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// The execution's number.
    pub id: u32,
    /// The reference's plan for the case.
    pub plan: ResolvedPlan,
    /// The tensors, with the same keys as in the execution.
    pub tensors: Vec<TensorData>,
    /// Folder with the candidate's outputs. None only computes the reference.
    pub outputs: Option<PathBuf>,
    /// Folder with the outputs of an earlier execution on the same inputs, which these must be close to
    /// as well. None where their bytes were compared, or there is no other execution.
    #[serde(default)]
    pub beside: Option<PathBuf>,
    /// Folder where the reference's answer to these inputs is kept and looked for.
    pub cache: PathBuf,
    /// The tolerance of the outputs.
    pub tolerance: Tolerance,
    /// The workspace with the forward-error scale of each output.
    pub error_scale: BTreeMap<String, String>,
    /// The number of terms that are summed for one element of each output.
    pub error_terms: BTreeMap<String, f64>,
    /// True if the inputs are integers that the function sums and multiplies, so that every element
    /// whose error scale the output's type can count to must be exact.
    pub exact: bool,
    /// True if some inputs hold large values among small ones, so that the rounding errors of a right
    /// sum may all have one sign.
    pub mixed_magnitudes: bool,
}

/// The comparisons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerifyReply {
    /// One entry per execution and output tensor.
    pub comparisons: Vec<OutputComparison>,
}

/// One output compared with the reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputComparison {
    /// The execution's number.
    pub id: u32,
    /// The tensor.
    pub tensor: String,
    /// Relative L2 error; none where NaN or infinities make it meaningless.
    pub relative_l2: Option<f64>,
    /// The largest element error as a multiple of what is allowed for that element; none
    /// where it has no finite value.
    pub worst_ratio: Option<f64>,
    /// The element furthest off.
    pub worst: Option<WrongElement>,
    /// The elements beyond their bound and those whose NaN or infinity does not match; none if there are none.
    #[serde(default)]
    pub wrong: Option<WrongElements>,
    /// Elements whose NaN or infinity does not match the reference's.
    pub special_mismatches: u64,
    /// Elements beyond their bound.
    pub beyond_bound: u64,
    /// Elements in all.
    pub elements: u64,
}
