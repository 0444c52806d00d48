//! Restrictions of a search space, as Python that is read and as C that the compiler checks.

use std::collections::BTreeMap;

use tree_sitter::Node;

use crate::python::interpret::{Source, named};

/// A condition on the values of tunables.
pub(super) struct Restriction {
    text: String,
    code: String,
}

impl Restriction {
    /// Reads a condition of integers; `None` for one that has no form in C.
    pub fn read(text: &str, tunables: &[(String, Vec<i64>)]) -> Option<Self> {
        let source = Source::parse("restriction", text).ok()?;
        let known = |name: &str| {
            let own = tunables.iter().find(|(own, _)| own == name);
            own.map(|(_, choices)| choices[0])
        };
        let node = condition(&source)?;
        evaluate(&source, node, &known)?;
        Some(Self {
            text: text.to_owned(),
            code: code(&source, node)?,
        })
    }

    /// Returns true if a configuration meets it.
    pub fn is_met(&self, values: &BTreeMap<String, i64>) -> bool {
        let Ok(source) = Source::parse("restriction", &self.text) else {
            return false;
        };
        let known = |name: &str| values.get(name).copied();
        let value = condition(&source).and_then(|node| evaluate(&source, node, &known));
        value.is_some_and(|value| value != 0)
    }

    /// Lines that stop the compiler where it is not met.
    pub fn lines(&self) -> String {
        let text = self.text.split_whitespace().collect::<Vec<_>>().join(" ");
        format!(
            "#if !({})\n#error \"restriction: {}\"\n#endif\n",
            self.code,
            text.replace(['"', '\\'], "'")
        )
    }
}

fn condition<'s>(source: &'s Source<'_>) -> Option<Node<'s>> {
    source.root().named_child(0)?.named_child(0)
}

/// The operands of a node and its operator.
fn parts<'s>(source: &Source<'s>, node: Node<'s>) -> Option<(Node<'s>, &'s str, Node<'s>)> {
    let operator = node
        .child_by_field_name("operator")
        .or(node.child_by_field_name("operators"))?;
    let children = named(node, true);
    match children.as_slice() {
        [left, right] => Some((*left, source.of(operator), *right)),
        _ => None,
    }
}

fn evaluate(
    source: &Source<'_>,
    node: Node<'_>,
    known: &dyn Fn(&str) -> Option<i64>,
) -> Option<i64> {
    let value = |node| evaluate(source, node, known);
    match node.kind() {
        "integer" => source.of(node).parse().ok(),
        "true" => Some(1),
        "false" => Some(0),
        "identifier" => known(source.of(node)),
        "parenthesized_expression" => value(node.named_child(0)?),
        "not_operator" => Some(i64::from(
            value(node.child_by_field_name("argument")?)? == 0,
        )),
        "binary_operator" | "comparison_operator" | "boolean_operator" => {
            let (left, operator, right) = parts(source, node)?;
            let (left, right) = (value(left)?, value(right)?);
            match operator {
                "+" => left.checked_add(right),
                "-" => left.checked_sub(right),
                "*" => left.checked_mul(right),
                "//" => left.checked_div(right),
                "%" => left.checked_rem(right),
                "<" => Some(i64::from(left < right)),
                "<=" => Some(i64::from(left <= right)),
                ">" => Some(i64::from(left > right)),
                ">=" => Some(i64::from(left >= right)),
                "==" => Some(i64::from(left == right)),
                "!=" => Some(i64::from(left != right)),
                "and" => Some(i64::from(left != 0 && right != 0)),
                "or" => Some(i64::from(left != 0 || right != 0)),
                _ => None,
            }
        }
        _ => None,
    }
}

fn code(source: &Source<'_>, node: Node<'_>) -> Option<String> {
    let inner = |node| code(source, node);
    match node.kind() {
        "integer" | "identifier" => Some(source.of(node).to_owned()),
        "true" => Some("1".to_owned()),
        "false" => Some("0".to_owned()),
        "parenthesized_expression" => inner(node.named_child(0)?),
        "not_operator" => Some(format!(
            "!{}",
            inner(node.child_by_field_name("argument")?)?
        )),
        _ => {
            let (left, operator, right) = parts(source, node)?;
            let operator = match operator {
                "and" => "&&",
                "or" => "||",
                "//" => "/",
                other => other,
            };
            Some(format!("({} {operator} {})", inner(left)?, inner(right)?))
        }
    }
}
