//! The log: written to standard error, filtered by `RUST_LOG`, as text or as JSON.

use std::io::IsTerminal;
use std::sync::OnceLock;

use tracing_subscriber::EnvFilter;

/// The form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object per line, for machines.
    Json,
}

static STARTED: OnceLock<Format> = OnceLock::new();

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
    if started.is_ok() {
        STARTED.get_or_init(|| format);
    }
}

/// Tells people something on standard error that is no trouble, whatever the log's filter is. It is an object of the
/// log where that is JSON, because programs read every line then.
pub fn tell(text: &str) {
    match STARTED.get() {
        Some(Format::Json) => tracing::info!("{text}"),
        Some(Format::Text) | None => eprintln!("kernelwright: {text}"),
    }
}
