//! The contract: what a task promises of its function beyond the tolerance.

use std::collections::{BTreeMap, BTreeSet};

use toml::Spanned;

use super::super::{Contract, Dependence, Role, Tensor};
use super::{RawContract, TaskReader};

impl TaskReader<'_> {
    pub(super) fn contract(
        &mut self,
        raw: &RawContract,
        tensors: &[Tensor],
        dims: &BTreeSet<String>,
    ) -> Contract {
        let outputs = |name: &str| tensors.iter().any(|t| t.name == name && t.role != Role::In);
        let inputs = |name: &str| {
            tensors
                .iter()
                .any(|t| t.name == name && t.role != Role::Out)
        };
        for name in raw.linear_in.iter().chain(&raw.specials_in) {
            if !inputs(name.get_ref()) {
                self.report(
                    name,
                    format!("{:?} is no input", name.get_ref()),
                    "name an input tensor",
                );
            }
        }
        for name in raw
            .depends
            .keys()
            .chain(raw.error_scale.keys())
            .chain(raw.error_terms.keys())
            .chain(&raw.order_dependent)
        {
            if !outputs(name.get_ref()) {
                self.report(
                    name,
                    format!("{:?} is no output", name.get_ref()),
                    "name an output tensor",
                );
            }
        }
        Contract {
            linear_in: raw
                .linear_in
                .iter()
                .map(|name| name.get_ref().clone())
                .collect(),
            order_dependent: self.order_dependent(&raw.order_dependent, tensors),
            specials_in: self.special(&raw.specials_in, tensors),
            depends: self.depends(&raw.depends, tensors),
            error_scale: raw
                .error_scale
                .iter()
                .map(|(output, workspace)| (output.get_ref().clone(), workspace.get_ref().clone()))
                .collect(),
            error_terms: raw
                .error_terms
                .iter()
                .map(|(output, terms)| (output.get_ref().clone(), self.expr(terms, dims)))
                .collect(),
        }
    }

    /// Outputs whose sums may be taken in any order: floating ones, since sums of integers are exact.
    fn order_dependent(&mut self, names: &[Spanned<String>], tensors: &[Tensor]) -> Vec<String> {
        for name in names {
            let tensor = tensors.iter().find(|tensor| tensor.name == *name.get_ref());
            if tensor.is_some_and(|tensor| tensor.dtype.unit_roundoff().is_none()) {
                let message = format!("sums of {:?} are exact in every order", name.get_ref());
                self.report(name, message, "name floating outputs only");
            }
        }
        names.iter().map(|name| name.get_ref().clone()).collect()
    }

    /// Inputs that may hold NaN and infinities: floating ones.
    fn special(&mut self, names: &[Spanned<String>], tensors: &[Tensor]) -> Vec<String> {
        let mut special = Vec::new();
        for name in names {
            let tensor = tensors.iter().find(|tensor| tensor.name == *name.get_ref());
            if tensor.is_some_and(|tensor| tensor.dtype.unit_roundoff().is_none()) {
                let message = format!("{:?} has no NaN and no infinities", name.get_ref());
                self.report(name, message, "name floating inputs only");
            }
            special.push(name.get_ref().clone());
        }
        special
    }

    fn depends(
        &mut self,
        raw: &BTreeMap<Spanned<String>, Vec<Spanned<String>>>,
        tensors: &[Tensor],
    ) -> BTreeMap<String, Vec<Dependence>> {
        let mut depends = BTreeMap::new();
        for (name, inputs) in raw {
            let Some(output) = tensors.iter().find(|tensor| tensor.name == *name.get_ref()) else {
                continue;
            };
            let mut read = Vec::new();
            for input in inputs {
                match Dependence::parse(input.get_ref(), output, tensors) {
                    Ok(dependence) => read.push(dependence),
                    Err(message) => self.report(
                        input,
                        message,
                        "write it as \"a[m,:]\", with a small letter for each axis of the output",
                    ),
                }
            }
            depends.insert(name.get_ref().clone(), read);
        }
        depends
    }
}
