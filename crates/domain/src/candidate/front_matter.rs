//! The tables of a candidate's front matter, and the check that turns them into a launch plan.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::{Expectation, Idea, PlaybookStep, is_identifier};
use crate::dtype::Dtype;
use crate::expr::{Expr, ExprError};
use crate::plan::{Argument, KernelStep, LaunchPlan, MAX_STEPS, Step, Tunable, Workspace};
use crate::problem::Problem;

const MAX_WORKSPACES: usize = 16;
const MAX_TUNABLES: usize = 32;
const MAX_CHOICES: usize = 64;

/// The front matter as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFront {
    #[serde(default)]
    pub(super) launch: Vec<Spanned<RawStep>>,
    #[serde(default)]
    pub(super) workspace: BTreeMap<Spanned<String>, RawWorkspace>,
    #[serde(default)]
    pub(super) tunables: BTreeMap<Spanned<String>, RawTunable>,
    pub(super) idea: Option<Idea>,
    pub(super) step: Option<PlaybookStep>,
    pub(super) expect: Option<Expectation>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStep {
    pub(super) kernel: Option<Spanned<String>>,
    pub(super) grid: Option<Vec<Spanned<toml::Value>>>,
    pub(super) block: Option<Vec<Spanned<toml::Value>>>,
    pub(super) shared: Option<Spanned<toml::Value>>,
    #[serde(default)]
    pub(super) cooperative: bool,
    pub(super) args: Option<Vec<Spanned<RawArgument>>>,
    pub(super) memset: Option<Spanned<String>>,
    pub(super) byte: Option<u8>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum RawArgument {
    Named(String),
    Dim { dim: String, r#as: Dtype },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawWorkspace {
    pub(super) dtype: Dtype,
    pub(super) shape: Spanned<Vec<Spanned<toml::Value>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTunable {
    pub(super) value: Spanned<i64>,
    pub(super) choices: Spanned<Vec<i64>>,
}

/// Turns the raw front matter into a plan and collects every problem on the way.
pub(super) struct Reader<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
    /// The offset in `text` at which the front matter starts: spans count from there.
    pub(super) start: usize,
    pub(super) problems: Vec<Problem>,
}

impl Reader<'_> {
    fn report(&mut self, offset: usize, message: impl Into<String>, fix: impl Into<String>) {
        self.problems.push(Problem::at(
            self.file,
            self.text,
            self.start + offset,
            message,
            fix,
        ));
    }

    /// Checks the tables and builds the plan. Problems are added to `problems`.
    pub(super) fn plan(&mut self, raw: &RawFront) -> LaunchPlan {
        if raw.launch.is_empty() {
            self.report(
                0,
                "the plan launches nothing",
                "add a [[launch]] with kernel, grid, block and args",
            );
        }
        if let Some(extra) = raw.launch.get(MAX_STEPS) {
            self.report(
                extra.span().start,
                format!("a plan has at most {MAX_STEPS} launches"),
                "fuse some",
            );
        }
        if let Some(extra) = raw.workspace.keys().nth(MAX_WORKSPACES) {
            self.report(
                extra.span().start,
                format!("a plan has at most {MAX_WORKSPACES} workspaces"),
                "join some",
            );
        }
        if let Some(extra) = raw.tunables.keys().nth(MAX_TUNABLES) {
            self.report(
                extra.span().start,
                format!("a plan has at most {MAX_TUNABLES} tunables"),
                "fix some",
            );
        }
        let workspaces = raw
            .workspace
            .iter()
            .map(|(name, raw)| self.workspace(name, raw))
            .collect();
        let tunables = raw
            .tunables
            .iter()
            .map(|(name, raw)| self.tunable(name, raw))
            .collect();
        let steps = raw
            .launch
            .iter()
            .filter_map(|step| self.step(step))
            .collect();
        LaunchPlan {
            steps,
            workspaces,
            tunables,
        }
    }

    fn workspace(&mut self, name: &Spanned<String>, raw: &RawWorkspace) -> (String, Workspace) {
        self.identifier(name);
        if raw.shape.get_ref().is_empty() {
            self.report(
                raw.shape.span().start,
                "a workspace without axes",
                "give at least one extent",
            );
        }
        let shape = raw
            .shape
            .get_ref()
            .iter()
            .map(|axis| self.expr(axis))
            .collect();
        (
            name.get_ref().clone(),
            Workspace {
                dtype: raw.dtype,
                shape,
            },
        )
    }

    fn tunable(&mut self, name: &Spanned<String>, raw: &RawTunable) -> (String, Tunable) {
        self.identifier(name);
        let choices = raw.choices.get_ref();
        if choices.is_empty() || choices.len() > MAX_CHOICES {
            let message = format!(
                "a tunable has 1 to {MAX_CHOICES} choices, not {}",
                choices.len()
            );
            self.report(
                raw.choices.span().start,
                message,
                "list the values a sweep may try",
            );
        } else if !choices.contains(raw.value.get_ref()) {
            let message = format!("the value {} is not among the choices", raw.value.get_ref());
            self.report(
                raw.value.span().start,
                message,
                "add it to choices or choose another value",
            );
        }
        (
            name.get_ref().clone(),
            Tunable {
                value: *raw.value.get_ref(),
                choices: choices.clone(),
            },
        )
    }

    fn step(&mut self, spanned: &Spanned<RawStep>) -> Option<Step> {
        let raw = spanned.get_ref();
        match (&raw.kernel, &raw.memset) {
            (Some(kernel), None) => {
                self.identifier(kernel);
                if raw.byte.is_some() {
                    self.report(
                        spanned.span().start,
                        "byte belongs to a memset",
                        "remove it",
                    );
                }
                let grid = self.extents(spanned, "grid", raw.grid.as_deref());
                let block = self.extents(spanned, "block", raw.block.as_deref());
                let shared = raw
                    .shared
                    .as_ref()
                    .map_or(Expr::constant(0), |shared| self.expr(shared));
                if raw.args.is_none() {
                    self.report(
                        spanned.span().start,
                        "the launch has no args",
                        "list the kernel's arguments in order",
                    );
                }
                let arguments = raw
                    .args
                    .iter()
                    .flatten()
                    .map(|argument| self.argument(argument))
                    .collect();
                Some(Step::Kernel(KernelStep {
                    kernel: kernel.get_ref().clone(),
                    grid,
                    block,
                    shared,
                    cooperative: raw.cooperative,
                    arguments,
                }))
            }
            (None, Some(buffer)) => {
                if raw.grid.is_some()
                    || raw.block.is_some()
                    || raw.shared.is_some()
                    || raw.args.is_some()
                    || raw.cooperative
                {
                    self.report(
                        spanned.span().start,
                        "a memset takes only memset and byte",
                        "remove the other keys",
                    );
                }
                Some(Step::Memset {
                    buffer: buffer.get_ref().clone(),
                    byte: raw.byte.unwrap_or(0),
                })
            }
            _ => {
                let fix = "name exactly one of kernel and memset";
                self.report(
                    spanned.span().start,
                    "a launch that is neither a kernel nor a memset",
                    fix,
                );
                None
            }
        }
    }

    fn extents(
        &mut self,
        step: &Spanned<RawStep>,
        key: &str,
        values: Option<&[Spanned<toml::Value>]>,
    ) -> [Expr; 3] {
        let values = values.unwrap_or_default();
        if values.is_empty() || values.len() > 3 {
            let message = format!("{key} has {} extents", values.len());
            self.report(
                step.span().start,
                message,
                format!("write {key} = [x], [x, y] or [x, y, z]"),
            );
        }
        let mut extents = [Expr::constant(1), Expr::constant(1), Expr::constant(1)];
        for (extent, value) in extents.iter_mut().zip(values) {
            *extent = self.expr(value);
        }
        extents
    }

    fn argument(&mut self, spanned: &Spanned<RawArgument>) -> Argument {
        match spanned.get_ref() {
            RawArgument::Named(name) => Argument::Named(name.clone()),
            RawArgument::Dim { dim, r#as: dtype } => {
                if !matches!(dtype, Dtype::I32 | Dtype::I64) {
                    self.report(
                        spanned.span().start,
                        format!("a dim cannot be passed as {dtype}"),
                        "use i32 or i64",
                    );
                }
                Argument::Dim {
                    dim: dim.clone(),
                    dtype: *dtype,
                }
            }
        }
    }

    fn expr(&mut self, value: &Spanned<toml::Value>) -> Expr {
        let parsed = match value.get_ref() {
            toml::Value::Integer(number) => Ok(Expr::constant(*number)),
            toml::Value::String(text) => Expr::parse(text),
            other => Err(ExprError::Syntax {
                offset: 0,
                message: format!(
                    "an extent is an integer or an expression in quotes, not a {}",
                    other.type_str()
                ),
            }),
        };
        parsed.unwrap_or_else(|error| {
            // A string's text begins one character after its opening quote.
            let inside = match (&error, value.get_ref()) {
                (ExprError::Syntax { offset, .. }, toml::Value::String(_)) => *offset + 1,
                _ => 0,
            };
            let fix = "use + - * / %, cdiv, min, max over dims, tunables and SM_COUNT";
            self.report(value.span().start + inside, error.to_string(), fix);
            Expr::constant(1)
        })
    }

    fn identifier(&mut self, name: &Spanned<String>) {
        if !is_identifier(name.get_ref()) {
            let message = format!("{:?} is not a C identifier", name.get_ref());
            self.report(
                name.span().start,
                message,
                "use letters, digits and underscores, at most 64",
            );
        }
    }
}
