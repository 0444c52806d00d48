//! Adversaries: candidates that try to be accepted for something other than a right answer fast,
//! and bugs that other harnesses had. Each test is named after its mode in `docs/reference/evaluation.md`.
//!
//! After every adversary the same worker evaluates an honest candidate, which must fare exactly as
//! it did before anyone disturbed it.

mod bench;
mod device;
mod documented;
mod faults;
mod memory;
mod numbers;
mod order;
mod protocol;
mod text;
