//! A function of tensors as a graph of four kinds of nodes: inputs, functions of elements, views, and
//! reductions over trailing axes. Everything that an import understands is made of these.

use std::collections::BTreeSet;

use domain::dtype::Dtype;

use super::number::{Number, product};

pub(crate) type NodeId = usize;

/// One node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    /// A tensor of the task.
    Input(String),
    /// A number for every element.
    Constant(Number),
    /// A function of the elements at the same index of all operands, which have the node's shape.
    Map {
        function: &'static Function,
        operands: Vec<NodeId>,
    },
    /// The source's element at another index, each a text over `$0`, `$1`, ... of the own index; where the
    /// guard is false, a value.
    View {
        source: NodeId,
        index: Vec<String>,
        guard: Option<(String, &'static str)>,
    },
    /// A reduction of the axes that `inner` has behind those of the node.
    Reduce { reduction: Reduction, inner: NodeId },
}

/// A function of elements in C++: `$a`, `$b`, `$c` are the operands, `$z` is the value, and `$A`, `$B`, `$C`
/// are the scales of the operands' errors. `real_t` is the type of a value; a scale is `double`.
#[derive(Debug, PartialEq)]
pub(crate) struct Function {
    pub name: &'static str,
    pub value: &'static str,
    pub scale: &'static str,
}

/// A reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reduction {
    Sum,
    Product,
    Maximum,
    Minimum,
}

/// A node with its shape and type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub node: Node,
    pub shape: Vec<Number>,
    pub dtype: Dtype,
}

/// The nodes of a function, operands before the nodes that use them.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub entries: Vec<Entry>,
    /// Dims whose value the translation rests on.
    pub pinned: BTreeSet<String>,
}

impl Graph {
    pub fn add(&mut self, node: Node, shape: Vec<Number>, dtype: Dtype) -> NodeId {
        self.entries.push(Entry { node, shape, dtype });
        self.entries.len() - 1
    }

    pub fn shape(&self, node: NodeId) -> &[Number] {
        &self.entries[node].shape
    }

    pub fn dtype(&self, node: NodeId) -> Dtype {
        self.entries[node].dtype
    }

    /// Fixes the dims of a number, and returns its value.
    pub fn pin(&mut self, number: &Number) -> Option<i64> {
        self.pinned.extend(number.names());
        number.whole()
    }

    /// Returns true if two extents are equal, after fixing their dims where only the imported shape says so.
    pub fn equal(&mut self, one: &Number, other: &Number) -> bool {
        if one.is_always(other) {
            return true;
        }
        let equal = one.whole() == other.whole();
        if equal {
            self.pin(one);
            self.pin(other);
        }
        equal
    }

    /// Returns true if an extent is 1.
    fn single(&mut self, extent: &Number) -> bool {
        extent.whole() == Some(1) && self.pin(extent) == Some(1)
    }

    pub fn constant(&mut self, number: Number, shape: Vec<Number>, dtype: Dtype) -> NodeId {
        self.add(Node::Constant(number), shape, dtype)
    }

    /// A view with the index texts of the source.
    pub fn view(&mut self, source: NodeId, shape: Vec<Number>, index: Vec<String>) -> NodeId {
        let dtype = self.dtype(source);
        let guard = None;
        self.add(
            Node::View {
                source,
                index,
                guard,
            },
            shape,
            dtype,
        )
    }

    /// Another node with the same elements.
    pub fn copy(&mut self, node: NodeId) -> NodeId {
        let shape = self.shape(node).to_vec();
        let index = (0..shape.len()).map(|axis| format!("${axis}")).collect();
        self.view(node, shape, index)
    }

    pub fn guarded(
        &mut self,
        source: NodeId,
        shape: Vec<Number>,
        index: Vec<String>,
        guard: (String, &'static str),
    ) -> NodeId {
        let dtype = self.dtype(source);
        let guard = Some(guard);
        self.add(
            Node::View {
                source,
                index,
                guard,
            },
            shape,
            dtype,
        )
    }

    /// The shape to which all shapes broadcast; the two extents that do not fit otherwise.
    pub fn common_shape(&mut self, nodes: &[NodeId]) -> Result<Vec<Number>, (Number, Number)> {
        let mut common: Vec<Number> = Vec::new();
        for &node in nodes {
            let shape = self.shape(node).to_vec();
            let missing = shape.len().saturating_sub(common.len());
            common.splice(0..0, vec![Number::integer(1); missing]);
            let first = common.len() - shape.len();
            for (axis, extent) in shape.into_iter().enumerate() {
                let known = common[first + axis].clone();
                if self.single(&known) {
                    common[first + axis] = extent;
                } else if !self.single(&extent) && !self.equal(&known, &extent) {
                    return Err((known, extent));
                }
            }
        }
        Ok(common)
    }

    /// A node with another shape that it broadcasts to.
    pub fn broadcast(&mut self, node: NodeId, shape: &[Number]) -> NodeId {
        let own = self.shape(node).to_vec();
        if own.len() == shape.len() && own.iter().zip(shape).all(|(a, b)| a.text == b.text) {
            return node;
        }
        if let Node::Constant(number) = self.entries[node].node.clone() {
            let dtype = self.dtype(node);
            return self.constant(number, shape.to_vec(), dtype);
        }
        let first = shape.len() - own.len();
        let index = own.iter().enumerate().map(|(axis, extent)| {
            let kept = shape[first + axis].whole() == extent.whole();
            if kept {
                format!("${}", first + axis)
            } else {
                "0".to_owned()
            }
        });
        let index = index.collect();
        self.view(node, shape.to_vec(), index)
    }

    /// A function of operands that broadcast to one shape.
    pub fn map(
        &mut self,
        function: &'static Function,
        operands: &[NodeId],
    ) -> Result<NodeId, (Number, Number)> {
        let shape = self.common_shape(operands)?;
        let tensors = operands
            .iter()
            .filter(|node| !matches!(self.entries[**node].node, Node::Constant(_)));
        let dtype = tensors.map(|node| self.dtype(*node)).reduce(wider);
        let dtype = dtype.unwrap_or(Dtype::F32);
        let operands = operands
            .iter()
            .map(|node| self.broadcast(*node, &shape))
            .collect();
        Ok(self.add(Node::Map { function, operands }, shape, dtype))
    }

    /// Moves axes behind the others.
    pub fn move_behind(&mut self, node: NodeId, axes: &[usize]) -> NodeId {
        let rank = self.shape(node).len();
        let kept = (0..rank).filter(|axis| !axes.contains(axis));
        let order = kept.chain(axes.iter().copied()).collect::<Vec<_>>();
        self.permute(node, &order)
    }

    /// A view whose axis `k` is the source's axis `order[k]`.
    pub fn permute(&mut self, node: NodeId, order: &[usize]) -> NodeId {
        if order.iter().enumerate().all(|(at, axis)| at == *axis) {
            return node;
        }
        let shape = self.shape(node).to_vec();
        let index = (0..shape.len()).map(|axis| {
            let place = order.iter().position(|from| *from == axis);
            format!("${}", place.unwrap_or(axis))
        });
        let index = index.collect();
        let shape = order.iter().map(|axis| shape[*axis].clone()).collect();
        self.view(node, shape, index)
    }

    /// Reduces axes, which go away.
    pub fn reduce(&mut self, reduction: Reduction, node: NodeId, axes: &[usize]) -> NodeId {
        let inner = self.move_behind(node, axes);
        let rank = self.shape(inner).len() - axes.len();
        let shape = self.shape(inner)[..rank].to_vec();
        let dtype = self.dtype(inner);
        self.add(Node::Reduce { reduction, inner }, shape, dtype)
    }

    /// Inserts axes of extent 1 where `axes` of the result say.
    pub fn insert_axes(&mut self, node: NodeId, axes: &[usize]) -> NodeId {
        let mut own = self.shape(node).to_vec().into_iter();
        let rank = self.shape(node).len() + axes.len();
        let (mut shape, mut index) = (Vec::new(), Vec::new());
        for axis in 0..rank {
            if axes.contains(&axis) {
                shape.push(Number::integer(1));
            } else {
                shape.extend(own.next());
                index.push(format!("${axis}"));
            }
        }
        self.view(node, shape, index)
    }

    /// Removes axes of extent 1.
    pub fn remove_axes(&mut self, node: NodeId, axes: &[usize]) -> NodeId {
        let own = self.shape(node).to_vec();
        let (mut shape, mut index) = (Vec::new(), Vec::new());
        for (axis, extent) in own.into_iter().enumerate() {
            if axes.contains(&axis) {
                index.push("0".to_owned());
            } else {
                index.push(format!("${}", shape.len()));
                shape.push(extent);
            }
        }
        self.view(node, shape, index)
    }

    /// The elements in the same order with another shape; `None` if the counts differ.
    pub fn reshape(&mut self, node: NodeId, shape: Vec<Number>) -> Option<NodeId> {
        let own = self.shape(node).to_vec();
        let same = |(one, other): &(&Number, &Number)| one.text == other.text;
        let front = own.iter().zip(&shape).take_while(same).count();
        let room = own.len().min(shape.len()) - front;
        let back = own.iter().rev().zip(shape.iter().rev()).take_while(same);
        let back = back.count().min(room);
        let (old, new) = (
            &own[front..own.len() - back],
            &shape[front..shape.len() - back],
        );
        let factors = |extents: &[Number]| {
            let mut factors = extents.iter().flat_map(Number::factors).collect::<Vec<_>>();
            factors.retain(|factor| factor != "1");
            factors.sort();
            factors
        };
        if factors(old) != factors(new) {
            if product(old).whole() != product(new).whole() {
                return None;
            }
            for extent in old.iter().chain(new) {
                self.pin(extent);
            }
        }
        let mut flat = "0".to_owned();
        for (axis, extent) in new.iter().enumerate() {
            let place = format!("${}", front + axis);
            flat = if axis == 0 {
                place
            } else {
                format!("({flat} * {} + {place})", extent.text)
            };
        }
        let mut index = (0..front)
            .map(|axis| format!("${axis}"))
            .collect::<Vec<_>>();
        for axis in 0..old.len() {
            let inner = product(&old[axis + 1..]);
            let mut text = flat.clone();
            if inner.text != "1" {
                text = format!("{text} / {}", inner.text);
            }
            if axis > 0 {
                text = format!("{text} % {}", old[axis].text);
            }
            index.push(text);
        }
        index.extend((shape.len() - back..shape.len()).map(|axis| format!("${axis}")));
        Some(self.view(node, shape, index))
    }

    /// The nodes that some nodes depend on, and these themselves.
    pub fn reachable(&self, from: impl Iterator<Item = NodeId>) -> BTreeSet<NodeId> {
        let mut seen = BTreeSet::new();
        let mut open = from.collect::<Vec<_>>();
        while let Some(node) = open.pop() {
            if seen.insert(node) {
                match &self.entries[node].node {
                    Node::Input(_) | Node::Constant(_) => {}
                    Node::Map { operands, .. } => open.extend(operands),
                    Node::View { source, .. } => open.push(*source),
                    Node::Reduce { inner, .. } => open.push(*inner),
                }
            }
        }
        seen
    }

    /// The number of terms summed for an element of some nodes: the largest of all sums.
    pub fn terms(&self, from: impl Iterator<Item = NodeId>) -> String {
        let mut counts = BTreeSet::new();
        for node in self.reachable(from) {
            let entry = &self.entries[node];
            if let Node::Reduce {
                reduction: Reduction::Sum | Reduction::Product,
                inner,
            } = entry.node
            {
                counts.insert(product(&self.shape(inner)[entry.shape.len()..]).text);
            }
        }
        let all = counts
            .into_iter()
            .reduce(|one, other| format!("max({one}, {other})"));
        all.unwrap_or_else(|| "1".to_owned())
    }
}

/// The type in which two types meet.
pub(crate) fn wider(one: Dtype, other: Dtype) -> Dtype {
    match (one, other) {
        (Dtype::F64, _) | (_, Dtype::F64) => Dtype::F64,
        (Dtype::F16, Dtype::F16) => Dtype::F16,
        (Dtype::Bf16, Dtype::Bf16) => Dtype::Bf16,
        _ => Dtype::F32,
    }
}
