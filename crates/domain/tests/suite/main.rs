//! Tests of the values and rules through the crate's public functions, in one program because each further one is linked anew.

mod brief;
mod candidate;
mod controls;
mod evaluation;
mod evolve;
mod floor;
mod gates;
mod hottest_lines;
mod insights;
mod judge;
mod lenient_plan;
mod lessons;
mod occupancy;
mod patch;
mod preconditions;
mod recorded;
mod reply;
mod rounds;
mod scatter;
mod search;
mod statistics;
mod task;
mod tools;
mod tuner;
