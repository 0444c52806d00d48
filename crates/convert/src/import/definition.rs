//! Definitions with workloads, as FlashInfer-Bench and its relatives keep them: JSON with axes, tensors and a
//! reference in Python.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use domain::dtype::Dtype;
use domain::expr::Bindings;
use domain::problem::{Problem, Problems};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::Imported;
use super::task::{MAX_SCORED, Purpose, Shape, Work};
use crate::python::arguments::Arguments;
use crate::python::graph::Node;
use crate::python::interpret::{Interpreter, Source, Value};
use crate::python::number::Number;
use crate::python::{is_reserved, unused_name};

/// The most workloads that become cases.
const MAX_WORKLOADS: usize = 8;

#[derive(Deserialize)]
struct Definition {
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    op_type: Option<String>,
    axes: BTreeMap<String, Axis>,
    inputs: Tensors,
    outputs: Tensors,
    reference: String,
    #[serde(default)]
    custom_inputs_entrypoint: Option<String>,
}

/// Tensors by name, in the order of the text, which is that of the results.
struct Tensors(Vec<(String, Tensor)>);

impl<'de> Deserialize<'de> for Tensors {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(TensorsVisitor)
    }
}

struct TensorsVisitor;

impl<'de> Visitor<'de> for TensorsVisitor {
    type Value = Tensors;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensors by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tensors, A::Error> {
        let mut tensors = Vec::new();
        while let Some(tensor) = map.next_entry()? {
            tensors.push(tensor);
        }
        Ok(Tensors(tensors))
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Axis {
    Const { value: i64 },
    Var,
    Expr { expression: String },
}

#[derive(Deserialize)]
struct Tensor {
    shape: Option<Vec<String>>,
    dtype: String,
}

#[derive(Deserialize)]
struct Workload {
    axes: Bindings,
    #[serde(default)]
    inputs: BTreeMap<String, serde_json::Value>,
}

/// The name of the definition in a JSON text.
pub fn definition_name(text: &str) -> Option<String> {
    let value = serde_json::from_str::<serde_json::Value>(text).ok()?;
    value.get("reference")?;
    Some(value.get("name")?.as_str()?.to_owned())
}

/// Reads a definition with the lines of its workloads, each a workload or a trace that holds one.
///
/// # Errors
/// The first thing that cannot become a task.
pub fn import_definition(file: &str, text: &str, workloads: &str) -> Result<Imported, Problems> {
    let definition = serde_json::from_str::<Definition>(text).map_err(|error| {
        let message = format!("it is no Definition: {error}");
        Problem::whole(
            file,
            message,
            "name a JSON file with name, axes, inputs, outputs and reference",
        )
    })?;
    let source = format!("{file} (reference)");
    let source = Source::parse(&source, &definition.reference)?;
    Ok(read(file, &definition, &source, workloads)?)
}

fn read(
    file: &str,
    definition: &Definition,
    source: &Source<'_>,
    workloads: &str,
) -> Result<Imported, Problem> {
    let problem = |message: String, fix: &str| Problem::whole(file, message, fix);
    if definition.custom_inputs_entrypoint.is_some() {
        return Err(problem(
            "its inputs are made by a function of its own".to_owned(),
            "begin with task init and a reference of your own",
        ));
    }
    let known = read_workloads(file, definition, workloads)?;
    let Some(first) = known.first() else {
        return Err(problem(
            "it has no workload, so that no shape is known".to_owned(),
            "add a line to its workloads",
        ));
    };
    let mut notes = BTreeSet::new();
    let mut dims = Bindings::new();
    let mut texts = BTreeMap::new();
    for (name, axis) in &definition.axes {
        match axis {
            Axis::Const { value } => {
                dims.insert(name.clone(), *value);
            }
            Axis::Var => {
                let Some(value) = first.axes.get(name) else {
                    return Err(problem(
                        format!("a workload gives no value to the axis {name}"),
                        "add it to axes",
                    ));
                };
                dims.insert(name.clone(), *value);
            }
            Axis::Expr { expression } => {
                texts.insert(name.clone(), expression.replace("//", "/"));
            }
        }
        if is_reserved(name) {
            return Err(problem(
                format!("the axis {name} has another meaning in the kernels"),
                "rename it",
            ));
        }
    }
    let extent = |name: &String| -> Option<Number> {
        if let Some(value) = dims.get(name) {
            return Some(Number::dim(name, *value));
        }
        let text = texts.get(name).cloned().unwrap_or_else(|| name.clone());
        let value = crate::python::number::evaluate(&text, &dims)?;
        Some(Number {
            text: format!("({text})"),
            ..Number::integer(value)
        })
    };
    let mut interpreter = Interpreter::new(source);
    interpreter.read_module(false)?;
    let constants = definition
        .axes
        .iter()
        .filter(|(_, axis)| !matches!(axis, Axis::Var));
    interpreter
        .graph
        .pinned
        .extend(constants.map(|(name, _)| name.clone()));
    let mut taken = dims.keys().cloned().collect::<BTreeSet<_>>();
    let mut arguments = Arguments::default();
    for (name, tensor) in &definition.inputs.0 {
        let Some(shape) = &tensor.shape else {
            let value = scalar(file, name, &known)?;
            arguments.named.push((name.clone(), value));
            continue;
        };
        let shape = shape.iter().map(extent).collect::<Option<Vec<_>>>();
        let Some(shape) = shape else {
            return Err(problem(
                format!("the shape of {name} names an unknown axis"),
                "declare it in axes",
            ));
        };
        let own = unused_name(name, &taken);
        taken.insert(own.clone());
        let node =
            interpreter
                .graph
                .add(Node::Input(own), shape, dtype(file, name, &tensor.dtype)?);
        arguments.named.push((name.clone(), Value::Tensor(node)));
    }
    let Some(Value::Function(run)) = interpreter.globals.get("run").cloned() else {
        return Err(problem(
            "the reference has no function run".to_owned(),
            "define run with the inputs as parameters",
        ));
    };
    let answer = interpreter.call_function(run, None, arguments)?;
    let answers = match answer {
        Value::List(values) => values,
        Value::Mapping(pairs) => definition
            .outputs
            .0
            .iter()
            .filter_map(|(name, _)| {
                pairs
                    .iter()
                    .find(|(own, _)| own == name)
                    .map(|(_, value)| value.clone())
            })
            .collect(),
        other => vec![other],
    };
    if answers.len() != definition.outputs.0.len() {
        return Err(problem(
            format!(
                "run returns {} values for {} outputs",
                answers.len(),
                definition.outputs.0.len()
            ),
            "return one for each",
        ));
    }
    let mut outputs = Vec::new();
    for ((name, declared), value) in definition.outputs.0.iter().zip(answers) {
        let Value::Tensor(node) = value else {
            return Err(problem(format!("{name} is no tensor"), "return tensors"));
        };
        let shape = declared
            .shape
            .iter()
            .flatten()
            .map(extent)
            .collect::<Option<Vec<_>>>()
            .unwrap_or_default();
        let own = interpreter.graph.shape(node).to_vec();
        let fits = own.len() == shape.len()
            && own
                .iter()
                .zip(&shape)
                .all(|(a, b)| interpreter.graph.equal(a, b));
        if !fits {
            return Err(problem(
                format!("{name} has another shape than the definition declares"),
                "correct shape",
            ));
        }
        // A node of its own, because two outputs may be the same one.
        let made = interpreter.graph.copy(node);
        interpreter.graph.entries[made].dtype = dtype(file, name, &declared.dtype)?;
        outputs.push((unused_name(name, &taken), made));
    }
    let files = known.iter().filter(|workload| {
        workload
            .inputs
            .values()
            .any(|input| input["type"] == "safetensors")
    });
    let files = files.count();
    if files > 0 {
        notes.insert(format!("{files} workloads take values from files: their shapes are used, and the values are drawn"));
    }
    let mut shapes: Vec<Bindings> = Vec::new();
    for workload in &known {
        if !shapes.contains(&workload.axes) {
            shapes.push(workload.axes.clone());
        }
    }
    if shapes.len() > MAX_WORKLOADS {
        notes.insert(format!(
            "of {} shapes the first {MAX_WORKLOADS} became cases",
            shapes.len()
        ));
        shapes.truncate(MAX_WORKLOADS);
    }
    let count = shapes.len();
    let shapes = shapes.into_iter().enumerate().map(|(at, dims)| Shape {
        dims,
        purpose: match at {
            0 => Purpose::Score,
            at if at + 1 == count && count > 2 => Purpose::Holdout,
            at if at < MAX_SCORED => Purpose::Score,
            _ => Purpose::Check,
        },
    });
    let shapes = shapes.collect();
    notes.append(&mut interpreter.notes);
    let graph = std::mem::take(&mut interpreter.graph);
    let name = definition.name.clone();
    Work {
        file,
        name: &name,
        title: definition
            .description
            .clone()
            .unwrap_or_else(|| name.clone()),
        family: definition.op_type.clone(),
        origin: "a Definition",
        graph,
        outputs,
        dims,
        shapes,
        notes,
    }
    .write()
}

fn read_workloads(
    file: &str,
    definition: &Definition,
    lines: &str,
) -> Result<Vec<Workload>, Problem> {
    let mut known = Vec::new();
    for (at, line) in lines
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let broken = |error: serde_json::Error| {
            Problem::whole(
                file,
                format!("line {} of its workloads is no workload: {error}", at + 1),
                "correct the line",
            )
        };
        let value = serde_json::from_str::<serde_json::Value>(line).map_err(broken)?;
        let other = value
            .get("definition")
            .and_then(|name| name.as_str())
            .is_some_and(|name| name != definition.name);
        if other {
            continue;
        }
        let inner = value.get("workload").cloned().unwrap_or(value);
        known.push(serde_json::from_value(inner).map_err(broken)?);
    }
    Ok(known)
}

fn dtype(file: &str, name: &str, text: &str) -> Result<Dtype, Problem> {
    match text {
        "float32" => Ok(Dtype::F32),
        "float16" => Ok(Dtype::F16),
        "bfloat16" => Ok(Dtype::Bf16),
        other => {
            let message = format!("{name} is {other}: float32, float16 and bfloat16 are imported");
            Err(Problem::whole(
                file,
                message,
                "begin with task init and a reference of your own",
            ))
        }
    }
}

/// The value of an input without shape, which must be the same in every workload.
fn scalar<'s>(file: &str, name: &str, workloads: &[Workload]) -> Result<Value<'s>, Problem> {
    let values = workloads.iter().map(|workload| {
        workload
            .inputs
            .get(name)
            .and_then(|input| input["value"].as_f64())
    });
    let values = values.collect::<Vec<_>>();
    match values.first() {
        Some(Some(value)) if values.iter().all(|other| other == &Some(*value)) => {
            Ok(Value::Number(Number::real(*value)))
        }
        _ => Err(Problem::whole(
            file,
            format!("the scalar {name} differs between workloads or has no value"),
            "import the workloads with one value",
        )),
    }
}
