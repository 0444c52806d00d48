//! Typed identifiers. A run's id can never be passed where a candidate's is meant.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use rand::Rng;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// A text that is not the identifier it was taken for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "read {text:?} as a {subject} id: expected a UUID, with or without the prefix \"{prefix}_\""
)]
pub struct IdError {
    text: String,
    subject: &'static str,
    prefix: &'static str,
}

macro_rules! id {
    ($name:ident, $prefix:literal, $subject:literal) => {
        #[doc = concat!("Identifies a ", $subject, "; ordered by creation time (UUID version 7).")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ToSchema)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Makes a new id from the caller's clock and generator, so that a test can repeat it.
            pub fn generate(now: DateTime<Utc>, rng: &mut impl Rng) -> Self {
                Self(version_seven(now, rng))
            }

            /// The bare UUID, as the database and the wire carry it.
            pub fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl From<Uuid> for $name {
            fn from(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "_{}"), self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            /// Reads the id as a parameter of a path is read: with or without its prefix.
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<str>::deserialize(deserializer)?;
                text.parse().map_err(D::Error::custom)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let bare = text.strip_prefix(concat!($prefix, "_")).unwrap_or(text);
                Uuid::parse_str(bare).map(Self).map_err(|_| IdError {
                    text: text.to_owned(),
                    subject: $subject,
                    prefix: $prefix,
                })
            }
        }
    };
}

id!(RunId, "run", "run");
id!(CandidateId, "cand", "candidate");
id!(EvaluationId, "eval", "evaluation");
id!(JobId, "job", "job");
id!(WorkerId, "work", "worker");
id!(PromotionId, "promo", "promotion");
id!(InsightId, "ins", "insight");
id!(CallId, "call", "call");
id!(TokenId, "tok", "token");

fn version_seven(now: DateTime<Utc>, rng: &mut impl Rng) -> Uuid {
    let mut random = [0_u8; 10];
    rng.fill_bytes(&mut random);
    let millis = u64::try_from(now.timestamp_millis()).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn an_id_survives_display_and_parse_with_and_without_its_prefix() {
        let id = RunId::generate(DateTime::UNIX_EPOCH, &mut ChaCha8Rng::seed_from_u64(1));
        assert_eq!(id.to_string().parse::<RunId>().unwrap(), id);
        assert_eq!(id.uuid().to_string().parse::<RunId>().unwrap(), id);
    }

    #[test]
    fn json_has_ids_without_a_prefix_and_may_have_one() {
        let id = RunId::generate(DateTime::UNIX_EPOCH, &mut ChaCha8Rng::seed_from_u64(1));
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(json, format!("\"{}\"", id.uuid()));
        assert_eq!(serde_json::from_str::<RunId>(&json).unwrap(), id);
        assert_eq!(
            serde_json::from_str::<RunId>(&format!("\"{id}\"")).unwrap(),
            id
        );
        let error = serde_json::from_str::<CandidateId>(&format!("\"{id}\"")).unwrap_err();
        assert!(error.to_string().contains("\"cand_\""), "{error}");
    }

    #[test]
    fn another_subjects_prefix_is_refused() {
        let id = RunId::generate(DateTime::UNIX_EPOCH, &mut ChaCha8Rng::seed_from_u64(1));
        let error = id.to_string().parse::<CandidateId>().unwrap_err();
        assert!(error.to_string().contains("\"cand_\""), "{error}");
    }
}
