//! The stages of an evaluation, one file each, in the order in which [`super::pipeline`] runs them.

pub(super) mod parse;

pub(super) mod compile;

pub(super) mod explain;
pub(super) mod prescreen;

pub(super) mod effort;

pub(super) mod small_cases;

pub(super) mod gate;

pub(super) mod score;

pub(super) mod large_tensor;

pub(super) mod sanitizers;

pub(super) mod compare;

pub(super) mod conclude;
