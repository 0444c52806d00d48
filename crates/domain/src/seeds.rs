//! Seed families: separate sets of inputs, so that a candidate that is fitted to the inputs of the
//! feedback gains nothing in the gate pass or in a confirmation.
//!
//! A family's key is derived from a root under the family's own name. Roots are secrets of the
//! supervisor. A process that runs candidate code gets keys of single tensors only, from which
//! neither a root nor another family can be derived.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::evaluation::EvaluationStage;
use crate::role::Key;

/// The families of inputs, by who may learn what about them.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SeedFamily {
    /// Inputs of a search whose failures are explained to the author of the next candidate: shape,
    /// distribution, element, values.
    Feedback,
    /// Inputs that a search must pass before a score counts. Of a failure only its class is told.
    Gate,
    /// Inputs of one confirmation, never drawn again. Of a failure only its class is told.
    Promotion,
}

impl SeedFamily {
    /// Every family.
    pub const ALL: [Self; 3] = [Self::Feedback, Self::Gate, Self::Promotion];

    /// The family that an evaluation's explained executions draw from.
    pub fn of(stage: EvaluationStage) -> Self {
        if stage.decides_promotion() {
            Self::Promotion
        } else {
            Self::Feedback
        }
    }

    /// Name as the wire carries it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Feedback => "feedback",
            Self::Gate => "gate",
            Self::Promotion => "promotion",
        }
    }

    /// The key of this family's draws below a root.
    pub fn key(self, root: Key) -> Key {
        root.derive(&["seed family", self.as_str()])
    }

    /// Returns true if a failure may be shown to the author of the next candidate.
    pub fn may_be_shown(self) -> bool {
        self == Self::Feedback
    }
}
