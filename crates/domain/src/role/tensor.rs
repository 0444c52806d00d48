//! The content of inputs: a shape, a distribution and a key determine every value.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Key;
use crate::dtype::Dtype;
use crate::task::{Role, Task};

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
    /// The distribution of the content; ignored for an output.
    pub distribution: Distribution,
    /// The key it is drawn with.
    pub key: Key,
    /// The change made to the values after they are drawn.
    pub alteration: Option<Alteration>,
}

/// A change of values that were drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Alteration {
    /// The element of this flat index is 8, of the sign that it did not have.
    ElementReplaced(u64),
    /// Every value is rounded to this many significant bits, the first included.
    Rounded(u32),
}

impl TensorData {
    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.extents.iter().product()
    }
}

/// Declares [`Distribution`] from one list of its variants and their wire names, so that
/// [`Distribution::ALL`] and [`Distribution::as_str`] cannot miss one. Code that treats distributions
/// differently matches them without a wildcard, so that the compiler names what a new one needs: its
/// values in `tensors::inputs`, its words in [`Distribution::describe`], its tasks in
/// [`Distribution::applies`], and its inputs in `DrawTargets` of `worker::evaluate::passes::targets`.
macro_rules! distributions {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// The distribution of an input's values.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
        )]
        #[serde(rename_all = "snake_case")]
        pub enum Distribution {
            $($(#[$doc])* $variant,)*
        }

        impl Distribution {
            /// Every distribution, the ordinary one first.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// The name as the wire carries it.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

distributions! {
    /// Normal, mean 0, deviation 1.
    Normal = "normal",
    /// Uniform in -1..1.
    Uniform = "uniform",
    /// Uniform in 0..1.
    Positive = "positive",
    /// Small integers -2..=2.
    Integers = "integers",
    /// Large magnitudes that provoke overflow: normal, deviation 100, capped to the type.
    Large = "large",
    /// Tiny and denormal magnitudes of the type.
    Tiny = "tiny",
    /// 99% normal, 1% a thousand times larger.
    HeavyTail = "heavy_tail",
    /// Equal rows and sorted runs.
    Ties = "ties",
    /// Each element encodes its own coordinates.
    IndexCoded = "index_coded",
    /// Normal, scaled down to where the type still has its full precision, but an absolute
    /// tolerance takes everything for zero.
    Small = "small",
    /// Large numbers of alternating sign with small ones on top, in one input, so that sums cancel.
    Cancellation = "cancellation",
    /// A quarter of the type's largest number, or as much as sums of products can bear, in one
    /// input that the function is linear in.
    Huge = "huge",
    /// Normal, with a few NaN and infinities of both signs in one input whose specials the function
    /// passes on.
    Specials = "specials",
    /// One input that the function is linear in is zero but for one element, which shows every
    /// output that depends on it and every other that should not.
    Impulse = "impulse",
    /// Rows around -200, 0 or 200 with deviation 10, in one input that the function is not linear in, so
    /// that all of a row is far from zero.
    Shifted = "shifted",
}

impl Distribution {
    /// The values in words for the author of a kernel.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Normal => "normal, mean 0, deviation 1",
            Self::Uniform => "uniform in -1..1",
            Self::Positive => "uniform in 0..1",
            Self::Integers => "integers -2 to 2",
            Self::Large => "normal, deviation 100",
            Self::Tiny => "tiny and denormal magnitudes of the type",
            Self::HeavyTail => "99% normal, 1% a thousand times larger",
            Self::Ties => "equal rows and sorted runs",
            Self::IndexCoded => "each element encodes its coordinates",
            Self::Small => "normal, scaled down to where the type still has its full precision",
            Self::Cancellation => {
                "large numbers of alternating sign with small ones on top, in one input, so that sums cancel"
            }
            Self::Huge => "up to a quarter of the type's largest number, in one input",
            Self::Specials => "normal, with a few NaN and infinities in one input",
            Self::Impulse => "one input is zero but for one element",
            Self::Shifted => "rows around -200, 0 or 200, deviation 10, in one input",
        }
    }

    /// Returns true if the distribution provokes anything in this task.
    pub fn applies(self, task: &Task) -> bool {
        let contract = &task.contract;
        match self {
            Self::Shifted => task.tensors.iter().any(|tensor| {
                tensor.role != Role::Out && !contract.linear_in.contains(&tensor.name)
            }),
            Self::Huge | Self::Impulse => !contract.linear_in.is_empty(),
            Self::Specials => !contract.specials_in.is_empty(),
            Self::Normal
            | Self::Uniform
            | Self::Positive
            | Self::Integers
            | Self::Large
            | Self::Tiny
            | Self::HeavyTail
            | Self::Ties
            | Self::IndexCoded
            | Self::Small
            | Self::Cancellation => true,
        }
    }

    /// Every distribution but the ordinary one, in the order of the list.
    pub fn beyond_normal() -> impl Iterator<Item = Self> + Clone {
        Self::ALL.into_iter().filter(|one| *one != Self::Normal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_wire_and_different() {
        let mut names = std::collections::BTreeSet::new();
        for distribution in Distribution::ALL {
            let name = distribution.as_str();
            assert_eq!(serde_json::to_value(distribution).unwrap(), name);
            assert!(names.insert(name), "{name} twice");
        }
        let beyond = Distribution::beyond_normal().count();
        assert_eq!(beyond + 1, names.len());
    }
}
