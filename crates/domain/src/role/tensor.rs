//! What inputs hold: a shape, a distribution and a key say every value.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Key;
use crate::dtype::Dtype;
use crate::task::Role;

/// A tensor's shape and how its content is made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TensorData {
    /// Name.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Extents in elements, outermost first.
    pub extents: Vec<u64>,
    /// Direction.
    pub role: Role,
    /// The base address is a multiple of this; the weakest that a candidate must accept.
    pub align: u64,
    /// How the content is drawn; for an output, ignored.
    pub distribution: Distribution,
    /// The key it is drawn with.
    pub key: Key,
    /// What is done to the values after they are drawn.
    pub alteration: Option<Alteration>,
}

/// A change of values that were drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Alteration {
    /// The element of this flat index is 8, of the sign that it did not have.
    Struck(u64),
    /// Every value is rounded to so many significant bits, the first included.
    Rounded(u32),
}

impl TensorData {
    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.extents.iter().product()
    }
}

/// How the values of an input are distributed.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Normal, mean 0, deviation 1.
    Normal,
    /// Uniform in -1..1.
    Uniform,
    /// Uniform in 0..1.
    Positive,
    /// Small integers -2..=2.
    Integers,
    /// Large magnitudes that provoke overflow: normal, deviation 100, capped to the type.
    Large,
    /// Tiny and denormal magnitudes of the type.
    Tiny,
    /// 99% normal, 1% a thousand times larger.
    HeavyTail,
    /// Equal rows and sorted runs.
    Ties,
    /// Each element encodes its own coordinates.
    IndexCoded,
    /// Normal, scaled down to where the type still has its full precision, but an absolute
    /// tolerance takes everything for zero.
    Small,
    /// Large numbers of alternating sign with small ones on top, in one input, so that sums cancel.
    Cancellation,
    /// A quarter of the type's largest number, or as much as sums of products can bear, in one
    /// input that the function is linear in.
    Huge,
    /// Normal, with a few NaN and infinities of both signs in one input whose specials the function
    /// passes on.
    Specials,
    /// One input that the function is linear in is zero but for one element, which shows every
    /// output that depends on it and every other that should not.
    Impulse,
}

impl Distribution {
    /// Name as the wire carries it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Uniform => "uniform",
            Self::Positive => "positive",
            Self::Integers => "integers",
            Self::Large => "large",
            Self::Tiny => "tiny",
            Self::HeavyTail => "heavy_tail",
            Self::Ties => "ties",
            Self::IndexCoded => "index_coded",
            Self::Small => "small",
            Self::Cancellation => "cancellation",
            Self::Huge => "huge",
            Self::Specials => "specials",
            Self::Impulse => "impulse",
        }
    }
}
