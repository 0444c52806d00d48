//! Unrolling of loops.

use super::{Change, Subject};
use crate::init::source::line_of;

/// The directives that a loop may have, with the words for them.
const DIRECTIVES: [(&str, &str); 3] = [
    ("#pragma unroll", "unroll the loop in line {} in full"),
    ("#pragma unroll 4", "unroll the loop in line {} by 4"),
    ("#pragma unroll 1", "keep the loop in line {} rolled"),
];

/// Gives each loop each other directive.
pub(super) fn unroll(subject: &Subject<'_>) -> Vec<Change> {
    let text = subject.tree.text;
    let mut changes = Vec::new();
    for node in subject.of_kind("for_statement") {
        let Some(start) = subject.line_start(node) else {
            continue;
        };
        let own = subject.directive(node);
        // A directive is replaced, and its line end stays.
        let range = own.clone().unwrap_or(start..start);
        let own = own.map(|range| text[range].trim());
        for (directive, name) in DIRECTIVES {
            if own == Some(directive) {
                continue;
            }
            let end = if own.is_some() { "" } else { "\n" };
            let name = name.replace("{}", &line_of(node).to_string());
            changes.push(Change::new(
                name,
                vec![(range.clone(), format!("{directive}{end}"))],
            ));
        }
    }
    changes
}
