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
"#;

/// The driver's functions for a plan that asks for a window of the L2 cache.
const WINDOW_DRIVER: &str = r#"extern "C" {
int cuCtxGetLimit(std::size_t*, int);
int cuCtxSetLimit(int, std::size_t);
int cuLaunchKernelEx(const void*, void*, void**, void**);
}
"#;

const WINDOW: &str = r#"
constexpr int LARGEST_WINDOW = 109, PERSISTING_CACHE = 6, ACCESS_WINDOW = 1, COOPERATIVE = 2;

// A range of device memory whose accesses persist in the L2 cache, laid out as CUaccessPolicyWindow.
struct Window {
    const void* address;
    std::size_t bytes;
    float hit_ratio;
    int hit = 2, miss = 1;  // persisting, streaming
};

// Laid out as CUlaunchAttribute and CUlaunchConfig.
struct Attribute {
    int id = 0;
    union {
        alignas(8) char bytes[64] = {};
        int cooperative;
        Window window;
    };
    Attribute() {}
};
struct LaunchConfig {
    unsigned grid[3], block[3], shared;
    void* stream;
    const Attribute* attributes;
    unsigned count;
};

// The part of the L2 cache that was asked for in each context.
std::map<void*, std::size_t> set_aside;

// Sets aside a part of the L2 cache for the rest of the process. It costs only time where that is refused.
void keep(std::size_t bytes) {
    void* context = nullptr;
    if (cuCtxGetCurrent(&context)) return;
    const std::lock_guard<std::mutex> guard(mutex);
    std::size_t& asked = set_aside[context];
    if (bytes <= asked) return;
    asked = bytes;
    std::size_t now = 0;
    if (cuCtxGetLimit(&now, PERSISTING_CACHE) == 0 && now < bytes) cuCtxSetLimit(PERSISTING_CACHE, bytes);
}
"#;

const RUN: &str = r#"
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
"#;

const PLAIN_LAUNCH: &str = r#"    const int error = cooperative
        ? cuLaunchCooperativeKernel(function, g[0], g[1], g[2], b[0], b[1], b[2], unsigned(shared), stream, arguments)
        : cuLaunchKernel(function, g[0], g[1], g[2], b[0], b[1], b[2], unsigned(shared), stream, arguments, nullptr);
    return error ? described(error) : nullptr;
}
"#;

const LAUNCH_WITH_WINDOW: &str = r#"    int largest = 0;
    if (attribute(LARGEST_WINDOW, largest)) largest = 0;
    window.bytes = std::min(window.bytes, std::size_t(std::max(largest, 0)));
    Attribute attributes[2];
    attributes[0].id = COOPERATIVE;
    attributes[0].cooperative = cooperative;
    if (window.bytes) {
        keep(std::size_t(std::ceil(double(window.bytes) * window.hit_ratio)));
        attributes[1].id = ACCESS_WINDOW;
        attributes[1].window = window;
    }
    const LaunchConfig config = {{g[0], g[1], g[2]}, {b[0], b[1], b[2]}, unsigned(shared), stream, attributes, window.bytes ? 2u : 1u};
    const int error = cuLaunchKernelEx(&config, function, arguments, nullptr);
    return error ? described(error) : nullptr;
}
"#;

/// The function that launches a kernel; its last parameter is the window where the plan has any.
fn run(windows: bool) -> String {
    if !windows {
        return format!("{RUN}{PLAIN_LAUNCH}");
    }
    let run = RUN.replace("void* stream) {", "void* stream, Window window) {");
    format!("{WINDOW}{run}{LAUNCH_WITH_WINDOW}")
}

pub(super) fn source(export: &Export<'_>) -> String {
    let name = export.name;
    let windows = has_windows(export);
    let mut text = format!(
        "// {}\n#include \"{name}.h\"\n\n#include <algorithm>\n#include <cmath>\n#include <map>\n#include <mutex>\n{DRIVER}{}\nnamespace {{\n#include \"{name}_image.inc\"\n{SHARED}{}\n",
        one_line(export.verdict),
        if windows { WINDOW_DRIVER } else { "" },
        run(windows),
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

/// Returns true if a launch asks for a window of the L2 cache.
fn has_windows(export: &Export<'_>) -> bool {
    let mut steps = export.source.plan().steps.iter();
    steps.any(|step| matches!(step, Step::Kernel(step) if step.l2_persist.is_some()))
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
        "        void* arguments[] = {{{}}};\n        const std::int64_t grid[] = {{{}}}, block[] = {{{}}}, shared = {};\n        if (const char* reason = run(module, \"{}\", grid, block, shared, {}, arguments, stream{})) return reason;\n    }}",
        addresses.join(", "),
        extents(&step.grid),
        extents(&step.block),
        integer(export, &step.shared),
        step.kernel,
        step.cooperative,
        window(export, step)
    );
    text
}

/// The last argument of `run`; empty where no launch of the plan has a window.
fn window(export: &Export<'_>, step: &KernelStep) -> String {
    match &step.l2_persist {
        Some(window) => {
            let (whole, hit_ratio) = (bytes(export, &window.buffer), window.hit_ratio);
            let bytes = match &window.bytes {
                Some(bytes) => format!(
                    "std::min(std::size_t(std::max<std::int64_t>({}, 0)), {whole})",
                    integer(export, bytes)
                ),
                None => whole,
            };
            let address = buffer(export, &window.buffer);
            format!(", {{{address}, {bytes}, {hit_ratio:?}f}}")
        }
        None if has_windows(export) => ", {nullptr, 0, 1.0f}".to_owned(),
        None => String::new(),
    }
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

/// The size of a tensor or workspace.
fn bytes(export: &Export<'_>, name: &str) -> String {
    let mut tensors = export.task.tensors.iter();
    let (shape, dtype) = match tensors.find(|tensor| tensor.name == name) {
        Some(tensor) => (&tensor.shape, tensor.dtype),
        None => {
            let workspace = &export.source.plan().workspaces[name];
            (&workspace.shape, workspace.dtype)
        }
    };
    format!(
        "std::size_t({}) * {}",
        elements(export, shape),
        dtype.bytes()
    )
}

fn memset(export: &Export<'_>, name: &str, byte: u8) -> String {
    format!(
        "    if (const int error = cuMemsetD8Async(reinterpret_cast<unsigned long long>({}), {byte}, {}, stream))\n        return described(error);\n",
        buffer(export, name),
        bytes(export, name)
    )
}
