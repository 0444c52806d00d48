//! Calls: functions and classes of the file, and names of modules.

use std::collections::BTreeMap;

use domain::problem::Problem;
use tree_sitter::Node;

use super::arguments::Arguments;
use super::interpret::{Interpreter, Scope, Value, named};
use super::number::Number;

/// The most passes of a loop that is unrolled.
const MAX_PASSES: i64 = 64;
/// The deepest nesting of calls.
const MAX_DEPTH: usize = 16;

impl<'s> Interpreter<'s> {
    /// Calls a function of the file.
    pub fn call_function(
        &mut self,
        function: Node<'s>,
        own: Option<Value<'s>>,
        arguments: Arguments<'s>,
    ) -> Result<Value<'s>, Problem> {
        if self.depth >= MAX_DEPTH {
            return Err(self.refuse(
                function,
                "the calls are nested too deeply",
                "write out the recursion",
            ));
        }
        let mut scope = Scope::new();
        let has_own = own.is_some();
        let mut positional = own.into_iter().chain(arguments.positional);
        let mut left: BTreeMap<_, _> = arguments.named.into_iter().collect();
        if let Some(parameters) = function.child_by_field_name("parameters") {
            for parameter in named(parameters, true) {
                if parameter.kind() == "dictionary_splat_pattern"
                    && let Some(name) = parameter.named_child(0)
                {
                    let rest = std::mem::take(&mut left).into_iter().collect();
                    scope.insert(self.source.of(name).to_owned(), Value::Mapping(rest));
                    continue;
                }
                let default = parameter.child_by_field_name("value");
                let name = match parameter.kind() {
                    "identifier" => Some(parameter),
                    "typed_parameter" => parameter.named_child(0),
                    _ => parameter.child_by_field_name("name"),
                };
                let Some(name) = name.filter(|name| name.kind() == "identifier") else {
                    if parameter.kind() == "keyword_separator" {
                        continue;
                    }
                    return Err(self.unknown(parameter, "a parameter"));
                };
                let name = self.source.of(name);
                let value = match (positional.next(), left.remove(name), default) {
                    (Some(value), _, _) | (None, Some(value), _) => value,
                    (None, None, Some(default)) => self.expression(default, &mut Scope::new())?,
                    (None, None, None) => {
                        let message = format!("the argument {name} is missing");
                        return Err(self.refuse(function, message, "pass it"));
                    }
                };
                scope.insert(name.to_owned(), value);
            }
        }
        let surplus = left.into_keys().next();
        let surplus = surplus.or_else(|| {
            let number = scope.len() + 1 - usize::from(has_own);
            positional.next().map(|_| format!("number {number}"))
        });
        if let Some(surplus) = surplus {
            let name = function.child_by_field_name("name");
            let name = name.map_or("a function", |name| self.source.of(name));
            return Err(self.unknown_argument(function, &surplus, name));
        }
        let Some(body) = function.child_by_field_name("body") else {
            return Ok(Value::None);
        };
        self.depth += 1;
        let result = self.block(body, &mut scope);
        self.depth -= 1;
        Ok(result?.unwrap_or(Value::None))
    }

    pub fn arguments(
        &mut self,
        call: Node<'s>,
        scope: &mut Scope<'s>,
    ) -> Result<Arguments<'s>, Problem> {
        let mut arguments = Arguments::default();
        let Some(list) = call.child_by_field_name("arguments") else {
            return Ok(arguments);
        };
        for argument in named(list, true) {
            match argument.kind() {
                "keyword_argument" => {
                    let parts = (
                        argument.child_by_field_name("name"),
                        argument.child_by_field_name("value"),
                    );
                    let (Some(name), Some(value)) = parts else {
                        return Err(self.unknown(argument, "an argument"));
                    };
                    let name = self.source.of(name);
                    // Devices and generators do not change what is computed.
                    if [
                        "device",
                        "generator",
                        "requires_grad",
                        "pin_memory",
                        "inplace",
                        "memory_format",
                    ]
                    .contains(&name)
                    {
                        continue;
                    }
                    let value = self.expression(value, scope)?;
                    let name = match name {
                        "axis" => "dim",
                        "keepdims" => "keepdim",
                        other => other,
                    };
                    arguments.named.push((name.to_owned(), value));
                }
                "list_splat" => {
                    let inner = argument.named_child(0).unwrap_or(argument);
                    match self.expression(inner, scope)? {
                        Value::List(values) => arguments.positional.extend(values),
                        _ => return Err(self.unknown(argument, "an argument")),
                    }
                }
                _ => {
                    let value = self.expression(argument, scope)?;
                    arguments.positional.push(value);
                }
            }
        }
        Ok(arguments)
    }

    pub fn call(
        &mut self,
        node: Node<'s>,
        called: Value<'s>,
        arguments: Arguments<'s>,
    ) -> Result<Value<'s>, Problem> {
        match called {
            Value::Function(function) => self.call_function(function, None, arguments),
            Value::Class(class) => self.construct(class, arguments),
            Value::Layer(layer) => self.call_layer(node, layer, arguments),
            Value::Object(_) => self.call_method(node, called, "forward", arguments),
            Value::Method(object, name) => match *object {
                Value::Object(_) => self.call_method(node, *object, &name, arguments),
                object => {
                    let mut positional = vec![object];
                    positional.extend(arguments.positional);
                    let named = arguments.named;
                    self.operation(node, &name, &Arguments::new(positional, named))
                }
            },
            Value::Path(path) => self.call_path(node, &path, arguments),
            _ => Err(self.unknown(node, "a call")),
        }
    }

    /// Makes an object of a class of the file.
    pub fn construct(
        &mut self,
        class: Node<'s>,
        arguments: Arguments<'s>,
    ) -> Result<Value<'s>, Problem> {
        self.objects.push(Scope::new());
        let object = self.objects.len() - 1;
        let mut init = None;
        for member in class
            .child_by_field_name("body")
            .map(|body| named(body, true))
            .unwrap_or_default()
        {
            let member = match member.kind() {
                "decorated_definition" => {
                    member.child_by_field_name("definition").unwrap_or(member)
                }
                _ => member,
            };
            if let ("function_definition", Some(name)) =
                (member.kind(), member.child_by_field_name("name"))
            {
                let name = self.source.of(name);
                if name == "__init__" {
                    init = Some(member);
                }
                self.objects[object].insert(name.to_owned(), Value::Function(member));
            }
        }
        if let Some(init) = init {
            self.call_function(init, Some(Value::Object(object)), arguments)?;
        }
        Ok(Value::Object(object))
    }

    pub fn call_method(
        &mut self,
        node: Node<'s>,
        object: Value<'s>,
        name: &str,
        arguments: Arguments<'s>,
    ) -> Result<Value<'s>, Problem> {
        let Value::Object(at) = object else {
            return Err(self.unknown(node, "a call"));
        };
        if let ("register_buffer", [Value::Text(name), value, ..]) =
            (name, arguments.positional.as_slice())
        {
            self.objects[at].insert(name.clone(), value.clone());
            return Ok(Value::None);
        }
        match self.objects[at].get(name).cloned() {
            Some(Value::Function(function)) => {
                self.call_function(function, Some(object), arguments)
            }
            Some(other) => self.call(node, other, arguments),
            None => Err(self.unknown(node, "a method")),
        }
    }

    pub fn call_path(
        &mut self,
        node: Node<'s>,
        path: &str,
        arguments: Arguments<'s>,
    ) -> Result<Value<'s>, Problem> {
        let name = path.rsplit('.').next().unwrap_or(path);
        let first = arguments.positional.first();
        match (path, first) {
            ("builtin.range", _) => {
                let mut bounds = Vec::new();
                for value in &arguments.positional {
                    let Value::Number(number) = value else {
                        return Err(self.unknown(node, "a range"));
                    };
                    bounds.extend(self.graph.pin(number));
                }
                let (start, stop, step) = match bounds.as_slice() {
                    [stop] => (0, *stop, 1),
                    [start, stop] => (*start, *stop, 1),
                    [start, stop, step] if *step != 0 => (*start, *stop, *step),
                    _ => return Err(self.unknown(node, "a range")),
                };
                let count = (stop - start + step - step.signum()) / step;
                if count > MAX_PASSES {
                    let message = format!(
                        "a loop of {count} passes, of which at most {MAX_PASSES} are written out"
                    );
                    return Err(self.refuse(
                        node,
                        message,
                        "write it with operations on whole tensors",
                    ));
                }
                let items =
                    (0..count.max(0)).map(|at| Value::Number(Number::integer(start + at * step)));
                Ok(Value::List(items.collect()))
            }
            ("builtin.len", Some(Value::List(values))) => Ok(Value::Number(Number::integer(
                i64::try_from(values.len()).unwrap_or(i64::MAX),
            ))),
            ("builtin.len", Some(Value::Tensor(tensor))) => {
                Ok(match self.graph.shape(*tensor).first() {
                    Some(extent) => Value::Number(extent.clone()),
                    None => Value::None,
                })
            }
            ("builtin.float" | "builtin.int", Some(value @ Value::Number(_))) => Ok(value.clone()),
            ("builtin.float", Some(Value::Text(text))) if text.contains("inf") => {
                let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
                Ok(Value::Number(Number::real(sign * f64::INFINITY)))
            }
            ("builtin.tuple" | "builtin.list", Some(value @ Value::List(_))) => Ok(value.clone()),
            ("builtin.dict" | "collections.OrderedDict", _) => self.dictionary(node, arguments),
            ("builtin.open", Some(Value::Text(file))) => Ok(Value::Path(format!("file {file}"))),
            _ if path.starts_with("file ") && path.ends_with(".read") => {
                let file = &path[5..path.len() - 5];
                match self.files.get(file) {
                    Some(text) => Ok(Value::Text(text.clone())),
                    None => Err(self.unknown(node, "a file that is not beside the source")),
                }
            }
            _ if self.is_numpy && path.starts_with("numpy.") => {
                self.call_numpy(node, &path["numpy.".len()..], arguments)
            }
            // An array and its tensor have the same elements.
            (
                "torch.from_numpy" | "torch.as_tensor" | "torch.tensor",
                Some(value @ Value::Tensor(_)),
            ) => Ok(value.clone()),
            // Generators and devices do not change shapes.
            ("torch.Generator", _) => Ok(Value::Path("generator".to_owned())),
            ("torch.device", _) => Ok(Value::None),
            _ if path.starts_with("generator.") => Ok(Value::Path("generator".to_owned())),
            ("math.sqrt" | "numpy.sqrt", Some(Value::Number(number))) => {
                Ok(Value::Number(number.square_root()))
            }
            ("math.log" | "math.exp", Some(Value::Number(number))) if number.is_literal() => {
                let value = if name == "log" {
                    number.value.ln()
                } else {
                    number.value.exp()
                };
                Ok(Value::Number(Number::real(value)))
            }
            _ if path.starts_with("torch.nn.functional.") || path.starts_with("torch.special.") => {
                self.operation(node, name, &arguments)
            }
            _ if path.starts_with("torch.nn.") => self.make_layer(node, name, arguments),
            _ if path.starts_with("torch.") => match self.draw(node, name, &arguments)? {
                Some(value) => Ok(value),
                None => self.operation(node, name, &arguments),
            },
            _ => Err(self.unknown(node, "a call")),
        }
    }
}
