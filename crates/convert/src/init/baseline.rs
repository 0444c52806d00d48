//! The baseline's device code: the original text without host code, with one plain `extern "C"`
//! entry for each launched kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use domain::patch::is_region_mark;
use domain::problem::{Problem, Problems};
use tree_sitter::Node;

use super::launches::{FoundPlan, FoundStep, Value, tunable_of};
use super::shape::PlanWithBuffers;
use super::source::{Kernel, Source, children, line_of};
use super::{Work, headers};

/// Types of `<cstdint>`, which NVRTC lacks.
const INTEGERS: [(&str, &str); 8] = [
    ("int8_t", "signed char"),
    ("uint8_t", "unsigned char"),
    ("int16_t", "short"),
    ("uint16_t", "unsigned short"),
    ("int32_t", "int"),
    ("uint32_t", "unsigned int"),
    ("int64_t", "long long"),
    ("uint64_t", "unsigned long long"),
];

/// Replacements of parts of the original text.
#[derive(Default)]
struct Edits {
    parts: BTreeMap<usize, (usize, String)>,
}

impl Edits {
    fn replace(&mut self, range: Range<usize>, text: impl Into<String>) {
        self.parts.insert(range.start, (range.end, text.into()));
    }

    fn apply(&self, text: &str) -> String {
        let mut edited = String::new();
        let mut at = 0;
        for (start, (end, replacement)) in &self.parts {
            if *start < at {
                continue;
            }
            edited.push_str(&text[at..*start]);
            edited.push_str(replacement);
            at = *end;
        }
        edited.push_str(&text[at..]);
        edited
    }
}

/// Writes the code below the baseline's front matter.
///
/// # Errors
/// An include of the project's own files, or a kernel whose parts differ from its analysed form.
pub(super) fn write(
    work: &mut Work<'_>,
    source: &Source<'_>,
    expanded: &Source<'_>,
    found: &PlanWithBuffers,
) -> Result<String, Problems> {
    let mut edits = Edits::default();
    let launched = found
        .plan
        .steps
        .iter()
        .map(|step| step.kernel.as_str())
        .collect();
    remove_host_code(work, source, source.root(), &launched, &mut edits)?;
    let kernels = source.kernels();
    let mut defined = BTreeSet::new();
    for step in &found.plan.steps {
        let kernel = kernels.iter().find(|kernel| kernel.name == step.kernel);
        let analysed = expanded.kernels().len() == kernels.len();
        let Some(kernel) = kernel.filter(|_| analysed) else {
            let message = format!("a macro hides a part of the definition of {}", step.kernel);
            let fix = "write out the macro in the kernel's head";
            return Err(work.problem(0, message, fix).into());
        };
        make_entry(source, kernel, step, &found.plan, &mut defined, &mut edits);
    }
    // The owner's marks say what a winner replaces. In a baseline they would forbid another plan, too.
    let code = edits.apply(source.text);
    let lines = code.split_inclusive('\n');
    let code = lines
        .filter(|line| !is_region_mark(line))
        .collect::<String>();
    let code = collapse_blank_lines(&code);
    let mut head = String::new();
    for (name, meaning) in INTEGERS {
        let mut texts = work.request.headers.values().chain([&code]);
        if texts.any(|text| has_word(text, name)) {
            head.push_str(&format!("using {name} = {meaning};\n"));
        }
    }
    if !head.is_empty() {
        work.guess(
            0,
            "types of <cstdint> are defined in the baseline, because NVRTC has no such header",
        );
    }
    Ok(format!("{head}{code}"))
}

fn remove_host_code(
    work: &mut Work<'_>,
    source: &Source<'_>,
    scope: Node<'_>,
    launched: &BTreeSet<&str>,
    edits: &mut Edits,
) -> Result<(), Problem> {
    for node in children(scope, false) {
        let kind = node.kind();
        let text = source.of(node);
        let line = line_of(node);
        match kind {
            "preproc_include" => {
                let path = node
                    .child_by_field_name("path")
                    .map_or("", |path| source.of(path));
                let name = path.trim_matches(['<', '>', '"']);
                if work.request.headers.contains_key(name) {
                    work.guess(
                        line,
                        format!("{name} is copied to include/{name}: a file of its own project"),
                    );
                }
                if headers::is_kept(work.request, name) {
                    continue;
                }
                let is_quoted = path.starts_with('"');
                if let Some(problem) = headers::missing(name, is_quoted, work.request.file, line) {
                    return Err(problem);
                }
                work.guess(
                    line,
                    format!("{} is left out: host code's header", text.trim()),
                );
                edits.replace(node.byte_range(), "");
            }
            "namespace_definition" | "linkage_specification" => {
                let body = node.child_by_field_name("body");
                match body.filter(|body| body.kind() == "declaration_list") {
                    Some(body) => remove_host_code(work, source, body, launched, edits)?,
                    None => remove_item(work, source, node, launched, edits),
                }
            }
            "function_definition"
            | "template_declaration"
            | "declaration"
            | "expression_statement"
            | "using_declaration" => {
                remove_item(work, source, node, launched, edits);
            }
            "ERROR" => {
                work.guess(line, "a part that does not parse is left out");
                edits.replace(node.byte_range(), "");
            }
            _ => {}
        }
    }
    Ok(())
}

/// Removes a declaration that is no device code, or a kernel that the plan does not launch.
fn remove_item(
    work: &mut Work<'_>,
    source: &Source<'_>,
    node: Node<'_>,
    launched: &BTreeSet<&str>,
    edits: &mut Edits,
) {
    let text = source.of(node);
    let body = source
        .all(node)
        .into_iter()
        .find(|inner| inner.kind() == "compound_statement");
    let head = body.map_or(text, |body| {
        &source.text[node.start_byte()..body.start_byte()]
    });
    let kernel = source.kernels().into_iter().find(|kernel| {
        kernel.node.start_byte() >= node.start_byte() && kernel.node.end_byte() <= node.end_byte()
    });
    let device = ["__device__", "__constant__", "__shared__", "constexpr"];
    let is_type = ["struct ", "class ", "enum ", "union "]
        .iter()
        .any(|word| text.contains(word));
    let is_function = source
        .all(node)
        .iter()
        .any(|inner| inner.kind() == "function_declarator");
    let keep = match &kernel {
        Some(kernel) => launched.contains(kernel.name.as_str()),
        None => {
            device.iter().any(|word| head.contains(word))
                || is_type && !is_function
                || node.kind() == "declaration" && has_word(head, "const") && !is_function
                || node.kind() == "template_declaration" && !is_function
        }
    };
    if keep {
        return;
    }
    let what = head.split_whitespace().collect::<Vec<_>>().join(" ");
    let what = what.chars().take(50).collect::<String>();
    let reason = if kernel.is_some() {
        "the plan does not launch it"
    } else {
        "host code"
    };
    work.guess(line_of(node), format!("{what:?} is left out: {reason}"));
    edits.replace(node.byte_range(), "");
}

/// Turns a kernel into an entry that a plan can name: no template, no `static`, and no parameter
/// that the plan cannot pass.
fn make_entry(
    source: &Source<'_>,
    kernel: &Kernel<'_>,
    step: &FoundStep,
    plan: &FoundPlan,
    defined: &mut BTreeSet<String>,
    edits: &mut Edits,
) {
    let mut head = String::new();
    for parameter in &kernel.template {
        let name = &parameter.name;
        if !defined.insert(name.clone()) {
            continue;
        }
        head.push_str(&match plan.types.get(name) {
            Some(chosen) if parameter.is_type => format!("using {name} = {chosen};\n"),
            _ => format!("constexpr int {name} = {};\n", tunable_of(name)),
        });
    }
    let linked = is_linked(source, kernel.node);
    if !linked {
        head.push_str("extern \"C\" ");
    }
    let (outer, inner) = (kernel.outer.start_byte(), kernel.node.start_byte());
    edits.replace(outer..inner, head);
    for node in source.all(kernel.node) {
        if node.kind() == "storage_class_specifier"
            && source.of(node) == "static"
            && node.end_byte() < kernel.body.start_byte()
        {
            // The head replaces the text up to here, so an edit at the same offset would hide it.
            let end = node.end_byte() + 1;
            match edits
                .parts
                .get_mut(&outer)
                .filter(|_| node.start_byte() == inner)
            {
                Some((until, _)) => *until = end,
                None => edits.replace(node.start_byte()..end, ""),
            }
        }
    }
    replace_parameters(source, kernel, step, edits);
}

/// Removes derived parameters, adds dims that they depend on, and computes them in the body.
fn replace_parameters(
    source: &Source<'_>,
    kernel: &Kernel<'_>,
    step: &FoundStep,
    edits: &mut Edits,
) {
    let pairs = || kernel.parameters.iter().zip(&step.arguments);
    let derived = pairs().filter(|(_, value)| matches!(value, Value::Derived(_)));
    let derived = derived.collect::<Vec<_>>();
    let (Some(first), Some(last)) = (kernel.parameters.first(), kernel.parameters.last()) else {
        return;
    };
    if derived.is_empty() {
        return;
    }
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let mut kept = Vec::new();
    for (parameter, value) in pairs() {
        match value {
            Value::Derived(_) => continue,
            Value::Dim { name, .. } => {
                names.insert(name.clone(), parameter.name.clone());
            }
            Value::Buffer(_) | Value::Scalar(_) => {}
        }
        kept.push(source.of(parameter.node).to_owned());
    }
    for dim in added_dims(step) {
        kept.push(format!("int {dim}"));
        names.insert(dim.clone(), dim);
    }
    let mut lines = String::new();
    for (parameter, value) in derived {
        let Value::Derived(value) = value else {
            continue;
        };
        let local = value.resolve(&|name| {
            let own = names.get(name)?;
            (own != name).then(|| super::arithmetic::Arith::Name(own.clone()))
        });
        let kind = &parameter.type_name;
        lines.push_str(&format!(
            "\n    const {kind} {} = {};",
            parameter.name,
            local.to_cpp()
        ));
    }
    edits.replace(
        first.node.start_byte()..last.node.end_byte(),
        kept.join(", "),
    );
    let open = kernel.body.start_byte() + 1;
    edits.replace(open..open, lines);
}

/// Dims that derived parameters of a step need and that no parameter of its kernel is.
pub(super) fn added_dims(step: &FoundStep) -> Vec<String> {
    let passed = |dim: &String| {
        let is_it = |value: &Value| matches!(value, Value::Dim { name, .. } if name == dim);
        step.arguments.iter().any(is_it)
    };
    let mut added = BTreeSet::new();
    for value in &step.arguments {
        if let Value::Derived(value) = value {
            added.extend(value.names().into_iter().filter(|dim| !passed(dim)));
        }
    }
    added.into_iter().collect()
}

fn is_linked(source: &Source<'_>, node: Node<'_>) -> bool {
    let mut at = node;
    while let Some(parent) = at.parent() {
        if parent.kind() == "linkage_specification" {
            // One that stands before the kernel itself is part of the head that is replaced.
            return source.all(parent).iter().any(|inner| {
                inner.kind() == "declaration_list" && inner.start_byte() < node.start_byte()
            });
        }
        at = parent;
    }
    false
}

/// Returns true if a text has a word, not only a part of one.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let joins = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !text[..at].ends_with(joins) && !text[at + word.len()..].starts_with(joins)
    })
}

fn collapse_blank_lines(text: &str) -> String {
    let mut collapsed = String::new();
    let mut blank = true;
    for line in text.lines() {
        if line.trim().is_empty() {
            if !blank {
                collapsed.push('\n');
            }
            blank = true;
        } else {
            collapsed.push_str(line.trim_end());
            collapsed.push('\n');
            blank = false;
        }
    }
    collapsed.trim_end().to_owned() + "\n"
}
