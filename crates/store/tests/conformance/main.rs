//! The store through its public face, on real database files.

mod fixture;
mod jobs;
mod proposals;
mod restart;
mod runs;
mod views;
