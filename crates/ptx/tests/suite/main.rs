//! Tests of the emulated GPU through the crate's public functions, in one program because each further one is linked and
//! optimized anew.

mod arithmetic;
mod beside_atomics;
mod cache;
mod counters;
mod findings;
mod fuzz;
mod golden;
mod inside;
mod kernels_of_corpus;
mod left_out;
mod litmus;
mod load_groups;
mod opcodes;
mod placement;
mod planted;
mod poison;
mod pricing;
mod refused;
mod shared_variables;
mod support;
mod tensor;
mod waiting;
