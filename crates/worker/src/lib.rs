//! The worker: takes evaluations from a service, supervises the processes that carry them out,
//! and reports verdicts. The local verbs use the same evaluator without a service.
//!
//! - [`supervise`] starts, feeds, limits, times and kills one role process.
//! - [`spares`] keeps processes that wait for their one job.
//! - [`host`] finds the compiler and the driver of this machine and says what a role may see.
//! - [`health`] remembers how the device fares.
//! - [`evaluate`] leads one candidate through every stage and lets the judge speak.
//! - [`experiment`] asks a device about itself, and runs the corpus on it.
//! - [`rivals`] asks a task's scripts how long a library takes.
//! - [`fleet`] leases evaluations over HTTP and reports them.
//!
//! The crate knows no SQL and no CUDA: what happens on a device is the roles' business, and what
//! it means is the judge's.

#![forbid(unsafe_code)]

pub mod cancel;
pub mod evaluate;
pub mod experiment;
pub mod fleet;
pub mod health;
pub mod host;
pub mod preflight;
mod random;
pub mod rivals;
pub mod spares;
pub mod supervise;
pub mod toolchain;
pub mod tools;
