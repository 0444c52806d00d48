//! Names of numpy that mean something else than PyTorch's, or that PyTorch lacks.

use domain::dtype::Dtype;
use domain::problem::Problem;
use tree_sitter::Node;

use super::arguments::Arguments;
use super::graph::NodeId;
use super::interpret::{Interpreter, Value};
use super::number::Number;

/// Functions of `numpy` on arrays that are read, all of which a method or an operation of PyTorch is.
const FUNCTIONS: [&str; 38] = [
    "abs",
    "absolute",
    "fabs",
    "add",
    "subtract",
    "multiply",
    "divide",
    "power",
    "clip",
    "dot",
    "matmul",
    "sum",
    "mean",
    "max",
    "amax",
    "min",
    "amin",
    "prod",
    "exp",
    "expm1",
    "log",
    "log1p",
    "sqrt",
    "square",
    "sin",
    "cos",
    "tanh",
    "maximum",
    "minimum",
    "where",
    "cumsum",
    "einsum",
    "outer",
    "transpose",
    "reshape",
    "ravel",
    "flip",
    "concatenate",
];

/// The type that a name of numpy stands for.
pub(crate) fn dtype(path: &str) -> Option<Dtype> {
    match path.strip_prefix("numpy.")? {
        "float32" | "single" => Some(Dtype::F32),
        "float16" | "half" => Some(Dtype::F16),
        "float64" | "double" => Some(Dtype::F64),
        "int32" => Some(Dtype::I32),
        "int64" => Some(Dtype::I64),
        "uint8" => Some(Dtype::U8),
        "int8" => Some(Dtype::I8),
        _ => None,
    }
}

impl<'s> Interpreter<'s> {
    /// A value that a script gives a name; an integer becomes a dim of that name.
    pub fn as_dim(&mut self, name: &str, value: Value<'s>) -> Value<'s> {
        match value {
            Value::Number(number) if number.is_literal() && number.value >= 1.0 => {
                let Some(whole) = number.whole() else {
                    return Value::Number(number);
                };
                // Two values of a name would be two dims.
                match self.dims.get(name) {
                    Some(known) if *known != whole => Value::Number(number),
                    _ => {
                        self.dims.insert(name.to_owned(), whole);
                        Value::Number(Number::dim(name, whole))
                    }
                }
            }
            Value::List(values) if (2..=3).contains(&values.len()) => {
                let is_size = |value: &Value<'_>| matches!(value, Value::Number(number) if number.is_literal() && number.whole && number.value >= 1.0);
                if !name.contains("size") || !values.iter().all(is_size) {
                    return Value::List(values);
                }
                let values = values.into_iter().zip(["x", "y", "z"]);
                let named =
                    values.map(|(value, axis)| self.as_dim(&format!("{name}_{axis}"), value));
                Value::List(named.collect())
            }
            other => other,
        }
    }

    /// A dictionary from named arguments, or from a list of pairs.
    pub fn dictionary(
        &mut self,
        node: Node<'s>,
        arguments: Arguments<'s>,
    ) -> Result<Value<'s>, Problem> {
        let mut pairs = Vec::new();
        match arguments.positional.into_iter().next() {
            None => {}
            Some(Value::Mapping(own)) => pairs = own,
            Some(Value::List(values)) => {
                for value in values {
                    match value {
                        Value::List(pair) => match <[Value<'s>; 2]>::try_from(pair) {
                            Ok([Value::Text(key), value]) => pairs.push((key, value)),
                            _ => return Err(self.unknown(node, "a dictionary")),
                        },
                        _ => return Err(self.unknown(node, "a dictionary")),
                    }
                }
            }
            Some(_) => return Err(self.unknown(node, "a dictionary")),
        }
        pairs.extend(arguments.named);
        Ok(Value::Mapping(pairs))
    }

    /// Calls a function of numpy by its name behind `numpy.`.
    pub fn call_numpy(
        &mut self,
        node: Node<'s>,
        name: &str,
        mut arguments: Arguments<'s>,
    ) -> Result<Value<'s>, Problem> {
        let first = arguments.positional.first().cloned();
        match (name, first) {
            (
                "int8" | "int16" | "int32" | "int64" | "uint8" | "uint32" | "uint64",
                Some(Value::Number(number)),
            ) if number.whole => Ok(Value::Number(number)),
            ("float16" | "float32" | "float64", Some(Value::Number(number))) => {
                let text = if number.whole {
                    format!("double({})", number.text)
                } else {
                    number.text.clone()
                };
                Ok(Value::Number(if number.is_literal() {
                    Number::real(number.value)
                } else {
                    Number {
                        text,
                        value: number.value,
                        whole: false,
                    }
                }))
            }
            ("sqrt", Some(Value::Number(number))) => Ok(Value::Number(number.square_root())),
            ("random.seed", _) => Ok(Value::None),
            (
                "random.randn"
                | "random.rand"
                | "random.random"
                | "random.random_sample"
                | "random.standard_normal"
                | "random.normal"
                | "random.uniform"
                | "random.randint"
                | "empty",
                _,
            ) => {
                let is_ranged =
                    ["random.normal", "random.uniform", "random.randint"].contains(&name);
                let size = match arguments
                    .named
                    .iter()
                    .find(|(name, _)| name == "size" || name == "shape")
                {
                    Some((_, size)) => vec![size.clone()],
                    None if is_ranged => arguments.positional.get(2).cloned().into_iter().collect(),
                    None => arguments.positional.clone(),
                };
                // One extent stands without a list.
                let size = match size.as_slice() {
                    [Value::List(extents)] => extents.clone(),
                    _ => size,
                };
                let shape = Arguments::new(vec![Value::List(size)], Vec::new());
                let made = self.draw(node, "empty", &shape)?;
                made.ok_or_else(|| self.unknown(node, "an array"))
            }
            (
                "zeros" | "ones" | "full" | "zeros_like" | "ones_like" | "full_like" | "empty_like",
                Some(size),
            ) => {
                if !matches!(size, Value::List(_) | Value::Tensor(_)) {
                    arguments.positional[0] = Value::List(vec![size]);
                }
                let made = self.draw(node, name, &arguments)?;
                made.ok_or_else(|| self.unknown(node, "an array"))
            }
            ("pad", Some(Value::Tensor(tensor))) => self.pad(node, tensor, &arguments),
            (_, Some(_)) if FUNCTIONS.contains(&name) => self.operation(node, name, &arguments),
            _ => Err(self.unknown(node, "a function of numpy")),
        }
    }

    /// Zeros around an array: one width, a pair for all axes, or a pair for each.
    fn pad(
        &mut self,
        node: Node<'s>,
        x: NodeId,
        arguments: &Arguments<'s>,
    ) -> Result<Value<'s>, Problem> {
        arguments.get(0, "array");
        let shape = self.graph.shape(x).to_vec();
        let pair = |value: &Value<'s>| match value {
            Value::Number(width) => Some((width.clone(), width.clone())),
            Value::List(pair) => match pair.as_slice() {
                [Value::Number(before), Value::Number(after)] => {
                    Some((before.clone(), after.clone()))
                }
                _ => None,
            },
            _ => None,
        };
        let given = arguments.get(1, "pad_width");
        let widths = given.and_then(|given| match (pair(given), given) {
            (Some(all), _) => Some(vec![all; shape.len()]),
            (None, Value::List(pairs)) => pairs.iter().map(pair).collect::<Option<Vec<_>>>(),
            _ => None,
        });
        let is_constant = match arguments.get(2, "mode") {
            None => true,
            Some(mode) => *mode == Value::Text("constant".to_owned()),
        };
        let Some(widths) = widths.filter(|widths| is_constant && widths.len() == shape.len())
        else {
            return Err(self.unknown(node, "a padding"));
        };
        if let Some(unread) = arguments.first_unread() {
            return Err(self.unknown_argument(node, &unread, "pad"));
        }
        let (mut padded, mut index, mut guards) = (Vec::new(), Vec::new(), Vec::new());
        for (axis, (extent, (before, after))) in shape.iter().zip(&widths).enumerate() {
            let sum = before.combine("+", extent);
            let whole = sum.clone().and_then(|sum| sum.combine("+", after));
            let (Some(end), Some(whole)) = (sum, whole) else {
                return Err(self.unknown(node, "a padding"));
            };
            index.push(format!("${axis} - {}", before.text));
            if whole.text == extent.text {
                index[axis] = format!("${axis}");
            } else {
                guards.push(format!(
                    "${axis} >= {} && ${axis} < {}",
                    before.text, end.text
                ));
            }
            padded.push(whole);
        }
        if guards.is_empty() {
            return Ok(Value::Tensor(x));
        }
        let guard = (guards.join(" && "), "0");
        Ok(Value::Tensor(self.graph.guarded(x, padded, index, guard)))
    }

    /// A method of an array, or a function of numpy, as PyTorch names it.
    pub fn translate_numpy<'n>(
        &mut self,
        node: Node<'s>,
        name: &'n str,
        arguments: &Arguments<'s>,
    ) -> Result<(&'n str, Arguments<'s>), Problem> {
        let mut arguments = arguments.clone();
        let rank = match arguments.positional.first() {
            Some(Value::Tensor(tensor)) => Some(self.graph.shape(*tensor).len()),
            _ => None,
        };
        let name = match name {
            "dot" => "matmul",
            "max" => "amax",
            "min" => "amin",
            "absolute" | "fabs" => "abs",
            "subtract" => "sub",
            "multiply" => "mul",
            "divide" => "div",
            "power" => "pow",
            "clip" => "clamp",
            "astype" => "to",
            "copy" => "clone",
            "concatenate" => "cat",
            "ravel" | "flatten" => {
                arguments.positional.truncate(1);
                arguments.positional.push(Value::Number(Number::integer(0)));
                "flatten"
            }
            "transpose" if arguments.positional.len() == 1 && rank == Some(2) => "t",
            "transpose" => "permute",
            "cumsum" if rank == Some(1) && arguments.get(1, "dim").is_none() => {
                arguments.positional.push(Value::Number(Number::integer(0)));
                "cumsum"
            }
            "std" | "var" | "norm" | "argmax" | "argmin" | "split" | "squeeze" | "repeat"
            | "round" | "swapaxes" => {
                return Err(self.unknown(
                    node,
                    "a function whose meaning numpy and PyTorch do not share",
                ));
            }
            other => other,
        };
        Ok((name, arguments))
    }
}
