//! Values and rules of Kernelwright: tasks, candidates, launch plans, verdicts, the judge and the
//! search. Everything here is pure: no I/O, no async, no clock, no global randomness.

#![forbid(unsafe_code)]

pub mod access;
pub mod admission;
pub mod api;
pub mod brief;
pub mod candidate;
pub mod causes;
pub mod cleaning;
pub mod control;
pub mod decode_message;
pub mod device;
pub mod digest;
pub mod dtype;
pub mod evaluation;
pub mod expr;
pub mod failure;
pub mod finding;
pub mod health;
pub mod hottest_lines;
pub mod id;
pub mod iteration;
pub mod judge;
pub mod lease;
pub mod margins;
pub mod measurement;
pub mod model;
pub mod occupancy;
pub mod patch;
pub mod plan;
pub mod policy;
pub mod preconditions;
pub mod problem;
pub mod recorded;
pub mod reply;
pub mod role;
pub mod search;
pub mod seeds;
mod splice;
pub mod statistics;
pub mod task;
pub mod timing;
pub mod tools;
pub mod trace;
pub mod tuner;
pub mod verdict;
