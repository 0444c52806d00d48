//! The variables of the launching function and the constants of the file, with their values.

use std::collections::{BTreeMap, BTreeSet};

use tree_sitter::Node;

use crate::init::arithmetic::Arith;
use crate::init::source::{Kernel, Launch, Source, children};

/// The values that expressions of a launch refer to.
pub(super) struct HostVariables<'s, 't> {
    source: &'s Source<'t>,
    definitions: BTreeMap<String, Arith>,
    /// Variables that a launch passes as an integer without change. One with a number becomes a dim.
    direct: BTreeSet<String>,
    /// Extents of `dim3` variables by name.
    blocks: BTreeMap<String, [Arith; 3]>,
}

impl<'s, 't> HostVariables<'s, 't> {
    /// Reads the constants of the file and the variables of the launching function, if there is one.
    pub(super) fn read(
        source: &'s Source<'t>,
        host: Option<Node<'s>>,
        launches: &[Launch<'_>],
        kernels: &[Kernel<'_>],
    ) -> Self {
        let mut found = Self {
            source,
            definitions: source.constants(),
            direct: direct_names(source, launches, kernels),
            blocks: BTreeMap::new(),
        };
        if let Some(host) = host {
            found.read_function(host);
        }
        found
    }

    fn read_function(&mut self, host: Node<'s>) {
        let text = self.source.text;
        self.read_extent_declarations(host);
        for (name, value) in self.source.definitions(host) {
            let is_extents = value.kind() == "argument_list"
                || value.kind() == "initializer_list"
                || text[value.byte_range()].starts_with("dim3");
            if is_extents {
                let list = value.child_by_field_name("arguments").unwrap_or(value);
                let extents = self.extents(&children(list, true));
                self.add_extents(name, extents);
            } else {
                self.definitions.insert(name, Arith::read(value, text));
            }
        }
    }

    /// Reads `dim3 name(variable)`, which the grammar takes for the declaration of a function.
    fn read_extent_declarations(&mut self, host: Node<'s>) {
        for node in self.source.all(host) {
            let kind = node
                .child_by_field_name("type")
                .map(|kind| self.source.of(kind));
            let declarator = node.child_by_field_name("declarator");
            let Some(declarator) = declarator.filter(|declarator| {
                kind == Some("dim3") && declarator.kind() == "function_declarator"
            }) else {
                continue;
            };
            let name = declarator.child_by_field_name("declarator");
            let list = declarator.child_by_field_name("parameters");
            if let (Some(name), Some(list)) = (name, list) {
                let extents = self.extents(&children(list, true));
                self.add_extents(self.source.of(name).to_owned(), extents);
            }
        }
    }

    fn add_extents(&mut self, name: String, extents: [Arith; 3]) {
        for (axis, extent) in ["x", "y", "z"].into_iter().zip(&extents) {
            self.definitions
                .insert(format!("{name}.{axis}"), extent.clone());
        }
        self.blocks.insert(name, extents);
    }

    /// The extents that a configuration argument stands for: a number, a `dim3` or a variable of that type.
    pub(super) fn extents_of(&self, node: Node<'_>) -> [Arith; 3] {
        let text = self.source.of(node);
        if let Some(extents) = self.blocks.get(text) {
            return extents.clone();
        }
        let list = node.child_by_field_name("arguments");
        match list.filter(|_| text.starts_with("dim3")) {
            Some(list) => self.extents(&children(list, true)),
            None => self.extents(&[node]),
        }
    }

    /// Up to three extents, 1 for each that is missing.
    fn extents(&self, nodes: &[Node<'_>]) -> [Arith; 3] {
        let read = |at: usize| {
            nodes.get(at).map_or(Arith::Number(1), |node| {
                Arith::read(*node, self.source.text)
            })
        };
        [read(0), read(1), read(2)]
    }

    /// The value of a host variable as far as plans can say it. A variable with a number that a
    /// kernel takes stays a variable, because it is a dim.
    pub(super) fn definition(&self, name: &str) -> Option<Arith> {
        let value = self.definitions.get(name)?;
        let resolved = value.resolve(&|inner| {
            if inner == name {
                None
            } else {
                self.definition(inner)
            }
        });
        let stays = resolved.opaque().is_some()
            || self.direct.contains(name) && matches!(resolved, Arith::Number(_));
        (!stays).then_some(resolved)
    }

    /// An expression with definitions in place of variables.
    pub(super) fn resolve(&self, value: &Arith) -> Arith {
        value.resolve(&|name| self.definition(name))
    }

    /// The number that a variable has, if every definition behind it is known.
    pub(super) fn number(&self, name: &str) -> Option<i64> {
        let known = self.definitions.get(name)?;
        match known.resolve(&|name| self.definitions.get(name).cloned()) {
            Arith::Number(number) => Some(number),
            _ => None,
        }
    }

    /// The text of the literal that a variable is defined as.
    pub(super) fn literal(&self, name: &str) -> Option<String> {
        match self.definitions.get(name)? {
            Arith::Opaque(value) => Some(value.clone()),
            Arith::Number(value) => Some(value.to_string()),
            _ => None,
        }
    }
}

/// Names of variables that are passed for integer parameters as they are.
fn direct_names(
    source: &Source<'_>,
    launches: &[Launch<'_>],
    kernels: &[Kernel<'_>],
) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for launch in launches {
        let kernel = kernels.iter().find(|kernel| kernel.name == launch.kernel);
        let parameters = kernel.into_iter().flat_map(|kernel| &kernel.parameters);
        for (parameter, argument) in parameters.zip(&launch.arguments) {
            if let (false, Arith::Name(name)) =
                (parameter.is_pointer, Arith::read(*argument, source.text))
            {
                found.insert(name);
            }
        }
    }
    found
}
