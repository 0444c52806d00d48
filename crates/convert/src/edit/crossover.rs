//! Parts taken over from another source of the same task: device functions with the same head, and values
//! of constants with the same name.

use super::constants::constants;
use super::{Change, Donor, Subject};
use crate::init::source::Source;

/// Takes each part over that differs.
pub(super) fn take_over(subject: &Subject<'_>, donor: &Donor<'_>) -> Vec<Change> {
    let Ok(tree) = Source::parse(donor.name, donor.source.text()) else {
        return Vec::new();
    };
    let other = Subject {
        source: donor.source,
        tree: &tree,
    };
    let mut changes = functions(subject, &other, donor.name);
    for constant in constants(subject) {
        let found = constants(&other);
        let found = found.iter().find(|found| found.name == constant.name);
        if let Some(found) = found.filter(|found| found.value != constant.value) {
            let name = format!(
                "set {} to {} as in {}",
                constant.name, found.value, donor.name
            );
            let by = found.value.to_string();
            changes.push(Change::new(name, vec![(constant.number, by)]));
        }
    }
    changes
}

fn functions(subject: &Subject<'_>, other: &Subject<'_>, donor: &str) -> Vec<Change> {
    let theirs = bodies(other);
    let mut changes = Vec::new();
    for (head, name, body) in bodies(subject) {
        let mut same = theirs.iter().filter(|(their_head, ..)| *their_head == head);
        if let Some((_, _, taken)) = same.next() {
            let by = other.tree.text[taken.clone()].to_owned();
            let name = format!("take {name} over from {donor}");
            changes.push(Change::new(name, vec![(body, by)]));
        }
    }
    changes
}

/// The device functions of a source: the words of the head, the name, and the place of the body.
fn bodies(subject: &Subject<'_>) -> Vec<(String, String, std::ops::Range<usize>)> {
    let functions = subject.of_kind("function_definition").into_iter();
    let found = functions.filter_map(|node| {
        let body = node.child_by_field_name("body")?;
        let head = &subject.tree.text[node.start_byte()..body.start_byte()];
        let words = head.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_device = head.contains("__device__") && !head.contains("__global__");
        is_device.then(|| (words, subject.tree.function_name(node), body.byte_range()))
    });
    found.collect()
}
