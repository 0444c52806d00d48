//! The values of tensors: inputs are generated, and outputs are compared with the reference, element by element.
//!
//! The crate knows no device, no process and no verdict. It is apart from `gpu` because builds for tests optimize it:
//! its loops go over every element, and nothing else of the role processes does.

pub mod answer;
pub mod compare;
pub mod inputs;
mod wrong;
