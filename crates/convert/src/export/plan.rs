//! The launch plan of an export as JSON, for a loader in any language.
//!
//! An expression is a number, a name, or an array of an operation and its operands. The names are the
//! dims, `&` with a tensor's name for its address, and `&` for the address of the workspace. Everything
//! else has its value, so that a loader evaluates expressions and calls the driver.

use domain::dtype::Dtype;
use domain::expr::{Expr, Operation, Part};
use domain::plan::{KernelStep, Step};
use domain::preconditions::DimBounds;
use domain::task::Tensor;
use serde_json::{Value as Json, json};

use super::{Export, Value, WORKSPACE_ALIGNMENT};

/// Version of the format.
const FORMAT: u32 = 1;

pub(super) fn write(export: &Export<'_>) -> String {
    let steps = export.source.plan().steps.iter().map(|step| match step {
        Step::Kernel(step) => launch(export, step),
        Step::Memset { buffer, byte } => json!({
            "memset": address(export, buffer),
            "byte": byte,
            "bytes": bytes(export, buffer),
        }),
    });
    let tensors = export.task.tensors.iter();
    let plan = json!({
        "format": FORMAT,
        "name": export.name,
        "verdict": export.verdict,
        "compute_capability": export.machine_code.map(|(capability, _)| capability),
        "dims": export.preconditions.dims,
        "tensors": tensors.map(|tensor| describe(export, tensor)).collect::<Vec<_>>(),
        "requires": requirements(export),
        "workspace_bytes": workspace_end(export, export.source.plan().workspaces.len()),
        "steps": steps.collect::<Vec<_>>(),
    });
    let mut text = serde_json::to_string_pretty(&plan).expect("a JSON value is always JSON text");
    text.push('\n');
    text
}

fn describe(export: &Export<'_>, tensor: &Tensor) -> Json {
    let shape = tensor.shape.iter().map(|extent| expression(export, extent));
    json!({
        "name": tensor.name,
        "dtype": tensor.dtype,
        "role": tensor.role,
        "shape": shape.collect::<Vec<_>>(),
    })
}

/// The conditions under which the verdict covers a launch, each with the message where it is 0.
fn requirements(export: &Export<'_>) -> Vec<Json> {
    let mut rows = Vec::new();
    let mut require = |holds: Json, message: String| {
        rows.push(json!({ "holds": holds, "else": message }));
    };
    for (dim, bounds) in &export.preconditions.dims {
        let DimBounds {
            min, max, multiple, ..
        } = bounds;
        let message = format!("{dim} must be {bounds}: nothing else was executed");
        for holds in [
            json!(["<=", min, dim]),
            json!(["<=", dim, max]),
            json!(["==", ["%", dim, multiple], 0]),
        ] {
            require(holds, message.clone());
        }
    }
    for tensor in &export.task.tensors {
        let name = &tensor.name;
        if let Some(limits) = export.preconditions.tensors.get(name) {
            let most = limits.max_elements;
            let elements = product(export, &tensor.shape, json!(1));
            let message =
                format!("{name} may have at most {most} elements: nothing larger was executed");
            require(json!(["<=", elements, most]), message);
        }
        let (address, align) = (format!("&{name}"), tensor.align);
        let message = format!("{name} must be device memory aligned to {align} bytes");
        require(json!(["<", 0, address]), message.clone());
        require(json!(["==", ["%", address, align], 0]), message);
    }
    if !export.source.plan().workspaces.is_empty() {
        let message =
            format!("the workspace must be device memory aligned to {WORKSPACE_ALIGNMENT} bytes");
        require(json!(["<", 0, "&"]), message.clone());
        require(json!(["==", ["%", "&", WORKSPACE_ALIGNMENT], 0]), message);
    }
    for step in &export.source.plan().steps {
        let Step::Kernel(step) = step else { continue };
        for (at, argument) in step.arguments.iter().enumerate() {
            if let Value::Whole(expr, Dtype::I32) = export.value(argument) {
                let value = expression(export, expr);
                let message = format!(
                    "argument {} of {} does not fit 32 bits",
                    at + 1,
                    step.kernel
                );
                require(json!(["<=", i32::MIN, value]), message.clone());
                require(json!(["<=", value, i32::MAX]), message);
            }
        }
    }
    rows
}

fn launch(export: &Export<'_>, step: &KernelStep) -> Json {
    let extents = step.grid.iter().chain(&step.block).chain([&step.shared]);
    let arguments = step.arguments.iter().map(|argument| {
        let (kind, value) = match export.value(argument) {
            Value::Dim(name, dtype) => (dtype.to_string(), json!(name)),
            Value::Whole(value, dtype) => (dtype.to_string(), expression(export, value)),
            Value::Constant(value) => (Dtype::I32.to_string(), json!(value)),
            Value::Scalar(scalar) => (scalar.dtype.to_string(), expression(export, &scalar.value)),
            Value::Real(value, dtype) => (dtype.to_string(), json!(value)),
            Value::Buffer(name) => ("address".to_owned(), address(export, name)),
        };
        json!([kind, value])
    });
    let mut launch = json!({
        "kernel": step.kernel,
        "extents": extents.map(|extent| expression(export, extent)).collect::<Vec<_>>(),
        "cooperative": step.cooperative,
        "arguments": arguments.collect::<Vec<_>>(),
    });
    if let Some(window) = &step.l2_persist {
        let whole = bytes(export, &window.buffer);
        let asked = window.bytes.as_ref();
        let asked = asked.map(|asked| json!(["min", expression(export, asked), whole]));
        launch["l2_persist"] = json!({
            "address": address(export, &window.buffer),
            "bytes": asked.unwrap_or(whole),
            "hit_ratio": window.hit_ratio,
        });
    }
    launch
}

/// The address of a tensor or of a workspace.
fn address(export: &Export<'_>, buffer: &str) -> Json {
    let mut workspaces = export.source.plan().workspaces.keys();
    match workspaces.position(|name| name == buffer) {
        Some(at) => json!(["+", "&", workspace_end(export, at)]),
        None => json!(format!("&{buffer}")),
    }
}

/// The bytes of the first workspaces together, each rounded up to the alignment.
fn workspace_end(export: &Export<'_>, count: usize) -> Json {
    let names = export.source.plan().workspaces.keys().take(count);
    names.fold(json!(0), |sum, name| {
        let blocks = json!(["cdiv", bytes(export, name), WORKSPACE_ALIGNMENT]);
        json!(["+", sum, ["*", blocks, WORKSPACE_ALIGNMENT]])
    })
}

/// The size of a tensor or of a workspace in bytes.
fn bytes(export: &Export<'_>, buffer: &str) -> Json {
    let mut tensors = export.task.tensors.iter();
    let (shape, dtype) = match tensors.find(|tensor| tensor.name == buffer) {
        Some(tensor) => (&tensor.shape, tensor.dtype),
        None => {
            let workspace = &export.source.plan().workspaces[buffer];
            (&workspace.shape, workspace.dtype)
        }
    };
    product(export, shape, json!(dtype.bytes()))
}

fn product(export: &Export<'_>, shape: &[Expr], first: Json) -> Json {
    let extents = shape.iter().map(|extent| expression(export, extent));
    extents.fold(first, |product, extent| json!(["*", product, extent]))
}

fn expression(export: &Export<'_>, expr: &Expr) -> Json {
    part(export, &expr.tree())
}

/// A part of an expression. Of opposite comparisons a loader knows one only.
fn part(export: &Export<'_>, found: &Part<'_>) -> Json {
    let (operation, operands) = match found {
        Part::Integer(value) => return json!(value),
        Part::Decimal(value) => return json!(value),
        Part::Name(name) => {
            return export
                .constant(name)
                .map_or_else(|| json!(name), |value| json!(value));
        }
        Part::Operation(operation, operands) => (operation, operands),
    };
    let operands = operands.iter().map(|operand| part(export, operand));
    let operands = operands.collect::<Vec<_>>();
    match (operation, operands.as_slice()) {
        (Operation::Negate, [a]) => json!(["-", 0, a]),
        (Operation::Greater, [a, b]) => json!(["<", b, a]),
        (Operation::AtLeast, [a, b]) => json!(["<=", b, a]),
        (Operation::Unequal, [a, b]) => json!(["==", ["==", a, b], 0]),
        _ => {
            let symbol = [json!(operation.symbol())];
            Json::Array(symbol.into_iter().chain(operands).collect())
        }
    }
}
