//! Shared arrays of two dimensions: padding of their rows, and swizzled columns.

use tree_sitter::Node;

use super::{Change, Subject};
use crate::init::source::children;

/// Elements by which rows become longer: one against conflicts of columns, four and eight where rows
/// keep the alignment of 16 bytes.
const PADS: [u32; 3] = [1, 4, 8];
/// Columns that a swizzle permutes, as many as shared memory has banks.
const BANKS: u64 = 32;

/// A declared shared array with at least two extents.
struct Array<'s> {
    name: &'s str,
    declaration: Node<'s>,
    /// Its last extent.
    row: Node<'s>,
}

fn arrays<'s>(subject: &Subject<'s>) -> Vec<Array<'s>> {
    let mut found = Vec::new();
    for declaration in subject.of_kind("declaration") {
        let text = subject.tree.of(declaration);
        if !text.starts_with("__shared__") {
            continue;
        }
        for node in children(declaration, true) {
            let inner = node.child_by_field_name("declarator");
            let Some((row, inner)) = node.child_by_field_name("size").zip(inner) else {
                continue;
            };
            if node.kind() != "array_declarator" || inner.kind() != "array_declarator" {
                continue;
            }
            let name = subject.tree.of(inner).split('[').next().unwrap_or_default();
            found.push(Array {
                name: name.trim(),
                declaration,
                row,
            });
        }
    }
    found
}

/// Makes the rows of each shared array longer.
pub(super) fn pad(subject: &Subject<'_>) -> Vec<Change> {
    let mut changes = Vec::new();
    for array in arrays(subject) {
        let row = subject.tree.of(array.row);
        if row.contains('+') {
            continue;
        }
        for pad in PADS {
            let name = format!("pad the rows of the shared array {} by {pad}", array.name);
            let range = array.row.byte_range();
            changes.push(Change::new(name, vec![(range, format!("{row} + {pad}"))]));
        }
    }
    changes
}

/// Permutes the columns of each shared array by its row. Only arrays whose every use names a row and a
/// column can be permuted.
pub(super) fn swizzle(subject: &Subject<'_>) -> Vec<Change> {
    let mut changes = Vec::new();
    for array in arrays(subject) {
        let row: Option<u64> = subject.tree.of(array.row).parse().ok();
        if row.is_none_or(|row| row == 0 || !row.is_multiple_of(BANKS)) {
            continue;
        }
        let uses = subject.of_kind("identifier").into_iter().filter(|node| {
            let inside = array.declaration.byte_range().contains(&node.start_byte());
            subject.tree.of(*node) == array.name && !inside
        });
        let replaced: Option<Vec<_>> = uses
            .map(|node| {
                let (row, column) = subscripts(node)?;
                let (row, text) = (subject.tree.of(row), subject.tree.of(column));
                let swizzled = format!("({text}) ^ (({row}) % {BANKS})");
                Some((column.byte_range(), swizzled))
            })
            .collect();
        if let Some(replaced) = replaced.filter(|replaced| !replaced.is_empty()) {
            let name = format!("swizzle the columns of the shared array {}", array.name);
            changes.push(Change::new(name, replaced));
        }
    }
    changes
}

/// Row and column of a use of an array as `array[row][column]`; none for any other use.
fn subscripts(array: Node<'_>) -> Option<(Node<'_>, Node<'_>)> {
    let inner = array
        .parent()
        .filter(|node| is_subscript_of(*node, array))?;
    let outer = inner
        .parent()
        .filter(|node| is_subscript_of(*node, inner))?;
    let around = outer.parent()?.kind();
    if matches!(around, "pointer_expression" | "subscript_expression") {
        return None;
    }
    Some((index(inner)?, index(outer)?))
}

fn is_subscript_of(node: Node<'_>, array: Node<'_>) -> bool {
    node.kind() == "subscript_expression" && node.child_by_field_name("argument") == Some(array)
}

fn index(subscript: Node<'_>) -> Option<Node<'_>> {
    let list = subscript.child_by_field_name("indices")?;
    match children(list, true)[..] {
        [one] => Some(one),
        _ => None,
    }
}
