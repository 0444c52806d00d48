//! The function `reference` of a task in Python, written as the task's reference in CUDA.

use std::collections::{BTreeMap, BTreeSet};

use domain::dtype::Dtype;
use domain::expr::Bindings;
use domain::problem::{Problem, Problems};

use super::arguments::Arguments;
use super::emit::{self, Argument, Style};
use super::graph::Node;
use super::interpret::{Interpreter, Source, Value, named};
use super::is_reserved;
use super::number::{Number, evaluate};

const FUNCTION: &str = "reference";

/// A kernel whose right answer the function computes.
pub(crate) struct Subject {
    pub tensors: Vec<SubjectTensor>,
    /// Every dim with its value in one shape.
    pub dims: Bindings,
    /// Every scalar with its value, and whether its type is `f64`.
    pub scalars: BTreeMap<String, (f64, bool)>,
}

pub(crate) struct SubjectTensor {
    pub name: String,
    pub dtype: Dtype,
    /// Extents over the dims, outermost first.
    pub shape: Vec<String>,
    pub is_input: bool,
    pub is_output: bool,
}

/// A reference in CUDA.
pub(crate) struct Translation {
    /// Text of `reference.cu`, with a workspace `NAME_scale` for each output.
    pub reference: String,
    /// The largest number of terms summed for one element, an expression over the dims.
    pub terms: String,
    /// Dims whose value it rests on.
    pub fixed: BTreeSet<String>,
}

/// Why there is no translation.
pub(crate) enum NoTranslation {
    /// The file is no reference for this kernel in Python either.
    Wrong(Problems),
    /// The function uses something that is not understood.
    Unknown(Problem),
}

impl From<Problem> for NoTranslation {
    fn from(problem: Problem) -> Self {
        Self::Wrong(problem.into())
    }
}

/// Translates the function `reference` of a Python file.
///
/// # Errors
/// The first defect of the file, or the first part that has no translation, with its line.
pub(crate) fn translate(
    file: &str,
    text: &str,
    subject: &Subject,
) -> Result<Translation, NoTranslation> {
    let source = Source::parse(file, text).map_err(NoTranslation::Wrong)?;
    let mut interpreter = Interpreter::new(&source);
    interpreter
        .read_module(false)
        .map_err(NoTranslation::Unknown)?;
    let imports_torch =
        |value: &Value<'_>| matches!(value, Value::Path(path) if path.starts_with("torch"));
    interpreter.is_numpy = !interpreter.globals.values().any(imports_torch);
    let problem = |message: String, fix: &str| Problem::whole(file, message, fix);
    let Some(Value::Function(function)) = interpreter.globals.get(FUNCTION).cloned() else {
        let fix = "add `def reference(...)` with the inputs, dims and scalars that it needs";
        let message = "it defines no function `reference`".to_owned();
        return Err(problem(message, fix).into());
    };
    let untranslated =
        |message: String| NoTranslation::Unknown(problem(message, "write the reference in CUDA"));
    let extent = |text: &String| {
        let value = evaluate(text, &subject.dims)?;
        Some(match subject.dims.get(text) {
            Some(value) => Number::dim(text, *value),
            None => Number {
                text: format!("({text})"),
                ..Number::integer(value)
            },
        })
    };
    let shape_of = |tensor: &SubjectTensor| {
        let extents = tensor.shape.iter().map(extent);
        extents
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| untranslated(format!("the shape of {} has no value", tensor.name)))
    };
    let mut known = BTreeMap::new();
    for tensor in subject.tensors.iter().filter(|tensor| tensor.is_input) {
        let node = Node::Input(tensor.name.clone());
        let node = interpreter.graph.add(node, shape_of(tensor)?, tensor.dtype);
        known.insert(tensor.name.clone(), Value::Tensor(node));
    }
    for (name, value) in &subject.dims {
        known.insert(name.clone(), Value::Number(Number::dim(name, *value)));
    }
    for (name, (value, _)) in &subject.scalars {
        let number = Number {
            text: name.clone(),
            ..Number::real(*value)
        };
        known.insert(name.clone(), Value::Number(number));
    }
    if let Some(name) = known.keys().find(|name| is_reserved(name)) {
        let message = format!("the name {name} has another meaning in the translation");
        return Err(untranslated(message));
    }
    let mut arguments = Vec::new();
    if let Some(parameters) = function.child_by_field_name("parameters") {
        for parameter in named(parameters, true) {
            if parameter.kind() == "dictionary_splat_pattern" {
                arguments = known.clone().into_iter().collect();
                break;
            }
            let name = match parameter.kind() {
                "identifier" => Some(parameter),
                "typed_parameter" => parameter.named_child(0),
                _ => parameter.child_by_field_name("name"),
            };
            let Some(name) = name.filter(|name| name.kind() == "identifier") else {
                continue;
            };
            let name = source.of(name);
            match known.get(name) {
                Some(value) => arguments.push((name.to_owned(), value.clone())),
                None if parameter.child_by_field_name("value").is_some() => {}
                None => {
                    let names = known.keys().cloned().collect::<Vec<_>>().join(", ");
                    let message = format!(
                        "the parameter {name} is no input, dim or scalar of the kernel; those are: {names}"
                    );
                    return Err(interpreter.refuse(parameter, message, "rename it").into());
                }
            }
        }
    }
    let arguments = Arguments::new(Vec::new(), arguments);
    let answer = interpreter
        .call_function(function, None, arguments)
        .map_err(NoTranslation::Unknown)?;
    let outputs = subject.tensors.iter().filter(|tensor| tensor.is_output);
    let outputs = outputs.collect::<Vec<_>>();
    let mut answers = match answer {
        Value::Mapping(pairs) => pairs.into_iter().collect(),
        value if outputs.len() == 1 => BTreeMap::from([(outputs[0].name.clone(), value)]),
        _ => BTreeMap::new(),
    };
    let mut nodes = Vec::new();
    for output in outputs {
        let name = &output.name;
        let Some(Value::Tensor(node)) = answers.remove(name) else {
            let message = format!("it returns no array for {name}");
            let fix = "return a dict with an array for each output, or the array where there is one output";
            return Err(interpreter.refuse(function, message, fix).into());
        };
        let (own, wanted) = (interpreter.graph.shape(node).to_vec(), shape_of(output)?);
        let fits = own.len() == wanted.len()
            && own
                .iter()
                .zip(&wanted)
                .all(|(one, other)| interpreter.graph.equal(one, other));
        if !fits {
            let text = |shape: &[Number]| {
                let extents = shape.iter().map(|extent| extent.text.as_str());
                format!("[{}]", extents.collect::<Vec<_>>().join(", "))
            };
            let message = format!(
                "it returns {name} with the shape {}, and the kernel writes {}",
                text(&own),
                text(&wanted)
            );
            let fix = "reshape it, or state the kernel's shape with --tensor";
            return Err(interpreter.refuse(function, message, fix).into());
        }
        // A node of its own, because two outputs may be the same one.
        let made = interpreter.graph.copy(node);
        interpreter.graph.entries[made].dtype = output.dtype;
        nodes.push((name.clone(), made));
    }
    let graph = &interpreter.graph;
    let mut numbers = emit::dims(subject.dims.keys());
    let scalars = subject.scalars.iter();
    numbers.extend(scalars.map(|(name, (_, double))| {
        let double = *double;
        (name.clone(), Argument::Scalar { double })
    }));
    let reference = emit::write(graph, &nodes, &numbers, Style::Reference).map_err(|count| {
        untranslated(format!(
            "it needs {count} kernels, and a plan has at most 16"
        ))
    })?;
    Ok(Translation {
        reference,
        terms: graph.terms(nodes.iter().map(|(_, node)| *node)),
        fixed: graph.pinned.clone(),
    })
}
