//! Functions of Python on tensors, written as kernels.
//!
//! The text is read and not run: operations on tensors become a [`graph`], and the graph becomes a candidate
//! file ([`emit`]). In `f64` the file computes the scale of each element's rounding errors as well. What the graph
//! cannot express is refused with its line.

pub(crate) mod arguments;
mod call;
mod contract;
pub(crate) mod emit;
mod expression;
mod functions;
pub(crate) mod graph;
pub(crate) mod interpret;
mod layers;
pub(crate) mod number;
mod numpy;
mod operations;
mod rearrange;
mod reduce;
pub(crate) mod reference;
mod storage;

use std::collections::BTreeSet;

/// Returns true if a name means something else in the kernels that a graph is written as.
pub(crate) fn is_reserved(name: &str) -> bool {
    let numbered = name.len() > 1
        && name.starts_with(['i', 'j', 'k', 'v', 'e'])
        && name[1..].chars().all(|c| c.is_ascii_digit());
    let word = [
        "element", "real_t", "SM_COUNT", "double", "float", "int", "long", "const", "if", "for",
    ];
    numbered || word.contains(&name) || name.starts_with("step")
}

/// A name that nothing else has.
pub(crate) fn unused_name(name: &str, taken: &BTreeSet<String>) -> String {
    let mut name = name.to_owned();
    while taken.contains(&name) || is_reserved(&name) {
        name.push('_');
    }
    name
}
