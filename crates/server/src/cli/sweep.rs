//! `sweep`: the tuner on a recorded space.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use domain::tuner::Strategy;

use super::number::whole;

/// Arguments of `sweep`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct SweepArgs {
    /// File with the recorded times of every configuration: a cache file of Kernel Tuner or a T4
    /// file, compressed with gzip or not.
    #[arg(long, value_name = "FILE")]
    pub recorded: PathBuf,
    /// Search strategy.
    #[arg(long, default_value_t = Strategy::default(), value_parser = strategies())]
    pub strategy: Strategy,
    /// The most configurations to evaluate.
    #[arg(long, value_name = "N", default_value_t = 100, allow_negative_numbers = true, value_parser = whole::<usize>)]
    pub budget: usize,
    /// Seed of the random decisions of the search.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub seed: u64,
    /// Write the evaluated configurations in order to this file, in the T4 format.
    #[arg(long, value_name = "FILE")]
    pub t4: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Reads the name of a strategy.
pub(super) fn strategies() -> impl TypedValueParser<Value = Strategy> {
    let names = PossibleValuesParser::new(Strategy::ALL.map(Strategy::as_str));
    names.map(|name| {
        name.parse::<Strategy>()
            .expect("only names of strategies are possible")
    })
}
