//! Bodies of the role processes.
pub mod compare;
pub mod inputs;
