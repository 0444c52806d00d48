//! The log: written to standard error, filtered by `RUST_LOG`, as text or as JSON.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// The form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object per line, for machines.
    Json,
}

/// Starts logging. `default` is the filter where `RUST_LOG` is not set.
pub fn start(format: Format, default: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let started = match format {
        Format::Text => log
            .with_ansi(std::io::stderr().is_terminal())
            .with_target(false)
            .try_init(),
        Format::Json => log.json().flatten_event(true).try_init(),
    };
    // A second start in one process changes nothing: the first one's settings stay.
    drop(started);
}
