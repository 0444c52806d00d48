//! The tables of a front matter that make its plan: launches, workspaces, tunables.

use std::borrow::Cow;
use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{IDEA, L2_WINDOW, LAUNCH, TUNABLE, WORKSPACE, find, is_without_effect, plain};
use super::values::number;
use super::{Front, FrontMatterReader};
use crate::candidate::is_identifier;
use crate::dtype::Dtype;
use crate::expr::Expr;
use crate::plan::{KernelStep, L2Window, LaunchPlan, MAX_STEPS, Step, Tunable, Workspace};

const MAX_WORKSPACES: usize = 16;
const MAX_TUNABLES: usize = 32;
const MAX_CHOICES: usize = 64;

type Value<'i> = Spanned<DeValue<'i>>;

impl FrontMatterReader<'_> {
    pub(super) fn tables(&mut self, root: &DeTable<'_>) -> Front {
        let mut plan = LaunchPlan::default();
        let (mut idea, mut step, mut expect) = (None, None, None);
        let mut launched = false;
        let mut loose: Vec<(&Spanned<Cow<'_, str>>, &Value<'_>)> = Vec::new();
        for (key, value) in root {
            match plain(key.get_ref()).as_str() {
                "launch" | "launches" | "kernels" => {
                    launched = true;
                    plan.steps = self.launches(value);
                }
                "kernel" if !value.get_ref().is_str() => {
                    launched = true;
                    plan.steps = self.launches(value);
                }
                "workspace" | "workspaces" | "scratch" => plan.workspaces = self.workspaces(value),
                "tunables" | "tunable" => plan.tunables = self.tunables(value),
                "idea" => idea = self.idea(value),
                "step" => step = self.playbook_step(value),
                "expect" => expect = self.expectation(value),
                _ => loose.push((key, value)),
            }
        }
        let is_launch =
            |(key, _): &(&Spanned<Cow<'_, str>>, _)| find(LAUNCH, key.get_ref()).is_some();
        if !launched
            && loose
                .iter()
                .any(|(key, _)| plain(key.get_ref()) == "kernel")
        {
            let (keys, others): (Vec<_>, Vec<_>) = loose.into_iter().partition(is_launch);
            loose = others;
            launched = true;
            let start = keys.first().map_or(0, |(key, _)| key.span().start);
            self.note(start, "kernel = ...", "[[launch]] kernel = ...");
            let keys = keys
                .into_iter()
                .map(|(key, value)| (key.clone(), value.clone()));
            let table: DeTable<'_> = keys.collect();
            plan.steps.extend(self.launch(start, &table));
        }
        for (key, value) in loose {
            let name = key.get_ref();
            match find(IDEA, name) {
                Some(field) if !matches!(value.get_ref(), DeValue::Table(_) | DeValue::Array(_)) => {
                    let mut stated = idea.unwrap_or_default();
                    self.idea_field(&mut stated, field, value);
                    self.note(key.span().start, name, &format!("[idea] {field}"));
                    idea = Some(stated);
                }
                _ if is_without_effect(name) => self.note_ignored(key.span().start, name),
                _ => self.refuse(
                    key.span().start,
                    format!("no table of the front matter is called \"{name}\""),
                    "the tables are [[launch]], [workspace.NAME], [tunables.NAME] and [idea]; remove \
                     the others",
                ),
            }
        }
        if plan.steps.is_empty() && !launched {
            self.refuse_missing(
                0,
                "the plan launches nothing",
                "add a [[launch]] with kernel, grid, block and args, such as: [[launch]], kernel = \
                 \"f\", grid = [\"cdiv(N, 256)\"], block = [256], args = [\"x\", \"y\", \"N\"]",
            );
        }
        Front {
            plan,
            idea,
            step,
            expect,
            notes: Vec::new(),
        }
    }

    fn launches(&mut self, value: &Value<'_>) -> Vec<Step> {
        let start = value.span().start;
        match value.get_ref() {
            DeValue::Table(table) => {
                self.note(start, "[launch]", "[[launch]]");
                self.launch(start, table).into_iter().collect()
            }
            DeValue::Array(items) => {
                if items.is_empty() {
                    self.refuse(
                        start,
                        "the plan launches nothing",
                        "add a [[launch]] with kernel, grid, block and args",
                    );
                }
                if let Some(extra) = items.get(MAX_STEPS) {
                    self.refuse(
                        extra.span().start,
                        format!("a plan has at most {MAX_STEPS} launches"),
                        "fuse some",
                    );
                }
                let mut steps = Vec::new();
                for item in items {
                    match item.get_ref() {
                        DeValue::Table(table) => {
                            steps.extend(self.launch(item.span().start, table));
                        }
                        _ => self.refuse(
                            item.span().start,
                            "a launch is a table",
                            "write a line [[launch]] and, below it, kernel, grid, block and args",
                        ),
                    }
                }
                steps
            }
            _ => {
                self.refuse(
                    start,
                    "a launch is a table",
                    "write a line [[launch]] and, below it, kernel, grid, block and args",
                );
                Vec::new()
            }
        }
    }

    fn launch(&mut self, start: usize, table: &DeTable<'_>) -> Option<Step> {
        let fields = self.fields("a launch", LAUNCH, table);
        let get = |key: &str| fields.get(key).copied();
        match (get("kernel"), get("memset")) {
            (Some(kernel), None) => {
                if let Some(byte) = get("byte") {
                    let message = "byte belongs to a memset";
                    self.refuse(byte.span().start, message, "remove it");
                }
                let name = self.text("kernel", kernel).unwrap_or_default();
                self.identifier(kernel.span().start, &name);
                let mut extents = |key: &str, example: &str| match get(key) {
                    Some(value) => self.extents(key, value),
                    None => {
                        let fix = format!("add {example} below [[launch]]");
                        self.refuse_missing(start, format!("the launch has no {key}"), fix);
                        [1, 1, 1].map(Expr::constant)
                    }
                };
                let grid = extents("grid", "grid = [\"cdiv(N, 256)\"]");
                let block = extents("block", "block = [256]");
                let shared = get("shared").map_or(Expr::constant(0), |shared| self.expr(shared));
                let arguments = match get("args") {
                    Some(value) => self.arguments(value),
                    None => {
                        self.refuse_missing(
                            start,
                            "the launch has no args",
                            "list the kernel's arguments in order, such as args = [\"x\", \"y\", \"N\"]",
                        );
                        Vec::new()
                    }
                };
                let cooperative = get("cooperative");
                let l2_persist = get("l2_persist").and_then(|window| self.l2_window(window));
                Some(Step::Kernel(KernelStep {
                    kernel: name,
                    grid,
                    block,
                    shared,
                    cooperative: cooperative.is_some_and(|value| self.truth("cooperative", value)),
                    l2_persist,
                    arguments,
                }))
            }
            (None, Some(buffer)) => {
                if fields.keys().any(|key| !matches!(*key, "memset" | "byte")) {
                    let message = "a memset takes only memset and byte";
                    self.refuse(start, message, "remove the other keys");
                }
                let byte = get("byte").and_then(|byte| {
                    let value = self.integer("byte", byte)?;
                    let small = u8::try_from(value).ok();
                    if small.is_none() {
                        let message = format!("byte is {value}, not 0 to 255");
                        self.refuse(byte.span().start, message, "write byte = 0");
                    }
                    small
                });
                Some(Step::Memset {
                    buffer: self.text("memset", buffer)?,
                    byte: byte.unwrap_or(0),
                })
            }
            _ => {
                self.refuse_missing(
                    start,
                    "a launch that is neither a kernel nor a memset",
                    "name exactly one of kernel and memset, such as kernel = \"f\"",
                );
                None
            }
        }
    }

    /// The window of a launch: a table, or the name of the buffer alone.
    fn l2_window(&mut self, value: &Value<'_>) -> Option<L2Window> {
        let DeValue::Table(table) = value.get_ref() else {
            let buffer = self.buffer_of_window(value)?;
            let meant = format!("l2_persist = {{ buffer = \"{buffer}\" }}");
            self.note(value.span().start, "l2_persist", &meant);
            return Some(L2Window {
                buffer,
                bytes: None,
                hit_ratio: 1.0,
            });
        };
        let fields = self.fields("l2_persist", L2_WINDOW, table);
        let Some(buffer) = fields.get("buffer") else {
            let fix = "write l2_persist = { buffer = \"k\" }";
            self.refuse_missing(value.span().start, "l2_persist names no buffer", fix);
            return None;
        };
        let hit_ratio = fields.get("hit_ratio").map_or(Some(1.0), |ratio| {
            let found = number(ratio.get_ref()).filter(|ratio| *ratio > 0.0 && *ratio <= 1.0);
            if found.is_none() {
                let message = "hit_ratio is no number above 0 and up to 1";
                let fix = "write hit_ratio = 1.0, or the share of the bytes that fits the cache";
                self.refuse(ratio.span().start, message, fix);
            }
            found
        });
        Some(L2Window {
            buffer: self.buffer_of_window(buffer)?,
            bytes: fields.get("bytes").map(|bytes| self.expr(bytes)),
            hit_ratio: hit_ratio?,
        })
    }

    /// The buffer that a window names, alone or in a list of one.
    fn buffer_of_window(&mut self, value: &Value<'_>) -> Option<String> {
        match value.get_ref() {
            DeValue::Array(items) if items.len() == 1 => self.text("buffer", &items[0]),
            DeValue::Array(_) => {
                self.refuse(
                    value.span().start,
                    "a launch has one window of the L2 cache, and buffers lie apart from each other",
                    "name the buffer that is read again most often, such as buffer = \"k\"",
                );
                None
            }
            _ => self.text("buffer", value),
        }
    }

    fn workspaces(&mut self, value: &Value<'_>) -> BTreeMap<String, Workspace> {
        let mut found = BTreeMap::new();
        for (name, start, value) in self.named_tables("workspace", value) {
            if found.len() == MAX_WORKSPACES {
                let message = format!("a plan has at most {MAX_WORKSPACES} workspaces");
                self.refuse(start, message, "join some");
                break;
            }
            self.identifier(start, &name);
            let DeValue::Table(table) = value.get_ref() else {
                self.refuse(
                    value.span().start,
                    format!("the workspace {name} has no dtype and no shape"),
                    format!("write {name} = {{ dtype = \"f32\", shape = [\"N\"] }}"),
                );
                continue;
            };
            let fields = self.fields("a workspace", WORKSPACE, table);
            let dtype = match fields.get("dtype") {
                Some(dtype) => self.dtype(dtype),
                None => {
                    let message = format!("the workspace {name} has no dtype");
                    self.refuse_missing(start, message, "add dtype = \"f32\" below its header");
                    None
                }
            };
            let shape = match fields.get("shape") {
                Some(shape) => {
                    let found = self.expressions("shape", shape);
                    if found.is_empty() {
                        let start = shape.span().start;
                        let fix = "give at least one extent, such as shape = [\"N\"]";
                        self.refuse(start, "a workspace without axes", fix);
                    }
                    found
                }
                None => {
                    let message = format!("the workspace {name} has no shape");
                    self.refuse_missing(start, message, "add shape = [\"N\"] below its header");
                    Vec::new()
                }
            };
            let dtype = dtype.unwrap_or(Dtype::F32);
            found.insert(name, Workspace { dtype, shape });
        }
        found
    }

    fn tunables(&mut self, value: &Value<'_>) -> BTreeMap<String, Tunable> {
        let mut found = BTreeMap::new();
        for (name, start, value) in self.named_tables("tunables", value) {
            if found.len() == MAX_TUNABLES {
                let message = format!("a plan has at most {MAX_TUNABLES} tunables");
                self.refuse(start, message, "fix some");
                break;
            }
            self.identifier(start, &name);
            if let Some(tunable) = self.tunable(&name, start, &value) {
                found.insert(name, tunable);
            }
        }
        found
    }

    fn tunable(&mut self, name: &str, start: usize, value: &Value<'_>) -> Option<Tunable> {
        let written = |tunable: &Tunable| {
            format!(
                "{name} = {{ value = {}, choices = {:?} }}",
                tunable.value, tunable.choices
            )
        };
        let (stated, choices) = match value.get_ref() {
            DeValue::Table(table) => {
                let fields = self.fields("a tunable", TUNABLE, table);
                let stated = fields.get("value").copied();
                let choices = fields.get("choices").copied();
                if stated.is_none() && choices.is_none() {
                    let message = format!("the tunable {name} has no value");
                    let fix = "add value = 64 and choices = [32, 64, 128] below its header";
                    self.refuse_missing(start, message, fix);
                    return None;
                }
                (stated, choices)
            }
            DeValue::Array(_) => (None, Some(value)),
            _ => (Some(value), None),
        };
        let stated = match stated {
            Some(value) => Some((self.integer("value", value)?, value.span().start)),
            None => None,
        };
        let listed = match choices {
            Some(choices) => Some((self.choices(choices)?, choices.span().start)),
            None => None,
        };
        let tunable = match (stated, listed) {
            (Some((value, at)), Some((mut choices, _))) => {
                if choices.is_empty() {
                    choices.push(value);
                } else if !choices.contains(&value) {
                    let mut all = choices.clone();
                    all.push(value);
                    all.sort_unstable();
                    self.refuse(
                        at,
                        format!("the value {value} is not among the choices"),
                        format!("write choices = {all:?}, or choose another value"),
                    );
                }
                return Some(Tunable { value, choices });
            }
            (Some((value, _)), None) => Tunable {
                value,
                choices: vec![value],
            },
            (None, Some((choices, at))) => match choices.first() {
                Some(&value) => Tunable { value, choices },
                None => {
                    let fix = format!("write {name} = {{ value = 64, choices = [32, 64] }}");
                    self.refuse(at, format!("the tunable {name} has no value"), fix);
                    return None;
                }
            },
            (None, None) => return None,
        };
        self.note(start, name, &written(&tunable));
        Some(tunable)
    }

    fn choices(&mut self, value: &Value<'_>) -> Option<Vec<i64>> {
        let DeValue::Array(items) = value.get_ref() else {
            return self.integer("choices", value).map(|one| vec![one]);
        };
        if items.len() > MAX_CHOICES {
            self.refuse(
                value.span().start,
                format!(
                    "a tunable has 1 to {MAX_CHOICES} choices, not {}",
                    items.len()
                ),
                "list the values a sweep may try",
            );
        }
        let items = items.iter().map(|item| self.integer("a choice", item));
        items.collect::<Vec<_>>().into_iter().collect()
    }

    /// The tables below a table, by name; a list of tables has the names in a key of its own.
    fn named_tables<'i>(
        &mut self,
        kind: &str,
        value: &Value<'i>,
    ) -> Vec<(String, usize, Value<'i>)> {
        let items: Vec<&Value<'i>> = match value.get_ref() {
            DeValue::Table(table) => {
                let entries = table.iter();
                return entries
                    .map(|(name, value)| {
                        // `[[workspace.NAME]]` is a list of one.
                        let value = match value.get_ref() {
                            DeValue::Array(items) if kind == "workspace" && items.len() == 1 => {
                                &items[0]
                            }
                            _ => value,
                        };
                        (name.get_ref().to_string(), name.span().start, value.clone())
                    })
                    .collect();
            }
            DeValue::Array(items) => items.iter().collect(),
            _ => {
                let message = format!("{kind} is not a table");
                let fix = format!("write a line [{kind}.NAME]");
                self.refuse(value.span().start, message, fix);
                return Vec::new();
            }
        };
        let mut found = Vec::new();
        for item in items {
            let start = item.span().start;
            let mut table = match item.get_ref() {
                DeValue::Table(table) => table.clone(),
                _ => DeTable::new(),
            };
            let named = table.iter().find(|(key, _)| key.get_ref() == "name");
            let named = named.map(|(key, value)| (key.clone(), value.clone()));
            let name = named
                .as_ref()
                .and_then(|(_, value)| value.get_ref().as_str());
            let Some(name) = name.map(str::to_owned) else {
                let fix = format!("write a line [{kind}.NAME]");
                self.refuse(start, format!("a {kind} without a name"), fix);
                continue;
            };
            if let Some((key, _)) = &named {
                table.remove(key);
            }
            self.note(
                start,
                &format!("[[{kind}]] name = \"{name}\""),
                &format!("[{kind}.{name}]"),
            );
            found.push((
                name,
                start,
                Spanned::new(item.span(), DeValue::Table(table)),
            ));
        }
        found
    }

    fn truth(&mut self, key: &str, value: &Value<'_>) -> bool {
        match value.get_ref() {
            DeValue::Boolean(truth) => *truth,
            _ => self.integer(key, value).is_some_and(|number| number != 0),
        }
    }

    fn identifier(&mut self, start: usize, name: &str) {
        if !is_identifier(name) {
            let message = format!("{name:?} is not a C identifier");
            self.refuse(
                start,
                message,
                "use letters, digits and underscores, at most 64",
            );
        }
    }
}
