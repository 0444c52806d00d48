//! PyTorch's operations as nodes of the graph, by name; a method of a tensor has the tensor as its first
//! argument.

use domain::dtype::Dtype;
use domain::problem::Problem;
use tree_sitter::Node;

use super::arguments::Arguments;
use super::functions;
use super::graph::{Node as GraphNode, NodeId, Reduction};
use super::interpret::{Interpreter, Value, is_in_place};
use super::number::Number;

impl<'s> Interpreter<'s> {
    pub fn operation(
        &mut self,
        node: Node<'s>,
        name: &str,
        arguments: &Arguments<'s>,
    ) -> Result<Value<'s>, Problem> {
        let translated;
        let (name, arguments) = if self.is_numpy {
            let (own, list) = self.translate_numpy(node, name, arguments)?;
            translated = list;
            (own, &translated)
        } else {
            (name, arguments)
        };
        if let Some(problem) = self.refused_operation(node, name) {
            return Err(problem);
        }
        let out = match arguments.get_named("out") {
            Some(Value::Tensor(buffer)) => Some(*buffer),
            _ => None,
        };
        let value = self.translate(node, name, arguments)?;
        let is_drawn = self.is_making_inputs && is_in_place(name);
        if let Some(unread) = arguments.first_unread().filter(|_| !is_drawn) {
            return Err(self.unknown_argument(node, &unread, name));
        }
        let Some(buffer) = out else {
            return Ok(value);
        };
        self.overwrite(node, buffer, &value)?;
        Ok(Value::Tensor(buffer))
    }

    /// Translates an operation by its name in PyTorch.
    fn translate(
        &mut self,
        node: Node<'s>,
        name: &str,
        arguments: &Arguments<'s>,
    ) -> Result<Value<'s>, Problem> {
        if ["cat", "concat", "stack"].contains(&name) {
            return self.join(node, name == "stack", arguments);
        }
        if name == "einsum" {
            return self.einsum(node, arguments);
        }
        let first = arguments.get(0, "input").cloned();
        let Some(x) = first.and_then(|value| self.tensor(&value)) else {
            return Err(self.unknown(node, "an operation"));
        };
        if self.is_making_inputs && is_in_place(name) {
            return Ok(Value::Tensor(x));
        }
        if let Some(function) = functions::unary(name)
            && !(name == "gelu"
                && matches!(arguments.get(1, "approximate"), Some(Value::Text(text)) if text == "tanh"))
        {
            return self.map(node, function, &[x]);
        }
        if let Some(function) = functions::binary(name) {
            let other = arguments.get(1, "other").cloned();
            if let Some(other) = other.and_then(|value| self.tensor(&value)) {
                return self.map(node, function, &[x, other]);
            }
        }
        if let Some(value) = self.activation(node, name, x, arguments)? {
            return Ok(value);
        }
        if let Some(value) = self.reduction(node, name, x, arguments)? {
            return Ok(value);
        }
        if let Some(value) = self.rearrangement(node, name, x, arguments)? {
            return Ok(value);
        }
        if let Some(value) = self.contraction(node, name, x, arguments)? {
            return Ok(value);
        }
        Err(self.unknown(node, &format!("the operation {name}")))
    }

    /// The reason why an operation can never be part of a task.
    fn refused_operation(&self, node: Node<'s>, name: &str) -> Option<Problem> {
        let (why, fix) = match name {
            "dropout" | "bernoulli" | "multinomial" | "rand_like" | "randn_like" => (
                "draws random numbers, so that there is no one right answer",
                "leave it out, as in inference",
            ),
            "argmax"
            | "argmin"
            | "topk"
            | "sort"
            | "argsort"
            | "gather"
            | "scatter"
            | "scatter_add"
            | "index_select"
            | "embedding"
            | "one_hot"
            | "nonzero"
            | "unique"
            | "cross_entropy"
            | "nll_loss"
            | "quantize_per_tensor" => (
                "works with indices or chooses by value, which a graph of elements and sums cannot express",
                "begin with task init and a reference of your own",
            ),
            "batch_norm" => (
                "keeps running statistics",
                "write the normalisation with mean and var, or with statistics as inputs",
            ),
            _ => return None,
        };
        Some(self.refuse(node, format!("{name} {why}"), fix))
    }

    pub fn number(&self, arguments: &Arguments<'s>, at: usize, name: &str, preset: f64) -> Number {
        let number = arguments.get_number(at, name).cloned();
        number.unwrap_or(Number::real(preset))
    }

    pub fn scalar(&mut self, number: Number) -> NodeId {
        self.graph.constant(number, Vec::new(), Dtype::F32)
    }

    pub fn real(&mut self, value: f64) -> NodeId {
        self.scalar(Number::real(value))
    }

    /// A function of tensors whose shapes are known to fit.
    pub fn apply(
        &mut self,
        node: Node<'s>,
        name: &str,
        operands: &[NodeId],
    ) -> Result<NodeId, Problem> {
        let function = functions::binary(name).or_else(|| functions::unary(name));
        let Some(function) = function else {
            return Err(self.unknown(node, name));
        };
        match self.map(node, function, operands)? {
            Value::Tensor(tensor) => Ok(tensor),
            _ => Err(self.unknown(node, name)),
        }
    }

    /// Activations with parameters, powers, choices and losses.
    fn activation(
        &mut self,
        node: Node<'s>,
        name: &str,
        x: NodeId,
        arguments: &Arguments<'s>,
    ) -> Result<Option<Value<'s>>, Problem> {
        let made = match name {
            "gelu" => return self.map(node, &functions::GELU_TANH, &[x]).map(Some),
            "leaky_relu" => {
                let slope = self.number(arguments, 1, "negative_slope", 0.01);
                let slope = self.scalar(slope);
                return self
                    .map(node, &functions::LEAKY_RELU, &[x, slope])
                    .map(Some);
            }
            "elu" => {
                let alpha = self.number(arguments, 1, "alpha", 1.0);
                let alpha = self.scalar(alpha);
                return self.map(node, &functions::ELU, &[x, alpha]).map(Some);
            }
            "hardtanh" | "clamp" | "clip" => {
                let preset = if name == "hardtanh" {
                    1.0
                } else {
                    f64::INFINITY
                };
                let (low, high) = if name == "hardtanh" {
                    ("min_val", "max_val")
                } else {
                    ("min", "max")
                };
                let low = self.number(arguments, 1, low, -preset);
                let high = self.number(arguments, 2, high, preset);
                let (low, high) = (self.scalar(low), self.scalar(high));
                return self.map(node, &functions::CLAMP, &[x, low, high]).map(Some);
            }
            "pow" => {
                let exponent = match arguments.get(1, "exponent") {
                    Some(Value::Number(number)) => number.clone(),
                    _ => return Ok(None),
                };
                let whole = exponent.value;
                if whole == 2.0 {
                    self.apply(node, "square", &[x])?
                } else if whole == 3.0 {
                    let square = self.apply(node, "square", &[x])?;
                    self.apply(node, "*", &[square, x])?
                } else if whole == 0.5 {
                    self.apply(node, "sqrt", &[x])?
                } else if whole == -0.5 {
                    self.apply(node, "rsqrt", &[x])?
                } else {
                    let exponent = self.scalar(exponent);
                    return self.map(node, &functions::POWER, &[x, exponent]).map(Some);
                }
            }
            "where" => {
                let (one, other) = (
                    arguments.get(1, "input").cloned(),
                    arguments.get(2, "other").cloned(),
                );
                let one = one.and_then(|value| self.tensor(&value));
                let other = other.and_then(|value| self.tensor(&value));
                let (Some(one), Some(other)) = (one, other) else {
                    return Ok(None);
                };
                return self
                    .map(node, &functions::SELECT, &[x, one, other])
                    .map(Some);
            }
            "masked_fill" => {
                let (mask, value) = (
                    arguments.get(1, "mask").cloned(),
                    arguments.get(2, "value").cloned(),
                );
                let mask = mask.and_then(|value| self.tensor(&value));
                let value = value.and_then(|value| self.tensor(&value));
                let (Some(mask), Some(value)) = (mask, value) else {
                    return Ok(None);
                };
                return self
                    .map(node, &functions::SELECT, &[mask, value, x])
                    .map(Some);
            }
            "mse_loss" | "l1_loss" | "smooth_l1_loss" | "huber_loss" => {
                return self.loss(node, name, x, arguments);
            }
            _ => return Ok(None),
        };
        Ok(Some(Value::Tensor(made)))
    }

    fn loss(
        &mut self,
        node: Node<'s>,
        name: &str,
        x: NodeId,
        arguments: &Arguments<'s>,
    ) -> Result<Option<Value<'s>>, Problem> {
        let target = arguments.get(1, "target").cloned();
        let Some(target) = target.and_then(|value| self.tensor(&value)) else {
            return Ok(None);
        };
        let difference = self.apply(node, "-", &[x, target])?;
        let each = match name {
            "mse_loss" => self.apply(node, "square", &[difference])?,
            "l1_loss" => self.apply(node, "abs", &[difference])?,
            _ => {
                let width = if name == "huber_loss" {
                    "delta"
                } else {
                    "beta"
                };
                let width = self.number(arguments, 4, width, 1.0);
                if width.value != 1.0 {
                    return Ok(None);
                }
                let (one, half) = (self.real(1.0), self.real(0.5));
                let size = self.apply(node, "abs", &[difference])?;
                let square = self.apply(node, "square", &[difference])?;
                let inner = self.apply(node, "*", &[square, half])?;
                let outer = self.apply(node, "-", &[size, half])?;
                let near = self.apply(node, "<", &[size, one])?;
                let Value::Tensor(each) =
                    self.map(node, &functions::SELECT, &[near, inner, outer])?
                else {
                    return Ok(None);
                };
                each
            }
        };
        match arguments.get(9, "reduction") {
            Some(Value::Text(text)) if text == "none" => Ok(Some(Value::Tensor(each))),
            Some(Value::Text(text)) if text == "sum" => {
                let axes = self.all_axes(each);
                Ok(Some(Value::Tensor(self.graph.reduce(
                    Reduction::Sum,
                    each,
                    &axes,
                ))))
            }
            _ => {
                let axes = self.all_axes(each);
                self.mean(node, each, &axes)
                    .map(|mean| Some(Value::Tensor(mean)))
            }
        }
    }

    pub fn all_axes(&self, x: NodeId) -> Vec<usize> {
        (0..self.graph.shape(x).len()).collect()
    }

    /// An axis, counted from the end where it is negative.
    pub fn axis(&mut self, number: &Number, rank: usize) -> Option<usize> {
        let at = self.graph.pin(number)?;
        let rank = i64::try_from(rank).ok()?;
        let at = if at < 0 { at + rank } else { at };
        usize::try_from(at).ok().filter(|_| at < rank)
    }

    pub fn axes(
        &mut self,
        node: Node<'s>,
        value: Option<&Value<'s>>,
        rank: usize,
    ) -> Result<Option<Vec<usize>>, Problem> {
        let numbers = match value {
            None | Some(Value::None) => return Ok(None),
            Some(Value::Number(number)) => vec![number.clone()],
            Some(Value::List(values)) => values
                .iter()
                .filter_map(|value| match value {
                    Value::Number(number) => Some(number.clone()),
                    _ => None,
                })
                .collect(),
            _ => return Err(self.unknown(node, "an axis")),
        };
        let axes = numbers
            .iter()
            .map(|number| self.axis(number, rank))
            .collect::<Option<Vec<_>>>();
        axes.map(Some)
            .ok_or_else(|| self.refuse(node, "the tensor has no such axis", "correct dim"))
    }

    /// Tensors along a new axis, or one behind the other.
    fn join(
        &mut self,
        node: Node<'s>,
        is_stack: bool,
        arguments: &Arguments<'s>,
    ) -> Result<Value<'s>, Problem> {
        let parts = match arguments.get(0, "tensors") {
            Some(Value::List(values)) => values.clone(),
            _ => return Err(self.unknown(node, "a list of tensors")),
        };
        let mut tensors = Vec::new();
        for part in &parts {
            let Value::Tensor(tensor) = part else {
                return Err(self.unknown(node, "a list of tensors"));
            };
            tensors.push(*tensor);
        }
        let Some(first) = tensors.first() else {
            return Err(self.unknown(node, "an empty list"));
        };
        let rank = self.graph.shape(*first).len() + usize::from(is_stack);
        let zero = Value::Number(Number::integer(0));
        let dim = arguments.get(1, "dim").cloned().unwrap_or(zero);
        let axis = self
            .axes(node, Some(&dim), rank)?
            .and_then(|axes| axes.first().copied())
            .unwrap_or(0);
        if is_stack {
            tensors = tensors
                .into_iter()
                .map(|tensor| self.graph.insert_axes(tensor, &[axis]))
                .collect();
        }
        let mut whole = Number::integer(0);
        for tensor in &tensors {
            whole = whole
                .combine("+", &self.graph.shape(*tensor)[axis])
                .unwrap_or(whole);
        }
        let mut shape = self.graph.shape(tensors[0]).to_vec();
        shape[axis] = whole;
        let (mut joined, mut start) = (None, Number::integer(0));
        for tensor in tensors {
            let extent = self.graph.shape(tensor)[axis].clone();
            let end = start.combine("+", &extent).unwrap_or(extent);
            let index = (0..rank).map(|at| {
                if at == axis && start.text != "0" {
                    format!("${at} - {}", start.text)
                } else {
                    format!("${at}")
                }
            });
            let index = index.collect();
            let guard = format!("${axis} >= {} && ${axis} < {}", start.text, end.text);
            let part = self
                .graph
                .guarded(tensor, shape.clone(), index, (guard, "0"));
            joined = Some(match joined {
                Some(known) => self.apply(node, "+", &[known, part])?,
                None => part,
            });
            start = end;
        }
        Ok(joined.map_or(Value::None, Value::Tensor))
    }

    /// A tensor that the source makes from nothing: one that it draws is an input of the task.
    pub fn draw(
        &mut self,
        node: Node<'s>,
        name: &str,
        arguments: &Arguments<'s>,
    ) -> Result<Option<Value<'s>>, Problem> {
        let dtype = match arguments.get_named("dtype") {
            Some(Value::Type(dtype)) => Some(*dtype),
            _ => None,
        };
        let like = match arguments.get(0, "input") {
            Some(Value::Tensor(other)) if name.ends_with("_like") => Some(*other),
            _ => None,
        };
        let dtype = dtype.or(like.map(|other| self.graph.dtype(other)));
        let dtype = dtype.unwrap_or(Dtype::F32);
        let size = arguments.get_named("size");
        let extents = match (arguments.positional.as_slice(), size, like) {
            (_, _, Some(other)) => {
                let shape = self.graph.shape(other).iter().cloned();
                shape.map(Value::Number).collect()
            }
            ([Value::List(extents), ..], _, _) | ([], Some(Value::List(extents)), _) => {
                extents.clone()
            }
            (other, _, _) => other.to_vec(),
        };
        let extents = extents.iter().map(|value| match value {
            Value::Number(number) if number.whole => Some(number.clone()),
            _ => None,
        });
        let shape = extents.collect::<Option<Vec<_>>>();
        Ok(Some(match name {
            "rand" | "randn" | "empty" | "empty_like" => {
                let Some(shape) = shape else {
                    return Err(self.unknown(node, "the shape of a tensor"));
                };
                let number = self.drawn.len();
                let made = self
                    .graph
                    .add(GraphNode::Input(format!("input{number}")), shape, dtype);
                self.drawn.push(made);
                Value::Tensor(made)
            }
            "zeros" | "ones" | "full" | "zeros_like" | "ones_like" | "full_like" => {
                let Some(shape) = shape else {
                    return Err(self.unknown(node, "the shape of a tensor"));
                };
                let value = match name {
                    "full" | "full_like" => self.number(arguments, 1, "fill_value", f64::NAN),
                    "ones" | "ones_like" => Number::real(1.0),
                    _ => Number::real(0.0),
                };
                if value.value.is_nan() {
                    return Err(self.unknown(node, "the value of a tensor"));
                }
                Value::Tensor(self.graph.constant(value, shape, dtype))
            }
            "tensor" => match arguments.positional.first() {
                Some(value @ Value::Number(_)) => value.clone(),
                _ => return Err(self.unknown(node, "a tensor of numbers")),
            },
            "randint" | "arange" | "randperm" | "linspace" | "eye" => {
                let message =
                    format!("{name} makes indices or fixed numbers, and inputs are drawn as reals");
                return Err(self.refuse(
                    node,
                    message,
                    "begin with task init and a reference of your own",
                ));
            }
            _ => return Ok(None),
        }))
    }
}
