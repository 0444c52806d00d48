//! Simulated author: a stand-in for a language model that composes CUDA kernels for three tasks
//! ([`libraries`]) from independent choices, with stated probabilities of defects and repairs.
//!
//! It says nothing about any real model. It serves to compare search methods under equal conditions, as
//! often as statistics need and without cost. All probabilities are in `parameters.toml`. Times are those
//! of the real evaluator, recorded once for every combination of choices ([`landscape`]).

pub mod author;
pub mod landscape;
pub mod libraries;
pub mod opponents;
pub mod reader;
pub mod trial;
