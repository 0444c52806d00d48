//! The tables of a front matter that inform readers: `[idea]`, and `[step]` and `[expect]` of a task's
//! own files.

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as ValueError, StrDeserializer};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::FrontMatterReader;
use super::keys::{EXPECT, IDEA, STEP, find};
use super::values::number;
use crate::candidate::{Expectation, Idea, PlaybookStep};
use crate::decode_message::{self, Syntax};
use crate::verdict::VerdictKind;

type Value<'i> = Spanned<DeValue<'i>>;

impl FrontMatterReader<'_> {
    pub(super) fn idea(&mut self, value: &Value<'_>) -> Option<Idea> {
        let mut idea = Idea::default();
        match value.get_ref() {
            DeValue::Table(table) => {
                for (key, value) in table {
                    match find(IDEA, key.get_ref()) {
                        Some(field) => self.idea_field(&mut idea, field, value),
                        None => self.note_ignored(key.span().start, key.get_ref()),
                    }
                }
            }
            DeValue::String(text) => idea.hypothesis = text.to_string(),
            _ => {
                self.note_ignored(value.span().start, "idea");
                return None;
            }
        }
        if idea.title.is_empty() {
            idea.title.clone_from(&idea.hypothesis);
        }
        Some(idea)
    }

    /// Reads one key of `[idea]`. It only informs readers, so that an unreadable value is ignored.
    pub(super) fn idea_field(&mut self, idea: &mut Idea, field: &str, value: &Value<'_>) {
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            _ => self.written(value).to_owned(),
        };
        match field {
            "title" => idea.title = text,
            "hypothesis" => idea.hypothesis = text,
            _ => {
                idea.gain = gain(value.get_ref());
                let is_pair = matches!(value.get_ref(), DeValue::Array(items) if items.len() == 2);
                match idea.gain {
                    Some([low, high]) if !is_pair => {
                        let read_as = format!("gain = [{low:?}, {high:?}]");
                        self.note(value.span().start, &format!("gain = {text}"), &read_as);
                    }
                    Some(_) => {}
                    None => self.note_ignored(value.span().start, &format!("gain = {text}")),
                }
            }
        }
    }

    pub(super) fn playbook_step(&mut self, value: &Value<'_>) -> Option<PlaybookStep> {
        let table = self.table("step", value)?;
        let fields = self.fields("a playbook step", STEP, table);
        let phase = match fields.get("phase") {
            Some(phase) => self.text("phase", phase)?,
            None => {
                self.refuse(value.span().start, "the key \"phase\" is missing", "add it");
                return None;
            }
        };
        let sweep = match fields.get("sweep").map(|value| value.get_ref()) {
            None => Vec::new(),
            Some(DeValue::Array(items)) => {
                let names = items.iter().map(|item| self.text("sweep", item));
                names.collect::<Vec<_>>().into_iter().flatten().collect()
            }
            Some(_) => {
                let fix = "write sweep = [\"NAME\"]";
                self.refuse(value.span().start, "sweep is not a list of tunables", fix);
                Vec::new()
            }
        };
        Some(PlaybookStep { phase, sweep })
    }

    pub(super) fn expectation(&mut self, value: &Value<'_>) -> Option<Expectation> {
        let table = self.table("expect", value)?;
        let fields = self.fields("an expectation", EXPECT, table);
        let Some(verdict) = fields.get("verdict") else {
            self.refuse(
                value.span().start,
                "the key \"verdict\" is missing",
                "add it",
            );
            return None;
        };
        let name = self.text("verdict", verdict)?;
        let deserializer: StrDeserializer<'_, ValueError> = name.as_str().into_deserializer();
        let kind = match VerdictKind::deserialize(deserializer) {
            Ok(kind) => kind,
            Err(error) => {
                let message = decode_message::describe(&error.to_string(), Syntax::Toml);
                self.refuse(verdict.span().start, message, "name a verdict");
                return None;
            }
        };
        let code = fields.get("code").and_then(|code| {
            let number = self.integer("code", code)?;
            u32::try_from(number).ok()
        });
        Some(Expectation {
            verdict: kind,
            code,
        })
    }

    fn table<'v, 'i>(&mut self, name: &str, value: &'v Value<'i>) -> Option<&'v DeTable<'i>> {
        match value.get_ref() {
            DeValue::Table(table) => Some(table),
            _ => {
                let message = format!("{name} is not a table");
                self.refuse(
                    value.span().start,
                    message,
                    format!("write a line [{name}]"),
                );
                None
            }
        }
    }
}

/// An expected speedup: one number or two, also within a text such as "1.2x to 1.8x".
fn gain(value: &DeValue<'_>) -> Option<[f64; 2]> {
    let numbers: Vec<f64> = match value {
        DeValue::Array(items) => {
            let items = items.iter().map(|item| number(item.get_ref()));
            items.collect::<Option<_>>()?
        }
        DeValue::String(text) if !text.contains('%') => text
            .split(|c: char| !c.is_ascii_digit() && c != '.')
            .filter_map(|part| part.trim_matches('.').parse().ok())
            .collect(),
        other => vec![number(other)?],
    };
    match numbers.as_slice() {
        [one] => Some([*one, *one]),
        [low, high] => Some([*low, *high]),
        _ => None,
    }
}
