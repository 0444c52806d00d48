//! How a command ends, and the exit code that says so to a script.

use std::process::ExitCode;

/// A command that could do what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Done; where a candidate was judged, it was accepted.
    Accepted,
    /// A candidate was judged and not accepted, or a run ended without a winner.
    NotAccepted,
}

/// A command that could not. The two kinds differ in who can mend it.
#[derive(Debug)]
pub enum Failure {
    /// What was asked for is wrong.
    Input(anyhow::Error),
    /// The machine, the toolchain, the service or the network is in trouble.
    Infrastructure(anyhow::Error),
}

/// What every command returns.
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
    /// Wraps what a person can mend by changing the request.
    pub fn input(error: impl Into<anyhow::Error>) -> Self {
        Self::Input(error.into())
    }

    /// Wraps trouble that the request did not cause.
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
