//! The store through its public face, on real database files.

#![expect(
    clippy::unwrap_used,
    reason = "the tests' own preparations fail the test too"
)]

mod access;
mod archive;
mod calls;
mod changes;
mod copy;
mod failures;
mod fixture;
mod fleet;
mod health;
mod iterations;
mod jobs;
mod leaderboards;
mod lists;
mod older;
mod proposals;
mod replicas;
mod restart;
mod runs;
mod same_code;
mod schemas;
mod texts;
mod views;
mod webhooks;
