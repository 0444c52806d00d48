//! The C interface of the C++ launcher, and the Python that calls it: a custom operator of PyTorch.
//!
//! The library is called through `ctypes`, so that it links neither PyTorch nor Python and one build serves all
//! versions of both.

use std::fmt::Write as _;

use domain::dtype::Dtype;
use domain::expr::{Expr, Operation, Part};
use domain::task::{Role, Tensor};

use super::cpp::member;
use super::{Export, one_line};

/// Functions with C linkage around those of the C++ header. Dims and tensors are arrays in the order of the
/// header's structs.
pub(super) fn c_interface(export: &Export<'_>) -> String {
    let name = export.name;
    let mut text = format!(
        "#include \"{name}.h\"\n\nnamespace {{\n{name}::Dims dims_of(const std::int64_t* values) {{\n    {name}::Dims dims{{}};\n"
    );
    for (at, dim) in export.preconditions.dims.keys().enumerate() {
        let _infallible = writeln!(text, "    dims.{} = values[{at}];", member(dim));
    }
    let _infallible = writeln!(
        text,
        "    return dims;\n}}\n}}  // namespace\n\nextern \"C\" {{\n\
         const char* {name}_refusal(const std::int64_t* dims) {{ return {name}::refusal(dims_of(dims)); }}\n\
         std::size_t {name}_workspace_bytes(const std::int64_t* dims) {{ return {name}::workspace_bytes(dims_of(dims)); }}\n\
         const char* {name}_launch(const std::int64_t* dims, void* const* tensors, void* workspace, std::size_t size, void* stream) {{\n    \
         {name}::Tensors all{{}};"
    );
    for (at, tensor) in export.task.tensors.iter().enumerate() {
        let _infallible = writeln!(text, "    all.{} = tensors[{at}];", member(&tensor.name));
    }
    let _infallible = writeln!(
        text,
        "    return {name}::launch(dims_of(dims), all, workspace, size, stream);\n}}\n}}"
    );
    text
}

/// The dims that are the whole extent of an axis of an input, with the first place of each: tensor and axis.
fn places<'e>(export: &'e Export<'_>) -> Vec<(&'e str, Option<(&'e str, usize)>)> {
    let dims = export.preconditions.dims.keys();
    let place = |dim: &String| {
        export
            .task
            .tensors
            .iter()
            .filter(|tensor| tensor.role != Role::Out)
            .find_map(|tensor| {
                let axis = tensor
                    .shape
                    .iter()
                    .position(|extent| extent.text() == dim)?;
                Some((tensor.name.as_str(), axis))
            })
    };
    dims.map(|dim| (dim.as_str(), place(dim))).collect()
}

/// Python's name of a dim or tensor.
fn identifier(name: &str) -> String {
    let keywords = [
        "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
        "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
        "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with",
        "yield", "torch", "ctypes", "os",
    ];
    if keywords.contains(&name) || name.starts_with('_') {
        return format!("{name}_");
    }
    name.to_owned()
}

fn dtype(tensor: &Tensor) -> &'static str {
    match tensor.dtype {
        Dtype::F16 => "torch.float16",
        Dtype::Bf16 => "torch.bfloat16",
        Dtype::F32 => "torch.float32",
        Dtype::F64 => "torch.float64",
        Dtype::I8 => "torch.int8",
        Dtype::U8 => "torch.uint8",
        Dtype::I32 => "torch.int32",
        Dtype::U32 => "torch.uint32",
        Dtype::I64 => "torch.int64",
    }
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    items.into_iter().collect::<Vec<_>>().join(", ")
}

fn shape(export: &Export<'_>, tensor: &Tensor) -> String {
    let extents = tensor
        .shape
        .iter()
        .map(|extent| format!("{}, ", expression(export, extent)));
    format!("({})", extents.collect::<String>().trim_end())
}

/// An integer expression in Python.
fn expression(export: &Export<'_>, expr: &Expr) -> String {
    part(export, &expr.tree())
}

fn part(export: &Export<'_>, found: &Part<'_>) -> String {
    let (operation, operands) = match found {
        Part::Integer(value) => return value.to_string(),
        Part::Decimal(value) => return format!("{value:?}"),
        Part::Name(name) => {
            return export
                .constant(name)
                .map_or_else(|| identifier(name), |value| value.to_string());
        }
        Part::Operation(operation, operands) => (operation, operands),
    };
    let parts = operands
        .iter()
        .map(|operand| part(export, operand))
        .collect::<Vec<_>>();
    match (operation, parts.as_slice()) {
        (Operation::Negate, [a]) => format!("(-{a})"),
        (Operation::Choice, [condition, one, other]) => {
            format!("({one} if {condition} else {other})")
        }
        // Extents are not negative, where both languages round alike.
        (Operation::Divide, [a, b]) => format!("({a} // {b})"),
        (Operation::CeilingDivide, [a, b]) => format!("(-(-{a} // {b}))"),
        (Operation::Minimum, _) => format!("min({})", parts.join(", ")),
        (Operation::Maximum, _) => format!("max({})", parts.join(", ")),
        _ => format!("({})", parts.join(&format!(" {} ", operation.symbol()))),
    }
}

/// The module with the operator in a namespace: it loads `libNAME.so` beside it, or compiles it there at the first call.
pub(super) fn module(export: &Export<'_>, namespace: &str) -> String {
    let name = export.name;
    let inputs = export
        .task
        .tensors
        .iter()
        .filter(|tensor| tensor.role != Role::Out)
        .collect::<Vec<_>>();
    let outputs = export
        .task
        .tensors
        .iter()
        .filter(|tensor| tensor.role == Role::Out)
        .collect::<Vec<_>>();
    let changed = inputs.iter().filter(|tensor| tensor.role == Role::Inout);
    let changed = list(changed.map(|tensor| format!("\"{}\"", identifier(&tensor.name))));
    let dims = places(export);
    let free = dims
        .iter()
        .filter(|(_, place)| place.is_none())
        .collect::<Vec<_>>();
    let parameters = inputs
        .iter()
        .map(|tensor| format!("{}: torch.Tensor", identifier(&tensor.name)));
    let numbers = free.iter().map(|(dim, _)| {
        let bounds = &export.preconditions.dims[*dim];
        let preset = if bounds.min == bounds.max {
            format!(" = {}", bounds.min)
        } else {
            String::new()
        };
        format!("{}: int{preset}", identifier(dim))
    });
    let parameters = list(parameters.chain(numbers));
    let arguments = inputs
        .iter()
        .map(|tensor| identifier(&tensor.name))
        .chain(free.iter().map(|(dim, _)| identifier(dim)));
    let arguments = list(arguments);
    let kind = match outputs.len() {
        0 => "None".to_owned(),
        1 => "torch.Tensor".to_owned(),
        count => format!("tuple[{}]", vec!["torch.Tensor"; count].join(", ")),
    };
    let mut text = format!(
        "\"\"\"{}: {}\n\n{}\nProved for {}.\n\"\"\"\n{PRELUDE}",
        one_line(&export.task.name),
        one_line(&export.task.title).replace('"', "'"),
        one_line(export.verdict).replace('"', "'"),
        export.preconditions
    )
    .replace("NAME", name);
    // The dims, and the checks that every shape and type is as declared.
    let _infallible = writeln!(text, "\n\ndef _dims({arguments}):");
    for tensor in &inputs {
        let (own, rank) = (identifier(&tensor.name), tensor.shape.len());
        let _infallible = writeln!(
            text,
            "    if {own}.dtype != {kind} or {own}.dim() != {rank}:\n        raise ValueError(\"{} must be {kind} with {rank} axes\")",
            tensor.name,
            kind = dtype(tensor)
        );
    }
    for (dim, place) in &dims {
        if let Some((tensor, axis)) = place {
            let _infallible = writeln!(
                text,
                "    {} = {}.shape[{axis}]",
                identifier(dim),
                identifier(tensor)
            );
        }
    }
    for tensor in &inputs {
        let _infallible = writeln!(
            text,
            "    if tuple({own}.shape) != {shape}:\n        raise ValueError(f\"the shape of {} must be {{{shape}}}\")",
            tensor.name,
            own = identifier(&tensor.name),
            shape = shape(export, tensor)
        );
    }
    let all = list(dims.iter().map(|(dim, _)| identifier(dim)));
    let comma = if dims.len() == 1 { "," } else { "" };
    let _infallible = writeln!(text, "    return ({all}{comma})");
    let unpack = format!("    ({all}{comma}) = _dims({arguments})\n");
    let device = inputs.first().map_or_else(
        || "\"cuda\"".to_owned(),
        |tensor| format!("{}.device", identifier(&tensor.name)),
    );
    let allocations = outputs.iter().map(|tensor| {
        format!(
            "    {} = torch.empty({}, dtype={}, device={device})\n",
            identifier(&tensor.name),
            shape(export, tensor),
            dtype(tensor)
        )
    });
    let allocations = allocations.collect::<String>();
    let results = match outputs.as_slice() {
        [] => String::new(),
        _ => format!(
            "    return {}\n",
            list(outputs.iter().map(|tensor| identifier(&tensor.name)))
        ),
    };
    let tensors = list(
        export
            .task
            .tensors
            .iter()
            .map(|tensor| identifier(&tensor.name)),
    );
    let _infallible = write!(
        text,
        "\n\n@torch.library.custom_op(\"{namespace}::{name}\", mutates_args=({changed}{}))\ndef {name}({parameters}) -> {kind}:\n{unpack}{allocations}    _launch(({all}{comma}), ({tensors},))\n{results}",
        if changed.is_empty() { "" } else { "," }
    );
    let _infallible = write!(
        text,
        "\n\n@{name}.register_fake\ndef _({arguments}):\n{unpack}{allocations}{results}"
    );
    if outputs.is_empty() {
        text.push_str("    return None\n");
    }
    text
}

const PRELUDE: &str = r#"import ctypes
import functools
import os
import subprocess
import tempfile

import torch

_folder = os.path.dirname(os.path.abspath(__file__))


@functools.cache
def _library():
    """The compiled launcher; compiled beside this file at the first call, with $CXX or c++."""
    path = os.path.join(_folder, "libNAME.so")
    if not os.path.exists(path):
        sources = [os.path.join(_folder, file) for file in ("NAME.cpp", "NAME_c.cpp")]
        with tempfile.TemporaryDirectory(dir=_folder) as folder:
            made = os.path.join(folder, "library.so")
            compiler = os.environ.get("CXX", "c++")
            driver = os.environ.get("CUDA_DRIVER", "-l:libcuda.so.1")
            subprocess.run([compiler, "-std=c++17", "-O2", "-shared", "-fPIC", *sources, driver, "-o", made], check=True)
            os.replace(made, path)
    library = ctypes.CDLL(path)
    library.NAME_refusal.restype = library.NAME_launch.restype = ctypes.c_char_p
    library.NAME_workspace_bytes.restype = ctypes.c_size_t
    return library


def refusal(*dims):
    """None where these dims, in the order of the header's struct, are covered by the verdict, else the reason."""
    reason = _library().NAME_refusal((ctypes.c_int64 * max(len(dims), 1))(*dims))
    return reason.decode() if reason else None


def _launch(dims, tensors):
    for tensor in tensors:
        if not tensor.is_contiguous() or tensor.device.type != "cuda":
            raise ValueError("all tensors must be contiguous and on a CUDA device")
    library = _library()
    values = (ctypes.c_int64 * max(len(dims), 1))(*dims)
    addresses = (ctypes.c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))
    with torch.cuda.device(tensors[0].device):
        size = library.NAME_workspace_bytes(values)
        scratch = torch.empty(max(size, 1), dtype=torch.uint8, device=tensors[0].device)
        stream = torch.cuda.current_stream().cuda_stream
        reason = library.NAME_launch(
            values, addresses, ctypes.c_void_p(scratch.data_ptr()), ctypes.c_size_t(size), ctypes.c_void_p(stream)
        )
    if reason:
        raise ValueError(reason.decode())
"#;

/// The file `metadata.json` of a build variant of Hugging Face's kernels. The licence is the owner's to state.
pub(super) fn metadata(export: &Export<'_>, id: &str) -> String {
    let metadata = serde_json::json!({
        "name": export.name.replace('_', "-"),
        "id": id,
        "version": 1,
        "python-depends": [],
        "backend": { "type": "cuda" },
    });
    let mut text =
        serde_json::to_string_pretty(&metadata).expect("a JSON value is always JSON text");
    text.push('\n');
    text
}
