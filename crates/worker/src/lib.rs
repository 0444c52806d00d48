//! The worker: takes evaluations from a service, supervises the processes that carry them out, and
//! reports verdicts. The local commands use the same evaluator without a service.
//!
//! - [`supervise`] starts, feeds, limits, times and kills one role process.
//! - [`spares`] keeps role processes that wait for their one job.
//! - [`host`] finds the compiler and the driver of this machine and starts its role processes.
//! - [`health_record`] keeps the device's health record on disk.
//! - [`evaluate`] takes one candidate through the stages of an evaluation.
//! - [`experiment`] measures a device and runs the corpus on it.
//! - [`preflight`] checks the machine's requirements.
//! - `python` finds the interpreter of references in Python.
//! - [`rivals`] runs a task's scripts, which time a library.
//! - [`fleet`] leases evaluations over HTTP and reports them.
//!
//! The crate uses neither SQL nor CUDA: the roles use the device, and the judge decides what their
//! facts mean.

#![forbid(unsafe_code)]

pub mod cancel;
pub mod evaluate;
pub mod experiment;
pub mod fleet;
pub mod health_record;
pub mod host;
pub mod preflight;
mod python;
mod random;
pub mod rivals;
pub mod spares;
pub mod supervise;
pub mod toolchain;
pub mod tools;
