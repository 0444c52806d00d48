//! The folder of an imported task: its files from a graph.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use domain::dtype::Dtype;
use domain::expr::Bindings;
use domain::problem::Problem;

use super::Imported;
use crate::python::emit::{self, Style};
use crate::python::graph::{Graph, Node, NodeId};
use crate::python::number::{evaluate, words};

/// Elements of all nodes together that an added shape may have.
const MOST_ELEMENTS: i64 = 1 << 22;
/// The most shapes of a source that are scored.
pub(super) const MAX_SCORED: usize = 4;
/// Odd extents by the number of dims that vary.
const ODD: [&[i64]; 4] = [&[1009], &[37, 97], &[5, 33, 65], &[3, 5, 17, 33]];

/// A problem that was read.
pub(super) struct Work<'a> {
    pub file: &'a str,
    pub name: &'a str,
    pub title: String,
    /// The operator family, if the source names one.
    pub family: Option<String>,
    /// The imported format, in a few words.
    pub origin: &'a str,
    pub graph: Graph,
    pub outputs: Vec<(String, NodeId)>,
    /// Every dim with its value in the imported shape.
    pub dims: Bindings,
    /// Shapes of the source, the one that `dims` has first.
    pub shapes: Vec<Shape>,
    pub notes: BTreeSet<String>,
}

/// A shape of the source.
pub(super) struct Shape {
    pub dims: Bindings,
    pub purpose: Purpose,
}

/// The uses of a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Score,
    Check,
    Holdout,
}

struct Case {
    name: String,
    uses: &'static str,
    dims: Bindings,
}

impl Work<'_> {
    fn problem(&self, message: impl Into<String>, fix: &str) -> Problem {
        Problem::whole(self.file, message, fix)
    }

    pub fn write(mut self) -> Result<Imported, Problem> {
        let outputs = self.outputs.iter().map(|(_, node)| *node);
        let reachable = self.graph.reachable(outputs);
        let inputs = reachable
            .iter()
            .filter_map(|node| match &self.graph.entries[*node].node {
                Node::Input(name) => Some((name.clone(), *node)),
                _ => None,
            });
        let inputs = inputs.collect::<Vec<_>>();
        if inputs.is_empty() {
            return Err(self.problem(
                "the answer depends on no input",
                "import a function of tensors",
            ));
        }
        for (name, node) in inputs.iter().chain(&self.outputs) {
            if !matches!(
                self.graph.dtype(*node),
                Dtype::F16 | Dtype::Bf16 | Dtype::F32
            ) {
                let message = format!(
                    "{name} is {}: a tolerance exists for f16, bf16 and f32",
                    self.graph.dtype(*node)
                );
                return Err(self.problem(message, "convert it to one of these types"));
            }
        }
        self.fix_dims(&inputs);
        self.leave_out_shapes();
        let numbers = emit::dims(self.dims.keys());
        let mut files = BTreeMap::new();
        for (style, file) in [
            (Style::Reference, "reference.cu"),
            (Style::Check, "check.cu"),
            (Style::Baseline, "baseline.cu"),
        ] {
            let text =
                emit::write(&self.graph, &self.outputs, &numbers, style).map_err(|count| {
                    let message = format!("it needs {count} kernels, and a plan has at most 16");
                    self.problem(message, "import a part of it")
                })?;
            files.insert(file.to_owned(), text);
        }
        let mut used = files
            .values()
            .flat_map(|text| words(text))
            .map(str::to_owned)
            .collect::<BTreeSet<_>>();
        for (_, node) in &inputs {
            used.extend(
                self.graph
                    .shape(*node)
                    .iter()
                    .flat_map(crate::python::number::Number::names),
            );
        }
        self.dims.retain(|name, _| used.contains(name));
        let least = self.least();
        let cases = self.cases(&least)?;
        let toml = self.task_toml(&inputs, &least, &cases);
        files.insert("task.toml".to_owned(), toml);
        let mut context = format!(
            "Imported from {} of {}. The baseline is a plain translation with one thread for each element.\n",
            self.file, self.origin
        );
        for note in &self.notes {
            let _infallible = writeln!(context, "- {note}");
        }
        files.insert("context.md".to_owned(), context);
        Ok(Imported {
            name: self.name.to_owned(),
            files,
            notes: self.notes.into_iter().collect(),
        })
    }

    /// Fixes the dims that are no extent of an input, since nothing shows what else they may be.
    fn fix_dims(&mut self, inputs: &[(String, NodeId)]) {
        let extents = inputs.iter().flat_map(|(_, node)| self.graph.shape(*node));
        let plain = extents
            .map(|extent| extent.text.clone())
            .collect::<BTreeSet<_>>();
        let others = self.dims.keys().filter(|name| !plain.contains(*name));
        self.graph.pinned.extend(others.cloned());
    }

    /// Leaves out shapes with another value of a fixed dim.
    fn leave_out_shapes(&mut self) {
        let (pinned, dims) = (&self.graph.pinned, &self.dims);
        let differing = |shape: &Shape| {
            let pairs = shape.dims.iter();
            let mut other = pairs
                .filter(|(name, value)| pinned.contains(*name) && dims.get(*name) != Some(*value));
            other.next().map(|(name, _)| name.clone())
        };
        let names = self.shapes.iter().filter_map(differing).collect::<Vec<_>>();
        if let Some(name) = names.first() {
            self.notes.insert(format!(
                "left out: {} shapes with another {name} than {}, because the translation rests on its value",
                names.len(),
                dims[name]
            ));
        }
        self.shapes.retain(|shape| differing(shape).is_none());
    }

    fn free(&self) -> impl Iterator<Item = (&String, &i64)> {
        self.dims
            .iter()
            .filter(|(name, _)| !self.graph.pinned.contains(*name))
    }

    /// Returns true if every tensor has elements with these dims, and not too many.
    fn fits(&self, dims: &Bindings) -> bool {
        let mut total = 0_i64;
        for entry in &self.graph.entries {
            let mut elements = 1_i64;
            for extent in &entry.shape {
                match evaluate(&extent.text, dims) {
                    Some(extent) if extent >= 1 => elements = elements.saturating_mul(extent),
                    _ => return false,
                }
            }
            if matches!(entry.node, Node::Input(_) | Node::Reduce { .. }) {
                total = total.saturating_add(elements);
            }
        }
        total <= MOST_ELEMENTS
    }

    /// The smallest value of each dim with which every tensor has elements.
    fn least(&self) -> Bindings {
        let least = self.free().map(|(name, value)| {
            let fits = |candidate: &i64| {
                let mut dims = self.dims.clone();
                dims.insert(name.clone(), *candidate);
                self.graph
                    .entries
                    .iter()
                    .flat_map(|entry| &entry.shape)
                    .all(|extent| evaluate(&extent.text, &dims).is_some_and(|extent| extent >= 1))
            };
            (name.clone(), (1..*value).find(fits).unwrap_or(*value))
        });
        least.collect()
    }

    fn cases(&self, least: &Bindings) -> Result<Vec<Case>, Problem> {
        let mut cases: Vec<Case> = Vec::new();
        let mut add = |name: &str, uses: &'static str, dims: Bindings| {
            let free = dims
                .into_iter()
                .filter(|(name, _)| least.contains_key(name))
                .collect::<Bindings>();
            if !cases.iter().any(|known| known.dims == free) {
                cases.push(Case {
                    name: name.to_owned(),
                    uses,
                    dims: free,
                });
            }
        };
        for (at, shape) in self.shapes.iter().enumerate() {
            let uses = match shape.purpose {
                Purpose::Score => r#""check", "score""#,
                Purpose::Check => r#""check""#,
                Purpose::Holdout => r#""holdout""#,
            };
            add(&format!("imported-{}", at + 1), uses, shape.dims.clone());
        }
        let free = self.free().collect::<Vec<_>>();
        let odd = ODD[free.len().clamp(1, ODD.len()) - 1];
        let shape = |value: &dyn Fn(usize, i64, i64) -> i64| {
            let mut dims = self.dims.clone();
            for (at, (name, scored)) in free.iter().enumerate() {
                let most = self
                    .shapes
                    .iter()
                    .filter_map(|shape| shape.dims.get(*name))
                    .max()
                    .unwrap_or(scored);
                dims.insert(
                    (*name).clone(),
                    value(at, **scored, least[*name]).clamp(least[*name], *most),
                );
            }
            dims
        };
        let rows = [
            (
                "odd",
                r#""check""#,
                shape(&|at, _, _| odd[at.min(odd.len() - 1)]),
            ),
            ("least", r#""check""#, shape(&|_, _, least| least)),
            (
                "below-a-warp",
                r#""check""#,
                shape(&|at, _, least| (31 >> at.min(4)).max(least)),
            ),
            (
                "other",
                r#""holdout""#,
                shape(&|at, scored, _| (scored / 2 + 1).min(odd[at.min(odd.len() - 1)] + 64)),
            ),
        ];
        for (name, uses, dims) in rows {
            if self.fits(&dims) {
                add(name, uses, dims);
            }
        }
        if cases.is_empty() {
            return Err(self.problem("no shape is known", "add a workload"));
        }
        Ok(cases)
    }

    fn task_toml(&self, inputs: &[(String, NodeId)], least: &Bindings, cases: &[Case]) -> String {
        let title = self.title.replace(['"', '\\'], "'");
        let family = self
            .family
            .as_deref()
            .filter(|family| domain::task::is_name(family));
        let family = family.map_or_else(String::new, |family| format!("family = \"{family}\"\n"));
        let mut text = format!(
            "name = \"{}\"\ntitle = \"{title}\"\n{family}\n[dims]\n",
            self.name
        );
        let mut line = |row: String| {
            let _infallible = writeln!(text, "{row}");
        };
        for (name, value) in &self.dims {
            match least.get(name) {
                Some(least) => {
                    let most = cases
                        .iter()
                        .filter_map(|case| case.dims.get(name))
                        .max()
                        .unwrap_or(value);
                    line(format!("{name} = {{ min = {least}, max = {most} }}"));
                }
                None => line(format!("{name} = {{ fixed = {value} }}")),
            }
        }
        let tensors = inputs
            .iter()
            .map(|tensor| (tensor, "in"))
            .chain(self.outputs.iter().map(|tensor| (tensor, "out")));
        for ((name, node), role) in tensors {
            let mut shape = self
                .graph
                .shape(*node)
                .iter()
                .map(|extent| format!("\"{}\"", extent.text))
                .collect::<Vec<_>>();
            if shape.is_empty() {
                shape.push("\"1\"".to_owned());
            }
            line(format!(
                "\n[[tensor]]\nname = \"{name}\"\ndtype = \"{}\"\nshape = [{}]\nrole = \"{role}\"",
                self.graph.dtype(*node),
                shape.join(", ")
            ));
        }
        let types = self
            .outputs
            .iter()
            .map(|(_, node)| self.graph.dtype(*node))
            .collect::<Vec<_>>();
        let class = if types.contains(&Dtype::Bf16) {
            "bf16-out-f32-acc"
        } else if types.contains(&Dtype::F16) {
            "f16-out-f32-acc"
        } else {
            "f32"
        };
        let scales = self
            .outputs
            .iter()
            .map(|(name, _)| format!("{name} = \"{name}_scale\""))
            .collect::<Vec<_>>();
        let outputs = self.outputs.iter().map(|(_, node)| *node);
        let terms = self.graph.terms(outputs);
        let terms = self
            .outputs
            .iter()
            .map(|(name, _)| format!("{name} = \"{terms}\""))
            .collect::<Vec<_>>();
        line(format!(
            "\n[tolerance]\nclass = \"{class}\"\n\n[contract]\nerror_scale = {{ {} }}\nerror_terms = {{ {} }}",
            scales.join(", "),
            terms.join(", ")
        ));
        for case in cases {
            let dims = case
                .dims
                .iter()
                .map(|(name, value)| format!("{name} = {value}"))
                .collect::<Vec<_>>();
            line(format!(
                "\n[[case]]\nname = \"{}\"\ndims = {{ {} }}\nuse = [{}]",
                case.name,
                dims.join(", "),
                case.uses
            ));
        }
        text
    }
}
