//! A task from a kernel whose launch is stated, instead of read from host code.

use std::collections::{BTreeMap, BTreeSet};

use domain::expr::Expr;
use domain::plan::Tunable;
use domain::problem::Problems;
use tree_sitter::Node;

use super::answers::{Answers, DimAnswer, TensorAnswer};
use super::arithmetic::Arith;
use super::launches::{FoundDim, FoundPlan, FoundScalar, FoundStep, Value};
use super::shape::{Direction, find_buffers};
use super::source::{Kernel, Source, children, element_type, line_of};
use super::{NewTask, Request, Work, baseline, cases, expand, task_file};

/// A kernel and its launch.
pub(crate) struct Stated<'a> {
    /// Name of the kernel's file in messages.
    pub file: &'a str,
    pub text: &'a str,
    /// Name of the new task.
    pub name: &'a str,
    pub kernel: &'a str,
    pub grid: [Expr; 3],
    pub block: [Expr; 3],
    /// Dynamic shared memory of a block, bytes.
    pub shared: Option<Expr>,
    /// In the order of the kernel's parameters.
    pub arguments: Vec<StatedArgument>,
    pub tunables: BTreeMap<String, Tunable>,
    pub dims: BTreeMap<String, i64>,
    /// Dims whose value must not change.
    pub fixed: BTreeSet<String>,
    /// Terms summed for an output's element; read from the shapes where it is none.
    pub terms: Option<String>,
    /// Lines before the kernel's code.
    pub head: String,
}

pub(crate) enum StatedArgument {
    /// A tensor with the extents of its shape.
    Tensor(Vec<Expr>),
    Whole(Expr),
    Real(f64),
}

/// A new task, and which parameters its kernel reads and writes.
pub(crate) struct StatedTask {
    pub task: NewTask,
    /// Element type, and the direction, by tensor.
    pub tensors: BTreeMap<String, (domain::dtype::Dtype, bool, bool)>,
}

/// Names and types of the parameters of a kernel; the type is none where it is no element type.
pub(crate) fn parameters_of(
    file: &str,
    text: &str,
    kernel: &str,
) -> Result<Vec<(String, Option<domain::dtype::Dtype>)>, Problems> {
    let expanded = expand::expand_macros(text);
    let source = Source::parse(file, &expanded)?;
    let kernels = source.kernels();
    let kernel = find_kernel(file, &kernels, kernel)?;
    let parameters = kernel.parameters.iter().map(|parameter| {
        let dtype = element_type(&parameter.type_name).map(|(dtype, _)| dtype);
        (parameter.name.clone(), dtype)
    });
    Ok(parameters.collect())
}

/// Writes a task folder.
///
/// # Errors
/// As [`create_task`](super::create_task), and arguments that do not fit the kernel's parameters.
pub(crate) fn create(stated: &Stated<'_>) -> Result<StatedTask, Problems> {
    let expanded_text = expand::expand_macros(stated.text);
    let original = Source::parse(stated.file, stated.text)?;
    let expanded = Source::parse(stated.file, &expanded_text)?;
    let kernels = expanded.kernels();
    let kernel = find_kernel(stated.file, &kernels, stated.kernel)?;
    let nothing = Answers::default();
    let request = Request {
        file: stated.file,
        text: stated.text,
        name: stated.name,
        answers: &nothing,
        headers: &BTreeMap::new(),
        reference: None,
    };
    let work = Work {
        request: &request,
        guesses: Vec::new(),
    };
    let mut answers = Answers::default();
    let (plan, tensors) = plan(&work, stated, &expanded, kernel)?;
    answers.tensors = tensors;
    for (name, value) in &stated.dims {
        if stated.fixed.contains(name) || !is_guarded(&expanded, kernel, &plan, name) {
            let answer = DimAnswer {
                value: *value,
                fixed: true,
                ..DimAnswer::default()
            };
            if plan.dims.iter().any(|dim| dim.name == *name) {
                answers.dims.insert(name.clone(), answer);
            }
        }
    }
    let fixed = answers.dims.keys().cloned().collect::<Vec<_>>();
    let request = Request {
        answers: &answers,
        ..request
    };
    let mut work = Work {
        request: &request,
        guesses: Vec::new(),
    };
    let found = find_buffers(&mut work, &expanded, plan)?;
    let directions = found.buffers.iter().map(|buffer| {
        let reads = matches!(buffer.direction, Direction::In | Direction::Inout);
        let writes = matches!(buffer.direction, Direction::Out | Direction::Inout);
        (buffer.name.clone(), (buffer.dtype, reads, writes))
    });
    let tensors = directions.collect();
    let code = baseline::write(&mut work, &original, &expanded, &found)?;
    let mut sized = cases::choose(&mut work, &expanded, found)?;
    sized.terms.clone_from(&stated.terms);
    if !fixed.is_empty() {
        let names = fixed.join(", ");
        let line = line_of(kernel.node);
        work.guess(
            line,
            format!("fixed: {names}, because the kernel or its answer rests on the value"),
        );
    }
    let code = format!("{}{code}", stated.head);
    Ok(StatedTask {
        task: task_file::write(work, &sized, &code),
        tensors,
    })
}

fn find_kernel<'k, 's>(
    file: &str,
    kernels: &'k [Kernel<'s>],
    name: &str,
) -> Result<&'k Kernel<'s>, Problems> {
    kernels
        .iter()
        .find(|kernel| kernel.name == name)
        .ok_or_else(|| {
            let known = kernels.iter().map(|kernel| kernel.name.as_str());
            let fix = format!("it defines: {}", known.collect::<Vec<_>>().join(", "));
            let message = format!("there is no kernel {name:?} in the file");
            domain::problem::Problem::whole(file, message, fix).into()
        })
}

fn plan(
    work: &Work<'_>,
    stated: &Stated<'_>,
    source: &Source<'_>,
    kernel: &Kernel<'_>,
) -> Result<(FoundPlan, BTreeMap<String, TensorAnswer>), Problems> {
    let line = line_of(kernel.node);
    if let Some(parameter) = kernel.template.first() {
        let message = format!("the kernel is a template over {}", parameter.name);
        let fix = "write a kernel without a template, whose tunables are macros";
        return Err(work.problem(line, message, fix).into());
    }
    if kernel.parameters.len() != stated.arguments.len() {
        let message = format!(
            "{} has {} parameters and the script passes {} arguments",
            kernel.name,
            kernel.parameters.len(),
            stated.arguments.len()
        );
        return Err(work.problem(line, message, "pass one for each").into());
    }
    let (mut arguments, mut scalars, mut tensors) = (Vec::new(), Vec::new(), BTreeMap::new());
    let mut used = BTreeSet::new();
    for (parameter, argument) in kernel.parameters.iter().zip(&stated.arguments) {
        let name = parameter.name.clone();
        let aliases = source.aliases();
        let kind = aliases
            .get(&parameter.type_name)
            .unwrap_or(&parameter.type_name);
        let dtype = element_type(kind);
        let line = line_of(parameter.node);
        arguments.push(match (argument, dtype) {
            (StatedArgument::Tensor(shape), Some((dtype, 1))) if parameter.is_pointer => {
                used.extend(shape.iter().flat_map(|extent| extent.names()).map(str::to_owned));
                let shape = shape.clone();
                tensors.insert(name.clone(), TensorAnswer { dtype, shape });
                Value::Buffer(name)
            }
            (StatedArgument::Whole(value), Some((dtype, 1))) if !parameter.is_pointer => {
                let text = value.text();
                used.extend(value.names().into_iter().map(str::to_owned));
                if stated.dims.contains_key(text) {
                    Value::Dim {
                        name: text.to_owned(),
                        wide: dtype == domain::dtype::Dtype::I64,
                    }
                } else {
                    Value::Derived(Arith::from_plan(value))
                }
            }
            (StatedArgument::Real(value), Some(_)) if !parameter.is_pointer => {
                scalars.push(FoundScalar {
                    name: name.clone(),
                    double: kind == "double",
                    value: value.to_string(),
                });
                Value::Scalar(name)
            }
            _ => {
                let message = format!("the parameter {name} of type {kind} gets an argument of another kind");
                let fix = "pass an array for a pointer to numbers, and numpy.int32 or numpy.float32 for a number";
                return Err(work.problem(line, message, fix).into());
            }
        });
    }
    let extents = |extents: &[Expr; 3]| extents.clone().map(|extent| Arith::from_plan(&extent));
    let shared = stated.shared.as_ref();
    let of_launch = stated.grid.iter().chain(&stated.block).chain(shared);
    used.extend(
        of_launch
            .flat_map(|extent| extent.names())
            .map(str::to_owned),
    );
    let dims = stated.dims.iter().filter(|(name, _)| used.contains(*name));
    let tunables = stated.tunables.iter();
    let plan = FoundPlan {
        steps: vec![FoundStep {
            kernel: kernel.name.clone(),
            grid: extents(&stated.grid),
            block: extents(&stated.block),
            shared: shared.map_or(Arith::Number(0), Arith::from_plan),
            cooperative: false,
            arguments,
        }],
        dims: dims
            .map(|(name, value)| FoundDim {
                name: name.clone(),
                line,
                value: Some(*value),
            })
            .collect(),
        scalars,
        tunables: tunables
            .clone()
            .map(|(name, own)| (name.clone(), own.value))
            .collect(),
        choices: tunables
            .map(|(name, own)| (name.clone(), own.choices.clone()))
            .collect(),
        types: BTreeMap::new(),
        private: BTreeSet::new(),
    };
    Ok((plan, tensors))
}

/// Returns true if the kernel compares an index with a dim, so that it can be launched with other values of it. The
/// end of a loop that counts from a number is no such comparison.
fn is_guarded(source: &Source<'_>, kernel: &Kernel<'_>, plan: &FoundPlan, dim: &str) -> bool {
    let arguments = kernel.parameters.iter().zip(&plan.steps[0].arguments);
    let names = arguments.filter_map(|(parameter, value)| match value {
        Value::Dim { name, .. } if name == dim => Some(parameter.name.clone()),
        _ => None,
    });
    let names = names.collect::<Vec<_>>();
    source.all(kernel.body).into_iter().any(|node| {
        let operator = node.child_by_field_name("operator");
        let compares = node.kind() == "binary_expression"
            && operator.is_some_and(|node| ["<", "<=", ">", ">="].contains(&source.of(node)));
        compares
            && names
                .iter()
                .any(|name| baseline::has_word(source.of(node), name))
            && !counts_from_number(source, node)
    })
}

fn counts_from_number(source: &Source<'_>, condition: Node<'_>) -> bool {
    let Some(parent) = condition
        .parent()
        .filter(|parent| parent.kind() == "for_statement")
    else {
        return false;
    };
    let Some(start) = parent.child_by_field_name("initializer") else {
        return false;
    };
    source.all(start).into_iter().any(|node| {
        let value = node
            .child_by_field_name("value")
            .or(node.child_by_field_name("right"));
        value.is_some_and(|value| value.kind() == "number_literal")
    }) || children(start, true).is_empty()
}
