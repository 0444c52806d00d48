//! The inputs that a distribution concerns, where it concerns one input at a time.

use domain::role::Distribution;
use domain::task::{Role, Task, Tensor, Values};

/// The inputs that a distribution concerns in one draw, where it concerns one input at a time.
pub(super) struct DrawTargets<'a> {
    /// All inputs that the function is linear in.
    all_linear: &'a [String],
    /// This draw's input of those that the function is not linear in.
    nonlinear: Option<&'a str>,
    /// This draw's input of those that the function is linear in.
    linear: Option<&'a str>,
    /// This draw's input of those whose NaN and infinities the function passes on.
    special: Option<&'a str>,
    /// This draw's input of all inputs.
    any: Option<&'a str>,
}

impl<'a> DrawTargets<'a> {
    pub fn new(task: &'a Task, draw: usize) -> Self {
        fn chosen<'n>(names: &[&'n str], draw: usize) -> Option<&'n str> {
            names.get(draw % names.len().max(1)).copied()
        }
        let contract = &task.contract;
        let inputs = task
            .tensors
            .iter()
            .filter(|tensor| tensor.role != Role::Out)
            .map(|tensor| tensor.name.as_str())
            .collect::<Vec<_>>();
        let texts = |names: &'a [String]| names.iter().map(String::as_str).collect::<Vec<_>>();
        let linear = texts(&contract.linear_in);
        let nonlinear = inputs
            .iter()
            .copied()
            .filter(|name| !linear.contains(name))
            .collect::<Vec<_>>();
        Self {
            all_linear: &contract.linear_in,
            nonlinear: chosen(&nonlinear, draw),
            linear: chosen(&linear, draw),
            special: chosen(&texts(&contract.specials_in), draw),
            any: chosen(&inputs, draw),
        }
    }

    /// The distribution of one tensor's values in a pass with a distribution.
    ///
    /// Large values in several factors of a non-linear function at once make scores so large that
    /// the accumulator's own rounding decides a softmax: honest kernels would fail. In one such
    /// factor at a time, and in inputs the function is linear in, the forward-error bound holds.
    ///
    /// A single element among zeros in an input of a non-linear function makes all terms of a sum
    /// equal, and rounding errors of equal terms add up instead of cancelling: honest kernels would
    /// fail. In a linear input, what is zero stays zero.
    ///
    /// Alternating signs cancel where the other factors are equal.
    pub fn of(&self, tensor: &Tensor, distribution: Distribution) -> Distribution {
        let ordinary = match tensor.values {
            Values::Normal => Distribution::Normal,
            Values::Uniform => Distribution::Uniform,
        };
        let name = Some(tensor.name.as_str());
        let concerned = match distribution {
            Distribution::Normal => false,
            Distribution::Large | Distribution::HeavyTail => {
                self.all_linear.contains(&tensor.name) || self.nonlinear == name
            }
            Distribution::Huge | Distribution::Impulse => self.linear == name,
            Distribution::Specials => self.special == name,
            Distribution::Shifted => self.nonlinear == name,
            Distribution::Cancellation if self.any != name => return Distribution::Ties,
            Distribution::Cancellation
            | Distribution::Uniform
            | Distribution::Positive
            | Distribution::Integers
            | Distribution::Tiny
            | Distribution::Ties
            | Distribution::IndexCoded
            | Distribution::Small => true,
        };
        if concerned { distribution } else { ordinary }
    }
}
