//! Problems of KernelBench: a Python file with a class `Model`, `get_inputs` and `get_init_inputs`.

use std::collections::BTreeSet;

use domain::expr::Bindings;
use domain::problem::{Problem, Problems};

use super::Imported;
use super::task::{Purpose, Shape, Work};
use crate::python::arguments::Arguments;
use crate::python::interpret::{Interpreter, Source, Value, named};
use crate::python::{is_reserved, unused_name};

/// Reads a problem.
///
/// # Errors
/// The first thing that cannot become a task, with its line.
pub fn import_kernelbench(file: &str, text: &str, name: &str) -> Result<Imported, Problems> {
    let source = Source::parse(file, text)?;
    Ok(read(&source, name)?)
}

fn read(source: &Source<'_>, name: &str) -> Result<Imported, Problem> {
    let root = source.root();
    let mut interpreter = Interpreter::new(source);
    interpreter.read_module(true)?;
    let dims = interpreter
        .globals
        .values()
        .filter_map(|value| match value {
            Value::Number(number) => Some((number.text.clone(), number.whole()?)),
            _ => None,
        });
    let is_name = |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let dims = dims
        .filter(|(name, _)| is_name(name) && !name.contains(' '))
        .collect::<Bindings>();
    if let Some(name) = dims.keys().find(|name| is_reserved(name)) {
        let message = format!("the name {name} has another meaning in the kernels");
        return Err(interpreter.refuse(root, message, "rename it"));
    }
    let missing = |name: &str| {
        interpreter.refuse(
            root,
            format!("there is no {name}"),
            "name a file of KernelBench",
        )
    };
    let Some(Value::Class(model)) = interpreter.globals.get("Model").cloned() else {
        return Err(missing("class Model"));
    };
    let Some(Value::Function(inputs)) = interpreter.globals.get("get_inputs").cloned() else {
        return Err(missing("function get_inputs"));
    };
    let init = match interpreter.globals.get("get_init_inputs").cloned() {
        Some(Value::Function(function)) => {
            all_of(interpreter.call_function(function, None, Arguments::default())?)
        }
        _ => Vec::new(),
    };
    let arguments = Arguments::new(init, Vec::new());
    let object = interpreter.construct(model, arguments)?;
    interpreter.is_making_inputs = true;
    let made = all_of(interpreter.call_function(inputs, None, Arguments::default())?);
    interpreter.is_making_inputs = false;
    let mut taken = dims.keys().cloned().collect::<BTreeSet<_>>();
    let parameters = forward_parameters(&interpreter, model);
    let mut positional = Vec::new();
    for (at, value) in made.into_iter().enumerate() {
        let name = parameters
            .get(at)
            .cloned()
            .unwrap_or_else(|| format!("input{at}"));
        positional.push(match value {
            Value::Tensor(tensor) => {
                Value::Tensor(interpreter.make_input(tensor, &name, "get_inputs"))
            }
            other => other,
        });
    }
    let answer = interpreter.call_method(
        root,
        object,
        "forward",
        Arguments::new(positional, Vec::new()),
    )?;
    let mut outputs = Vec::new();
    let answers = all_of(answer);
    let several = answers.len() > 1;
    interpreter.name_inputs(&mut taken);
    for (at, value) in answers.into_iter().enumerate() {
        let Value::Tensor(tensor) = value else {
            return Err(interpreter.refuse(
                model,
                "forward returns something else than tensors",
                "return tensors",
            ));
        };
        let wanted = if several {
            format!("y{at}")
        } else {
            "y".to_owned()
        };
        outputs.push((unused_name(&wanted, &taken), tensor));
    }
    let mut notes = std::mem::take(&mut interpreter.notes);
    notes.insert("shapes beside the source's one were added".to_owned());
    let graph = std::mem::take(&mut interpreter.graph);
    Work {
        file: source.file,
        name,
        title: name.replace(['-', '_'], " "),
        family: None,
        origin: "KernelBench",
        graph,
        outputs,
        shapes: vec![Shape {
            dims: dims.clone(),
            purpose: Purpose::Score,
        }],
        dims,
        notes,
    }
    .write()
}

/// The names of the parameters of `forward`, without `self`.
fn forward_parameters(interpreter: &Interpreter<'_>, model: tree_sitter::Node<'_>) -> Vec<String> {
    let source = interpreter.source;
    let members = model
        .child_by_field_name("body")
        .map(|body| named(body, true))
        .unwrap_or_default();
    let forward = members.into_iter().find(|member| {
        member
            .child_by_field_name("name")
            .is_some_and(|name| source.of(name) == "forward")
    });
    let parameters = forward.and_then(|forward| forward.child_by_field_name("parameters"));
    let parameters = parameters.map(|list| named(list, true)).unwrap_or_default();
    let names = parameters
        .into_iter()
        .skip(1)
        .filter_map(|parameter| match parameter.kind() {
            "identifier" => Some(parameter),
            "typed_parameter" => parameter.named_child(0),
            _ => parameter.child_by_field_name("name"),
        });
    names.map(|name| source.of(name).to_owned()).collect()
}

/// The values of a list or tuple, or a single value.
fn all_of(value: Value<'_>) -> Vec<Value<'_>> {
    match value {
        Value::List(values) => values,
        other => vec![other],
    }
}
