//! One candidate: CUDA C++ device code with its launch plan in the head comment.
//!
//! [`KernelSource::parse`] is the only way in. What it lets through is text of bounded size
//! without NUL, with a plan that is well-formed; nothing downstream checks that again.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use toml::Spanned;
use utoipa::ToSchema;

use crate::digest::Digest;
use crate::dtype::Dtype;
use crate::expr::{Expr, ExprError};
use crate::plan::{
    Argument, Configuration, KernelStep, LaunchPlan, MAX_STEPS, Step, Tunable, Workspace,
};
use crate::problem::{Problem, Problems};
use crate::splice;
use crate::verdict::VerdictKind;

/// The longest source in bytes: 256 KiB.
pub const MAX_SOURCE_BYTES: usize = 256 << 10;
const OPENING: &str = "/*---";
const CLOSING: &str = "---*/";
const MAX_WORKSPACES: usize = 16;
const MAX_TUNABLES: usize = 32;
const MAX_CHOICES: usize = 64;

/// A parsed candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelSource {
    text: String,
    /// The TOML between the two fences, as offsets into `text`.
    front: Range<usize>,
    /// Offset of the line after the closing fence.
    body_offset: usize,
    plan: LaunchPlan,
    idea: Option<Idea>,
    step: Option<PlaybookStep>,
    expect: Option<Expectation>,
}

/// The author's expectation, written down before anything is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Idea {
    /// A few words for lists and commit messages.
    pub title: String,
    /// The reason why it should be faster.
    #[serde(default)]
    pub hypothesis: String,
    /// Expected speedup over the parent, lowest and highest, as ratios.
    #[serde(default)]
    pub gain: Option<[f64; 2]>,
}

/// The front matter's table that makes a candidate a step of a playbook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlaybookStep {
    /// The phase it belongs to, as named in the task file.
    pub phase: String,
    /// Tunables to sweep once the step is kept.
    #[serde(default)]
    pub sweep: Vec<String>,
}

/// The verdict a deliberately broken variant must get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// The verdict.
    pub verdict: VerdictKind,
    /// The driver's error code, where the verdict carries one.
    #[serde(default)]
    pub code: Option<u32>,
}

impl KernelSource {
    /// Parses a candidate file; `file` is what problems call it.
    ///
    /// # Errors
    /// Every defect of the text and of its front matter, each with line and column.
    pub fn parse(file: &str, text: impl Into<String>) -> Result<Self, Problems> {
        let text = text.into().replace("\r\n", "\n").replace('\r', "\n");
        if text.len() > MAX_SOURCE_BYTES {
            let message = format!(
                "the source has {} bytes; at most {MAX_SOURCE_BYTES} are read",
                text.len()
            );
            return Err(Problem::whole(file, message, "split off what is not device code").into());
        }
        if let Some(offset) = text.find('\0') {
            return Err(Problem::at(file, &text, offset, "a NUL byte", "remove it").into());
        }
        let front = find_front_matter(file, &text)?;
        let start = front.start;
        let raw: RawFront = toml::from_str(&text[front.clone()]).map_err(|error| {
            let offset = start + error.span().map_or(0, |span| span.start);
            Problem::at(
                file,
                &text,
                offset,
                error.message(),
                "see docs/reference/candidate-format.md for the front matter's keys",
            )
        })?;
        let mut reader = Reader {
            file,
            text: &text,
            start,
            problems: Vec::new(),
        };
        let plan = reader.plan(&raw);
        if !reader.problems.is_empty() {
            return Err(Problems(reader.problems));
        }
        Ok(Self {
            body_offset: next_line(&text, front.end),
            front,
            plan,
            idea: raw.idea,
            step: raw.step,
            expect: raw.expect,
            text,
        })
    }

    /// The whole text, with `\n` line ends.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The front matter: the lines between the two fences, from line 2 on.
    pub fn front_matter(&self) -> &str {
        &self.text[self.front.clone()]
    }

    /// The code: the lines after the closing fence.
    pub fn body(&self) -> &str {
        &self.text[self.body_offset..]
    }

    /// The text that is handed to the compiler: the code, after an empty line for each line of the
    /// front matter, so that lines keep their numbers. Nothing that stands in the front matter can
    /// become part of the program, however it is written.
    pub fn compiler_input(&self) -> String {
        let lines = self.text[..self.body_offset].matches('\n').count();
        "\n".repeat(lines) + self.body()
    }

    /// The launch plan.
    pub fn plan(&self) -> &LaunchPlan {
        &self.plan
    }

    /// The author's idea, if stated.
    pub fn idea(&self) -> Option<&Idea> {
        self.idea.as_ref()
    }

    /// Playbook facts, if the file is a step of one.
    pub fn step(&self) -> Option<&PlaybookStep> {
        self.step.as_ref()
    }

    /// The verdict a broken variant must get.
    pub fn expectation(&self) -> Option<&Expectation> {
        self.expect.as_ref()
    }

    /// The digest that identifies the program and the way it is launched: exactly the bytes that the
    /// compiler gets, the steps and workspaces of the plan, and the values of the tunables, which the
    /// compiler gets as options. The idea does not count, except for its number of lines, on which
    /// `__LINE__` depends.
    pub fn candidate_digest(&self, configuration: &Configuration) -> Digest {
        let plan = format!("{:?}", (&self.plan.steps, &self.plan.workspaces));
        let values = configuration
            .iter()
            .map(|(name, value)| format!("{name}={value};"))
            .collect::<String>();
        Digest::of_parts([
            self.compiler_input().as_bytes(),
            plan.as_bytes(),
            values.as_bytes(),
        ])
    }

    /// The configuration with `overrides` applied to the declared values.
    ///
    /// # Errors
    /// A [`Problem`] for a name that is no tunable or a value that is no choice.
    pub fn configure(&self, overrides: &Configuration) -> Result<Configuration, Problem> {
        let mut configuration = self.plan.default_configuration();
        for (name, value) in overrides {
            let Some(tunable) = self.plan.tunables.get(name) else {
                let known = self
                    .plan
                    .tunables
                    .keys()
                    .cloned()
                    .collect::<Vec<_>>()
                    .join(", ");
                let message = format!("the source declares no tunable {name:?}");
                return Err(Problem::whole(
                    "configuration",
                    message,
                    format!("it declares: {known}"),
                ));
            };
            if !tunable.choices.contains(value) {
                let message = format!(
                    "{name} = {value} is not among its choices {:?}",
                    tunable.choices
                );
                return Err(Problem::whole(
                    "configuration",
                    message,
                    "choose one of them",
                ));
            }
            configuration.insert(name.clone(), *value);
        }
        Ok(configuration)
    }
}

/// Finds the TOML between the two fences, each of which is a whole line; offsets into `text`.
fn find_front_matter(file: &str, text: &str) -> Result<Range<usize>, Problem> {
    let problem = |offset, message, fix| Err(Problem::at(file, text, offset, message, fix));
    let first = text.lines().next().unwrap_or_default();
    if first.trim_end() != OPENING {
        let fix = "begin with a line /*--- and end the front matter with a line ---*/";
        return if first.starts_with(OPENING) {
            problem(
                OPENING.len(),
                "the opening line of the front matter holds more than /*---",
                fix,
            )
        } else {
            problem(0, "the file does not begin with its launch plan", fix)
        };
    }
    let start = next_line(text, 0);
    let mut end = start;
    for line in text[start..].split_inclusive('\n') {
        if line.trim_end() == CLOSING {
            return Ok(start..end);
        }
        if ends_comment(&text[end..], line.len()) {
            return problem(
                end,
                "the head comment ends inside the front matter",
                "write the closing line as ---*/ alone on its line",
            );
        }
        end += line.len();
    }
    problem(
        0,
        "the front matter is never closed",
        "end it with a line ---*/",
    )
}

/// The offset of the line after the one that `offset` stands on.
fn next_line(text: &str, offset: usize) -> usize {
    text[offset..]
        .find('\n')
        .map_or(text.len(), |at| offset + at + 1)
}

/// Returns true if a `*` within the first `within` bytes of `text` is followed by a `/`, directly or
/// after line continuations, which a compiler resolves before it looks for comments.
fn ends_comment(text: &str, within: usize) -> bool {
    text[..within].match_indices('*').any(|(at, _)| {
        let mut rest = &text[at + 1..];
        while let Some(after) = splice::strip_splice(rest) {
            rest = after;
        }
        rest.starts_with('/')
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFront {
    #[serde(default)]
    launch: Vec<Spanned<RawStep>>,
    #[serde(default)]
    workspace: BTreeMap<Spanned<String>, RawWorkspace>,
    #[serde(default)]
    tunables: BTreeMap<Spanned<String>, RawTunable>,
    idea: Option<Idea>,
    step: Option<PlaybookStep>,
    expect: Option<Expectation>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStep {
    kernel: Option<Spanned<String>>,
    grid: Option<Vec<Spanned<toml::Value>>>,
    block: Option<Vec<Spanned<toml::Value>>>,
    shared: Option<Spanned<toml::Value>>,
    #[serde(default)]
    cooperative: bool,
    args: Option<Vec<Spanned<RawArgument>>>,
    memset: Option<Spanned<String>>,
    byte: Option<u8>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawArgument {
    Named(String),
    Dim { dim: String, r#as: Dtype },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWorkspace {
    dtype: Dtype,
    shape: Spanned<Vec<Spanned<toml::Value>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTunable {
    value: Spanned<i64>,
    choices: Spanned<Vec<i64>>,
}

/// Turns the raw front matter into a plan and collects every problem on the way.
struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    /// The offset in `text` at which the front matter starts: spans count from there.
    start: usize,
    problems: Vec<Problem>,
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

    fn plan(&mut self, raw: &RawFront) -> LaunchPlan {
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

/// Returns true if `name` can be a C identifier of at most 64 characters.
pub(crate) fn is_identifier(name: &str) -> bool {
    let mut characters = name.chars();
    characters
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && name.len() <= 64
}
