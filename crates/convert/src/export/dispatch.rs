//! Several verified kernels of one task behind one launcher in C++: the first whose shapes and preconditions fit is
//! launched.

use std::fmt::Write as _;

use domain::expr::Expr;
use domain::preconditions::Preconditions;
use domain::task::{Role, Task};

use super::cpp::member;
use super::expression::integer;
use super::{Export, Files, one_line};

/// A kernel of a dispatching launcher.
#[derive(Debug, Clone)]
pub struct Choice<'a> {
    /// The kernel, whose name differs from those of the others.
    pub export: Export<'a>,
    /// The shapes that it is chosen for, an expression over the dims that is not 0; all if absent.
    pub shapes: Option<Expr>,
}

/// Writes a C++ library that launches the first choice that fits. Every choice is a library of its own beside it.
///
/// # Panics
/// If there is no choice.
pub fn write_dispatch(name: &str, choices: &[Choice<'_>]) -> Files {
    let first = &choices.first().expect("callers pass a kernel").export;
    let mut files = Files::new();
    for choice in choices {
        files.extend(choice.export.write_cpp());
    }
    let sources = choices
        .iter()
        .map(|choice| format!(" {}.cpp", choice.export.name));
    let cmake = super::cpp::cmake(name);
    let listed = format!("{name}.cpp{}", sources.collect::<String>());
    let cmake = cmake.replacen(&format!("{name}.cpp"), &listed, 1);
    let preconditions = first.preconditions;
    files.insert(
        format!("{name}.h"),
        header(name, first.task, preconditions, choices).into_bytes(),
    );
    files.insert(
        format!("{name}.cpp"),
        source(name, first.task, preconditions, choices).into_bytes(),
    );
    files.insert("CMakeLists.txt".to_owned(), cmake.into_bytes());
    files
}

fn header(
    name: &str,
    task: &Task,
    preconditions: &Preconditions,
    choices: &[Choice<'_>],
) -> String {
    let mut text = format!("// {}: {}\n", one_line(&task.name), one_line(&task.title));
    for (at, choice) in choices.iter().enumerate() {
        let shapes = choice
            .shapes
            .as_ref()
            .map_or_else(String::new, |shapes| format!(" where {}", shapes.text()));
        let _infallible = writeln!(
            text,
            "// {at}. {}{shapes}: {}. Proved for {}.",
            choice.export.name,
            one_line(choice.export.verdict),
            choice.export.preconditions
        );
    }
    let _infallible = writeln!(
        text,
        "#pragma once\n#include <cstddef>\n#include <cstdint>\n\nnamespace {name} {{\n\nstruct Dims {{"
    );
    for dim in preconditions.dims.keys() {
        let fixed = task
            .fixed_dims
            .get(dim)
            .map_or_else(String::new, |value| format!(" = {value}"));
        let _infallible = writeln!(text, "    std::int64_t {}{fixed};", member(dim));
    }
    text.push_str("};\n\n// Device addresses of contiguous tensors.\nstruct Tensors {\n");
    for tensor in &task.tensors {
        let constant = if tensor.role == Role::In {
            "const "
        } else {
            ""
        };
        let _infallible = writeln!(text, "    {constant}void* {};", member(&tensor.name));
    }
    let _infallible = writeln!(
        text,
        "}};\n\n// The number of the kernel that is launched, as listed above; -1 where none covers the dims.\nint choice(const Dims& dims);\n\n\
         // As in the headers of the kernels, for the one that is chosen.\nconst char* refusal(const Dims& dims);\n\
         std::size_t workspace_bytes(const Dims& dims);\n\
         const char* launch(const Dims& dims, const Tensors& tensors, void* workspace, std::size_t workspace_size, void* stream);\n\n}}  // namespace {name}"
    );
    text
}

fn source(
    name: &str,
    task: &Task,
    preconditions: &Preconditions,
    choices: &[Choice<'_>],
) -> String {
    let includes = choices
        .iter()
        .map(|choice| format!("#include \"{}.h\"\n", choice.export.name));
    let mut text = format!(
        "#include \"{name}.h\"\n\n#include <algorithm>\n\n{}\nnamespace {{\n\
         [[maybe_unused]] std::int64_t quotient(std::int64_t a, std::int64_t b) {{ return b ? a / b : 0; }}\n\
         [[maybe_unused]] std::int64_t remainder(std::int64_t a, std::int64_t b) {{ return b ? a % b : 0; }}\n\
         [[maybe_unused]] std::int64_t cdiv(std::int64_t a, std::int64_t b) {{ return b ? (a + b - 1) / b : 0; }}\n\n\
         template <typename D>\nD dims_as(const {name}::Dims& dims) {{\n    D to{{}};\n",
        includes.collect::<String>()
    );
    for dim in preconditions.dims.keys() {
        let _infallible = writeln!(text, "    to.{0} = dims.{0};", member(dim));
    }
    let _infallible = writeln!(
        text,
        "    return to;\n}}\n\ntemplate <typename T>\nT tensors_as(const {name}::Tensors& tensors) {{\n    T to{{}};"
    );
    for tensor in &task.tensors {
        let _infallible = writeln!(text, "    to.{0} = tensors.{0};", member(&tensor.name));
    }
    let _infallible = writeln!(
        text,
        "    return to;\n}}\n}}  // namespace\n\nnamespace {name} {{\n\nint choice(const Dims& dims) {{"
    );
    for (at, choice) in choices.iter().enumerate() {
        let own = choice.export.name;
        let shapes = choice.shapes.as_ref().map_or_else(String::new, |shapes| {
            format!("{} != 0 && ", integer(&choice.export, shapes))
        });
        let _infallible = writeln!(
            text,
            "    if ({shapes}!{own}::refusal(dims_as<{own}::Dims>(dims))) return {at};"
        );
    }
    let last = choices.last().map_or("", |choice| choice.export.name);
    let _infallible = write!(
        text,
        "    return -1;\n}}\n\nconst char* refusal(const Dims& dims) {{\n    return choice(dims) < 0 ? {last}::refusal(dims_as<{last}::Dims>(dims)) : nullptr;\n}}\n\n"
    );
    let cases = |call: &dyn Fn(&str) -> String| {
        let rows = choices.iter().enumerate();
        rows.map(|(at, choice)| {
            format!("        case {at}: return {};\n", call(choice.export.name))
        })
        .collect::<String>()
    };
    let _infallible = write!(
        text,
        "std::size_t workspace_bytes(const Dims& dims) {{\n    switch (choice(dims)) {{\n{}        default: return 0;\n    }}\n}}\n\n\
         const char* launch(const Dims& dims, const Tensors& tensors, void* workspace, std::size_t workspace_size, void* stream) {{\n    switch (choice(dims)) {{\n{}        default: return refusal(dims);\n    }}\n}}\n\n}}  // namespace {name}\n",
        cases(&|own| format!("{own}::workspace_bytes(dims_as<{own}::Dims>(dims))")),
        cases(&|own| format!(
            "{own}::launch(dims_as<{own}::Dims>(dims), tensors_as<{own}::Tensors>(tensors), workspace, workspace_size, stream)"
        ))
    );
    text
}
