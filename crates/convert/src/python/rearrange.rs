//! Operations that move elements, and subscripts.

use domain::dtype::Dtype;
use domain::problem::Problem;
use tree_sitter::Node;

use super::arguments::Arguments;
use super::graph::NodeId;
use super::interpret::{Interpreter, Value};
use super::number::{Number, product};

impl<'s> Interpreter<'s> {
    pub fn rearrangement(
        &mut self,
        node: Node<'s>,
        name: &str,
        x: NodeId,
        arguments: &Arguments<'s>,
    ) -> Result<Option<Value<'s>>, Problem> {
        let rank = self.graph.shape(x).len();
        let rest = |from: usize| match arguments.get_from(from) {
            [Value::List(values)] => values.clone(),
            values => values.to_vec(),
        };
        let made = match name {
            "contiguous" | "clone" | "detach" | "cuda" | "cpu" | "numpy" | "requires_grad_" => {
                // A device, or a layer's arguments that name no operation.
                arguments.get_from(1);
                x
            }
            "float" | "half" | "bfloat16" | "double" | "to" | "type" | "type_as" => {
                return Ok(Some(self.convert(name, x, arguments)));
            }
            "t" => return self.transpose_last(node, x).map(Some),
            "transpose" | "swapaxes" => {
                let pair = rest(1);
                let axes = self
                    .axes(node, Some(&Value::List(pair)), rank)?
                    .unwrap_or_default();
                let [a, b] = axes.as_slice() else {
                    return Ok(None);
                };
                let mut order = (0..rank).collect::<Vec<_>>();
                order.swap(*a, *b);
                self.graph.permute(x, &order)
            }
            "permute" => {
                let order = self
                    .axes(node, Some(&Value::List(rest(1))), rank)?
                    .unwrap_or_default();
                if order.len() != rank {
                    return Err(self.refuse(
                        node,
                        "permute does not name every axis once",
                        "correct its order",
                    ));
                }
                self.graph.permute(x, &order)
            }
            "unsqueeze" => {
                let axes = self
                    .axes(node, arguments.get(1, "dim"), rank + 1)?
                    .unwrap_or_default();
                self.graph.insert_axes(x, &axes)
            }
            "squeeze" => {
                let shape = self.graph.shape(x).to_vec();
                let given = self.axes(node, arguments.get(1, "dim"), rank)?;
                let axes = given.unwrap_or_else(|| (0..rank).collect());
                let axes = axes
                    .into_iter()
                    .filter(|axis| shape[*axis].whole() == Some(1))
                    .collect::<Vec<_>>();
                for axis in &axes {
                    self.graph.pin(&shape[*axis]);
                }
                self.graph.remove_axes(x, &axes)
            }
            "view" | "reshape" => return self.reshaped(node, x, &rest(1)).map(Some),
            "flatten" => {
                let start = self
                    .axes(node, arguments.get(1, "start_dim"), rank)?
                    .map_or(0, |axes| axes[0]);
                let end = self
                    .axes(node, arguments.get(2, "end_dim"), rank)?
                    .map_or(rank, |axes| axes[0] + 1);
                let own = self.graph.shape(x).to_vec();
                let mut shape = own[..start].to_vec();
                shape.push(product(&own[start..end]));
                shape.extend_from_slice(&own[end..]);
                let reshaped = self.graph.reshape(x, shape);
                reshaped.ok_or_else(|| self.unknown(node, "a shape"))?
            }
            "expand" | "expand_as" => {
                let own = self.graph.shape(x).to_vec();
                let shape = match rest(1).as_slice() {
                    [Value::Tensor(other)] => self.graph.shape(*other).to_vec(),
                    values => self.extents(node, values)?,
                };
                let first = shape.len().saturating_sub(own.len());
                let shape = shape.iter().enumerate().map(|(at, extent)| {
                    if extent.whole() == Some(-1) {
                        own[at - first].clone()
                    } else {
                        extent.clone()
                    }
                });
                let shape = shape.collect::<Vec<_>>();
                self.graph.broadcast(x, &shape)
            }
            "tril" | "triu" => {
                let shift = self.number(arguments, 1, "diagonal", 0.0);
                let shift = self.graph.pin(&shift).unwrap_or(0);
                let shape = self.graph.shape(x).to_vec();
                if rank < 2 {
                    return Ok(None);
                }
                let (row, column) = (rank - 2, rank - 1);
                let order = if name == "tril" { "<=" } else { ">=" };
                let index = (0..rank).map(|axis| format!("${axis}")).collect();
                let guard = format!("${column} {order} ${row} + {shift}");
                self.graph.guarded(x, shape, index, (guard, "0"))
            }
            "flip" => {
                let axes = self
                    .axes(node, Some(&Value::List(rest(1))), rank)?
                    .unwrap_or_default();
                let shape = self.graph.shape(x).to_vec();
                let index = (0..rank).map(|axis| {
                    if axes.contains(&axis) {
                        format!("{} - 1 - ${axis}", shape[axis].text)
                    } else {
                        format!("${axis}")
                    }
                });
                let index = index.collect();
                self.graph.view(x, shape, index)
            }
            "chunk" | "split" => return self.split(node, name == "chunk", x, arguments).map(Some),
            "size" => {
                let extents = self.graph.shape(x).to_vec();
                return Ok(Some(
                    match self.axes(node, arguments.get(1, "dim"), rank)? {
                        Some(axes) => Value::Number(extents[axes[0]].clone()),
                        None => Value::List(extents.into_iter().map(Value::Number).collect()),
                    },
                ));
            }
            "dim" => {
                let rank = i64::try_from(rank).unwrap_or(i64::MAX);
                return Ok(Some(Value::Number(Number::integer(rank))));
            }
            "numel" => return Ok(Some(Value::Number(product(self.graph.shape(x))))),
            _ => return Ok(None),
        };
        Ok(Some(Value::Tensor(made)))
    }

    /// The same values with another type. Between inputs and outputs nothing is rounded.
    pub fn convert(&mut self, name: &str, x: NodeId, arguments: &Arguments<'s>) -> Value<'s> {
        // They choose how the values are copied.
        for name in ["non_blocking", "copy"] {
            arguments.get_named(name);
        }
        let by_name = ["dtype", "other"].map(|name| arguments.get_named(name));
        let given = arguments
            .get_from(1)
            .iter()
            .chain(by_name.into_iter().flatten());
        let mut given = given.filter_map(|value| match value {
            Value::Type(dtype) => Some(*dtype),
            Value::Tensor(other) => Some(self.graph.dtype(*other)),
            Value::Path(path) => super::numpy::dtype(path),
            _ => None,
        });
        let dtype = match name {
            "float" => Dtype::F32,
            "half" => Dtype::F16,
            "bfloat16" => Dtype::Bf16,
            "double" => Dtype::F64,
            _ => given.next_back().unwrap_or(self.graph.dtype(x)),
        };
        if self.is_making_inputs && self.drawn.contains(&x) {
            self.graph.entries[x].dtype = dtype;
        }
        if dtype == self.graph.dtype(x) {
            return Value::Tensor(x);
        }
        let shape = self.graph.shape(x).to_vec();
        let index = (0..shape.len()).map(|axis| format!("${axis}")).collect();
        let made = self.graph.view(x, shape, index);
        self.graph.entries[made].dtype = dtype;
        Value::Tensor(made)
    }

    pub fn transpose_last(&mut self, node: Node<'s>, x: NodeId) -> Result<Value<'s>, Problem> {
        let rank = self.graph.shape(x).len();
        if rank < 2 {
            return Err(self.refuse(node, "a tensor with one axis is transposed", "leave it out"));
        }
        let mut order = (0..rank).collect::<Vec<_>>();
        order.swap(rank - 2, rank - 1);
        Ok(Value::Tensor(self.graph.permute(x, &order)))
    }

    fn extents(&self, node: Node<'s>, values: &[Value<'s>]) -> Result<Vec<Number>, Problem> {
        let extents = values.iter().map(|value| match value {
            Value::Number(number) if number.whole => Some(number.clone()),
            _ => None,
        });
        let extents = extents.collect::<Option<Vec<_>>>();
        extents.ok_or_else(|| self.unknown(node, "a shape"))
    }

    fn reshaped(
        &mut self,
        node: Node<'s>,
        x: NodeId,
        values: &[Value<'s>],
    ) -> Result<Value<'s>, Problem> {
        let mut shape = self.extents(node, values)?;
        if let Some(at) = shape.iter().position(|extent| extent.whole() == Some(-1)) {
            let own = self.graph.shape(x).to_vec();
            let mut left = own.iter().flat_map(Number::factors).collect::<Vec<_>>();
            let mut exact = true;
            for (axis, extent) in shape.iter().enumerate() {
                for factor in extent.factors() {
                    match left.iter().position(|own| *own == factor) {
                        Some(found) => {
                            left.remove(found);
                        }
                        None => exact &= axis == at || factor == "1",
                    }
                }
            }
            let known = product(&shape).whole().unwrap_or(-1).abs().max(1);
            let value = product(&own).whole().unwrap_or(0) / known;
            shape[at] = if exact {
                let names = left
                    .iter()
                    .filter(|factor| *factor != "1")
                    .cloned()
                    .collect::<Vec<_>>();
                let text = match names.as_slice() {
                    [] => "1".to_owned(),
                    [one] => one.clone(),
                    several => format!("({})", several.join(" * ")),
                };
                Number {
                    text,
                    ..Number::integer(value)
                }
            } else {
                for extent in own.iter().chain(&shape) {
                    self.graph.pinned.extend(extent.names());
                }
                Number::integer(value)
            };
        }
        match self.graph.reshape(x, shape) {
            Some(made) => Ok(Value::Tensor(made)),
            None => Err(self.refuse(
                node,
                "the new shape has another number of elements",
                "correct the shape",
            )),
        }
    }

    fn split(
        &mut self,
        node: Node<'s>,
        is_chunk: bool,
        x: NodeId,
        arguments: &Arguments<'s>,
    ) -> Result<Value<'s>, Problem> {
        let rank = self.graph.shape(x).len();
        let zero = Value::Number(Number::integer(0));
        let dim = arguments.get(2, "dim").cloned().unwrap_or(zero);
        let axis = self
            .axes(node, Some(&dim), rank)?
            .and_then(|axes| axes.first().copied())
            .unwrap_or(0);
        let extent = self.graph.shape(x)[axis].clone();
        let sizes = match arguments.get(1, if is_chunk { "chunks" } else { "split_size" }) {
            Some(Value::List(values)) => self.extents(node, values)?,
            Some(Value::Number(number)) => {
                let whole = self.graph.pin(&extent).unwrap_or(0);
                let given = self.graph.pin(number).unwrap_or(0).max(1);
                let size = if is_chunk {
                    (whole + given - 1) / given
                } else {
                    given
                };
                let mut sizes = Vec::new();
                let mut left = whole;
                while left > 0 && size > 0 {
                    sizes.push(Number::integer(size.min(left)));
                    left -= size;
                }
                sizes
            }
            _ => return Err(self.unknown(node, "a split")),
        };
        let (mut parts, mut start) = (Vec::new(), Number::integer(0));
        for size in sizes {
            parts.push(Value::Tensor(self.narrow(x, axis, &start, size.clone())));
            start = start.combine("+", &size).unwrap_or(start);
        }
        Ok(Value::List(parts))
    }

    /// The part of an axis that begins at `start`.
    fn narrow(&mut self, x: NodeId, axis: usize, start: &Number, extent: Number) -> NodeId {
        let mut shape = self.graph.shape(x).to_vec();
        let index = (0..shape.len()).map(|at| {
            if at == axis && start.text != "0" {
                format!("${at} + {}", start.text)
            } else {
                format!("${at}")
            }
        });
        let index = index.collect();
        shape[axis] = extent;
        self.graph.view(x, shape, index)
    }

    pub fn subscript(
        &mut self,
        node: Node<'s>,
        object: Value<'s>,
        places: &[Value<'s>],
    ) -> Result<Value<'s>, Problem> {
        match (object, places) {
            (Value::List(values), [Value::Number(number)]) => {
                let at = self.axis(number, values.len());
                let found = at.and_then(|at| values.into_iter().nth(at));
                found.ok_or_else(|| {
                    self.refuse(node, "the list has no such element", "correct the index")
                })
            }
            (Value::List(values), [Value::Range(start, stop)]) => {
                let mut bound = |number: &Option<Number>, preset: usize| match number {
                    None => preset,
                    Some(number) => {
                        let at = self.graph.pin(number).unwrap_or(0);
                        let length = i64::try_from(values.len()).unwrap_or(0);
                        usize::try_from(if at < 0 { at + length } else { at }.clamp(0, length))
                            .unwrap_or(0)
                    }
                };
                let (start, stop) = (bound(start, 0), bound(stop, values.len()));
                Ok(Value::List(
                    values.get(start..stop).unwrap_or_default().to_vec(),
                ))
            }
            (Value::Mapping(pairs), [Value::Text(key)]) => {
                let mut pairs = pairs.into_iter();
                let found = pairs.find(|(own, _)| own == key).map(|(_, value)| value);
                found.ok_or_else(|| self.unknown(node, "a key"))
            }
            (Value::Tensor(tensor), _) => self.tensor_subscript(node, tensor, places),
            // A type in brackets, such as Tuple[int].
            (Value::Path(path), _) => Ok(Value::Path(path)),
            _ => Err(self.unknown(node, "a subscript")),
        }
    }

    fn tensor_subscript(
        &mut self,
        node: Node<'s>,
        tensor: NodeId,
        places: &[Value<'s>],
    ) -> Result<Value<'s>, Problem> {
        let rank = self.graph.shape(tensor).len();
        let used = places
            .iter()
            .filter(|place| !matches!(place, Value::None | Value::Ellipsis))
            .count();
        let (mut at, mut axis) = (tensor, 0);
        for place in places {
            match place {
                Value::Ellipsis => axis += rank.saturating_sub(used),
                Value::None => {
                    at = self.graph.insert_axes(at, &[axis]);
                    axis += 1;
                }
                Value::Number(number) => {
                    let Some(extent) = self.graph.shape(at).get(axis).cloned() else {
                        return Err(self.unknown(node, "an index"));
                    };
                    let start = if number.value < 0.0 {
                        extent.combine("+", number).unwrap_or(extent)
                    } else {
                        number.clone()
                    };
                    let one = self.narrow(at, axis, &start, Number::integer(1));
                    at = self.graph.remove_axes(one, &[axis]);
                }
                Value::Range(start, stop) => {
                    let Some(extent) = self.graph.shape(at).get(axis).cloned() else {
                        return Err(self.unknown(node, "a slice"));
                    };
                    let from_end = |number: &Number| {
                        if number.value < 0.0 {
                            extent.combine("+", number).unwrap_or(extent.clone())
                        } else {
                            number.clone()
                        }
                    };
                    let start = start.as_ref().map_or(Number::integer(0), from_end);
                    let stop = stop.as_ref().map_or(extent.clone(), from_end);
                    if stop.value > extent.value {
                        return Err(self.refuse(
                            node,
                            "a slice ends behind the tensor",
                            "correct the slice",
                        ));
                    }
                    if start.text != "0" || stop.text != extent.text {
                        let length = stop.combine("-", &start).unwrap_or(stop);
                        at = self.narrow(at, axis, &start, length);
                    }
                    axis += 1;
                }
                _ => {
                    return Err(self.refuse(
                        node,
                        "elements are chosen by a tensor",
                        "write it with torch.where, or begin with task init",
                    ));
                }
            }
        }
        Ok(Value::Tensor(at))
    }
}
