//! Loops that count upwards, and their unrolling.

use tree_sitter::Node;

use super::{Change, Subject};
use crate::init::source::line_of;

/// A loop `for (int i = start; i < end; i += step)`.
pub(super) struct Loop<'s> {
    pub(super) node: Node<'s>,
    pub(super) body: Node<'s>,
    /// Type and name of its variable.
    pub(super) variable: (&'s str, &'s str),
    pub(super) start: &'s str,
    pub(super) end: &'s str,
    pub(super) step: &'s str,
}

impl<'s> Loop<'s> {
    /// Reads a loop that nothing inside leaves early; none of another form.
    pub(super) fn read(subject: &'s Subject<'_>, node: Node<'s>) -> Option<Self> {
        let of = |node| subject.tree.of(node);
        let field = |node: Node<'s>, name| node.child_by_field_name(name);
        let initializer = field(node, "initializer").filter(|one| one.kind() == "declaration")?;
        let declarator = field(initializer, "declarator")?;
        let variable = of(field(declarator, "declarator")?);
        let condition = field(node, "condition")?;
        let update = field(node, "update")?;
        let is_below = of(field(condition, "left")?) == variable
            && field(condition, "operator").map(of) == Some("<");
        let step = match update.kind() {
            "update_expression" if of(update).contains("++") => "1",
            "assignment_expression" if field(update, "operator").map(of) == Some("+=") => {
                of(field(update, "right")?)
            }
            _ => return None,
        };
        let changed = field(update, "argument").or(field(update, "left"))?;
        let body = field(node, "body")?;
        let leaves = ["break_statement", "return_statement", "goto_statement"];
        let inside = subject.tree.all(body).into_iter();
        let stays = inside
            .map(|node| node.kind())
            .all(|kind| !leaves.contains(&kind));
        let start = of(field(declarator, "value")?);
        // One thread that walks along all elements begins with the first.
        let begins = step != "1" || start == "0";
        (is_below && stays && begins && of(changed) == variable).then_some(Self {
            node,
            body,
            variable: (of(field(initializer, "type")?), variable),
            start,
            end: of(field(condition, "right")?),
            step,
        })
    }
}

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
