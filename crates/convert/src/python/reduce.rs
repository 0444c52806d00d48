//! Reductions: sums, extremes, norms and what is made of them.

use domain::problem::Problem;
use tree_sitter::Node;

use super::arguments::Arguments;
use super::graph::{NodeId, Reduction};
use super::interpret::{Interpreter, Value};
use super::number::{Number, product};

impl<'s> Interpreter<'s> {
    fn count(&self, x: NodeId, axes: &[usize]) -> Number {
        let shape = self.graph.shape(x);
        product(
            &axes
                .iter()
                .map(|axis| shape[*axis].clone())
                .collect::<Vec<_>>(),
        )
    }

    pub fn mean(&mut self, node: Node<'s>, x: NodeId, axes: &[usize]) -> Result<NodeId, Problem> {
        let count = self.count(x, axes);
        let sum = self.graph.reduce(Reduction::Sum, x, axes);
        let count = self.scalar(count);
        self.apply(node, "/", &[sum, count])
    }

    /// A reduction whose axes stay with an extent of 1.
    fn kept(&mut self, x: NodeId, axes: &[usize]) -> NodeId {
        let mut axes = axes.to_vec();
        axes.sort_unstable();
        self.graph.insert_axes(x, &axes)
    }

    /// The differences from the mean over axes, and the mean of their squares, both broadcastable.
    fn centred(
        &mut self,
        node: Node<'s>,
        x: NodeId,
        axes: &[usize],
        correction: f64,
    ) -> Result<[NodeId; 2], Problem> {
        let mean = self.mean(node, x, axes)?;
        let mean = self.kept(mean, axes);
        let centred = self.apply(node, "-", &[x, mean])?;
        let squares = self.apply(node, "square", &[centred])?;
        let sum = self.graph.reduce(Reduction::Sum, squares, axes);
        let count = self.count(x, axes);
        let count = match Number::real(correction) {
            zero if zero.value == 0.0 => count,
            other => count.combine("-", &other).unwrap_or(count),
        };
        let count = self.scalar(count);
        let variance = self.apply(node, "/", &[sum, count])?;
        Ok([centred, variance])
    }

    /// `(x - mean) / sqrt(variance + eps)` over axes.
    pub fn normalise(
        &mut self,
        node: Node<'s>,
        x: NodeId,
        axes: &[usize],
        eps: Number,
    ) -> Result<NodeId, Problem> {
        let [centred, variance] = self.centred(node, x, axes, 0.0)?;
        let eps = self.scalar(eps);
        let shifted = self.apply(node, "+", &[variance, eps])?;
        let inverse = self.apply(node, "rsqrt", &[shifted])?;
        let inverse = self.kept(inverse, axes);
        self.apply(node, "*", &[centred, inverse])
    }

    pub fn exponentials(
        &mut self,
        node: Node<'s>,
        x: NodeId,
        axis: usize,
    ) -> Result<[NodeId; 3], Problem> {
        let largest = self.graph.reduce(Reduction::Maximum, x, &[axis]);
        let largest = self.kept(largest, &[axis]);
        let shifted = self.apply(node, "-", &[x, largest])?;
        let each = self.apply(node, "exp", &[shifted])?;
        let sum = self.graph.reduce(Reduction::Sum, each, &[axis]);
        let sum = self.kept(sum, &[axis]);
        Ok([shifted, each, sum])
    }

    pub fn softmax(&mut self, node: Node<'s>, x: NodeId, axis: usize) -> Result<NodeId, Problem> {
        let [_, each, sum] = self.exponentials(node, x, axis)?;
        self.apply(node, "/", &[each, sum])
    }

    pub fn reduction(
        &mut self,
        node: Node<'s>,
        name: &str,
        x: NodeId,
        arguments: &Arguments<'s>,
    ) -> Result<Option<Value<'s>>, Problem> {
        let rank = self.graph.shape(x).len();
        let dim_at = usize::from(name == "norm") + 1;
        let given = match name {
            "sum" | "prod" | "amax" | "max" | "amin" | "min" | "mean" | "var" | "std" | "norm"
            | "logsumexp" | "softmax" | "log_softmax" | "softmin" | "cumsum" => {
                self.axes(node, arguments.get(dim_at, "dim"), rank)?
            }
            "layer_norm" | "rms_norm" | "normalize" | "cosine_similarity" => None,
            _ => return Ok(None),
        };
        let x = match arguments.get_named("dtype") {
            Some(Value::Type(_)) => match self.convert("to", x, arguments) {
                Value::Tensor(converted) => converted,
                _ => x,
            },
            _ => x,
        };
        let axes = given.clone().unwrap_or_else(|| (0..rank).collect());
        // Behind dim of var and std stands unbiased.
        let keep_at = dim_at + 1 + usize::from(["var", "std"].contains(&name));
        let keeps_dims = [
            "sum",
            "prod",
            "amax",
            "max",
            "amin",
            "min",
            "mean",
            "var",
            "std",
            "norm",
            "logsumexp",
        ];
        let keep = keeps_dims.contains(&name)
            && matches!(arguments.get(keep_at, "keepdim"), Some(Value::Bool(true)));
        let reduced = match name {
            "sum" => self.graph.reduce(Reduction::Sum, x, &axes),
            "prod" => self.graph.reduce(Reduction::Product, x, &axes),
            "amax" | "max" => self.graph.reduce(Reduction::Maximum, x, &axes),
            "amin" | "min" => self.graph.reduce(Reduction::Minimum, x, &axes),
            "mean" => self.mean(node, x, &axes)?,
            "var" | "std" => {
                let biased = matches!(arguments.get(2, "unbiased"), Some(Value::Bool(false)));
                let preset = if biased { 0.0 } else { 1.0 };
                let correction = self.number(arguments, 9, "correction", preset).value;
                let [_, variance] = self.centred(node, x, &axes, correction)?;
                if name == "std" {
                    self.apply(node, "sqrt", &[variance])?
                } else {
                    variance
                }
            }
            "norm" => {
                let p = match arguments.get(1, "p") {
                    Some(Value::Text(text)) if text == "fro" => 2.0,
                    Some(Value::Number(number)) => number.value,
                    _ => 2.0,
                };
                if p == 1.0 {
                    let sizes = self.apply(node, "abs", &[x])?;
                    self.graph.reduce(Reduction::Sum, sizes, &axes)
                } else if p == 2.0 {
                    let squares = self.apply(node, "square", &[x])?;
                    let sum = self.graph.reduce(Reduction::Sum, squares, &axes);
                    self.apply(node, "sqrt", &[sum])?
                } else {
                    return Err(self.refuse(
                        node,
                        "a norm with another p than 1 or 2",
                        "write it with pow and sum",
                    ));
                }
            }
            "logsumexp" => {
                let [axis] = axes.as_slice() else {
                    return Ok(None);
                };
                let largest = self.graph.reduce(Reduction::Maximum, x, &axes);
                let [_, _, sum] = self.exponentials(node, x, *axis)?;
                let sum = self.graph.remove_axes(sum, &[*axis]);
                let log = self.apply(node, "log", &[sum])?;
                self.apply(node, "+", &[log, largest])?
            }
            "softmax" | "log_softmax" | "softmin" => {
                let axis = axes.first().copied().filter(|_| given.is_some());
                let Some(axis) = axis else {
                    return Err(self.refuse(node, format!("{name} without dim"), "pass dim"));
                };
                let x = if name == "softmin" {
                    self.apply(node, "neg", &[x])?
                } else {
                    x
                };
                if name == "log_softmax" {
                    let [shifted, _, sum] = self.exponentials(node, x, axis)?;
                    let log = self.apply(node, "log", &[sum])?;
                    return Ok(Some(Value::Tensor(self.apply(
                        node,
                        "-",
                        &[shifted, log],
                    )?)));
                }
                return Ok(Some(Value::Tensor(self.softmax(node, x, axis)?)));
            }
            "normalize" => {
                if self.number(arguments, 1, "p", 2.0).value != 2.0 {
                    return Err(self.refuse(
                        node,
                        "a normalisation with another p than 2",
                        "write it with pow and sum",
                    ));
                }
                let axis = self
                    .axes(node, arguments.get(2, "dim"), rank)?
                    .unwrap_or(vec![1]);
                let squares = self.apply(node, "square", &[x])?;
                let sum = self.graph.reduce(Reduction::Sum, squares, &axis);
                let norm = self.apply(node, "sqrt", &[sum])?;
                let least = self.number(arguments, 3, "eps", 1e-12);
                let least = self.scalar(least);
                let norm = self.apply(node, "maximum", &[norm, least])?;
                let norm = self.kept(norm, &axis);
                return Ok(Some(Value::Tensor(self.apply(node, "/", &[x, norm])?)));
            }
            "cosine_similarity" => {
                let other = arguments.get(1, "x2").cloned();
                let Some(other) = other.and_then(|value| self.tensor(&value)) else {
                    return Ok(None);
                };
                let axis = self
                    .axes(node, arguments.get(2, "dim"), rank)?
                    .unwrap_or(vec![1]);
                let mut sums = Vec::new();
                for (a, b) in [(x, other), (x, x), (other, other)] {
                    let products = self.apply(node, "*", &[a, b])?;
                    sums.push(self.graph.reduce(Reduction::Sum, products, &axis));
                }
                let sizes = [
                    self.apply(node, "sqrt", &[sums[1]])?,
                    self.apply(node, "sqrt", &[sums[2]])?,
                ];
                let size = self.apply(node, "*", &sizes)?;
                let least = self.number(arguments, 3, "eps", 1e-8);
                let least = self.scalar(least);
                let size = self.apply(node, "maximum", &[size, least])?;
                return Ok(Some(Value::Tensor(self.apply(
                    node,
                    "/",
                    &[sums[0], size],
                )?)));
            }
            "cumsum" => {
                let [axis] = axes.as_slice() else {
                    return Ok(None);
                };
                let mut shape = self.graph.shape(x).to_vec();
                let index = (0..rank).map(|at| {
                    if at == *axis {
                        format!("${rank}")
                    } else {
                        format!("${at}")
                    }
                });
                let index = index.collect();
                let guard = (format!("${rank} <= ${axis}"), "0");
                shape.push(shape[*axis].clone());
                let terms = self.graph.guarded(x, shape, index, guard);
                self.graph.reduce(Reduction::Sum, terms, &[rank])
            }
            "layer_norm" | "rms_norm" => {
                let count = match arguments.get(1, "normalized_shape") {
                    Some(Value::List(extents)) => extents.len(),
                    _ => 1,
                };
                let axes = (rank - count.min(rank)..rank).collect::<Vec<_>>();
                let rms = name == "rms_norm";
                let eps_at = if rms { 3 } else { 4 };
                let eps = self.number(arguments, eps_at, "eps", if rms { 1.2e-7 } else { 1e-5 });
                let mut y = if rms {
                    let squares = self.apply(node, "square", &[x])?;
                    let mean = self.mean(node, squares, &axes)?;
                    let eps = self.scalar(eps);
                    let shifted = self.apply(node, "+", &[mean, eps])?;
                    let inverse = self.apply(node, "rsqrt", &[shifted])?;
                    let inverse = self.kept(inverse, &axes);
                    self.apply(node, "*", &[x, inverse])?
                } else {
                    self.normalise(node, x, &axes, eps)?
                };
                for (at, name, operator) in [(2, "weight", "*"), (3, "bias", "+")] {
                    if rms && name == "bias" {
                        continue;
                    }
                    if let Some(Value::Tensor(weight)) = arguments.get(at, name).cloned() {
                        y = self.apply(node, operator, &[y, weight])?;
                    }
                }
                return Ok(Some(Value::Tensor(y)));
            }
            _ => return Ok(None),
        };
        let result = if keep && given.is_some() {
            self.kept(reduced, &axes)
        } else {
            reduced
        };
        let with_indices = ["max", "min"].contains(&name) && given.is_some();
        Ok(Some(if with_indices {
            // The indices are never read: an operation on them is refused.
            Value::List(vec![Value::Tensor(result), Value::None])
        } else {
            Value::Tensor(result)
        }))
    }
}
