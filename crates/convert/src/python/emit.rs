//! A graph as a candidate file: one kernel for each reduction that is stored and each output, with one thread for
//! each element.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use domain::dtype::Dtype;
use domain::plan::MAX_STEPS;

use super::graph::{Graph, Node, NodeId, Reduction};
use super::number::{Number, product, words};

/// Threads of a block.
const THREADS: u32 = 128;

/// The three files that compute a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// In `f64`, with the scale of the errors.
    Reference,
    /// The same with sums in the opposite order.
    Check,
    /// In `f32`.
    Baseline,
}

impl Style {
    fn prefix(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Check => "check",
            Self::Baseline => "baseline",
        }
    }
}

/// A number that a kernel may get as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Argument {
    Dim,
    /// A scalar of the task, of type `float` or `double`.
    Scalar {
        double: bool,
    },
}

/// The arguments by name.
pub(crate) type Arguments = BTreeMap<String, Argument>;

/// The dims as arguments.
pub(crate) fn dims<'a>(names: impl Iterator<Item = &'a String>) -> Arguments {
    names.map(|name| (name.clone(), Argument::Dim)).collect()
}

/// Writes a candidate file. The error is the number of kernels that it would need.
///
/// An output that has the name of an input takes that input's place. All that is read of it is computed into
/// workspaces before it is written. Its elements are `double` in a reference.
pub(crate) fn write(
    graph: &Graph,
    outputs: &[(String, NodeId)],
    numbers: &Arguments,
    style: Style,
) -> Result<String, usize> {
    let in_place = names_in_place(graph, outputs);
    let mut outputs = outputs.to_vec();
    outputs.sort_by_key(|(name, _)| in_place.contains(name));
    let outputs = &outputs;
    let mut stored = stored_reductions(graph, outputs);
    let sources = outputs
        .iter()
        .filter(|(name, _)| in_place.contains(name))
        .map(|(_, node)| source_of(graph, *node));
    stored.extend(sources);
    stored.sort_unstable();
    stored.dedup();
    if stored.len() + outputs.len() > MAX_STEPS {
        return Err(stored.len() + outputs.len());
    }
    let names = stored.iter().enumerate();
    let names = names
        .map(|(at, node)| (*node, format!("step{}", at + 1)))
        .collect::<BTreeMap<_, _>>();
    let (mut plan, mut workspaces, mut code) = (String::new(), String::new(), String::new());
    let kernels = stored
        .iter()
        .map(|node| (names[node].clone(), *node, false));
    let last = outputs
        .iter()
        .map(|(name, node)| (name.clone(), *node, true));
    for (name, node, is_output) in kernels.chain(last) {
        let mut emitter = Emitter {
            graph,
            stored: &names,
            style,
            text: String::new(),
            depth: 1,
            fresh: 0,
            scopes: vec![BTreeMap::new()],
            inputs: BTreeMap::new(),
            in_place: &in_place,
            root: node,
        };
        let body = emitter.kernel(&name, node, is_output);
        let shape = graph.shape(node);
        let mut arguments = emitter
            .inputs
            .keys()
            .map(|name| format!("\"{name}\""))
            .collect::<Vec<_>>();
        let mut parameters = emitter
            .inputs
            .iter()
            .map(|(name, kind)| format!("const {kind}* {name}"))
            .collect::<Vec<_>>();
        arguments.push(format!("\"{name}\""));
        let kind = match style {
            Style::Baseline if is_output => graph.dtype(node).c_type(),
            Style::Baseline => "float",
            _ => "double",
        };
        parameters.push(format!("{kind}* {name}"));
        if is_output && style != Style::Baseline {
            arguments.push(format!("\"{name}_scale\""));
            parameters.push(format!("double* {name}_scale"));
            workspace(
                &mut workspaces,
                &format!("{name}_scale"),
                "f64",
                shape,
                false,
            );
        }
        if !is_output {
            let (dtype, pair) = match style {
                Style::Baseline => ("f32", false),
                _ => ("f64", true),
            };
            workspace(&mut workspaces, &name, dtype, shape, pair);
        }
        let used = words(&body).filter_map(|word| Some((word, numbers.get(word)?)));
        for (number, kind) in used.collect::<BTreeMap<_, _>>() {
            let (argument, kind) = match kind {
                Argument::Dim => (
                    format!("{{ dim = \"{number}\", as = \"i64\" }}"),
                    "long long",
                ),
                Argument::Scalar { double: true } => (format!("\"{number}\""), "double"),
                Argument::Scalar { double: false } => (format!("\"{number}\""), "float"),
            };
            arguments.push(argument);
            parameters.push(format!("{kind} {number}"));
        }
        let kernel = format!("{}_{name}", style.prefix());
        let _infallible = writeln!(
            plan,
            "[[launch]]\nkernel = \"{kernel}\"\ngrid = [\"cdiv({}, {THREADS})\"]\nblock = [{THREADS}]\nargs = [{}]\n",
            product(shape).text,
            arguments.join(", ")
        );
        let _infallible = writeln!(
            code,
            "extern \"C\" __global__ void {kernel}({}) {{\n{body}}}\n",
            parameters.join(", ")
        );
    }
    let plan = format!("{plan}{workspaces}");
    let kind = if style == Style::Baseline {
        "float"
    } else {
        "double"
    };
    Ok(format!(
        "/*---\n{}\n---*/\n{}typedef {kind} real_t;\n\n{}\n",
        plan.trim_end(),
        headers(graph),
        code.trim_end()
    ))
}

fn headers(graph: &Graph) -> String {
    let has = |dtype| graph.entries.iter().any(|entry| entry.dtype == dtype);
    let used = [(Dtype::F16, "cuda_fp16.h"), (Dtype::Bf16, "cuda_bf16.h")];
    let lines = used.iter().filter(|(dtype, _)| has(*dtype));
    lines
        .map(|(_, header)| format!("#include <{header}>\n"))
        .collect()
}

/// A workspace; of pairs where each element is a value with its scale.
fn workspace(text: &mut String, name: &str, dtype: &str, shape: &[Number], pairs: bool) {
    let mut extents = shape
        .iter()
        .map(|extent| format!("\"{}\"", extent.text))
        .collect::<Vec<_>>();
    if pairs {
        extents.push("\"2\"".to_owned());
    }
    if extents.is_empty() {
        extents.push("\"1\"".to_owned());
    }
    let _infallible = writeln!(
        text,
        "[workspace.{name}]\ndtype = \"{dtype}\"\nshape = [{}]\n",
        extents.join(", ")
    );
}

/// The inputs whose place an output takes.
fn names_in_place(graph: &Graph, outputs: &[(String, NodeId)]) -> BTreeSet<String> {
    let inputs = graph.entries.iter().filter_map(|entry| match &entry.node {
        Node::Input(name) => Some(name),
        _ => None,
    });
    inputs
        .filter(|name| outputs.iter().any(|(output, _)| output == *name))
        .cloned()
        .collect()
}

/// The node that an output is a copy of.
fn source_of(graph: &Graph, output: NodeId) -> NodeId {
    match &graph.entries[output].node {
        Node::View { source, .. } => *source,
        _ => output,
    }
}

/// The reductions that are computed once and read again: all that are reached, but for outputs that nothing
/// else uses.
fn stored_reductions(graph: &Graph, outputs: &[(String, NodeId)]) -> Vec<NodeId> {
    let mut users = BTreeMap::<NodeId, usize>::new();
    let mut open = outputs.iter().map(|(_, node)| *node).collect::<Vec<_>>();
    let mut seen = BTreeSet::new();
    while let Some(node) = open.pop() {
        if !seen.insert(node) {
            continue;
        }
        let operands = match &graph.entries[node].node {
            Node::Input(_) | Node::Constant(_) => Vec::new(),
            Node::Map { operands, .. } => operands.clone(),
            Node::View { source, .. } => vec![*source],
            Node::Reduce { inner, .. } => vec![*inner],
        };
        for operand in operands {
            *users.entry(operand).or_default() += 1;
            open.push(operand);
        }
    }
    let is_reduction = |node: &NodeId| matches!(graph.entries[*node].node, Node::Reduce { .. });
    let used = |node: &NodeId| users.contains_key(node);
    seen.into_iter().filter(is_reduction).filter(used).collect()
}

struct Emitter<'g> {
    graph: &'g Graph,
    stored: &'g BTreeMap<NodeId, String>,
    style: Style,
    text: String,
    depth: usize,
    fresh: usize,
    /// Values that are known, innermost scope last: the number of the variables of a node at an index.
    scopes: Vec<BTreeMap<(NodeId, Vec<String>), usize>>,
    /// Tensors and workspaces that are read, with the type of an element.
    inputs: BTreeMap<String, &'static str>,
    /// Inputs whose place an output takes.
    in_place: &'g BTreeSet<String>,
    root: NodeId,
}

impl Emitter<'_> {
    fn with_scale(&self) -> bool {
        self.style != Style::Baseline
    }

    fn line(&mut self, line: &str) {
        let _infallible = writeln!(self.text, "{}{line}", "    ".repeat(self.depth));
    }

    fn open(&mut self, line: &str) {
        self.line(line);
        self.depth += 1;
        self.scopes.push(BTreeMap::new());
    }

    fn close(&mut self) {
        self.scopes.pop();
        self.depth -= 1;
        self.line("}");
    }

    /// The body of a kernel that computes a node into a tensor or a workspace.
    fn kernel(&mut self, name: &str, node: NodeId, is_output: bool) -> String {
        let shape = self.graph.shape(node).to_vec();
        self.line("const long long element = (long long)blockIdx.x * blockDim.x + threadIdx.x;");
        self.line(&format!("if (element >= {}) return;", product(&shape).text));
        let mut index = Vec::new();
        for axis in 0..shape.len() {
            let inner = product(&shape[axis + 1..]);
            let mut text = "element".to_owned();
            if inner.text != "1" {
                text = format!("{text} / {}", inner.text);
            }
            if axis > 0 {
                text = format!("{text} % {}", shape[axis].text);
            }
            self.line(&format!("const long long i{axis} = {text};"));
            index.push(format!("i{axis}"));
        }
        let id = self.value(node, &index);
        match (self.style, is_output) {
            (Style::Baseline, true) => {
                let value = match self.graph.dtype(node) {
                    Dtype::F16 => format!("__float2half(v{id})"),
                    Dtype::Bf16 => format!("__float2bfloat16(v{id})"),
                    _ => format!("v{id}"),
                };
                self.line(&format!("{name}[element] = {value};"));
            }
            (Style::Baseline, false) => self.line(&format!("{name}[element] = v{id};")),
            (_, true) => {
                // Below this the output's own type rounds to multiples of its smallest value.
                let least = match self.graph.dtype(node) {
                    Dtype::F16 => "0x1p-14",
                    _ => "0x1p-126",
                };
                self.line(&format!("{name}[element] = v{id};"));
                self.line(&format!(
                    "{name}_scale[element] = isfinite(v{id}) ? fmax(isfinite(e{id}) ? e{id} : fabs(v{id}), {least}) : {least};"
                ));
            }
            (_, false) => {
                self.line(&format!("{name}[2 * element] = v{id};"));
                self.line(&format!("{name}[2 * element + 1] = e{id};"));
            }
        }
        std::mem::take(&mut self.text)
    }

    /// Writes the statements that compute a node's element; returns the number of its variables.
    fn value(&mut self, node: NodeId, index: &[String]) -> usize {
        let key = (node, index.to_vec());
        if let Some(id) = self.scopes.iter().rev().find_map(|scope| scope.get(&key)) {
            return *id;
        }
        let entry = &self.graph.entries[node];
        let stored = self.stored.get(&node).filter(|_| node != self.root);
        let id = match (&entry.node, stored) {
            (_, Some(name)) => {
                let kind = if self.with_scale() { "double" } else { "float" };
                self.inputs.insert(name.clone(), kind);
                let at = flat(&entry.shape, index);
                if self.with_scale() {
                    self.define(
                        &format!("{name}[2 * ({at})]"),
                        &format!("{name}[2 * ({at}) + 1]"),
                    )
                } else {
                    self.define(&format!("{name}[{at}]"), "")
                }
            }
            (Node::Input(name), _) => {
                let is_wide = self.with_scale() && self.in_place.contains(name);
                let dtype = if is_wide { Dtype::F64 } else { entry.dtype };
                self.inputs.insert(name.clone(), dtype.c_type());
                let element = format!("{name}[{}]", flat(&entry.shape, index));
                let value = match dtype {
                    Dtype::F16 => format!("__half2float({element})"),
                    Dtype::Bf16 => format!("__bfloat162float({element})"),
                    _ => element,
                };
                self.define(&format!("real_t({value})"), "fabs($z)")
            }
            (Node::Constant(number), _) => {
                self.define(&format!("real_t({})", number.text), "fabs($z)")
            }
            (Node::Map { function, operands }, _) => {
                let operands = operands.iter().map(|operand| self.value(*operand, index));
                let operands = operands.collect::<Vec<_>>();
                let filled = |template: &str| {
                    let mut text = template.to_owned();
                    for (id, (value, scale)) in
                        operands
                            .iter()
                            .zip([("$a", "$A"), ("$b", "$B"), ("$c", "$C")])
                    {
                        text = text
                            .replace(value, &format!("v{id}"))
                            .replace(scale, &format!("e{id}"));
                    }
                    text
                };
                let (value, scale) = (filled(function.value), filled(function.scale));
                self.define(&value, &scale)
            }
            (
                Node::View {
                    source,
                    index: texts,
                    guard: None,
                },
                _,
            ) => {
                let at = self.place(texts, index);
                self.value(*source, &at)
            }
            (
                Node::View {
                    source,
                    index: texts,
                    guard: Some((guard, otherwise)),
                },
                _,
            ) => {
                let id = self.declare(otherwise);
                self.open(&format!("if ({}) {{", substitute(guard, index)));
                let at = self.place(texts, index);
                let inner = self.value(*source, &at);
                self.line(&format!("v{id} = v{inner};"));
                if self.with_scale() {
                    self.line(&format!("e{id} = e{inner};"));
                }
                self.close();
                id
            }
            (Node::Reduce { reduction, inner }, _) => self.reduction(*reduction, *inner, index),
        };
        let scope = self.scopes.last_mut().expect("a kernel has a scope");
        scope.insert(key, id);
        id
    }

    fn reduction(&mut self, reduction: Reduction, inner: NodeId, index: &[String]) -> usize {
        let id = self.declare(match reduction {
            Reduction::Sum => "0",
            Reduction::Product => "1",
            Reduction::Maximum => "-INFINITY",
            Reduction::Minimum => "INFINITY",
        });
        let extents = self.graph.shape(inner)[index.len()..].to_vec();
        let mut inside = index.to_vec();
        for extent in &extents {
            self.fresh += 1;
            let (k, extent) = (format!("k{}", self.fresh), &extent.text);
            self.open(&if self.style == Style::Check {
                format!("for (long long {k} = {extent} - 1; {k} >= 0; --{k}) {{")
            } else {
                format!("for (long long {k} = 0; {k} < {extent}; ++{k}) {{")
            });
            inside.push(k);
        }
        let term = self.value(inner, &inside);
        if self.with_scale() {
            self.line(&match reduction {
                Reduction::Sum => format!("e{id} += e{term};"),
                Reduction::Product => {
                    format!("e{id} = fmax(fabs(v{id}) * e{term}, fabs(v{term}) * e{id});")
                }
                _ => format!("e{id} = fmax(e{id}, e{term});"),
            });
        }
        self.line(&match reduction {
            Reduction::Sum => format!("v{id} += v{term};"),
            Reduction::Product => format!("v{id} *= v{term};"),
            Reduction::Maximum => format!("v{id} = fmax(v{id}, v{term});"),
            Reduction::Minimum => format!("v{id} = fmin(v{id}, v{term});"),
        });
        for _ in &extents {
            self.close();
        }
        id
    }

    /// Defines the variables of a value and its scale.
    fn define(&mut self, value: &str, scale: &str) -> usize {
        self.fresh += 1;
        let id = self.fresh;
        self.line(&format!("const real_t v{id} = {value};"));
        if self.with_scale() {
            let scale = scale.replace("$z", &format!("v{id}"));
            self.line(&format!("const double e{id} = {scale};"));
        }
        id
    }

    /// Declares the variables of a value that statements change.
    fn declare(&mut self, value: &str) -> usize {
        self.fresh += 1;
        let id = self.fresh;
        self.line(&format!("real_t v{id} = real_t({value});"));
        if self.with_scale() {
            let scale = if value == "1" { "1.0" } else { "0.0" };
            self.line(&format!("double e{id} = {scale};"));
        }
        id
    }

    /// The indices of a view's source, in variables where they are no names or numbers.
    fn place(&mut self, texts: &[String], index: &[String]) -> Vec<String> {
        let mut place = Vec::new();
        for text in texts {
            let text = substitute(text, index);
            let plain = text.chars().all(|c| c.is_ascii_alphanumeric());
            if plain {
                place.push(text);
                continue;
            }
            self.fresh += 1;
            let name = format!("j{}", self.fresh);
            self.line(&format!("const long long {name} = {text};"));
            place.push(name);
        }
        place
    }
}

/// The text with the indices in place of `$0`, `$1`, and so on.
fn substitute(text: &str, index: &[String]) -> String {
    let mut text = text.to_owned();
    for (axis, name) in index.iter().enumerate().rev() {
        text = text.replace(&format!("${axis}"), name);
    }
    text
}

/// The flat index of an element.
fn flat(shape: &[Number], index: &[String]) -> String {
    let mut text = String::new();
    for (extent, index) in shape.iter().zip(index) {
        text = match text.as_str() {
            "" => index.clone(),
            outer if outer.contains(' ') => format!("({outer}) * {} + {index}", extent.text),
            outer => format!("{outer} * {} + {index}", extent.text),
        };
    }
    if text.is_empty() {
        "0".to_owned()
    } else {
        text
    }
}
