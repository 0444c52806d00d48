//! Expressions of Python: literals, operators, subscripts, attributes.

use domain::dtype::Dtype;
use domain::problem::Problem;
use tree_sitter::Node;

use super::arguments::Arguments;
use super::functions;
use super::graph::{Function, NodeId};
use super::interpret::{Interpreter, Scope, Value, named};
use super::number::Number;

impl<'s> Interpreter<'s> {
    /// The truth of a condition that does not depend on the tensors' values.
    pub fn truth(&mut self, node: Node<'s>, scope: &mut Scope<'s>) -> Result<bool, Problem> {
        match self.expression(node, scope)? {
            Value::Bool(truth) => Ok(truth),
            Value::None => Ok(false),
            Value::Number(number) => {
                self.graph.pin(&number);
                Ok(number.value != 0.0)
            }
            Value::Tensor(_) => Err(self.refuse(
                node,
                "a condition depends on the values of a tensor",
                "write it with torch.where",
            )),
            Value::Text(text) => Ok(!text.is_empty()),
            Value::List(values) => Ok(!values.is_empty()),
            _ => Ok(true),
        }
    }

    pub fn expression(
        &mut self,
        node: Node<'s>,
        scope: &mut Scope<'s>,
    ) -> Result<Value<'s>, Problem> {
        let text = self.source.of(node);
        let field = |name: &str| node.child_by_field_name(name);
        match node.kind() {
            "none" => Ok(Value::None),
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            "ellipsis" => Ok(Value::Ellipsis),
            "integer" => match text.replace('_', "").parse() {
                Ok(value) => Ok(Value::Number(Number::integer(value))),
                Err(_) => Err(self.unknown(node, "an integer")),
            },
            "float" => match text.replace('_', "").parse() {
                Ok(value) => Ok(Value::Number(Number::real(value))),
                Err(_) => Err(self.unknown(node, "a number")),
            },
            "string" => self.string(node).map(Value::Text),
            "concatenated_string" => {
                let parts = named(node, true).into_iter();
                let parts = parts.map(|part| self.string(part));
                Ok(Value::Text(parts.collect::<Result<String, _>>()?))
            }
            "identifier" => {
                let known = scope.get(text).or_else(|| self.globals.get(text)).cloned();
                known
                    .or_else(|| builtin(text))
                    .ok_or_else(|| self.unknown(node, "a name"))
            }
            "parenthesized_expression" | "expression_list" | "tuple" | "list" => {
                let items = named(node, true);
                if let ("parenthesized_expression", [inner]) = (node.kind(), items.as_slice()) {
                    return self.expression(*inner, scope);
                }
                let mut values = Vec::new();
                for item in items {
                    if item.kind() == "list_splat" {
                        let inner = item.named_child(0).unwrap_or(item);
                        match self.expression(inner, scope)? {
                            Value::List(more) => values.extend(more),
                            _ => return Err(self.unknown(item, "a list")),
                        }
                    } else {
                        values.push(self.expression(item, scope)?);
                    }
                }
                Ok(Value::List(values))
            }
            "dictionary" => {
                let mut pairs = Vec::new();
                for pair in named(node, true) {
                    let (key, value) = (
                        pair.child_by_field_name("key"),
                        pair.child_by_field_name("value"),
                    );
                    let (Some(key), Some(value)) = (key, value) else {
                        return Err(self.unknown(pair, "a pair"));
                    };
                    let Value::Text(key) = self.expression(key, scope)? else {
                        return Err(self.unknown(key, "a key"));
                    };
                    pairs.push((key, self.expression(value, scope)?));
                }
                Ok(Value::Mapping(pairs))
            }
            "unary_operator" => {
                let (Some(argument), operator) = (
                    field("argument"),
                    field("operator").map_or("", |node| self.source.of(node)),
                ) else {
                    return Err(self.unknown(node, "an operator"));
                };
                match (operator, self.expression(argument, scope)?) {
                    ("-", Value::Number(number)) => Ok(Value::Number(number.negate())),
                    ("-", Value::Tensor(tensor)) => self.map(node, &functions::NEGATE, &[tensor]),
                    ("+", value) => Ok(value),
                    _ => Err(self.unknown(node, "an operator")),
                }
            }
            "not_operator" => {
                let argument = field("argument").unwrap_or(node);
                Ok(Value::Bool(!self.truth(argument, scope)?))
            }
            "boolean_operator" => {
                let (left, right) = (
                    field("left").unwrap_or(node),
                    field("right").unwrap_or(node),
                );
                let is_and = field("operator").is_some_and(|node| self.source.of(node) == "and");
                let first = self.truth(left, scope)?;
                Ok(Value::Bool(if first == is_and {
                    self.truth(right, scope)?
                } else {
                    first
                }))
            }
            "conditional_expression" => {
                let parts = named(node, true);
                let [one, condition, other] = parts.as_slice() else {
                    return Err(self.unknown(node, "a choice"));
                };
                let chosen = if self.truth(*condition, scope)? {
                    one
                } else {
                    other
                };
                self.expression(*chosen, scope)
            }
            "binary_operator" => {
                let (left, right) = (
                    field("left").unwrap_or(node),
                    field("right").unwrap_or(node),
                );
                let operator = field("operator").map_or("", |node| self.source.of(node));
                let one = self.expression(left, scope)?;
                let other = self.expression(right, scope)?;
                self.operate(node, operator, one, other)
            }
            "comparison_operator" => {
                let parts = named(node, true);
                let operator = field("operators").map_or("", |node| self.source.of(node));
                let [left, right] = parts.as_slice() else {
                    return Err(self.unknown(node, "a comparison"));
                };
                let one = self.expression(*left, scope)?;
                let other = self.expression(*right, scope)?;
                self.compare(node, operator, one, other)
            }
            "attribute" => {
                let object = self.expression(field("object").unwrap_or(node), scope)?;
                let name = field("attribute").map_or("", |node| self.source.of(node));
                self.attribute(node, object, name)
            }
            "subscript" => {
                let object = self.expression(field("value").unwrap_or(node), scope)?;
                let mut cursor = node.walk();
                let parts = node
                    .children_by_field_name("subscript", &mut cursor)
                    .collect::<Vec<_>>();
                let mut places = Vec::new();
                for part in parts {
                    match self.expression(part, scope)? {
                        Value::List(more) if part.kind() == "tuple" => places.extend(more),
                        value => places.push(value),
                    }
                }
                self.subscript(node, object, &places)
            }
            "slice" => self.slice(node, scope),
            "call" => {
                let function = field("function").unwrap_or(node);
                let called = self.expression(function, scope)?;
                let arguments = self.arguments(node, scope)?;
                self.call(node, called, arguments)
            }
            "named_expression" | "lambda" | "list_comprehension" | "generator_expression" => {
                self.comprehension(node, scope)
            }
            _ => Err(self.unknown(node, "an expression")),
        }
    }

    /// The text of a string literal.
    fn string(&self, node: Node<'s>) -> Result<String, Problem> {
        let text = self.source.of(node);
        let quote = text.find(['"', '\'']).unwrap_or(0);
        let (prefix, quoted) = text.split_at(quote);
        let three = ["\"\"\"", "'''"]
            .iter()
            .any(|mark| quoted.starts_with(mark));
        let width = if three { 3 } else { 1 };
        let inner = quoted.get(width..quoted.len().saturating_sub(width));
        let prefix = prefix.to_ascii_lowercase();
        let has_values = prefix.contains('f') && inner.is_some_and(|inner| inner.contains('{'));
        let Some(inner) = inner.filter(|_| !has_values) else {
            return Err(self.unknown(node, "a text with values in it"));
        };
        if prefix.contains('r') || !inner.contains('\\') {
            return Ok(inner.to_owned());
        }
        let mut plain = String::with_capacity(inner.len());
        let mut characters = inner.chars();
        while let Some(character) = characters.next() {
            if character != '\\' {
                plain.push(character);
                continue;
            }
            match characters.next() {
                Some('\n') => {}
                Some('n') => plain.push('\n'),
                Some('t') => plain.push('\t'),
                Some(kept @ ('\\' | '"' | '\'')) => plain.push(kept),
                Some(other) => plain.extend(['\\', other]),
                None => plain.push('\\'),
            }
        }
        Ok(plain)
    }

    pub fn slice(&mut self, node: Node<'s>, scope: &mut Scope<'s>) -> Result<Value<'s>, Problem> {
        let mut bounds: [Option<Number>; 2] = [None, None];
        let mut at = 0;
        for child in named(node, false) {
            if child.kind() == ":" {
                at += 1;
                continue;
            }
            match self.expression(child, scope)? {
                Value::Number(number) if at < 2 => bounds[at] = Some(number),
                Value::None if at < 2 => {}
                _ => return Err(self.unknown(node, "a slice with a step")),
            }
        }
        let [start, stop] = bounds;
        Ok(Value::Range(start, stop))
    }

    /// A list comprehension over a list, without conditions.
    pub fn comprehension(
        &mut self,
        node: Node<'s>,
        scope: &mut Scope<'s>,
    ) -> Result<Value<'s>, Problem> {
        let clauses = named(node, true);
        let [body, clause] = clauses.as_slice() else {
            return Err(self.unknown(node, "an expression"));
        };
        let parts = (
            clause.child_by_field_name("left"),
            clause.child_by_field_name("right"),
        );
        let (Some(left), Some(right)) = parts else {
            return Err(self.unknown(node, "an expression"));
        };
        let Value::List(items) = self.expression(right, scope)? else {
            return Err(self.unknown(right, "a sequence"));
        };
        let mut values = Vec::new();
        for item in items {
            let mut inner = scope.clone();
            self.bind(left, item, &mut inner)?;
            values.push(self.expression(*body, &mut inner)?);
        }
        Ok(Value::List(values))
    }

    pub fn attribute(
        &mut self,
        node: Node<'s>,
        object: Value<'s>,
        name: &str,
    ) -> Result<Value<'s>, Problem> {
        match object {
            Value::Path(path) => Ok(match format!("{path}.{name}").as_str() {
                "math.inf" | "torch.inf" => Value::Number(Number::real(f64::INFINITY)),
                "math.pi" => Value::Number(Number::real(std::f64::consts::PI)),
                "torch.float32" | "torch.float" => Value::Type(Dtype::F32),
                "torch.float16" | "torch.half" => Value::Type(Dtype::F16),
                "torch.bfloat16" => Value::Type(Dtype::Bf16),
                "torch.float64" | "torch.double" => Value::Type(Dtype::F64),
                path => Value::Path(path.to_owned()),
            }),
            Value::Object(at) => match self.objects[at].get(name).cloned() {
                Some(Value::Function(_)) => {
                    Ok(Value::Method(Box::new(Value::Object(at)), name.to_owned()))
                }
                Some(value) => Ok(value),
                None if name == "register_buffer" => {
                    Ok(Value::Method(Box::new(Value::Object(at)), name.to_owned()))
                }
                None => Err(self.unknown(node, "an attribute")),
            },
            Value::Tensor(tensor) => match name {
                "shape" => {
                    let extents = self.graph.shape(tensor).iter().cloned();
                    Ok(Value::List(extents.map(Value::Number).collect()))
                }
                "dtype" => Ok(Value::Type(self.graph.dtype(tensor))),
                "device" => Ok(Value::None),
                "ndim" => {
                    let rank = i64::try_from(self.graph.shape(tensor).len()).unwrap_or(i64::MAX);
                    Ok(Value::Number(Number::integer(rank)))
                }
                "T" | "mT" => self.transpose_last(node, tensor),
                "data" => Ok(Value::Tensor(tensor)),
                "values" => Ok(Value::Tensor(tensor)),
                _ => Ok(Value::Method(
                    Box::new(Value::Tensor(tensor)),
                    name.to_owned(),
                )),
            },
            Value::Layer(layer) => match self.layer_attribute(layer, name) {
                Some(value) => Ok(value),
                None => Err(self.unknown(node, "an attribute of a layer")),
            },
            // The values of torch.max(x, dim).
            Value::List(values) if name == "values" => {
                Ok(values.into_iter().next().unwrap_or(Value::None))
            }
            _ => Err(self.unknown(node, "an attribute")),
        }
    }

    pub fn map(
        &mut self,
        node: Node<'_>,
        function: &'static Function,
        operands: &[NodeId],
    ) -> Result<Value<'s>, Problem> {
        let made = self.graph.map(function, operands);
        made.map(Value::Tensor).map_err(|(one, other)| {
            let message = format!("the extents {} and {} do not fit", one.text, other.text);
            self.refuse(node, message, "correct the shapes of the inputs")
        })
    }

    /// A tensor, or a number as one.
    pub fn tensor(&mut self, value: &Value<'s>) -> Option<NodeId> {
        match value {
            Value::Tensor(tensor) => Some(*tensor),
            Value::Number(number) => {
                Some(self.graph.constant(number.clone(), Vec::new(), Dtype::F32))
            }
            _ => None,
        }
    }

    pub fn operate(
        &mut self,
        node: Node<'s>,
        operator: &str,
        one: Value<'s>,
        other: Value<'s>,
    ) -> Result<Value<'s>, Problem> {
        match (operator, one, other) {
            (_, Value::Number(one), Value::Number(other)) => {
                let made = one.combine(operator, &other);
                if ["//", "%"].contains(&operator) && !one.is_literal() && one.text != other.text {
                    self.graph.pin(&one);
                    self.graph.pin(&other);
                }
                made.map(Value::Number)
                    .ok_or_else(|| self.unknown(node, "an operator"))
            }
            ("+", Value::List(mut one), Value::List(other)) => {
                one.extend(other);
                Ok(Value::List(one))
            }
            ("*", Value::List(one), Value::Number(count)) => {
                let count = self
                    .graph
                    .pin(&count)
                    .and_then(|count| usize::try_from(count).ok());
                Ok(Value::List(
                    std::iter::repeat_n(one, count.unwrap_or(0))
                        .flatten()
                        .collect(),
                ))
            }
            ("@", one, other) => {
                let positional = vec![one, other];
                self.operation(node, "matmul", &Arguments::new(positional, Vec::new()))
            }
            ("**", one, other) => {
                let positional = vec![one, other];
                self.operation(node, "pow", &Arguments::new(positional, Vec::new()))
            }
            (_, one, other) => {
                let operands = (
                    self.tensor(&one),
                    self.tensor(&other),
                    functions::binary(operator),
                );
                match operands {
                    (Some(one), Some(other), Some(function)) => {
                        self.map(node, function, &[one, other])
                    }
                    _ => Err(self.unknown(node, "an operator")),
                }
            }
        }
    }

    pub fn compare(
        &mut self,
        node: Node<'s>,
        operator: &str,
        one: Value<'s>,
        other: Value<'s>,
    ) -> Result<Value<'s>, Problem> {
        match (&one, &other) {
            (Value::Tensor(_), _) | (_, Value::Tensor(_)) => {
                self.operate(node, operator, one, other)
            }
            (Value::Number(a), Value::Number(b)) => {
                self.graph.pin(a);
                self.graph.pin(b);
                Ok(Value::Bool(match operator {
                    "<" => a.value < b.value,
                    "<=" => a.value <= b.value,
                    ">" => a.value > b.value,
                    ">=" => a.value >= b.value,
                    "==" => a.value.total_cmp(&b.value).is_eq(),
                    _ => a.value.total_cmp(&b.value).is_ne(),
                }))
            }
            _ if ["==", "is"].contains(&operator) => Ok(Value::Bool(one == other)),
            _ if ["!=", "is not"].contains(&operator) || operator.starts_with("is") => {
                Ok(Value::Bool(one != other))
            }
            _ => Err(self.unknown(node, "a comparison")),
        }
    }
}

/// A function of Python that has a meaning here.
fn builtin<'s>(name: &str) -> Option<Value<'s>> {
    let known = [
        "range", "len", "float", "int", "tuple", "list", "dict", "open",
    ]
    .contains(&name);
    known.then(|| Value::Path(format!("builtin.{name}")))
}
