//! The files of a new task.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use domain::dtype::Dtype;
use domain::expr::Expr;

use super::baseline::added_dims;
use super::cases::Sized;
use super::launches::{FoundStep, Value};
use super::shape::{Buffer, Direction};
use super::{NewTask, Work};

/// Choices of a tunable that is a number of threads.
const THREADS: [i64; 4] = [64, 128, 256, 512];

/// Writes every file from what was found, and the baseline's code.
pub(super) fn write(work: Work<'_>, sized: &Sized, code: &str) -> NewTask {
    let Work {
        request,
        mut guesses,
    } = work;
    guesses.sort_by_key(|guess| guess.line);
    let reference = reference(sized, true);
    let check = self::reference(sized, false);
    let line = reference
        .lines()
        .position(|line| line.starts_with("#error"));
    let next = format!(
        "write the right answer into reference.cu, line {}, in place of the #error; then the same by \
         another order of summation into check.cu, and call `kernelwright task check`",
        line.map_or(0, |at| at + 1)
    );
    let files = BTreeMap::from([
        (
            "task.toml".to_owned(),
            task_toml(request.name, request.file, sized),
        ),
        (
            "baseline.cu".to_owned(),
            format!("{}{code}", front_matter(sized)),
        ),
        ("reference.cu".to_owned(), reference),
        ("check.cu".to_owned(), check),
        (
            "context.md".to_owned(),
            format!("The baseline was taken from `{}`.\n", request.file),
        ),
    ]);
    NewTask {
        files,
        guesses,
        next,
    }
}

fn quoted(items: impl IntoIterator<Item = String>) -> String {
    let items = items.into_iter().map(|item| format!("\"{item}\""));
    items.collect::<Vec<_>>().join(", ")
}

fn task_toml(name: &str, file: &str, sized: &Sized) -> String {
    let file = file.rsplit('/').next().unwrap_or(file);
    let mut text = format!("name = \"{name}\"\ntitle = \"The kernel of {file}\"\n\n[dims]\n");
    let line = |text: &mut String, line: String| {
        let _infallible = writeln!(text, "{line}");
    };
    for (name, range) in &sized.dims {
        line(
            &mut text,
            if range.fixed {
                format!("{name} = {{ fixed = {} }}", range.scored)
            } else {
                format!(
                    "{name} = {{ min = {}, max = {}, multiple = {} }}",
                    range.min, range.max, range.multiple
                )
            },
        );
    }
    for tensor in tensors(sized) {
        let role = match tensor.direction {
            Direction::In => "in",
            Direction::Out => "out",
            Direction::Inout | Direction::Workspace => "inout",
        };
        line(
            &mut text,
            format!(
                "\n[[tensor]]\nname = \"{}\"\ndtype = \"{}\"",
                tensor.name, tensor.dtype
            ),
        );
        line(
            &mut text,
            format!(
                "shape = [{}]\nrole = \"{role}\"",
                quoted(tensor.shape.clone())
            ),
        );
    }
    for scalar in &sized.found.plan.scalars {
        let dtype = if scalar.double { "f64" } else { "f32" };
        line(
            &mut text,
            format!(
                "\n[[scalar]]\nname = \"{}\"\ndtype = \"{dtype}\"\nvalue = \"{}\"",
                scalar.name, scalar.value
            ),
        );
    }
    line(
        &mut text,
        format!("\n[tolerance]\nclass = \"{}\"", tolerance(sized)),
    );
    let outputs = || tensors(sized).filter(|tensor| tensor.direction != Direction::In);
    let scales = outputs().map(|output| format!("{0} = \"{0}_scale\"", output.name));
    let terms =
        outputs().map(|output| format!("{} = \"{}\"", output.name, summed_terms(sized, output)));
    line(
        &mut text,
        format!(
            "\n[contract]\nerror_scale = {{ {} }}\n# At most how many terms are summed for one element.\nerror_terms = {{ {} }}",
            scales.collect::<Vec<_>>().join(", "),
            terms.collect::<Vec<_>>().join(", ")
        ),
    );
    for case in &sized.cases {
        let dims = case
            .dims
            .iter()
            .map(|(name, value)| format!("{name} = {value}"));
        let dims = dims.collect::<Vec<_>>().join(", ");
        line(
            &mut text,
            format!(
                "\n[[case]]\nname = \"{}\"   # {}\ndims = {{ {dims} }}\nuse = [{}]",
                case.name, case.comment, case.uses
            ),
        );
    }
    text
}

fn tensors(sized: &Sized) -> impl Iterator<Item = &Buffer> {
    let buffers = sized.found.buffers.iter();
    buffers.filter(|buffer| buffer.direction != Direction::Workspace)
}

fn tolerance(sized: &Sized) -> &'static str {
    let outputs = tensors(sized).filter(|tensor| tensor.direction != Direction::In);
    let types = outputs.map(|tensor| tensor.dtype).collect::<Vec<_>>();
    if types.contains(&Dtype::Bf16) {
        "bf16-out-f32-acc"
    } else if types.contains(&Dtype::F16) {
        "f16-out-f32-acc"
    } else {
        "f32"
    }
}

/// The extents that inputs have and an output lacks, multiplied; for an output that lacks none, its
/// innermost extent.
fn summed_terms(sized: &Sized, output: &Buffer) -> String {
    if let Some(terms) = &sized.terms {
        return terms.clone();
    }
    let own = output.shape.join(" ");
    let mut terms = BTreeSet::new();
    for input in tensors(sized).filter(|tensor| tensor.direction == Direction::In) {
        for extent in &input.shape {
            let names = Expr::parse(extent).map(|parsed| {
                let names = parsed.names().into_iter();
                names.map(str::to_owned).collect::<Vec<_>>()
            });
            let missing = names.unwrap_or_default();
            if missing
                .iter()
                .any(|name| !super::baseline::has_word(&own, name))
            {
                terms.insert(extent.clone());
            }
        }
    }
    if terms.is_empty() {
        return output
            .shape
            .last()
            .cloned()
            .unwrap_or_else(|| "1".to_owned());
    }
    let single = terms.len() == 1;
    let terms = terms
        .into_iter()
        .map(|extent| if single { extent } else { factor(&extent) });
    terms.collect::<Vec<_>>().join(" * ")
}

fn front_matter(sized: &Sized) -> String {
    let mut text = String::from("/*---\n");
    for step in &sized.found.plan.steps {
        text.push_str(&launch(step));
    }
    for buffer in &sized.found.buffers {
        if buffer.direction == Direction::Workspace {
            let shape = quoted(buffer.shape.clone());
            let _infallible = writeln!(
                text,
                "[workspace.{}]\ndtype = \"{}\"\nshape = [{shape}]\n",
                buffer.name, buffer.dtype
            );
        }
    }
    for (name, value) in &sized.found.plan.tunables {
        let in_block = sized.found.plan.steps.iter().flat_map(|step| &step.block);
        let is_threads = in_block
            .into_iter()
            .any(|extent| extent.names().contains(name));
        let stated = sized.found.plan.choices.get(name);
        let choices = if let Some(stated) = stated {
            stated.clone()
        } else if is_threads {
            let mut choices = THREADS.to_vec();
            choices.push(*value);
            choices.sort_unstable();
            choices.dedup();
            choices
        } else {
            vec![*value]
        };
        let _infallible = writeln!(
            text,
            "[tunables.{name}]\nvalue = {value}\nchoices = {choices:?}\n"
        );
    }
    text.truncate(text.trim_end().len());
    text.push_str("\n---*/\n");
    text
}

fn launch(step: &FoundStep) -> String {
    let extents = |extents: &[super::arithmetic::Arith; 3]| {
        let ones = extents
            .iter()
            .rev()
            .take_while(|extent| **extent == super::arithmetic::Arith::Number(1));
        let count = (3 - ones.count()).max(1);
        quoted(
            extents
                .iter()
                .take(count)
                .map(super::arithmetic::Arith::to_plan),
        )
    };
    let mut text = format!(
        "[[launch]]\nkernel = \"{}\"\ngrid = [{}]\nblock = [{}]\n",
        step.kernel,
        extents(&step.grid),
        extents(&step.block)
    );
    if step.shared != super::arithmetic::Arith::Number(0) {
        let _infallible = writeln!(text, "shared = \"{}\"", step.shared.to_plan());
    }
    if step.cooperative {
        text.push_str("cooperative = true\n");
    }
    let passed = step.arguments.iter().filter_map(|value| match value {
        Value::Buffer(name) | Value::Scalar(name) | Value::Dim { name, wide: false } => {
            Some(format!("\"{name}\""))
        }
        Value::Dim { name, wide: true } => Some(format!("{{ dim = \"{name}\", as = \"i64\" }}")),
        Value::Derived(_) => None,
    });
    let added = added_dims(step).into_iter().map(|dim| format!("\"{dim}\""));
    let list = passed.chain(added).collect::<Vec<_>>().join(", ");
    let _infallible = writeln!(text, "args = [{list}]\n");
    text
}

/// A reference with one thread for each output element, and an `#error` where its value belongs. A
/// workspace receives the scale of the rounding errors.
fn reference(sized: &Sized, first: bool) -> String {
    let prefix = if first { "reference" } else { "check" };
    let outputs = || tensors(sized).filter(|tensor| tensor.direction != Direction::In);
    let dims = sized
        .dims
        .iter()
        .map(|(name, _)| name.clone())
        .collect::<Vec<_>>();
    let scalars = sized.found.plan.scalars.iter();
    let mut arguments = tensors(sized)
        .map(|tensor| tensor.name.clone())
        .collect::<Vec<_>>();
    arguments.extend(dims.iter().cloned());
    arguments.extend(scalars.clone().map(|scalar| scalar.name.clone()));
    let mut parameters = tensors(sized)
        .map(|tensor| match tensor.direction {
            Direction::In => format!("const {}* {}", tensor.dtype.c_type(), tensor.name),
            _ => format!("double* {}", tensor.name),
        })
        .collect::<Vec<_>>();
    parameters.extend(dims.iter().map(|name| format!("int {name}")));
    parameters.extend(scalars.map(|scalar| {
        format!(
            "{} {}",
            if scalar.double { "double" } else { "float" },
            scalar.name
        )
    }));
    parameters.extend(outputs().map(|output| format!("double* {}_scale", output.name)));
    arguments.extend(outputs().map(|output| format!("{}_scale", output.name)));
    let mut text = String::from("/*---\n");
    for output in outputs() {
        let count = elements(output);
        let _infallible = writeln!(
            text,
            "[[launch]]\nkernel = \"{prefix}_{}\"\ngrid = [\"cdiv({count}, 64)\"]\nblock = [64]\nargs = [{}]\n",
            output.name,
            quoted(arguments.clone())
        );
    }
    for output in outputs() {
        let shape = quoted(output.shape.clone());
        let _infallible = writeln!(
            text,
            "[workspace.{}_scale]\ndtype = \"f64\"\nshape = [{shape}]\n",
            output.name
        );
    }
    text.truncate(text.trim_end().len());
    text.push_str("\n---*/\n");
    let half = tensors(sized).any(|tensor| tensor.dtype == Dtype::F16);
    let brain = tensors(sized).any(|tensor| tensor.dtype == Dtype::Bf16);
    for (used, header) in [(half, "cuda_fp16.h"), (brain, "cuda_bf16.h")] {
        if used {
            let _infallible = writeln!(text, "#include <{header}>\n");
        }
    }
    for output in outputs() {
        let name = &output.name;
        let extents = output
            .shape
            .iter()
            .map(|extent| factor(&c_expression(extent)));
        let extents = extents.collect::<Vec<_>>();
        let _infallible = writeln!(
            text,
            "extern \"C\" __global__ void {prefix}_{name}({}) {{\n    const long long element = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n    if (element >= (long long){}) return;",
            parameters.join(", "),
            extents.join(" * ")
        );
        for axis in 0..extents.len() {
            let inner = extents[axis + 1..]
                .iter()
                .map(|extent| format!(" / {extent}"));
            let inner = inner.rev().collect::<String>();
            let own = if axis == 0 {
                String::new()
            } else {
                format!(" % {}", extents[axis])
            };
            let _infallible = writeln!(text, "    const long long i{axis} = element{inner}{own};");
        }
        let place = (0..extents.len()).map(|axis| format!("i{axis}"));
        let place = place.collect::<Vec<_>>().join(", ");
        let what = if first {
            "the right answer"
        } else {
            "the same answer by another order of summation"
        };
        // Below this the output's own type rounds to multiples of its smallest value.
        let least = if output.dtype == Dtype::F16 {
            "0x1p-14"
        } else {
            "0x1p-126"
        };
        let _infallible = writeln!(
            text,
            "    double value = 0.0, scale = 0.0;\n#error \"write {what} here, in double: value = {name}[{place}], and scale = the same with the absolute value of every summed term\"\n    {name}[element] = value;\n    {name}_scale[element] = fmax(fmax(scale, fabs(value)), {least});\n}}"
        );
    }
    text
}

fn elements(tensor: &Buffer) -> String {
    match tensor.shape.as_slice() {
        [one] => one.clone(),
        extents => extents
            .iter()
            .map(|extent| factor(extent))
            .collect::<Vec<_>>()
            .join(" * "),
    }
}

/// An expression as a factor of a product.
fn factor(extent: &str) -> String {
    let plain = extent
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '_');
    if plain {
        extent.to_owned()
    } else {
        format!("({extent})")
    }
}

/// A plan's expression in C++.
fn c_expression(extent: &str) -> String {
    Expr::parse(extent).map_or_else(
        |_| extent.to_owned(),
        |extent| super::arithmetic::Arith::from_plan(&extent).to_cpp(),
    )
}
