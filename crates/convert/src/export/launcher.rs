//! The header and the source of the C++ launcher.

use std::fmt::Write as _;

use domain::dtype::Dtype;
use domain::expr::Expr;
use domain::plan::{KernelStep, Step};
use domain::preconditions::DimBounds;
use domain::task::{Role, Tensor};

use super::cpp::member;
use super::expression::{integer, real};
use super::{Export, Value, WORKSPACE_ALIGNMENT, one_line};

pub(super) fn header(export: &Export<'_>) -> String {
    let (name, task) = (export.name, export.task);
    let mut text = format!(
        "// {}: {}\n// {}\n// Proved for {}.\n#pragma once\n#include <cstddef>\n#include <cstdint>\n\nnamespace {name} {{\n\n",
        one_line(&task.name),
        one_line(&task.title),
        one_line(export.verdict),
        export.preconditions
    );
    text.push_str(
        "// The extents. Each is refused outside the bounds of the shapes that were executed.\nstruct Dims {\n",
    );
    for (dim, bounds) in &export.preconditions.dims {
        let dim = member(dim);
        let preset = if bounds.min == bounds.max {
            format!(" = {}", bounds.min)
        } else {
            String::new()
        };
        let _infallible = writeln!(text, "    std::int64_t {dim}{preset};   // {bounds}");
    }
    text.push_str("};\n\n// Device addresses of contiguous tensors.\nstruct Tensors {\n");
    for tensor in &task.tensors {
        let shape = tensor.shape.iter().map(Expr::text).collect::<Vec<_>>();
        let _infallible = writeln!(
            text,
            "    {};   // {} [{}], aligned to {} bytes",
            pointer(tensor),
            tensor.dtype,
            shape.join(", "),
            tensor.align
        );
    }
    text.push_str("};\n\n");
    text.push_str(
        "// Returns null where launch() accepts the dims, else the first that it refuses. Callers choose\n\
         // another kernel by it; it needs no device.\n\
         const char* refusal(const Dims& dims);\n\n\
         // Bytes of scratch memory that a launch needs; 0 where the dims are refused.\n\
         std::size_t workspace_bytes(const Dims& dims);\n\n\
         // Launches on a stream (a CUstream or cudaStream_t) of the current context and does not wait.\n\
         // The workspace is device memory aligned to 256 bytes; it may be null where its size is 0.\n\
         // Returns null, or the precondition that does not hold, or the driver's error. The first call\n\
         // of a context loads the image, which a stream that is captured does not allow; the image\n\
         // stays loaded, so that the context must not be destroyed before the last call.\n\
         const char* launch(const Dims& dims, const Tensors& tensors, void* workspace,\n\
         \u{20}                  std::size_t workspace_size, void* stream);\n\n",
    );
    let _infallible = writeln!(text, "}}  // namespace {name}");
    text
}

fn pointer(tensor: &Tensor) -> String {
    let constant = if tensor.role == Role::In {
        "const "
    } else {
        ""
    };
    format!("{constant}void* {}", member(&tensor.name))
}

const DRIVER: &str = r#"
// The functions of the CUDA driver that a launch needs, as its documentation declares them.
extern "C" {
int cuInit(unsigned);
int cuCtxGetCurrent(void**);
int cuCtxGetDevice(int*);
int cuDeviceGetAttribute(int*, int, int);
int cuModuleLoadData(void**, const void*);
int cuModuleGetFunction(void**, void*, const char*);
int cuFuncSetAttribute(void*, int, int);
int cuMemsetD8Async(unsigned long long, unsigned char, std::size_t, void*);
int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
int cuLaunchCooperativeKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**);
int cuGetErrorString(int, const char**);
}
"#;

const SHARED: &str = r#"
[[maybe_unused]] std::int64_t quotient(std::int64_t a, std::int64_t b) { return b ? a / b : 0; }
[[maybe_unused]] std::int64_t remainder(std::int64_t a, std::int64_t b) { return b ? a % b : 0; }
[[maybe_unused]] std::int64_t cdiv(std::int64_t a, std::int64_t b) {
    return b ? a / b + (a % b != 0 && (a < 0) == (b < 0)) : 0;
}

constexpr int SHARED_MEMORY_OF_BLOCK = 8;
constexpr int CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76;

const char* described(int error) {
    const char* text = nullptr;
    return cuGetErrorString(error, &text) == 0 && text ? text : "unknown error of the CUDA driver";
}

// The image in each context.
std::mutex mutex;
std::map<void*, void*> loaded;

int attribute(int which, int& value) {
    int device = 0;
    const int error = cuCtxGetDevice(&device);
    return error ? error : cuDeviceGetAttribute(&value, which, device);
}

// Loads the machine code where the device has its compute capability, else the PTX, which the driver
// compiles: the verdict is about the machine code.
const char* load(void*& module) {
    if (const int error = cuInit(0)) return described(error);
    void* context = nullptr;
    if (const int error = cuCtxGetCurrent(&context)) return described(error);
    if (!context) return "no CUDA context is current";
    const std::lock_guard<std::mutex> guard(mutex);
    void*& known = loaded[context];
    if (!known) {
        int major = 0, minor = 0;
        if (const int error = attribute(CAPABILITY_MAJOR, major)) return described(error);
        if (const int error = attribute(CAPABILITY_MINOR, minor)) return described(error);
        int error = 1;
        if (10 * major + minor == machine_code_capability) error = cuModuleLoadData(&known, machine_code);
        if (error) error = cuModuleLoadData(&known, ptx);
        if (error) {
            known = nullptr;
            return described(error);
        }
    }
    module = known;
    return nullptr;
}

[[maybe_unused]] const char* run(void* module, const char* kernel, const std::int64_t (&grid)[3],
                                 const std::int64_t (&block)[3], std::int64_t shared, bool cooperative,
                                 void** arguments, void* stream) {
    for (int axis = 0; axis < 3; ++axis) {
        const std::int64_t most = axis == 0 ? 2147483647 : 65535;
        if (grid[axis] < 1 || grid[axis] > most || block[axis] < 1 || block[axis] > 1024)
            return "the dims give a grid or a block outside the device's limits";
    }
    void* function = nullptr;
    if (const int error = cuModuleGetFunction(&function, module, kernel)) return described(error);
    if (shared > 48 * 1024)
        if (const int error = cuFuncSetAttribute(function, SHARED_MEMORY_OF_BLOCK, int(shared))) return described(error);
    const unsigned g[] = {unsigned(grid[0]), unsigned(grid[1]), unsigned(grid[2])};
    const unsigned b[] = {unsigned(block[0]), unsigned(block[1]), unsigned(block[2])};
    const int error = cooperative
        ? cuLaunchCooperativeKernel(function, g[0], g[1], g[2], b[0], b[1], b[2], unsigned(shared), stream, arguments)
        : cuLaunchKernel(function, g[0], g[1], g[2], b[0], b[1], b[2], unsigned(shared), stream, arguments, nullptr);
    return error ? described(error) : nullptr;
}
"#;

pub(super) fn source(export: &Export<'_>) -> String {
    let name = export.name;
    let mut text = format!(
        "// {}\n#include \"{name}.h\"\n\n#include <algorithm>\n#include <cmath>\n#include <map>\n#include <mutex>\n{DRIVER}\nnamespace {{\n#include \"{name}_image.inc\"\n{SHARED}\n",
        one_line(export.verdict)
    );
    text.push_str(&layout(export));
    let _infallible = writeln!(text, "\n}}  // namespace\n\nnamespace {name} {{\n");
    text.push_str(&refusal(export));
    text.push_str(
        "std::size_t workspace_bytes(const Dims& dims) {\n    return refusal(dims) ? 0 : Workspaces(dims).bytes;\n}\n\n\
         const char* launch(const Dims& dims, const Tensors& tensors, void* workspace, std::size_t workspace_size, void* stream) {\n    if (const char* reason = refusal(dims)) return reason;\n",
    );
    for tensor in &export.task.tensors {
        let (tensor, align) = (member(&tensor.name), tensor.align);
        let _infallible = writeln!(
            text,
            "    if (!tensors.{tensor} || reinterpret_cast<std::uintptr_t>(tensors.{tensor}) % {align})\n        return \"{tensor} must be device memory aligned to {align} bytes\";"
        );
    }
    text.push_str(
        "    void* module = nullptr;\n    if (const char* reason = load(module)) return reason;\n    const Workspaces scratch(dims);\n    if (workspace_size < scratch.bytes) return \"the workspace is smaller than workspace_bytes() says\";\n",
    );
    let _infallible = writeln!(
        text,
        "    if (scratch.bytes && (!workspace || reinterpret_cast<std::uintptr_t>(workspace) % {WORKSPACE_ALIGNMENT}))\n        return \"the workspace must be device memory aligned to {WORKSPACE_ALIGNMENT} bytes\";"
    );
    for step in &export.source.plan().steps {
        match step {
            Step::Kernel(step) => text.push_str(&launch(export, step)),
            Step::Memset { buffer, byte } => text.push_str(&memset(export, buffer, *byte)),
        }
    }
    let _infallible = writeln!(text, "    return nullptr;\n}}\n\n}}  // namespace {name}");
    text
}

/// The function that names the dim or tensor outside the bounds.
fn refusal(export: &Export<'_>) -> String {
    let mut text = String::from("const char* refusal([[maybe_unused]] const Dims& dims) {\n");
    for (dim, bounds) in &export.preconditions.dims {
        let DimBounds {
            min, max, multiple, ..
        } = bounds;
        let member = member(dim);
        let _infallible = writeln!(
            text,
            "    if (dims.{member} < {min} || dims.{member} > {max} || dims.{member} % {multiple})\n        return \"{dim} must be {bounds}: nothing else was executed\";"
        );
    }
    for tensor in &export.task.tensors {
        let Some(limits) = export.preconditions.tensors.get(&tensor.name) else {
            continue;
        };
        let _infallible = writeln!(
            text,
            "    if ({} > {most})\n        return \"{} may have at most {most} elements: nothing larger was executed\";",
            elements(export, &tensor.shape),
            tensor.name,
            most = limits.max_elements
        );
    }
    text.push_str("    return nullptr;\n}\n\n");
    text
}

/// The places of the workspaces in the scratch memory.
fn layout(export: &Export<'_>) -> String {
    let workspaces = &export.source.plan().workspaces;
    let mut text = format!(
        "struct Workspaces {{\n    std::size_t offsets[{}] = {{}}, bytes = 0;\n    Workspaces([[maybe_unused]] const {}::Dims& dims) {{\n",
        workspaces.len().max(1),
        export.name,
    );
    for (at, workspace) in workspaces.values().enumerate() {
        let _infallible = writeln!(
            text,
            "        offsets[{at}] = bytes;\n        bytes += (std::size_t({}) * {} + {mask}) / {WORKSPACE_ALIGNMENT} * {WORKSPACE_ALIGNMENT};",
            elements(export, &workspace.shape),
            workspace.dtype.bytes(),
            mask = WORKSPACE_ALIGNMENT - 1
        );
    }
    text.push_str("    }\n};\n");
    text
}

fn elements(export: &Export<'_>, shape: &[Expr]) -> String {
    let extents = shape.iter().map(|extent| integer(export, extent));
    extents.collect::<Vec<_>>().join(" * ")
}

fn launch(export: &Export<'_>, step: &KernelStep) -> String {
    let mut text = String::from("    {\n");
    let mut addresses = Vec::new();
    for (at, argument) in step.arguments.iter().enumerate() {
        let (kind, value) = match export.value(argument) {
            Value::Dim(name, dtype) => whole(format!("dims.{}", member(name)), dtype),
            Value::Whole(expr, dtype) => whole(integer(export, expr), dtype),
            Value::Constant(value) => whole(format!("INT64_C({value})"), Dtype::I32),
            Value::Scalar(scalar) => floating(real(&scalar.value), scalar.dtype),
            Value::Real(value, dtype) => floating(format!("{value:?}"), dtype),
            Value::Buffer(name) => ("const void*", buffer(export, name)),
        };
        if kind == "int" {
            let _infallible = writeln!(
                text,
                "        if ({value} != int({value}))\n            return \"argument {} of {} does not fit an int\";",
                at + 1,
                step.kernel
            );
        }
        let _infallible = writeln!(
            text,
            "        {kind} argument{at} = static_cast<{kind}>({value});"
        );
        addresses.push(format!("&argument{at}"));
    }
    // An array must not be empty.
    addresses.push("nullptr".to_owned());
    let extents = |extents: &[Expr; 3]| {
        let extents = extents.iter().map(|extent| integer(export, extent));
        extents.collect::<Vec<_>>().join(", ")
    };
    let _infallible = writeln!(
        text,
        "        void* arguments[] = {{{}}};\n        const std::int64_t grid[] = {{{}}}, block[] = {{{}}}, shared = {};\n        if (const char* reason = run(module, \"{}\", grid, block, shared, {}, arguments, stream)) return reason;\n    }}",
        addresses.join(", "),
        extents(&step.grid),
        extents(&step.block),
        integer(export, &step.shared),
        step.kernel,
        step.cooperative
    );
    text
}

fn whole(value: String, dtype: Dtype) -> (&'static str, String) {
    if dtype == Dtype::I64 {
        return ("std::int64_t", value);
    }
    ("int", value)
}

fn floating(value: String, dtype: Dtype) -> (&'static str, String) {
    if dtype == Dtype::F64 {
        return ("double", value);
    }
    ("float", value)
}

/// The address of a tensor or workspace.
fn buffer(export: &Export<'_>, name: &str) -> String {
    let mut workspaces = export.source.plan().workspaces.keys();
    match workspaces.position(|workspace| workspace == name) {
        Some(at) => format!("static_cast<char*>(workspace) + scratch.offsets[{at}]"),
        None => format!("tensors.{}", member(name)),
    }
}

fn memset(export: &Export<'_>, name: &str, byte: u8) -> String {
    let mut tensors = export.task.tensors.iter();
    let (shape, dtype) = match tensors.find(|tensor| tensor.name == name) {
        Some(tensor) => (&tensor.shape, tensor.dtype),
        None => {
            let workspace = &export.source.plan().workspaces[name];
            (&workspace.shape, workspace.dtype)
        }
    };
    format!(
        "    if (const int error = cuMemsetD8Async(reinterpret_cast<unsigned long long>({}), {byte}, std::size_t({}) * {}, stream))\n        return described(error);\n",
        buffer(export, name),
        elements(export, shape),
        dtype.bytes()
    )
}
