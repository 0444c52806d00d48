//! Tensors and workspaces of a plan: their types, directions and shapes, from the way in which
//! kernels index them.

use std::collections::BTreeMap;

use domain::dtype::Dtype;
use domain::problem::Problems;
use tree_sitter::Node;

use super::Work;
use super::arithmetic::Arith;
use super::bounds::{Scope, divide};
use super::launches::{FoundPlan, FoundStep, Value, tunable_of};
use super::source::{Kernel, Source, element_type, line_of};

/// The plan with its buffers.
pub(super) struct PlanWithBuffers {
    pub plan: FoundPlan,
    pub buffers: Vec<Buffer>,
}

/// A tensor or workspace.
pub(super) struct Buffer {
    pub name: String,
    pub dtype: Dtype,
    pub direction: Direction,
    /// Extents in the grammar of plans, outermost first.
    pub shape: Vec<String>,
    /// Elements that kernels read or write at once.
    pub vector: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    In,
    Out,
    Inout,
    Workspace,
}

/// The first kind of access to a buffer, and if it is ever written.
#[derive(Clone, Copy)]
struct Usage {
    read_first: bool,
    written: bool,
}

/// One place where a kernel reads or writes a parameter.
struct Access {
    parameter: String,
    index: Arith,
    /// Elements of the buffer in one element of the pointer.
    width: i64,
    reads: bool,
    writes: bool,
    line: u32,
}

/// Finds the buffers of a plan.
///
/// # Errors
/// A buffer whose type or shape no line tells, each with the option that states it.
pub(super) fn find_buffers(
    work: &mut Work<'_>,
    source: &Source<'_>,
    mut plan: FoundPlan,
) -> Result<PlanWithBuffers, Problems> {
    let kernels = source.kernels();
    let mut buffers: Vec<Buffer> = Vec::new();
    let mut usages: BTreeMap<String, Usage> = BTreeMap::new();
    let mut problems = Vec::new();
    for step in &plan.steps {
        let kernel = kernels.iter().find(|kernel| kernel.name == step.kernel);
        let kernel = kernel.expect("the plan names kernels of the file");
        let scope = scope(source, kernel, step, &plan);
        let accesses = find_accesses(source, kernel, &plan);
        for (parameter, value) in kernel.parameters.iter().zip(&step.arguments) {
            let Value::Buffer(name) = value else { continue };
            let own = accesses
                .iter()
                .filter(|access| access.parameter == parameter.name);
            let own = own.collect::<Vec<_>>();
            for access in &own {
                let usage = usages.entry(name.clone()).or_insert(Usage {
                    read_first: access.reads,
                    written: false,
                });
                usage.written |= access.writes && !parameter.is_const;
            }
            let line = line_of(parameter.node);
            let answer = work.request.answers.tensors.get(name);
            let declared = resolve_type(source, &plan, &parameter.type_name);
            let Some((dtype, vector)) = answer.map(|answer| (answer.dtype, 1)).or(declared) else {
                let message = format!(
                    "{name} has the type {}, which is no element type",
                    parameter.type_name
                );
                let fix = format!("state it: --tensor '{name}=f32[...]'");
                problems.push(work.problem(line, message, fix));
                continue;
            };
            let width = |access: &Access| access.width * declared.map_or(1, |(_, vector)| vector);
            let stated = answer.filter(|answer| !answer.shape.is_empty());
            let found = match stated {
                Some(answer) => {
                    let shape = answer.shape.iter().map(|extent| extent.text().to_owned());
                    Some((
                        shape.collect::<Vec<_>>(),
                        line,
                        "as --tensor says".to_owned(),
                    ))
                }
                None => guess_shape(&scope, &own, &width),
            };
            let vector = own
                .iter()
                .map(|access| width(access))
                .fold(vector, i64::max);
            if let Some(known) = buffers.iter_mut().find(|buffer| buffer.name == *name) {
                known.vector = known.vector.max(vector);
                continue;
            }
            let Some((shape, at, reason)) = found else {
                let message =
                    format!("the shape of {name} cannot be read from the kernel's indices");
                let fix =
                    format!("state it, outermost extent first: --tensor '{name}={dtype}[...]'");
                problems.push(work.problem(line, message, fix));
                continue;
            };
            work.guess(
                at,
                format!("{name} is {dtype}[{}]: {reason}", shape.join(", ")),
            );
            let name = name.clone();
            let direction = Direction::In;
            buffers.push(Buffer {
                name,
                dtype,
                direction,
                shape,
                vector,
            });
        }
    }
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    let place = |name: &str| {
        let extents = buffers.iter().flat_map(|buffer| &buffer.shape);
        extents
            .into_iter()
            .position(|extent| super::baseline::has_word(extent, name))
    };
    plan.dims
        .sort_by_key(|dim| place(&dim.name).unwrap_or(usize::MAX));
    for buffer in &mut buffers {
        buffer.direction = direction(work, &plan, buffer, usages.get(&buffer.name));
    }
    let writes = |buffer: &Buffer| matches!(buffer.direction, Direction::Out | Direction::Inout);
    if !buffers.iter().any(writes) {
        let kernel = &plan.steps[0].kernel;
        let message = format!("{kernel} writes to none of its parameters");
        let fix = "name the kernel that writes the result with --kernel";
        return Err(work.problem(0, message, fix).into());
    }
    Ok(PlanWithBuffers { plan, buffers })
}

fn direction(
    work: &mut Work<'_>,
    plan: &FoundPlan,
    buffer: &Buffer,
    usage: Option<&Usage>,
) -> Direction {
    let (direction, reason) = match usage {
        _ if plan.private.contains(&buffer.name) => return Direction::Workspace,
        None => (Direction::In, "no kernel uses it"),
        Some(usage) if !usage.written => (Direction::In, "no kernel writes to it"),
        Some(usage) if usage.read_first => (Direction::Inout, "it is read before it is written"),
        Some(_) => (Direction::Out, "it is written before it is read"),
    };
    let word = match direction {
        Direction::In => "an input",
        Direction::Out => "an output",
        _ => "input and output",
    };
    work.guess(0, format!("{} is {word}: {reason}", buffer.name));
    direction
}

fn resolve_type(source: &Source<'_>, plan: &FoundPlan, name: &str) -> Option<(Dtype, i64)> {
    let aliases = source.aliases();
    let mut name = name.to_owned();
    for _ in 0..4 {
        if let Some(known) = element_type(&name) {
            return Some(known);
        }
        name = plan
            .types
            .get(&name)
            .or_else(|| aliases.get(&name))?
            .clone();
    }
    None
}

/// The shape with the most axes that an access shows, its line, and the reason.
fn guess_shape(
    scope: &Scope,
    accesses: &[&Access],
    width: &dyn Fn(&Access) -> i64,
) -> Option<(Vec<String>, u32, String)> {
    let mut best: Option<(Vec<Arith>, &Access)> = None;
    for access in accesses {
        let Some(mut extents) = scope.extents(&access.index) else {
            continue;
        };
        if width(access) > 1
            && let Some(last) = extents.last_mut()
        {
            let elements = Arith::binary('*', Arith::Number(width(access)), last.clone());
            *last = divide(&elements, &Arith::Number(1));
        }
        let better = best.as_ref().is_none_or(|(known, _)| {
            let names = |extents: &[Arith]| extents.iter().flat_map(Arith::names).count();
            (extents.len(), names(&extents)) > (known.len(), names(known))
        });
        if better {
            best = Some((extents, access));
        }
    }
    let (extents, access) = best?;
    let shape = extents.iter().map(Arith::to_plan).collect();
    let reason = format!("it is indexed with {}", access.index.to_cpp());
    Some((shape, access.line, reason))
}

fn scope(source: &Source<'_>, kernel: &Kernel<'_>, step: &FoundStep, plan: &FoundPlan) -> Scope {
    let mut parameters = BTreeMap::new();
    for (parameter, value) in kernel.parameters.iter().zip(&step.arguments) {
        let value = match value {
            Value::Dim { name, .. } => Arith::Name(name.clone()),
            Value::Derived(value) => value.clone(),
            Value::Buffer(_) | Value::Scalar(_) => continue,
        };
        parameters.insert(parameter.name.clone(), value);
    }
    let mut constants = source.constants();
    for parameter in &kernel.template {
        if let Some(value) = plan.tunables.get(&tunable_of(&parameter.name)) {
            constants.insert(parameter.name.clone(), Arith::Number(*value));
        }
    }
    let numbers = |extents: &[Arith; 3]| {
        extents.clone().map(|extent| {
            extent.resolve(&|name| plan.tunables.get(name).map(|value| Arith::Number(*value)))
        })
    };
    let locals = source
        .definitions(kernel.body)
        .into_iter()
        .map(|(name, value)| (name, Arith::read(value, source.text)))
        .collect();
    let mut scope = Scope {
        parameters,
        locals,
        limits: BTreeMap::new(),
        constants,
        grid: numbers(&step.grid),
        block: numbers(&step.block),
    };
    for node in source.all(kernel.body) {
        if let Some((name, limit)) = limit(source, &scope, node) {
            scope.limits.entry(name).or_insert(limit);
        }
    }
    scope
}

/// The variable and the limit of a comparison such as `i < n` or `i >= n`.
fn limit(source: &Source<'_>, scope: &Scope, node: Node<'_>) -> Option<(String, Arith)> {
    if node.kind() != "binary_expression" {
        return None;
    }
    let side = |name: &str| Some(Arith::read(node.child_by_field_name(name)?, source.text));
    let (left, right) = (side("left")?, side("right")?);
    let operator = source.of(node.child_by_field_name("operator")?);
    let (index, limit) = match operator {
        "<" | ">=" => (left, right),
        ">" | "<=" => (right, left),
        _ => return None,
    };
    let Arith::Name(name) = index else {
        return None;
    };
    let limit = scope.over_dims(&limit)?;
    let telling = limit != Arith::Number(0) && !scope.parameters.contains_key(&name);
    telling.then_some((name, limit))
}

/// Every access of a kernel to its pointer parameters, in the order of the text.
fn find_accesses(source: &Source<'_>, kernel: &Kernel<'_>, plan: &FoundPlan) -> Vec<Access> {
    let mut pointers: BTreeMap<String, (String, Arith, i64)> = kernel
        .parameters
        .iter()
        .filter(|parameter| parameter.is_pointer)
        .map(|parameter| {
            let start = (parameter.name.clone(), Arith::Number(0), 1);
            (parameter.name.clone(), start)
        })
        .collect();
    let mut accesses = Vec::new();
    for node in source.all(kernel.body) {
        if node.kind() == "init_declarator" {
            if let Some((name, alias)) = alias(source, plan, kernel, &pointers, node) {
                pointers.insert(name, alias);
            }
            continue;
        }
        let (target, index) = match node.kind() {
            "subscript_expression" => {
                let list = node.child_by_field_name("indices");
                let index = list.and_then(|list| list.named_child(0));
                (node.child_by_field_name("argument"), index)
            }
            "pointer_expression" if source.of(node).starts_with('*') => {
                (node.child_by_field_name("argument"), None)
            }
            _ => continue,
        };
        let Some(target) = target else { continue };
        let Some((parameter, offset, width)) = address(source, plan, kernel, &pointers, target)
        else {
            continue;
        };
        let index = index.map_or(Arith::Number(0), |index| Arith::read(index, source.text));
        let (reads, writes) = usage(source, node);
        accesses.push(Access {
            parameter,
            index: Arith::binary('+', offset, index),
            width,
            reads,
            writes,
            line: line_of(node),
        });
    }
    accesses
}

/// A local pointer into a parameter: its name, the parameter, the offset, and the width.
fn alias(
    source: &Source<'_>,
    plan: &FoundPlan,
    kernel: &Kernel<'_>,
    pointers: &BTreeMap<String, (String, Arith, i64)>,
    node: Node<'_>,
) -> Option<(String, (String, Arith, i64))> {
    let declarator = node.child_by_field_name("declarator")?;
    if declarator.kind() != "pointer_declarator" {
        return None;
    }
    let name = source
        .all(declarator)
        .into_iter()
        .rfind(|node| node.kind() == "identifier")?;
    let found = address(
        source,
        plan,
        kernel,
        pointers,
        node.child_by_field_name("value")?,
    )?;
    Some((source.of(name).to_owned(), found))
}

/// The parameter, offset and width of an address.
fn address(
    source: &Source<'_>,
    plan: &FoundPlan,
    kernel: &Kernel<'_>,
    pointers: &BTreeMap<String, (String, Arith, i64)>,
    node: Node<'_>,
) -> Option<(String, Arith, i64)> {
    let inner = |node| address(source, plan, kernel, pointers, node);
    let field = |name: &str| node.child_by_field_name(name);
    match node.kind() {
        "identifier" => pointers.get(source.of(node)).cloned(),
        "parenthesized_expression" => inner(node.named_child(0)?),
        "cast_expression" => {
            let (parameter, offset, _) = inner(field("value")?)?;
            let width = cast_width(source, plan, kernel, &parameter, source.of(field("type")?));
            Some((parameter, scaled(offset, width), width))
        }
        "call_expression" => {
            let function = source.of(field("function")?);
            let target = function
                .strip_prefix("reinterpret_cast<")?
                .strip_suffix('>')?;
            let (parameter, offset, _) = inner(field("arguments")?.named_child(0)?)?;
            let width = cast_width(source, plan, kernel, &parameter, target);
            Some((parameter, scaled(offset, width), width))
        }
        "binary_expression" if source.of(field("operator")?) == "+" => {
            let (parameter, offset, width) = inner(field("left")?)?;
            let more = Arith::read(field("right")?, source.text);
            Some((parameter, Arith::binary('+', offset, more), width))
        }
        "pointer_expression" => {
            let subscript = field("argument")?;
            let (parameter, offset, width) = inner(subscript.child_by_field_name("argument")?)?;
            let index = subscript.child_by_field_name("indices")?.named_child(0)?;
            let index = Arith::read(index, source.text);
            Some((parameter, Arith::binary('+', offset, index), width))
        }
        _ => None,
    }
}

/// An offset in elements as an offset in groups of `width` elements.
fn scaled(offset: Arith, width: i64) -> Arith {
    if width == 1 || offset == Arith::Number(0) {
        return offset;
    }
    match offset {
        Arith::Binary(operator @ ('+' | '-'), left, right) => {
            Arith::binary(operator, scaled(*left, width), scaled(*right, width))
        }
        Arith::Binary('*', left, right) => {
            let quotient = Arith::binary('/', *right, Arith::Number(width));
            Arith::binary('*', *left, quotient)
        }
        other => Arith::binary('/', other, Arith::Number(width)),
    }
}

/// Elements of a parameter's type in one element of a pointer that it is cast to.
fn cast_width(
    source: &Source<'_>,
    plan: &FoundPlan,
    kernel: &Kernel<'_>,
    parameter: &str,
    target: &str,
) -> i64 {
    let declared = kernel
        .parameters
        .iter()
        .find(|known| known.name == parameter);
    let declared = declared.and_then(|known| resolve_type(source, plan, &known.type_name));
    let target = target.replace(['*', '&'], " ").replace("const", " ");
    let target = resolve_type(source, plan, target.trim());
    match (declared, target) {
        (Some((from, count)), Some((to, vector))) => {
            let bytes =
                |dtype: Dtype, count: i64| i64::try_from(dtype.bytes()).unwrap_or(1) * count;
            (bytes(to, vector) / bytes(from, count)).max(1)
        }
        _ => 1,
    }
}

/// If an access reads and if it writes.
fn usage(source: &Source<'_>, node: Node<'_>) -> (bool, bool) {
    let mut at = node;
    while let Some(parent) = at.parent() {
        match parent.kind() {
            // A component of a vector element.
            "field_expression" | "parenthesized_expression" => at = parent,
            "assignment_expression" => {
                let is_target = parent.child_by_field_name("left") == Some(at);
                let operator = parent.child_by_field_name("operator");
                let plain = operator.is_some_and(|operator| source.of(operator) == "=");
                return (!is_target || !plain, is_target);
            }
            "update_expression" => return (true, true),
            "pointer_expression" => {
                let call = parent.parent().and_then(|list| list.parent());
                let function = call.and_then(|call| call.child_by_field_name("function"));
                let atomic = function.is_some_and(|name| source.of(name).starts_with("atomic"));
                return (true, atomic);
            }
            _ => break,
        }
    }
    (true, false)
}
