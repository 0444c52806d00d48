//! An error with its causes as one line of text.

use std::error::Error;

/// The error's message and the messages of its sources in order, separated by colons. For texts
/// that are kept or shown, where no caller walks the sources.
pub fn with_causes(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Layer>>,
    }

    #[test]
    fn every_source_is_named_once_and_in_order() {
        let layer = |text, source| Layer {
            text,
            source: Option::map(source, Box::new),
        };
        let disk = layer("no space left on device", None);
        let write = layer("write the file", Some(disk));
        let save = layer("save the run", Some(write));
        assert_eq!(
            with_causes(&save),
            "save the run: write the file: no space left on device"
        );
    }
}
