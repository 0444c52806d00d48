//! A foreign function of JAX: a handler for XLA around the C++ launcher, and the Python that registers it.

use std::fmt::Write as _;

use domain::dtype::Dtype;
use domain::task::{Role, Tensor};

use super::cpp::member;
use super::expression::integer;
use super::{Export, one_line};

fn ffi_type(tensor: &Tensor) -> &'static str {
    match tensor.dtype {
        Dtype::F16 => "F16",
        Dtype::Bf16 => "BF16",
        Dtype::F32 => "F32",
        Dtype::F64 => "F64",
        Dtype::I8 => "S8",
        Dtype::U8 => "U8",
        Dtype::I32 => "S32",
        Dtype::U32 => "U32",
        Dtype::I64 => "S64",
    }
}

/// Dims that no axis of an input shows are attributes of the call.
fn attributes<'e>(export: &'e Export<'_>) -> Vec<&'e str> {
    let dims = export.preconditions.dims.keys();
    let shown = |dim: &&String| {
        let mut inputs = export
            .task
            .tensors
            .iter()
            .filter(|tensor| tensor.role != Role::Out);
        inputs.any(|tensor| {
            tensor
                .shape
                .iter()
                .any(|extent| extent.text() == dim.as_str())
        })
    };
    dims.filter(|dim| !shown(dim)).map(String::as_str).collect()
}

/// The handler. An input that the kernel changes is an input and an output, aliased by the caller.
pub(super) fn handler(export: &Export<'_>) -> String {
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
        .filter(|tensor| tensor.role != Role::In)
        .collect::<Vec<_>>();
    let mut parameters = vec![
        "void* stream".to_owned(),
        "ffi::ScratchAllocator scratch".to_owned(),
    ];
    let mut binding = "ffi::Ffi::Bind()\n        .Ctx<ffi::PlatformStream<void*>>()\n        .Ctx<ffi::ScratchAllocator>()".to_owned();
    for tensor in &inputs {
        parameters.push(format!(
            "ffi::Buffer<ffi::{}> in_{}",
            ffi_type(tensor),
            tensor.name
        ));
        let _infallible = write!(
            binding,
            "\n        .Arg<ffi::Buffer<ffi::{}>>()",
            ffi_type(tensor)
        );
    }
    for tensor in &outputs {
        parameters.push(format!(
            "ffi::ResultBuffer<ffi::{}> out_{}",
            ffi_type(tensor),
            tensor.name
        ));
        let _infallible = write!(
            binding,
            "\n        .Ret<ffi::Buffer<ffi::{}>>()",
            ffi_type(tensor)
        );
    }
    let attributes = attributes(export);
    for dim in &attributes {
        parameters.push(format!("std::int64_t dim_{dim}"));
        let _infallible = write!(binding, "\n        .Attr<std::int64_t>(\"{dim}\")");
    }
    let mut text = format!(
        "// {}\n#include \"{name}.h\"\n\n#include <vector>\n\n#include \"xla/ffi/api/ffi.h\"\n\nnamespace ffi = xla::ffi;\n\nnamespace {{\n\
         template <typename B>\nbool has_shape(const B& buffer, const std::vector<std::int64_t>& shape) {{\n    \
         const auto found = buffer.dimensions();\n    return std::vector<std::int64_t>(found.begin(), found.end()) == shape;\n}}\n\n\
         [[maybe_unused]] std::int64_t quotient(std::int64_t a, std::int64_t b) {{ return b ? a / b : 0; }}\n\
         [[maybe_unused]] std::int64_t remainder(std::int64_t a, std::int64_t b) {{ return b ? a % b : 0; }}\n\
         [[maybe_unused]] std::int64_t cdiv(std::int64_t a, std::int64_t b) {{ return b ? (a + b - 1) / b : 0; }}\n\n\
         ffi::Error refused(const char* reason) {{ return ffi::Error(ffi::ErrorCode::kInvalidArgument, reason); }}\n\n\
         ffi::Error call({}) {{\n    {name}::Dims dims{{}};\n",
        one_line(export.verdict),
        parameters.join(", ")
    );
    for tensor in &inputs {
        let _infallible = writeln!(
            text,
            "    if (in_{0}.dimensions().size() != {1}) return refused(\"{0} must have {1} axes\");",
            tensor.name,
            tensor.shape.len()
        );
    }
    for dim in export.preconditions.dims.keys() {
        let value = if attributes.contains(&dim.as_str()) {
            format!("dim_{dim}")
        } else {
            let place = inputs.iter().find_map(|tensor| {
                let axis = tensor
                    .shape
                    .iter()
                    .position(|extent| extent.text() == dim)?;
                Some(format!("in_{}.dimensions()[{axis}]", tensor.name))
            });
            place.unwrap_or_default()
        };
        let _infallible = writeln!(text, "    dims.{} = {value};", member(dim));
    }
    for (prefix, arrow, tensors) in [("in", "", &inputs), ("out", "*", &outputs)] {
        for tensor in tensors {
            let extents = tensor
                .shape
                .iter()
                .map(|extent| integer(export, extent))
                .collect::<Vec<_>>();
            let _infallible = writeln!(
                text,
                "    if (!has_shape({arrow}{prefix}_{0}, {{{1}}})) return refused(\"the shape of {0} does not fit the others\");",
                tensor.name,
                extents.join(", ")
            );
        }
    }
    let _infallible = writeln!(
        text,
        "    if (const char* reason = {name}::refusal(dims)) return refused(reason);\n    {name}::Tensors tensors{{}};"
    );
    for tensor in &export.task.tensors {
        let source = match tensor.role {
            Role::In => format!("in_{}.untyped_data()", tensor.name),
            Role::Out | Role::Inout => format!("out_{}->untyped_data()", tensor.name),
        };
        if tensor.role == Role::Inout {
            let _infallible = writeln!(
                text,
                "    if (in_{0}.untyped_data() != out_{0}->untyped_data()) return refused(\"{0} must be aliased with its output\");",
                tensor.name
            );
        }
        let _infallible = writeln!(text, "    tensors.{} = {source};", member(&tensor.name));
    }
    let _infallible = write!(
        text,
        "    const std::size_t size = {name}::workspace_bytes(dims);\n    void* workspace = nullptr;\n    if (size) {{\n        \
         const auto memory = scratch.Allocate(size, 256);\n        if (!memory) return ffi::Error(ffi::ErrorCode::kResourceExhausted, \"no scratch memory\");\n        \
         workspace = *memory;\n    }}\n    if (const char* reason = {name}::launch(dims, tensors, workspace, size, stream)) return refused(reason);\n    \
         return ffi::Error::Success();\n}}\n}}  // namespace\n\nXLA_FFI_DEFINE_HANDLER_SYMBOL(\n    {name}_ffi, call,\n    {binding});\n"
    );
    text
}

/// The module that compiles the handler, registers it and calls it.
pub(super) fn module(export: &Export<'_>) -> String {
    let name = export.name;
    let inputs = export
        .task
        .tensors
        .iter()
        .filter(|tensor| tensor.role != Role::Out)
        .collect::<Vec<_>>();
    let arguments = inputs
        .iter()
        .map(|tensor| tensor.name.clone())
        .collect::<Vec<_>>()
        .join(", ");
    let aliases = export
        .task
        .tensors
        .iter()
        .filter(|tensor| tensor.role != Role::In)
        .enumerate();
    let aliases = aliases.filter_map(|(at, tensor)| {
        let place = inputs.iter().position(|input| input.name == tensor.name)?;
        Some(format!("{place}: {at}"))
    });
    let aliases = aliases.collect::<Vec<_>>().join(", ");
    format!(
        "\"\"\"{}: {}\n\n{}\nProved for {}.\n\"\"\"\n{MODULE}",
        one_line(&export.task.name),
        one_line(&export.task.title).replace('"', "'"),
        one_line(export.verdict).replace('"', "'"),
        export.preconditions
    )
    .replace("NAME", name)
    .replace("ARGUMENTS", &arguments)
    .replace("ALIASES", &aliases)
}

const MODULE: &str = r#"import ctypes
import functools
import os
import subprocess
import tempfile

import jax

_folder = os.path.dirname(os.path.abspath(__file__))


@functools.cache
def register():
    """Compiles the handler beside this file, with $CXX or c++, and registers it."""
    path = os.path.join(_folder, "libNAME_ffi.so")
    if not os.path.exists(path):
        sources = [os.path.join(_folder, file) for file in ("NAME.cpp", "NAME_ffi.cpp")]
        with tempfile.TemporaryDirectory(dir=_folder) as folder:
            made = os.path.join(folder, "library.so")
            compiler = os.environ.get("CXX", "c++")
            driver = os.environ.get("CUDA_DRIVER", "-l:libcuda.so.1")
            command = [compiler, "-std=c++17", "-O2", "-shared", "-fPIC", "-isystem", jax.ffi.include_dir(), *sources, driver]
            subprocess.run([*command, "-o", made], check=True)
            os.replace(made, path)
    library = ctypes.CDLL(path)
    jax.ffi.register_ffi_target("NAME", jax.ffi.pycapsule(library.NAME_ffi), platform="CUDA")


def NAME(outputs, ARGUMENTS, **dims):
    """Calls the kernel. `outputs` is the jax.ShapeDtypeStruct of each result; `dims` are those that no input shows."""
    register()
    call = jax.ffi.ffi_call("NAME", outputs, input_output_aliases={ALIASES})
    return call(ARGUMENTS, **{name: int(value) for name, value in dims.items()})
"#;
