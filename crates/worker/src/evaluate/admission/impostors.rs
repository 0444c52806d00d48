//! Impostors: kernels that do nothing, copy an input, write a constant, or repeat an earlier
//! result. A task that accepts one of them would reward a kernel that computes nothing.

use std::fmt::Write as _;

use domain::dtype::Dtype;
use domain::task::{Role, Task, Tensor};

/// An impostor for one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Impostor {
    /// Its behaviour, as a subject for reports.
    pub name: String,
    /// The text of its candidate file.
    pub source: String,
}

/// All impostors for a task. `middle` is the mean of each output's values, which is the best
/// constant.
pub fn make_all(task: &Task, middle: &[(String, f64)]) -> Vec<Impostor> {
    let mut impostors = vec![null(), zeros(task), constant(task, middle)];
    let inputs = task
        .tensors
        .iter()
        .filter(|tensor| tensor.role != Role::Out);
    impostors.extend(inputs.clone().map(|input| copy(task, input)));
    if let Some(input) = inputs.clone().next() {
        impostors.push(previous(task, input));
    }
    impostors
}

fn null() -> Impostor {
    Impostor {
        name: "a kernel that does nothing".to_owned(),
        source: file(
            &step("nothing", "1", &[]),
            "extern \"C\" __global__ void nothing() {}\n",
        ),
    }
}

fn zeros(task: &Task) -> Impostor {
    Impostor {
        name: "a plan that writes zeros".to_owned(),
        source: file(
            &(clear(task) + &step("nothing", "1", &[])),
            "extern \"C\" __global__ void nothing() {}\n",
        ),
    }
}

fn constant(task: &Task, middle: &[(String, f64)]) -> Impostor {
    let (mut plan, mut code) = (String::new(), String::new());
    for (number, output) in outputs(task).enumerate() {
        let value = middle.iter().find(|(name, _)| *name == output.name);
        let value = value.map_or(0.0, |(_, value)| *value);
        let kernel = format!("constant_{number}");
        plan += &step(&kernel, &count(output), &[&output.name]);
        let kind = output.dtype.c_type();
        let value = format!("{value:?}");
        writeln!(
            code,
            "extern \"C\" __global__ void {kernel}({kind}* to) {{ to[blockIdx.x] = {}; }}",
            converted(output.dtype, &value)
        )
        .expect("a string takes text");
    }
    Impostor {
        name: "a kernel that writes the mean of the right answers".to_owned(),
        source: file(&plan, &code),
    }
}

fn copy(task: &Task, input: &Tensor) -> Impostor {
    let (mut plan, mut code) = (clear(task), String::new());
    for (number, output) in outputs(task).enumerate() {
        let kernel = format!("copy_{number}");
        let both = format!("min({}, {})", count(input), count(output));
        plan += &step(&kernel, &both, &[&input.name, &output.name]);
        writeln!(
            code,
            "extern \"C\" __global__ void {kernel}(const {}* from, {}* to) {{ to[blockIdx.x] = {}; }}",
            input.dtype.c_type(),
            output.dtype.c_type(),
            converted(output.dtype, "static_cast<double>(from[blockIdx.x])")
        )
        .expect("a string takes text");
    }
    Impostor {
        name: format!("a kernel that copies {}", input.name),
        source: file(&plan, &code),
    }
}

/// A kernel that writes the input of an earlier execution and keeps that of the present one.
fn previous(task: &Task, input: &Tensor) -> Impostor {
    let (mut plan, mut code) = (String::new(), "__device__ double kept[1024];\n".to_owned());
    for (number, output) in outputs(task).enumerate() {
        let kernel = format!("previous_{number}");
        plan += &step(&kernel, &count(output), &[&input.name, &output.name]);
        writeln!(
            code,
            "extern \"C\" __global__ void {kernel}(const {}* from, {}* to) {{\n    \
             to[blockIdx.x] = {};\n    \
             if (blockIdx.x == 0) kept[0] = static_cast<double>(from[0]);\n}}",
            input.dtype.c_type(),
            output.dtype.c_type(),
            converted(output.dtype, "kept[blockIdx.x % 1024]")
        )
        .expect("a string takes text");
    }
    Impostor {
        name: "a kernel that repeats what an earlier execution left".to_owned(),
        source: file(&plan, &code),
    }
}

fn outputs(task: &Task) -> impl Iterator<Item = &Tensor> {
    task.tensors.iter().filter(|tensor| tensor.role != Role::In)
}

fn file(plan: &str, code: &str) -> String {
    format!("/*---\n{plan}---*/\n#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n\n{code}")
}

/// A launch with one thread per block, so that the grid alone gives the number of threads.
fn step(kernel: &str, blocks: &str, arguments: &[&str]) -> String {
    format!(
        "[[launch]]\nkernel = \"{kernel}\"\ngrid = [\"{blocks}\"]\nblock = [1]\nargs = {arguments:?}\n"
    )
}

/// Launch-plan steps that set every output to zero.
fn clear(task: &Task) -> String {
    outputs(task)
        .map(|output| format!("[[launch]]\nmemset = \"{}\"\nbyte = 0\n", output.name))
        .collect()
}

/// The number of a tensor's elements, as an expression of the task's dims.
fn count(tensor: &Tensor) -> String {
    let extents = tensor.shape.iter().map(|extent| format!("({extent})"));
    extents.collect::<Vec<_>>().join(" * ")
}

/// Converts a `double` expression to the type of an element.
fn converted(dtype: Dtype, value: &str) -> String {
    match dtype {
        Dtype::F16 => format!("__double2half({value})"),
        Dtype::Bf16 => format!("__double2bfloat16({value})"),
        other => format!("static_cast<{}>({value})", other.c_type()),
    }
}
