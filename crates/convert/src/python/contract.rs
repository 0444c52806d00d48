//! Products of tensors: matrices, einsum, convolutions, pools and attention.

use domain::dtype::Dtype;
use domain::problem::Problem;
use tree_sitter::Node;

use super::arguments::Arguments;
use super::functions;
use super::graph::{NodeId, Reduction};
use super::interpret::{Interpreter, Value};
use super::number::Number;

impl<'s> Interpreter<'s> {
    pub fn contraction(
        &mut self,
        node: Node<'s>,
        name: &str,
        x: NodeId,
        arguments: &Arguments<'s>,
    ) -> Result<Option<Value<'s>>, Problem> {
        let other = |at: usize, name: &str| match arguments.get(at, name) {
            Some(Value::Tensor(tensor)) => Some(*tensor),
            _ => None,
        };
        let made = match name {
            "matmul" | "mm" | "bmm" | "mv" | "dot" => {
                let Some(y) = other(1, "mat2").or(other(1, "other")) else {
                    return Ok(None);
                };
                self.matmul(node, x, y)?
            }
            "linear" => {
                let Some(weight) = other(1, "weight") else {
                    return Ok(None);
                };
                self.linear(node, x, weight, other(2, "bias"))?
            }
            "addmm" | "baddbmm" => {
                let (Some(a), Some(b)) = (other(1, "mat1"), other(2, "mat2")) else {
                    return Ok(None);
                };
                let product = self.matmul(node, a, b)?;
                return self.map(node, &functions::ADD, &[x, product]).map(Some);
            }
            "outer" => {
                let Some(y) = other(1, "vec2") else {
                    return Ok(None);
                };
                let (a, b) = (
                    self.graph.insert_axes(x, &[1]),
                    self.graph.insert_axes(y, &[0]),
                );
                return self.map(node, &functions::MULTIPLY, &[a, b]).map(Some);
            }
            "conv1d" | "conv2d" | "conv3d" => {
                let Some(weight) = other(1, "weight") else {
                    return Ok(None);
                };
                self.convolution(node, x, weight, other(2, "bias"), arguments, 3)?
            }
            "max_pool1d" | "max_pool2d" | "max_pool3d" | "avg_pool1d" | "avg_pool2d"
            | "avg_pool3d" => self.pool(node, name, x, arguments)?,
            "scaled_dot_product_attention" => {
                let (Some(key), Some(value)) = (other(1, "key"), other(2, "value")) else {
                    return Ok(None);
                };
                self.attention(node, [x, key, value], arguments)?
            }
            _ => return Ok(None),
        };
        Ok(Some(Value::Tensor(made)))
    }

    fn tensor_of(
        &mut self,
        node: Node<'s>,
        function: &'static super::graph::Function,
        operands: &[NodeId],
    ) -> Result<NodeId, Problem> {
        match self.map(node, function, operands)? {
            Value::Tensor(tensor) => Ok(tensor),
            _ => Err(self.unknown(node, "an operation")),
        }
    }

    pub fn matmul(&mut self, node: Node<'s>, x: NodeId, y: NodeId) -> Result<NodeId, Problem> {
        let (rows, columns) = (self.graph.shape(x).len(), self.graph.shape(y).len());
        let a = if rows == 1 {
            self.graph.insert_axes(x, &[0])
        } else {
            x
        };
        let b = if columns == 1 {
            self.graph.insert_axes(y, &[1])
        } else {
            y
        };
        let (rank_a, rank_b) = (self.graph.shape(a).len(), self.graph.shape(b).len());
        if rank_a < 2 || rank_b < 2 {
            return Err(self.refuse(node, "a product with a number", "write it with *"));
        }
        let (inner_a, inner_b) = (
            self.graph.shape(a)[rank_a - 1].clone(),
            self.graph.shape(b)[rank_b - 2].clone(),
        );
        if !self.graph.equal(&inner_a, &inner_b) {
            let message = format!(
                "the extents {} and {} do not fit",
                inner_a.text, inner_b.text
            );
            return Err(self.refuse(node, message, "correct the shapes"));
        }
        // [.., M, 1, K] times [.., 1, N, K], summed over the last axis.
        let a = self.graph.insert_axes(a, &[rank_a - 1]);
        let mut order = (0..rank_b).collect::<Vec<_>>();
        order.swap(rank_b - 2, rank_b - 1);
        let b = self.graph.permute(b, &order);
        let b = self.graph.insert_axes(b, &[rank_b - 2]);
        let products = self.tensor_of(node, &functions::MULTIPLY, &[a, b])?;
        let rank = self.graph.shape(products).len();
        let mut made = self.graph.reduce(Reduction::Sum, products, &[rank - 1]);
        if columns == 1 {
            made = self.graph.remove_axes(made, &[rank - 2]);
        }
        if rows == 1 {
            made = self.graph.remove_axes(made, &[rank - 3]);
        }
        Ok(made)
    }

    pub fn linear(
        &mut self,
        node: Node<'s>,
        x: NodeId,
        weight: NodeId,
        bias: Option<NodeId>,
    ) -> Result<NodeId, Problem> {
        let Value::Tensor(transposed) = self.transpose_last(node, weight)? else {
            return Err(self.unknown(node, "a weight"));
        };
        let product = self.matmul(node, x, transposed)?;
        match bias {
            Some(bias) => self.tensor_of(node, &functions::ADD, &[product, bias]),
            None => Ok(product),
        }
    }

    pub fn einsum(
        &mut self,
        node: Node<'s>,
        arguments: &Arguments<'s>,
    ) -> Result<Value<'s>, Problem> {
        let Some(Value::Text(text)) = arguments.get(0, "equation") else {
            return Err(self.unknown(node, "einsum"));
        };
        let text = text.replace(' ', "");
        let Some((inputs, output)) = text.split_once("->") else {
            return Err(self.refuse(node, "einsum without ->", "name the axes of the result"));
        };
        let inputs = inputs.split(',').collect::<Vec<_>>();
        let tensors = arguments
            .get_from(1)
            .iter()
            .filter_map(|value| match value {
                Value::Tensor(tensor) => Some(*tensor),
                _ => None,
            });
        let tensors = tensors.collect::<Vec<_>>();
        let letters = inputs.concat();
        let mut all = output.chars().collect::<Vec<_>>();
        for letter in letters.chars() {
            if !all.contains(&letter) {
                all.push(letter);
            }
        }
        let distinct = |text: &str| {
            text.chars()
                .enumerate()
                .all(|(at, letter)| text.find(letter) == Some(at) && letter.is_ascii_alphabetic())
        };
        if tensors.len() != inputs.len()
            || !inputs.iter().all(|input| distinct(input))
            || !distinct(output)
            || !output.chars().all(|letter| letters.contains(letter))
        {
            return Err(self.unknown(node, "einsum"));
        }
        let mut product = None;
        for (input, tensor) in inputs.iter().zip(tensors) {
            let own = self.graph.shape(tensor).to_vec();
            if own.len() != input.chars().count() {
                return Err(self.refuse(
                    node,
                    "einsum names another number of axes than a tensor has",
                    "correct the letters",
                ));
            }
            let present = all
                .iter()
                .filter_map(|letter| input.find(*letter))
                .collect::<Vec<_>>();
            let ordered = self.graph.permute(tensor, &present);
            let missing = (0..all.len())
                .filter(|at| !input.contains(all[*at]))
                .collect::<Vec<_>>();
            let part = self.graph.insert_axes(ordered, &missing);
            product = Some(match product {
                Some(known) => self.tensor_of(node, &functions::MULTIPLY, &[known, part])?,
                None => part,
            });
        }
        let Some(product) = product else {
            return Err(self.unknown(node, "einsum"));
        };
        let summed = (output.len()..all.len()).collect::<Vec<_>>();
        if summed.is_empty() {
            return Ok(Value::Tensor(product));
        }
        Ok(Value::Tensor(self.graph.reduce(
            Reduction::Sum,
            product,
            &summed,
        )))
    }

    /// One number for each spatial axis.
    fn spatial(
        &mut self,
        node: Node<'s>,
        value: Option<&Value<'s>>,
        preset: i64,
        count: usize,
    ) -> Result<Vec<i64>, Problem> {
        let numbers = match value {
            None | Some(Value::None) => vec![Number::integer(preset)],
            Some(Value::Number(number)) => vec![number.clone()],
            Some(Value::List(values)) => values
                .iter()
                .filter_map(|value| match value {
                    Value::Number(number) => Some(number.clone()),
                    _ => None,
                })
                .collect(),
            Some(Value::Text(text)) if text == "valid" => vec![Number::integer(0)],
            _ => return Err(self.unknown(node, "a size")),
        };
        let mut sizes = numbers
            .iter()
            .filter_map(|number| self.graph.pin(number))
            .collect::<Vec<_>>();
        if sizes.len() == 1 {
            sizes = vec![sizes[0]; count];
        }
        if sizes.len() == count {
            Ok(sizes)
        } else {
            Err(self.unknown(node, "a size"))
        }
    }

    /// The windows of an input: behind its spatial axes those of the window, with `outside` beyond the edges.
    fn windows(
        &mut self,
        x: NodeId,
        first: usize,
        extents: &[Number],
        [stride, padding, dilation]: [&[i64]; 3],
        outside: &'static str,
    ) -> NodeId {
        let own = self.graph.shape(x).to_vec();
        let count = extents.len();
        for extent in extents {
            self.graph.pin(extent);
        }
        let mut shape = own[..first].to_vec();
        let mut index = (0..first)
            .map(|axis| format!("${axis}"))
            .collect::<Vec<_>>();
        let mut guards = Vec::new();
        for axis in 0..count {
            let extent = &own[first + axis];
            let window = &extents[axis];
            let (s, p, d) = (stride[axis], padding[axis], dilation[axis]);
            // (extent + 2 p - d (window - 1) - 1) / s + 1, with the 1 inside the quotient, so that a window
            // larger than the input gives no element.
            let taken = window
                .whole()
                .map(|window| d * (window - 1) + 1 - 2 * p - s)
                .unwrap_or_default();
            let room = match taken {
                0.. => extent.combine("-", &Number::integer(taken)),
                _ => extent.combine("+", &Number::integer(-taken)),
            };
            let steps = room.and_then(|room| room.combine("//", &Number::integer(s)));
            shape.push(steps.unwrap_or_else(|| extent.clone()));
            let at = format!(
                "(${} * {s} + ${} * {d} - {p})",
                first + axis,
                first + count + axis
            );
            if p > 0 {
                guards.push(format!("{at} >= 0 && {at} < {}", extent.text));
            }
            index.push(at);
        }
        shape.extend(extents.iter().cloned());
        if guards.is_empty() {
            self.graph.view(x, shape, index)
        } else {
            self.graph
                .guarded(x, shape, index, (guards.join(" && "), outside))
        }
    }

    pub fn convolution(
        &mut self,
        node: Node<'s>,
        x: NodeId,
        weight: NodeId,
        bias: Option<NodeId>,
        arguments: &Arguments<'s>,
        from: usize,
    ) -> Result<NodeId, Problem> {
        let kernel = self.graph.shape(weight).to_vec();
        let count = kernel.len().saturating_sub(2);
        if count == 0 || self.graph.shape(x).len() != count + 2 {
            return Err(self.refuse(
                node,
                "a convolution of a tensor without batch axis",
                "add the batch axis",
            ));
        }
        let stride = self.spatial(node, arguments.get(from, "stride"), 1, count)?;
        let padding = match arguments.get(from + 1, "padding") {
            Some(Value::Text(text)) if text == "same" => kernel[2..]
                .iter()
                .map(|extent| extent.whole().unwrap_or(1) / 2)
                .collect(),
            other => self.spatial(node, other, 0, count)?,
        };
        let dilation = self.spatial(node, arguments.get(from + 2, "dilation"), 1, count)?;
        let groups = match arguments.get(from + 3, "groups") {
            Some(Value::Number(number)) => number.clone(),
            _ => Number::integer(1),
        };
        let windows = self.windows(x, 2, &kernel[2..], [&stride, &padding, &dilation], "0");
        let shape = self.graph.shape(windows).to_vec();
        let (batch, spatial) = (shape[0].clone(), shape[2..2 + count].to_vec());
        let (outer, inner) = (kernel[0].clone(), kernel[1].clone());
        // [B, O, spatial.., I, window..]: the input's channel is I, or with groups that of the output's group.
        let mut full = vec![batch, outer.clone()];
        full.extend(spatial);
        full.push(inner.clone());
        full.extend_from_slice(&kernel[2..]);
        let channel = 2 + count;
        let channel_text = if groups.text == "1" {
            format!("${channel}")
        } else {
            format!(
                "$1 / ({} / {}) * {} + ${channel}",
                outer.text, groups.text, inner.text
            )
        };
        self.graph.pinned.extend(groups.names());
        let mut index = vec!["$0".to_owned(), channel_text];
        index.extend((0..count).map(|axis| format!("${}", 2 + axis)));
        index.extend((0..count).map(|axis| format!("${}", channel + 1 + axis)));
        let inputs = self.graph.view(windows, full.clone(), index);
        let mut index = vec!["$1".to_owned(), format!("${channel}")];
        index.extend((0..count).map(|axis| format!("${}", channel + 1 + axis)));
        let weights = self.graph.view(weight, full, index);
        let products = self.tensor_of(node, &functions::MULTIPLY, &[inputs, weights])?;
        let axes = (channel..=channel + count).collect::<Vec<_>>();
        let made = self.graph.reduce(Reduction::Sum, products, &axes);
        match bias {
            Some(bias) => {
                let behind = (1..=count).collect::<Vec<_>>();
                let bias = self.graph.insert_axes(bias, &behind);
                self.tensor_of(node, &functions::ADD, &[made, bias])
            }
            None => Ok(made),
        }
    }

    pub fn pool(
        &mut self,
        node: Node<'s>,
        name: &str,
        x: NodeId,
        arguments: &Arguments<'s>,
    ) -> Result<NodeId, Problem> {
        let rank = self.graph.shape(x).len();
        let count = name
            .chars()
            .find_map(|c| c.to_digit(10))
            .and_then(|count| usize::try_from(count).ok())
            .unwrap_or(1);
        if rank < count {
            return Err(self.unknown(node, "a pool"));
        }
        let maximum = name.starts_with("max");
        let window = self.spatial(node, arguments.get(1, "kernel_size"), 1, count)?;
        let stride = match arguments.get(2, "stride") {
            None | Some(Value::None) => window.clone(),
            value => self.spatial(node, value, 1, count)?,
        };
        let padding = self.spatial(node, arguments.get(3, "padding"), 0, count)?;
        let dilation = if maximum {
            self.spatial(node, arguments.get(4, "dilation"), 1, count)?
        } else {
            vec![1; count]
        };
        let extents = window
            .iter()
            .map(|size| Number::integer(*size))
            .collect::<Vec<_>>();
        let outside = if maximum { "-INFINITY" } else { "0" };
        let windows = self.windows(
            x,
            rank - count,
            &extents,
            [&stride, &padding, &dilation],
            outside,
        );
        let axes = (rank..rank + count).collect::<Vec<_>>();
        if maximum {
            return Ok(self.graph.reduce(Reduction::Maximum, windows, &axes));
        }
        let sum = self.graph.reduce(Reduction::Sum, windows, &axes);
        let size = Number::integer(window.iter().product());
        let size = self.graph.constant(size, Vec::new(), Dtype::F32);
        self.tensor_of(node, &functions::DIVIDE, &[sum, size])
    }

    fn attention(
        &mut self,
        node: Node<'s>,
        [query, key, value]: [NodeId; 3],
        arguments: &Arguments<'s>,
    ) -> Result<NodeId, Problem> {
        let rank = self.graph.shape(query).len();
        let depth = self.graph.shape(query)[rank - 1].clone();
        let scale = match arguments.get(6, "scale") {
            Some(Value::Number(number)) => number.clone(),
            _ => {
                let one = Number::real(1.0);
                one.combine("/", &depth.square_root()).unwrap_or(one)
            }
        };
        let Value::Tensor(turned) = self.transpose_last(node, key)? else {
            return Err(self.unknown(node, "a key"));
        };
        let scores = self.matmul(node, query, turned)?;
        let scale = self.graph.constant(scale, Vec::new(), Dtype::F32);
        let mut scores = self.tensor_of(node, &functions::MULTIPLY, &[scores, scale])?;
        if matches!(arguments.get(5, "is_causal"), Some(Value::Bool(true))) {
            let shape = self.graph.shape(scores).to_vec();
            let index = (0..shape.len()).map(|axis| format!("${axis}")).collect();
            let guard = format!("${} <= ${}", shape.len() - 1, shape.len() - 2);
            scores = self
                .graph
                .guarded(scores, shape, index, (guard, "-INFINITY"));
        }
        match arguments.get(3, "attn_mask") {
            None | Some(Value::None) => {}
            Some(Value::Tensor(mask)) => {
                scores = self.tensor_of(node, &functions::ADD, &[scores, *mask])?;
            }
            _ => return Err(self.unknown(node, "a mask")),
        }
        let axis = self.graph.shape(scores).len() - 1;
        let weights = self.softmax(node, scores, axis)?;
        self.matmul(node, weights, value)
    }
}
