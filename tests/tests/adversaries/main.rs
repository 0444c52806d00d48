//! Tests with adversaries: candidates that try to be accepted without a right and fast answer, and
//! defects that other harnesses had. Each test is named after its mode in `docs/reference/attacks.md`.
//!
//! After every adversary the same evaluator evaluates an honest candidate, whose evaluation must be
//! the same as before the first adversary.

mod bench;
mod device;
mod documented;
mod faults;
mod memory;
mod numbers;
mod order;
mod protocol;
mod text;
