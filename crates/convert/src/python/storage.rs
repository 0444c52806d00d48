//! Tensors of the source as storage: those that become inputs of the task, and those that are overwritten as a
//! whole.

use std::collections::BTreeSet;

use domain::problem::Problem;
use tree_sitter::Node;

use super::graph::{Node as GraphNode, NodeId};
use super::interpret::{Interpreter, Scope, Value, named};
use super::unused_name;

impl<'s> Interpreter<'s> {
    /// The input of the task for a tensor that the function `maker` of the source makes.
    pub fn make_input(&mut self, tensor: NodeId, name: &str, maker: &str) -> NodeId {
        let node = if self.drawn.contains(&tensor) {
            tensor
        } else {
            let entry = self.graph.entries[tensor].clone();
            // One of a single value is usually a buffer for the result.
            if !matches!(entry.node, GraphNode::Constant(_)) {
                let note =
                    format!("the values of {name} are drawn, and not computed as {maker} does");
                self.notes.insert(note);
            }
            let made = self
                .graph
                .add(GraphNode::Input(String::new()), entry.shape, entry.dtype);
            self.drawn.push(made);
            made
        };
        if let GraphNode::Input(own) = &mut self.graph.entries[node].node {
            name.clone_into(own);
        }
        node
    }

    /// Gives every input a name of its own.
    pub fn name_inputs(&mut self, taken: &mut BTreeSet<String>) {
        for entry in &mut self.graph.entries {
            if let GraphNode::Input(own) = &mut entry.node {
                *own = unused_name(own, taken);
                taken.insert(own.clone());
            }
        }
    }

    /// Assigns to elements: `name[key] = value` of a dictionary, and `name[...] = value` or `name[:] = value` of
    /// a tensor that nothing has read, which is how a source fills a buffer for its result.
    pub fn assign_elements(
        &mut self,
        target: Node<'s>,
        value: Value<'s>,
        scope: &mut Scope<'s>,
    ) -> Result<(), Problem> {
        let Some(object) = target.child_by_field_name("value") else {
            return Err(self.unknown(target, "an assignment"));
        };
        let mut cursor = target.walk();
        let places = target.children_by_field_name("subscript", &mut cursor);
        let places = places.collect::<Vec<_>>();
        if let (Some(Value::Mapping(pairs)), [place]) = (
            scope.get(self.source.of(object)).cloned(),
            places.as_slice(),
        ) {
            let Value::Text(key) = self.expression(*place, scope)? else {
                return Err(self.unknown(*place, "a key"));
            };
            let mut pairs = pairs;
            pairs.retain(|(own, _)| *own != key);
            pairs.push((key, value));
            let name = self.source.of(object).to_owned();
            scope.insert(name, Value::Mapping(pairs));
            return Ok(());
        }
        let is_whole = |place: &Node<'_>| {
            place.kind() == "ellipsis"
                || place.kind() == "slice"
                    && named(*place, true).is_empty()
                    && self.source.of(*place) == ":"
        };
        if places.iter().all(is_whole)
            && let Value::Tensor(tensor) = self.expression(object, scope)?
        {
            return self.overwrite(target, tensor, &value);
        }
        Err(self.refuse(
            target,
            "elements of a tensor are assigned",
            "build the tensor with torch.where or torch.cat",
        ))
    }

    /// Replaces all values of a tensor, so that every name of it has the new ones.
    pub fn overwrite(
        &mut self,
        node: Node<'s>,
        tensor: NodeId,
        value: &Value<'s>,
    ) -> Result<(), Problem> {
        let fix = "write the function without state, such as x = x.add(y)";
        let is_storage = matches!(
            self.graph.entries[tensor].node,
            GraphNode::Input(_) | GraphNode::Constant(_)
        );
        let is_read = self.graph.entries.iter().any(|entry| match &entry.node {
            GraphNode::Input(_) | GraphNode::Constant(_) => false,
            GraphNode::Map { operands, .. } => operands.contains(&tensor),
            GraphNode::View { source, .. } => *source == tensor,
            GraphNode::Reduce { inner, .. } => *inner == tensor,
        });
        if !is_storage || is_read {
            return Err(self.refuse(
                node,
                "a tensor that was computed or read is changed in place",
                fix,
            ));
        }
        let Some(made) = self.tensor(value) else {
            return Err(self.refuse(
                node,
                "a tensor is filled with something else than a tensor",
                fix,
            ));
        };
        let shape = self.graph.shape(tensor).to_vec();
        let common = self.graph.common_shape(&[tensor, made]);
        let fits = common.is_ok_and(|common| {
            common.len() == shape.len() && common.iter().zip(&shape).all(|(a, b)| a.text == b.text)
        });
        if !fits {
            let fix = "correct the shape of the buffer";
            return Err(self.refuse(node, "the values have another shape than the buffer", fix));
        }
        let filled = self.graph.broadcast(made, &shape);
        let index = (0..shape.len()).map(|axis| format!("${axis}")).collect();
        self.graph.entries[tensor].node = GraphNode::View {
            source: filled,
            index,
            guard: None,
        };
        Ok(())
    }
}
