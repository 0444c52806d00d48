//! Whole runs: the engine on real database files and repositories, with a scripted worker that
//! speaks the lease protocol.

#![expect(
    clippy::unwrap_used,
    reason = "the tests' own preparations fail the test too"
)]

mod budgets;
mod interrupted;
mod lab;
mod launch;
mod looping;
mod models;
mod playbook;
mod promotion;
mod rechecks;
mod steering;
mod submissions;
mod transform;
