//! The outcome of a command, and its exit code.

use std::process::ExitCode;

/// The outcome of a command that did its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Done; where a candidate was judged, it was accepted.
    Accepted,
    /// A candidate was judged and not accepted, or a run ended without a winner.
    NotAccepted,
}

/// The failure of a command, by who can correct it.
#[derive(Debug)]
pub enum Failure {
    /// The request is wrong: the user can correct it.
    Input(anyhow::Error),
    /// The machine, the toolchain, the service or the network failed.
    Infrastructure(anyhow::Error),
}

/// The result of every command.
pub type Ending = Result<Outcome, Failure>;

impl Outcome {
    /// The documented exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Accepted => 0,
            Self::NotAccepted => 1,
        }
    }
}

impl Failure {
    /// Wraps an error that the user can correct by changing the request.
    pub fn input(error: impl Into<anyhow::Error>) -> Self {
        Self::Input(error.into())
    }

    /// Wraps an error that the request did not cause.
    pub fn infrastructure(error: impl Into<anyhow::Error>) -> Self {
        Self::Infrastructure(error.into())
    }

    /// The documented exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Input(_) => 2,
            Self::Infrastructure(_) => 3,
        }
    }

    /// The error with its causes.
    pub fn error(&self) -> &anyhow::Error {
        match self {
            Self::Input(error) | Self::Infrastructure(error) => error,
        }
    }
}

/// The exit code of a command's ending.
pub fn exit_code(ending: &Ending) -> ExitCode {
    ExitCode::from(match ending {
        Ok(outcome) => outcome.code(),
        Err(failure) => failure.code(),
    })
}
