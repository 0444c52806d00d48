//! Problems of GPU MODE: a `task.yml` with tests and benchmarks, and a `reference.py` with `generate_input` and
//! `ref_kernel`.

use std::collections::{BTreeMap, BTreeSet};

use domain::expr::Bindings;
use domain::problem::{Problem, Problems};
use tree_sitter::Node as Syntax;

use super::Imported;
use super::task::{MAX_SCORED, Purpose, Shape, Work};
use super::yaml::{Data, Yaml, at_line};
use crate::python::arguments::Arguments;
use crate::python::graph::NodeId;
use crate::python::interpret::{Interpreter, Source, Value, named};
use crate::python::number::Number;
use crate::python::{is_reserved, unused_name};

/// The most benchmarks, and the most tests, that become cases.
const MAX_SHAPES: usize = 8;
/// The argument that chooses values and no shape.
const SEED: &str = "seed";

/// The path of the Python file with the reference, relative to the folder of `task.yml`.
///
/// # Errors
/// A text that is no `task.yml`, or that lists no such file.
pub fn gpu_mode_reference(file: &str, text: &str) -> Result<String, Problems> {
    let yaml = Yaml::parse(file, text)?;
    let Some(files) = yaml.get("files") else {
        return Err(at_line(file, yaml.line, "there are no files", "list reference.py").into());
    };
    let mut names = files.items().iter();
    let entry = names.find(|entry| entry.get("name").and_then(Yaml::text) == Some("reference.py"));
    let source = entry
        .and_then(|entry| entry.get("source"))
        .and_then(Yaml::text);
    let missing = || at_line(file, files.line, "files lists no reference.py", "list it").into();
    source.map(str::to_owned).ok_or_else(missing)
}

/// Reads a problem from its `task.yml` and the file that [`gpu_mode_reference`] names.
///
/// # Errors
/// The first thing that cannot become a task, with its file and line.
pub fn import_gpu_mode(
    file: &str,
    text: &str,
    reference_file: &str,
    reference: &str,
    name: &str,
) -> Result<Imported, Problems> {
    let yaml = Yaml::parse(file, text)?;
    let source = Source::parse(reference_file, reference)?;
    Ok(read(file, &yaml, &source, name)?)
}

/// Arguments of `generate_input` with the line where they stand.
#[derive(Debug, Clone, PartialEq)]
struct Spec {
    line: u32,
    /// Integers of at least 1: candidates for dims.
    dims: Bindings,
    /// All other arguments, which must be the same in every case of a task.
    others: BTreeMap<String, Data>,
    seed: i64,
}

fn read(file: &str, yaml: &Yaml, source: &Source<'_>, name: &str) -> Result<Imported, Problem> {
    if let Some(lang) = yaml.get("lang").filter(|lang| lang.text() != Some("py")) {
        let message = format!(
            "its language is {}, and references in Python are read",
            lang.text().unwrap_or("unknown")
        );
        let fix = "begin with task init and a reference of your own";
        return Err(at_line(file, lang.line, message, fix));
    }
    if let Some(several) = yaml
        .get("multi_gpu")
        .filter(|flag| flag.text() == Some("true"))
    {
        let message = "it needs several GPUs, and a task runs on one";
        return Err(at_line(
            file,
            several.line,
            message,
            "import a problem of one GPU",
        ));
    }
    let (benchmarks, tests) = (
        specs(file, yaml, "benchmarks")?,
        specs(file, yaml, "tests")?,
    );
    let Some(first) = benchmarks.first().or(tests.first()).cloned() else {
        let message = "it has neither tests nor benchmarks, so that no shape is known";
        return Err(at_line(file, yaml.line, message, "add benchmarks"));
    };
    if let Some(name) = first.dims.keys().find(|name| is_reserved(name)) {
        let message = format!("the name {name} has another meaning in the kernels");
        return Err(at_line(file, first.line, message, "rename it"));
    }
    let mut interpreter = Interpreter::new(source);
    interpreter.read_module(false)?;
    let outputs = build(file, &mut interpreter, &first)?;
    let mut notes = std::mem::take(&mut interpreter.notes);
    let mut shapes: Vec<Shape> = Vec::new();
    let (mut different, mut further) = (Vec::new(), 0);
    for (specs, purpose) in [(&benchmarks, Purpose::Score), (&tests, Purpose::Check)] {
        let mut taken = 0;
        for spec in specs {
            if spec.others != first.others || !spec.dims.keys().eq(first.dims.keys()) {
                different.push(spec.line.to_string());
            } else if shapes.iter().any(|shape| shape.dims == spec.dims) {
                continue;
            } else if taken == MAX_SHAPES {
                further += 1;
            } else {
                taken += 1;
                let is_scored = purpose == Purpose::Score && taken <= MAX_SCORED;
                shapes.push(Shape {
                    dims: spec.dims.clone(),
                    purpose: if is_scored {
                        Purpose::Score
                    } else {
                        Purpose::Check
                    },
                });
            }
        }
    }
    if let Some(shape) = shapes.first_mut().filter(|_| benchmarks.is_empty()) {
        shape.purpose = Purpose::Score;
    }
    if !different.is_empty() {
        notes.insert(format!(
            "left out: the tests or benchmarks on the lines {} of {file}, whose other arguments differ from those on line {}",
            different.join(", "),
            first.line
        ));
    }
    if further > 0 {
        notes.insert(format!(
            "left out: {further} tests or benchmarks beyond the first {MAX_SHAPES} of each"
        ));
    }
    let graph = std::mem::take(&mut interpreter.graph);
    let description = yaml.get("description").and_then(Yaml::text);
    let title = description.and_then(|text| text.lines().find(|line| !line.trim().is_empty()));
    Work {
        file: source.file,
        name,
        title: title.map_or_else(
            || name.replace(['-', '_'], " "),
            |line| line.trim().chars().take(100).collect(),
        ),
        family: None,
        origin: "GPU MODE",
        graph,
        outputs,
        dims: first.dims,
        shapes,
        notes,
    }
    .write()
}

/// The tests or benchmarks of a `task.yml`.
fn specs(file: &str, yaml: &Yaml, key: &str) -> Result<Vec<Spec>, Problem> {
    let Some(list) = yaml.get(key) else {
        return Ok(Vec::new());
    };
    let mut specs = Vec::new();
    for item in list.items() {
        let Data::Mapping(pairs) = &item.data else {
            let message = format!("an entry of {key} names no arguments of generate_input");
            return Err(at_line(
                file,
                item.line,
                message,
                "write {\"size\": 64, \"seed\": 1}",
            ));
        };
        let mut spec = Spec {
            line: item.line,
            dims: Bindings::new(),
            others: BTreeMap::new(),
            seed: 0,
        };
        for (key, value) in pairs {
            let Some(name) = key.text() else {
                let message = "the name of an argument is no text";
                return Err(at_line(file, key.line, message, "write a name"));
            };
            match whole(value) {
                Some(seed) if name == SEED => spec.seed = seed,
                Some(extent) if extent >= 1 => {
                    spec.dims.insert(name.to_owned(), extent);
                }
                _ => {
                    spec.others.insert(name.to_owned(), without_lines(value));
                }
            }
        }
        specs.push(spec);
    }
    Ok(specs)
}

fn whole(value: &Yaml) -> Option<i64> {
    match &value.data {
        Data::Scalar(text, true) => text.replace('_', "").parse().ok(),
        _ => None,
    }
}

/// A value whose comparison does not depend on where it stands.
fn without_lines(value: &Yaml) -> Data {
    let bare = |value: &Yaml| Yaml {
        line: 0,
        data: without_lines(value),
    };
    match &value.data {
        Data::Scalar(text, plain) => Data::Scalar(text.clone(), *plain),
        Data::Sequence(items) => Data::Sequence(items.iter().map(bare).collect()),
        Data::Mapping(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| (bare(key), bare(value)));
            Data::Mapping(pairs.collect())
        }
    }
}

/// A value of YAML in Python.
fn value<'s>(data: &Data) -> Value<'s> {
    match data {
        Data::Scalar(text, true) => match text.as_str() {
            "true" | "True" => Value::Bool(true),
            "false" | "False" => Value::Bool(false),
            "null" | "~" | "" => Value::None,
            text => match (text.parse::<i64>(), text.parse::<f64>()) {
                (Ok(whole), _) => Value::Number(Number::integer(whole)),
                (_, Ok(real)) => Value::Number(Number::real(real)),
                _ => Value::Text(text.to_owned()),
            },
        },
        Data::Scalar(text, false) => Value::Text(text.clone()),
        Data::Sequence(items) => Value::List(items.iter().map(|item| value(&item.data)).collect()),
        Data::Mapping(pairs) => {
            let pairs = pairs.iter().map(|(key, inner)| {
                (
                    key.text().unwrap_or_default().to_owned(),
                    value(&inner.data),
                )
            });
            Value::Mapping(pairs.collect())
        }
    }
}

/// Calls `generate_input` and `ref_kernel`, and names the outputs.
fn build(
    file: &str,
    interpreter: &mut Interpreter<'_>,
    spec: &Spec,
) -> Result<Vec<(String, NodeId)>, Problem> {
    let root = interpreter.source.root();
    let function = |name: &str| match interpreter.globals.get(name).cloned() {
        Some(Value::Function(function)) => Ok(function),
        _ => {
            let message = format!("there is no function {name}");
            Err(interpreter.refuse(root, message, "define generate_input and ref_kernel"))
        }
    };
    let (generate, reference) = (function("generate_input")?, function("ref_kernel")?);
    let mut arguments = Arguments::default();
    for (name, extent) in &spec.dims {
        let number = Number::dim(name, *extent);
        arguments.named.push((name.clone(), Value::Number(number)));
    }
    for (name, data) in &spec.others {
        arguments.named.push((name.clone(), value(data)));
    }
    let parameters = parameter_names(interpreter, generate);
    if parameters.iter().any(|name| name == SEED) {
        let seed = Value::Number(Number::integer(spec.seed));
        arguments.named.push((SEED.to_owned(), seed));
    }
    if let Some((name, _)) = arguments
        .named
        .iter()
        .find(|(name, _)| !parameters.contains(name))
    {
        let message = format!("generate_input has no parameter {name}");
        return Err(at_line(
            file,
            spec.line,
            message,
            "correct the argument's name",
        ));
    }
    interpreter.is_making_inputs = true;
    let made = interpreter.call_function(generate, None, arguments)?;
    interpreter.is_making_inputs = false;
    let mut names = returned_names(interpreter, generate);
    if names.is_empty() && matches!(made, Value::Tensor(_)) {
        names = parameter_names(interpreter, reference);
    }
    let mut names = names.into_iter();
    let mut count = 0;
    let data = input(interpreter, made, &mut names, &mut count);
    let arguments = Arguments::new(vec![data], Vec::new());
    let answer = interpreter.call_function(reference, None, arguments)?;
    let mut taken = spec.dims.keys().cloned().collect::<BTreeSet<_>>();
    interpreter.name_inputs(&mut taken);
    let answers = match answer {
        Value::List(values) => values,
        other => vec![other],
    };
    let several = answers.len() > 1;
    let mut outputs = Vec::new();
    for (at, answer) in answers.into_iter().enumerate() {
        let Value::Tensor(tensor) = answer else {
            let message = "ref_kernel returns something else than tensors";
            return Err(interpreter.refuse(reference, message, "return tensors"));
        };
        let wanted = if several {
            format!("y{at}")
        } else {
            "y".to_owned()
        };
        // A node of its own, because two outputs may be the same one.
        let tensor = interpreter.graph.copy(tensor);
        outputs.push((unused_name(&wanted, &taken), tensor));
    }
    Ok(outputs)
}

fn parameter_names(interpreter: &Interpreter<'_>, function: Syntax<'_>) -> Vec<String> {
    let list = function.child_by_field_name("parameters");
    let parameters = list.map(|list| named(list, true)).unwrap_or_default();
    let names = parameters
        .into_iter()
        .filter_map(|parameter| match parameter.kind() {
            "identifier" => Some(parameter),
            "typed_parameter" => parameter.named_child(0),
            _ => parameter.child_by_field_name("name"),
        });
    names
        .map(|name| interpreter.source.of(name).to_owned())
        .collect()
}

/// The names of the variables that a function returns last.
fn returned_names(interpreter: &Interpreter<'_>, function: Syntax<'_>) -> Vec<String> {
    let body = function.child_by_field_name("body");
    let statements = body.map(|body| named(body, true)).unwrap_or_default();
    let last = statements
        .into_iter()
        .rfind(|node| node.kind() == "return_statement");
    let Some(value) = last.and_then(|last| last.named_child(0)) else {
        return Vec::new();
    };
    let values = match value.kind() {
        "identifier" => vec![value],
        "expression_list" | "tuple" => named(value, true),
        _ => Vec::new(),
    };
    let name = |node: Syntax<'_>| match node.kind() {
        "identifier" => interpreter.source.of(node).to_owned(),
        _ => String::new(),
    };
    values.into_iter().map(name).collect()
}

/// The data with an input of the task for each tensor. `names` are those of the outermost values.
fn input<'s>(
    interpreter: &mut Interpreter<'s>,
    made: Value<'s>,
    names: &mut dyn Iterator<Item = String>,
    count: &mut usize,
) -> Value<'s> {
    match made {
        Value::List(values) => {
            let values = values.into_iter();
            Value::List(
                values
                    .map(|value| match value {
                        value @ Value::Tensor(_) => input(interpreter, value, names, count),
                        // The values of an inner list have no names of their own.
                        value => {
                            let _skipped = names.next();
                            input(interpreter, value, &mut std::iter::empty(), count)
                        }
                    })
                    .collect(),
            )
        }
        Value::Mapping(pairs) => {
            let pairs = pairs.into_iter();
            Value::Mapping(
                pairs
                    .map(|(key, value)| {
                        let mut own = std::iter::once(key.clone());
                        (key, input(interpreter, value, &mut own, count))
                    })
                    .collect(),
            )
        }
        Value::Tensor(tensor) => {
            let name = names.next().filter(|name| !name.is_empty());
            let name = name.unwrap_or_else(|| format!("input{count}"));
            *count += 1;
            Value::Tensor(interpreter.make_input(tensor, &name, "generate_input"))
        }
        other => other,
    }
}
