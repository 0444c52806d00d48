//! Constants of the code, such as widths, tiles and stages, made tunable.

use std::ops::Range;

use super::{Change, Subject};

/// The values of constants that are worth searching.
const RANGE: std::ops::RangeInclusive<i64> = 1..=1024;

/// An integer constant outside functions.
pub(super) struct Constant<'s> {
    pub name: &'s str,
    pub value: i64,
    /// Its definition with the line's end.
    pub definition: Range<usize>,
    /// Its value.
    pub number: Range<usize>,
}

/// The constants that are one number: `constexpr int NAME = 4;`, `#define NAME 4`.
pub(super) fn constants<'s>(subject: &Subject<'s>) -> Vec<Constant<'s>> {
    let text = subject.tree.text;
    let mut found = Vec::new();
    for node in crate::init::source::children(subject.tree.root(), true) {
        let parts = match node.kind() {
            "preproc_def" => node
                .child_by_field_name("name")
                .zip(node.child_by_field_name("value")),
            "declaration" if subject.tree.of(node).starts_with("const") => node
                .child_by_field_name("declarator")
                .filter(|declarator| declarator.kind() == "init_declarator")
                .and_then(|declarator| {
                    let name = declarator.child_by_field_name("declarator")?;
                    Some((name, declarator.child_by_field_name("value")?))
                }),
            _ => None,
        };
        let Some((name, number)) = parts else {
            continue;
        };
        let number = number.byte_range();
        let raw = &text[number.clone()];
        let Ok(value) = raw.trim().parse::<i64>() else {
            continue;
        };
        let start = number.start + raw.len() - raw.trim_start().len();
        let end = text[node.end_byte()..].starts_with('\n');
        found.push(Constant {
            name: subject.tree.of(name).trim(),
            value,
            definition: node.start_byte()..node.end_byte() + usize::from(end),
            number: start..start + raw.trim().len(),
        });
    }
    found
}

/// Makes each constant a tunable that may also be half and twice its value.
pub(super) fn expose(subject: &Subject<'_>) -> Vec<Change> {
    let text = subject.tree.text;
    let front = subject.source.front_matter();
    let Some(start) = text.find(front).filter(|_| !front.is_empty()) else {
        return Vec::new();
    };
    let end = start + front.len();
    let mut changes = Vec::new();
    for constant in constants(subject) {
        let Constant { name, value, .. } = constant;
        if !RANGE.contains(&value) || subject.source.plan().tunables.contains_key(name) {
            continue;
        }
        let mut choices = vec![value / 2, value, value * 2];
        choices.retain(|choice| *choice > 0);
        let line = if front.ends_with('\n') { "" } else { "\n" };
        let declared = format!("{line}[tunables.{name}]\nvalue = {value}\nchoices = {choices:?}\n");
        let replacements = vec![(end..end, declared), (constant.definition, String::new())];
        changes.push(Change::new(format!("make {name} tunable"), replacements));
    }
    changes
}
