//! The passes that only a promotion makes: score cases with every distribution and with changed last
//! elements, and drawn shapes.

use domain::problem::Problem;
use domain::role::{Alteration, Distribution, TensorData};
use domain::task::{Case, CasePurpose, Role};

use super::{Pass, Passes, bases, elements};
use crate::evaluate::passes::SMALL_ELEMENTS;

impl Passes<'_> {
    /// The passes of each score case whose outputs alone count: every distribution that applies to the
    /// task where the screen has not met them, and ordinary values with one of the last elements of an
    /// input changed. A candidate can recognise the shapes that it is timed on, so that a promotion
    /// asks there what it asks on small cases.
    ///
    /// # Errors
    /// A [`Problem`] of the task.
    pub fn untimed_score_cases(&self) -> Result<Vec<Vec<Pass>>, Problem> {
        let cases = self.cases().filter(|case| case.is_for(CasePurpose::Score));
        cases
            .map(|case| {
                let mut passes = self.last_elements(case)?;
                if elements(self.task, case)? > SMALL_ELEMENTS {
                    passes.extend(self.distributions(case)?);
                }
                Ok(passes)
            })
            .collect()
    }

    /// A case with each distribution beyond the ordinary one. Integers are left out where their sums are
    /// not exact: a function of five values gives a long sum five different terms, whose rounding
    /// errors add up instead of cancelling, so that honest kernels would fail.
    fn distributions(&self, case: &Case) -> Result<Vec<Pass>, Problem> {
        let mut passes = Vec::new();
        let applicable =
            Distribution::beyond_normal().filter(|distribution| self.applies(*distribution));
        for (turn, distribution) in applicable.enumerate() {
            let pass = self.pass(case, distribution, turn)?;
            if distribution != Distribution::Integers || pass.is_exact(self.task) {
                passes.push(pass.on(bases(turn)));
            }
        }
        Ok(passes)
    }

    /// A case with ordinary values, followed by the same inputs with one element changed: for each axis
    /// of each input whose part in an output the task declares, an element that is the last along that
    /// axis.
    fn last_elements(&self, case: &Case) -> Result<Vec<Pass>, Problem> {
        let original = self.pass(case, Distribution::Normal, 1)?;
        let mut passes = vec![original.clone()];
        for (number, tensor) in original.tensors.iter().enumerate() {
            if tensor.role == Role::Out || !self.is_declared(&tensor.name) {
                continue;
            }
            for axis in 0..tensor.extents.len() {
                let axis_name = axis.to_string();
                let drawn = self.seed(&["last element", &case.name, &tensor.name, &axis_name]);
                let mut changed = original.clone();
                changed.tensors[number].alteration =
                    Some(Alteration::ElementReplaced(last_along(tensor, axis, drawn)));
                passes.push(changed);
            }
        }
        Ok(passes)
    }

    /// The shapes that only one confirmation meets, with ordinary values.
    ///
    /// # Errors
    /// A [`Problem`] of the task.
    pub fn drawn(&self) -> Result<Vec<Pass>, Problem> {
        let cases = self.cases().filter(|case| case.is_for(CasePurpose::Drawn));
        cases
            .enumerate()
            .map(|(turn, case)| Ok(self.ordinary(case)?.on(bases(turn))))
            .collect()
    }
}

/// The flat index of an element that is the last along one axis. `drawn` chooses its place along the
/// others.
fn last_along(tensor: &TensorData, axis: usize, drawn: u64) -> u64 {
    let extents = &tensor.extents;
    let inner: u64 = extents[axis + 1..].iter().product();
    let outer: u64 = extents[..axis].iter().product();
    let (outside, inside) = (drawn % outer.max(1), (drawn >> 32) % inner.max(1));
    (outside * extents[axis] + extents[axis] - 1) * inner + inside
}

#[cfg(test)]
mod tests {
    use domain::digest::Digest;
    use domain::dtype::Dtype;
    use domain::role::Key;

    use super::*;

    #[test]
    fn the_changed_element_is_the_last_along_its_axis_and_inside_the_tensor() {
        let tensor = TensorData {
            name: "x".to_owned(),
            dtype: Dtype::F32,
            extents: vec![3, 5, 7],
            role: Role::In,
            align: 4,
            distribution: Distribution::Normal,
            key: Key(Digest::of("any")),
            alteration: None,
        };
        for drawn in [0, 1, 17, u64::MAX, 0x1234_5678_9abc_def0] {
            let along = |axis| last_along(&tensor, axis, drawn);
            assert_eq!(along(0) / 35, 2);
            assert_eq!(along(1) / 7 % 5, 4);
            assert_eq!(along(2) % 7, 6);
            assert!((0..3).all(|axis| along(axis) < 105));
        }
    }
}
