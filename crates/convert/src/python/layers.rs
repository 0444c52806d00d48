//! Layers of `torch.nn`. Their weights become inputs of the task.

use std::collections::BTreeMap;

use domain::dtype::Dtype;
use domain::problem::Problem;
use tree_sitter::Node;

use super::arguments::Arguments;
use super::functions;
use super::graph::{Node as GraphNode, NodeId};
use super::interpret::{Interpreter, Layer, Value};
use super::number::Number;

/// Layers without weights, with the function that each one calls and the names of its arguments in order.
const FUNCTIONAL: &[(&str, &str, &[&str])] = &[
    ("ReLU", "relu", &[]),
    ("ReLU6", "relu6", &[]),
    ("Sigmoid", "sigmoid", &[]),
    ("Tanh", "tanh", &[]),
    ("SiLU", "silu", &[]),
    ("Mish", "mish", &[]),
    ("SELU", "selu", &[]),
    ("Softsign", "softsign", &[]),
    ("Hardswish", "hardswish", &[]),
    ("Hardsigmoid", "hardsigmoid", &[]),
    ("LogSigmoid", "logsigmoid", &[]),
    ("Tanhshrink", "tanhshrink", &[]),
    ("GELU", "gelu", &["approximate"]),
    ("ELU", "elu", &["alpha"]),
    ("LeakyReLU", "leaky_relu", &["negative_slope"]),
    ("Hardtanh", "hardtanh", &["min_val", "max_val"]),
    ("Softmax", "softmax", &["dim"]),
    ("LogSoftmax", "log_softmax", &["dim"]),
    ("Softmin", "softmin", &["dim"]),
    (
        "MaxPool1d",
        "max_pool1d",
        &["kernel_size", "stride", "padding", "dilation"],
    ),
    (
        "MaxPool2d",
        "max_pool2d",
        &["kernel_size", "stride", "padding", "dilation"],
    ),
    (
        "MaxPool3d",
        "max_pool3d",
        &["kernel_size", "stride", "padding", "dilation"],
    ),
    (
        "AvgPool1d",
        "avg_pool1d",
        &["kernel_size", "stride", "padding"],
    ),
    (
        "AvgPool2d",
        "avg_pool2d",
        &["kernel_size", "stride", "padding"],
    ),
    (
        "AvgPool3d",
        "avg_pool3d",
        &["kernel_size", "stride", "padding"],
    ),
    ("MSELoss", "mse_loss", &[]),
    ("L1Loss", "l1_loss", &[]),
    ("SmoothL1Loss", "smooth_l1_loss", &[]),
    ("HuberLoss", "huber_loss", &[]),
    ("CosineSimilarity", "cosine_similarity", &["dim"]),
    ("Identity", "contiguous", &[]),
    ("Softplus", "softplus", &[]),
];

impl<'s> Interpreter<'s> {
    pub fn make_layer(
        &mut self,
        node: Node<'s>,
        class: &str,
        arguments: Arguments<'s>,
    ) -> Result<Value<'s>, Problem> {
        match class {
            "Parameter" => {
                let Some(Value::Tensor(value)) = arguments.positional.first() else {
                    return Err(self.unknown(node, "a parameter"));
                };
                let (value, shape, dtype) = (
                    *value,
                    self.graph.shape(*value).to_vec(),
                    self.graph.dtype(*value),
                );
                if self.drawn.contains(&value) {
                    return Ok(Value::Tensor(value));
                }
                // Training changes it, so that a kernel must not rely on its first value.
                let made = self.graph.add(
                    GraphNode::Input(format!("parameter{}", self.drawn.len())),
                    shape,
                    dtype,
                );
                self.drawn.push(made);
                return Ok(Value::Tensor(made));
            }
            "Dropout" | "Dropout1d" | "Dropout2d" | "Dropout3d" | "AlphaDropout" => {
                return Err(self.refuse(
                    node,
                    "dropout draws random numbers, so that there is no one right answer",
                    "leave it out, as in inference",
                ));
            }
            "BatchNorm1d" | "BatchNorm2d" | "BatchNorm3d" => {
                return Err(self.refuse(
                    node,
                    "a batch norm keeps running statistics",
                    "write it with mean and var, or with the statistics as inputs",
                ));
            }
            "LSTM"
            | "GRU"
            | "RNN"
            | "Transformer"
            | "TransformerEncoderLayer"
            | "MultiheadAttention"
            | "Embedding" => {
                return Err(self.refuse(
                    node,
                    format!("{class} is a network of its own and no kernel"),
                    "import the operation inside it that takes the time",
                ));
            }
            _ => {}
        }
        let known = [
            "Linear",
            "LayerNorm",
            "RMSNorm",
            "GroupNorm",
            "InstanceNorm1d",
            "InstanceNorm2d",
            "InstanceNorm3d",
            "Conv1d",
            "Conv2d",
            "Conv3d",
            "Sequential",
            "Flatten",
            "ModuleList",
        ];
        if !known.contains(&class) && !FUNCTIONAL.iter().any(|(own, _, _)| *own == class) {
            return Err(self.unknown(node, &format!("the layer {class}")));
        }
        if class == "ModuleList" {
            return Ok(arguments
                .positional
                .into_iter()
                .next()
                .unwrap_or(Value::List(Vec::new())));
        }
        self.layers.push(Layer {
            class: class.to_owned(),
            arguments,
            name: String::new(),
            weights: BTreeMap::new(),
        });
        Ok(Value::Layer(self.layers.len() - 1))
    }

    /// The weights of a layer, by name; `None` where its arguments say that it has none.
    fn weight(&mut self, layer: usize, name: &'static str, shape: Vec<Number>) -> NodeId {
        if let Some(known) = self.layers[layer].weights.get(name) {
            return *known;
        }
        let own = &self.layers[layer].name;
        let full = if own.is_empty() {
            format!("layer{layer}_{name}")
        } else {
            format!("{own}_{name}")
        };
        let made = self
            .graph
            .add(GraphNode::Input(full.clone()), shape, Dtype::F32);
        self.drawn.push(made);
        self.layers[layer].weights.insert(name, made);
        self.notes
            .insert(format!("the weight {full} is an input of the task"));
        made
    }

    pub fn layer_attribute(&mut self, layer: usize, name: &str) -> Option<Value<'s>> {
        if !["weight", "bias"].contains(&name) || self.layers[layer].class != "Linear" {
            return None;
        }
        let arguments = self.layers[layer].arguments.clone();
        let number = |value: Option<&Value<'s>>| match value {
            Some(Value::Number(number)) => Some(number.clone()),
            _ => None,
        };
        let inner = number(arguments.get(0, "in_features"))?;
        let outer = number(arguments.get(1, "out_features"))?;
        Some(Value::Tensor(if name == "weight" {
            self.weight(layer, "weight", vec![outer, inner])
        } else {
            self.weight(layer, "bias", vec![outer])
        }))
    }

    pub fn call_layer(
        &mut self,
        node: Node<'s>,
        layer: usize,
        call: Arguments<'s>,
    ) -> Result<Value<'s>, Problem> {
        let Layer {
            class, arguments, ..
        } = self.layers[layer].clone();
        let value = self.apply_layer(node, layer, &class, &arguments, call)?;
        let is_functional = FUNCTIONAL.iter().any(|(own, _, _)| *own == class);
        match arguments.first_unread().filter(|_| !is_functional) {
            Some(unread) => Err(self.unknown_argument(node, &unread, &class)),
            None => Ok(value),
        }
    }

    /// Applies a layer of a class that was made with `arguments`.
    fn apply_layer(
        &mut self,
        node: Node<'s>,
        layer: usize,
        class: &str,
        arguments: &Arguments<'s>,
        call: Arguments<'s>,
    ) -> Result<Value<'s>, Problem> {
        if let Some((_, function, names)) = FUNCTIONAL.iter().find(|(own, _, _)| *own == class) {
            let arguments = arguments.clone();
            let mut positional = call.positional;
            let mut named = arguments.named;
            let mut values = arguments.positional.into_iter();
            for (name, value) in names.iter().zip(values.by_ref()) {
                named.push(((*name).to_owned(), value));
            }
            if values.next().is_some() && class != "Identity" {
                let unread = format!("number {}", names.len() + 1);
                return Err(self.unknown_argument(node, &unread, class));
            }
            if function.ends_with("loss") && positional.len() > 2 {
                positional.truncate(2);
            }
            return self.operation(node, function, &Arguments::new(positional, named));
        }
        let Some(Value::Tensor(x)) = call.positional.first().cloned() else {
            return Err(self.unknown(node, "the input of a layer"));
        };
        let whole = |value: Option<&Value<'s>>| match value {
            Some(Value::Number(number)) if number.whole => Some(number.clone()),
            _ => None,
        };
        let has =
            |at: usize, name: &str| !matches!(arguments.get(at, name), Some(Value::Bool(false)));
        let rank = self.graph.shape(x).len();
        match class {
            "Sequential" => {
                let mut value = Value::Tensor(x);
                for (at, part) in arguments.get_from(0).iter().enumerate() {
                    let positional = vec![value];
                    let named = Vec::new();
                    value = match part {
                        Value::Layer(inner) => {
                            if self.layers[*inner].name.is_empty() {
                                self.layers[*inner].name =
                                    format!("{}_{at}", self.layers[layer].name);
                            }
                            self.call_layer(node, *inner, Arguments::new(positional, named))?
                        }
                        Value::Object(_) => self.call_method(
                            node,
                            part.clone(),
                            "forward",
                            Arguments::new(positional, named),
                        )?,
                        _ => return Err(self.unknown(node, "a layer")),
                    };
                }
                Ok(value)
            }
            "Flatten" => {
                let start = arguments
                    .get(0, "start_dim")
                    .cloned()
                    .unwrap_or(Value::Number(Number::integer(1)));
                let mut positional = vec![Value::Tensor(x), start];
                positional.extend(arguments.get(1, "end_dim").cloned());
                self.operation(node, "flatten", &Arguments::new(positional, Vec::new()))
            }
            "Linear" => {
                let sizes = (
                    whole(arguments.get(0, "in_features")),
                    whole(arguments.get(1, "out_features")),
                );
                let (Some(inner), Some(outer)) = sizes else {
                    return Err(self.unknown(node, "the sizes of a layer"));
                };
                let weight = self.weight(layer, "weight", vec![outer.clone(), inner]);
                let bias = has(2, "bias").then(|| self.weight(layer, "bias", vec![outer]));
                self.linear(node, x, weight, bias).map(Value::Tensor)
            }
            "LayerNorm" | "RMSNorm" => {
                let extents = match arguments.get(0, "normalized_shape") {
                    Some(Value::Number(number)) => vec![number.clone()],
                    Some(Value::List(values)) => values
                        .iter()
                        .filter_map(|value| whole(Some(value)))
                        .collect(),
                    _ => return Err(self.unknown(node, "the sizes of a layer")),
                };
                let list = Value::List(extents.iter().cloned().map(Value::Number).collect());
                let mut named = vec![("normalized_shape".to_owned(), list)];
                named.extend(
                    arguments
                        .get(1, "eps")
                        .cloned()
                        .map(|eps| ("eps".to_owned(), eps)),
                );
                if has(2, "elementwise_affine") {
                    let weight = self.weight(layer, "weight", extents.clone());
                    named.push(("weight".to_owned(), Value::Tensor(weight)));
                    if class == "LayerNorm" && has(3, "bias") {
                        let bias = self.weight(layer, "bias", extents);
                        named.push(("bias".to_owned(), Value::Tensor(bias)));
                    }
                }
                let function = if class == "LayerNorm" {
                    "layer_norm"
                } else {
                    "rms_norm"
                };
                self.operation(
                    node,
                    function,
                    &Arguments::new(vec![Value::Tensor(x)], named),
                )
            }
            "GroupNorm" | "InstanceNorm1d" | "InstanceNorm2d" | "InstanceNorm3d" => {
                let is_group = class == "GroupNorm";
                let channels = self.graph.shape(x)[1].clone();
                let groups = if is_group {
                    // The input has the number of channels too.
                    arguments.get(1, "num_channels");
                    whole(arguments.get(0, "num_groups"))
                } else {
                    arguments.get(0, "num_features");
                    Some(channels.clone())
                };
                let Some(groups) = groups else {
                    return Err(self.unknown(node, "the sizes of a layer"));
                };
                let own = self.graph.shape(x).to_vec();
                let eps = self.number(arguments, if is_group { 2 } else { 1 }, "eps", 1e-5);
                let mut y = if is_group {
                    self.graph.pin(&groups);
                    self.graph.pin(&channels);
                    let each = channels.combine("//", &groups).unwrap_or(channels.clone());
                    let mut shape = vec![own[0].clone(), groups, each];
                    shape.extend_from_slice(&own[2..]);
                    let Some(grouped) = self.graph.reshape(x, shape) else {
                        return Err(self.unknown(node, "the groups"));
                    };
                    let axes = (2..=rank).collect::<Vec<_>>();
                    let normalised = self.normalise(node, grouped, &axes, eps)?;
                    let Some(back) = self.graph.reshape(normalised, own) else {
                        return Err(self.unknown(node, "the groups"));
                    };
                    back
                } else {
                    let axes = (2..rank).collect::<Vec<_>>();
                    self.normalise(node, x, &axes, eps)?
                };
                let affine = arguments.get(3, "affine");
                let is_affine =
                    matches!(affine, Some(Value::Bool(true))) || (is_group && affine.is_none());
                if is_affine {
                    let behind = (1..rank - 1).collect::<Vec<_>>();
                    for (name, function) in
                        [("weight", &functions::MULTIPLY), ("bias", &functions::ADD)]
                    {
                        let weight = self.weight(layer, name, vec![channels.clone()]);
                        let weight = self.graph.insert_axes(weight, &behind);
                        if let Value::Tensor(made) = self.map(node, function, &[y, weight])? {
                            y = made;
                        }
                    }
                }
                Ok(Value::Tensor(y))
            }
            _ => {
                // Conv1d, Conv2d, Conv3d.
                let count = rank.saturating_sub(2);
                let sizes = (
                    whole(arguments.get(0, "in_channels")),
                    whole(arguments.get(1, "out_channels")),
                );
                let (Some(inner), Some(outer)) = sizes else {
                    return Err(self.unknown(node, "the sizes of a layer"));
                };
                let groups = whole(arguments.get(6, "groups")).unwrap_or(Number::integer(1));
                self.graph.pinned.extend(groups.names());
                if groups.text != "1" {
                    self.graph.pin(&inner);
                    self.graph.pin(&outer);
                }
                let window = match arguments.get(2, "kernel_size") {
                    Some(Value::Number(number)) => vec![number.clone(); count],
                    Some(Value::List(values)) => values
                        .iter()
                        .filter_map(|value| whole(Some(value)))
                        .collect(),
                    _ => return Err(self.unknown(node, "the size of a window")),
                };
                for extent in &window {
                    self.graph.pin(extent);
                }
                let window = window.iter().filter_map(Number::whole).map(Number::integer);
                let mut shape = vec![outer.clone(), inner.combine("//", &groups).unwrap_or(inner)];
                shape.extend(window);
                let weight = self.weight(layer, "weight", shape);
                let bias = has(7, "bias").then(|| self.weight(layer, "bias", vec![outer]));
                self.convolution(node, x, weight, bias, arguments, 3)
                    .map(Value::Tensor)
            }
        }
    }
}
