//! The failure of a case.

/// Maximum length of a message in characters.
const MESSAGE: usize = 400;

/// A failure of a case, on the device or in the comparison with the reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The kind, on which two devices must agree.
    pub kind: Kind,
    /// The message: one sentence, or two values.
    pub message: String,
}

/// The kinds of failures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// The result differs from the reference.
    Wrong,
    /// The driver returned an error; this includes the error of a failed launch.
    Refused {
        /// The driver's error code.
        code: u32,
    },
    /// The device recorded a finding.
    Found {
        /// Kind of the finding, such as `data_race`.
        kind: String,
    },
    /// The device does not implement an instruction.
    Unsupported,
}

impl Failure {
    /// A failure because of a wrong result.
    pub fn wrong(message: impl Into<String>) -> Self {
        Self::new(Kind::Wrong, message)
    }

    /// A failure of any kind, with its message cut to the maximum length.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            kind,
            message: match message.char_indices().nth(MESSAGE) {
                Some((end, _)) => format!("{}...", &message[..end]),
                None => message,
            },
        }
    }
}

/// Fails the case unless a condition holds.
macro_rules! ensure {
    ($condition:expr $(,)?) => {
        $crate::failure::ensure!($condition, "not so: {}", stringify!($condition));
    };
    ($condition:expr, $($message:tt)+) => {
        // A comparison with NaN is false, so the case fails.
        let holds: bool = $condition;
        if !holds {
            return Err($crate::Failure::wrong(format!($($message)+)));
        }
    };
}

/// Fails the case unless two values are equal.
macro_rules! ensure_eq {
    ($got:expr, $want:expr $(,)?) => {
        $crate::failure::ensure_eq!($got, $want, "{}", stringify!($got))
    };
    ($got:expr, $want:expr, $($what:tt)+) => {
        match (&$got, &$want) {
            (got, want) => if !(*got == *want) {
                return Err($crate::Failure::wrong(format!(
                    "{}: {got:?} instead of {want:?}",
                    format_args!($($what)+)
                )));
            },
        }
    };
}

pub(crate) use {ensure, ensure_eq};
