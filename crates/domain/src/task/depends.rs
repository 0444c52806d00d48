//! The inputs that an output depends on, as a task declares them: `a[m,:]` says that an element of
//! the output depends on the row of `a` whose number is the element's own along the axis of extent
//! `M`.

use super::Tensor;

/// The part of one input that one output depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependence {
    /// The input.
    pub input: String,
    /// For each axis of the input the axis of the output that has the same index; none where the
    /// output depends on all of the axis.
    axes: Vec<Option<usize>>,
}

/// A part of a tensor: for each axis the only index, or none for all of them.
pub type TensorPart = Vec<Option<u64>>;

impl Dependence {
    /// Reads `input[index, ...]`. An index is `:` or the name, in small letters, of the extent of
    /// one axis of the output.
    ///
    /// # Errors
    /// The problem as a sentence.
    pub fn parse(text: &str, output: &Tensor, tensors: &[Tensor]) -> Result<Self, String> {
        let (name, rest) = text.split_once('[').ok_or("an input without indices")?;
        let indices = rest
            .trim_end()
            .strip_suffix(']')
            .ok_or("a bracket that is not closed")?;
        let name = name.trim();
        let input = tensors
            .iter()
            .find(|tensor| tensor.name == name && tensor.role != super::Role::Out)
            .ok_or_else(|| format!("{name:?} is no input"))?;
        let axes = indices
            .split(',')
            .map(|index| axis(index.trim(), output))
            .collect::<Result<Vec<_>, _>>()?;
        if axes.len() != input.shape.len() {
            let (found, expected) = (axes.len(), input.shape.len());
            return Err(format!("{found} indices for the {expected} axes of {name}"));
        }
        Ok(Self {
            input: input.name.clone(),
            axes,
        })
    }

    /// The part of an output of `rank` axes that one element of the input can reach.
    ///
    /// # Panics
    /// If `index` has another number of axes than the input.
    pub fn reach(&self, index: &[u64], rank: usize) -> TensorPart {
        assert_eq!(index.len(), self.axes.len(), "one index per axis");
        let mut part = vec![None; rank];
        for (axis, &index) in self.axes.iter().zip(index) {
            if let Some(axis) = axis {
                part[*axis] = Some(index);
            }
        }
        part
    }
}

fn axis(index: &str, output: &Tensor) -> Result<Option<usize>, String> {
    if index == ":" {
        return Ok(None);
    }
    let mut found = output
        .shape
        .iter()
        .enumerate()
        .filter(|(_, extent)| extent.text().to_lowercase() == index)
        .map(|(axis, _)| axis);
    match (found.next(), found.next()) {
        (Some(axis), None) => Ok(Some(axis)),
        (None, _) => Err(format!(
            "no axis of {} has the extent {index:?}",
            output.name
        )),
        (Some(_), Some(_)) => Err(format!(
            "two axes of {} have the extent {index:?}",
            output.name
        )),
    }
}
