//! Kernels of other projects as tasks, and verified kernels in the forms that other programs use.

mod exports;
mod imports;
mod kernels;
mod loader;
mod tasks;
mod vectors;
