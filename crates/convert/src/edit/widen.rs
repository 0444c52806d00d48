//! Loops over single elements of arrays, changed to read and write 16 bytes at a time.

use std::collections::BTreeMap;
use std::ops::Range;

use tree_sitter::Node;

use super::loops::Loop;
use super::{Change, Subject};
use crate::init::source::{children, element_type, line_of};

/// Bytes of the widest access.
const ACCESS_BYTES: usize = 16;

/// An element that each round of a loop uses, such as `x[row * C + i]`.
struct Access<'s> {
    /// Its type.
    element: &'s str,
    /// The index up to the loop's variable, and from there on.
    index: (&'s str, &'s str),
    /// The array.
    array: &'s str,
    uses: Vec<Range<usize>>,
    is_read: bool,
    is_written: bool,
}

/// Gives each loop whose rounds use neighbouring elements wider accesses, where its end is a multiple of their width.
/// Otherwise the loop stays as it is, because rows of other lengths are not aligned.
pub(super) fn widen(subject: &Subject<'_>) -> Vec<Change> {
    let loops = subject.of_kind("for_statement").into_iter();
    let loops = loops.filter_map(|node| Loop::read(subject, node));
    loops
        .filter_map(|own| {
            let accesses = accesses(subject, &own)?;
            let bytes = accesses.iter().map(|access| bytes_of(access.element));
            let width = ACCESS_BYTES / bytes.max()??;
            let line = line_of(own.node);
            (width > 1).then(|| {
                let name = format!("let the loop in line {line} access {width} elements at a time");
                Change::new(name, replacement(subject, &own, &accesses, width))
            })
        })
        .collect()
}

/// Bytes of an element's type.
pub(super) fn bytes_of(element: &str) -> Option<usize> {
    let (dtype, count) = element_type(element)?;
    Some(usize::try_from(dtype.bytes()).ok()? * usize::try_from(count).ok()?)
}

/// The elements of arrays in device memory that each round uses; none if there are none, or if an address of one is
/// taken.
fn accesses<'s>(subject: &'s Subject<'_>, own: &Loop<'s>) -> Option<Vec<Access<'s>>> {
    let pointers = pointers(subject, own.node)?;
    let mut found: BTreeMap<&str, Access<'s>> = BTreeMap::new();
    for node in subject.tree.all(own.body) {
        if node.kind() != "subscript_expression" {
            continue;
        }
        let Some(array) = node.child_by_field_name("argument") else {
            continue;
        };
        let array = subject.tree.of(array);
        let element = pointers.get(array).copied();
        let index = node.child_by_field_name("indices").and_then(|list| {
            let variable = summand(subject, only(list)?, own.variable.1)?;
            let text = subject.tree.text;
            let before = &text[list.start_byte() + 1..variable.start_byte()];
            let after = &text[variable.end_byte()..list.end_byte() - 1];
            Some((before, after))
        });
        let Some((element, index)) = element.zip(index) else {
            continue;
        };
        let around = node.parent()?;
        let is_target = around.child_by_field_name("left") == Some(node);
        let (is_read, is_written) = match around.kind() {
            "pointer_expression" | "update_expression" => return None,
            "assignment_expression" if is_target => {
                let operator = around.child_by_field_name("operator")?;
                (subject.tree.of(operator) != "=", true)
            }
            _ => (true, false),
        };
        let access = found.entry(subject.tree.of(node)).or_insert(Access {
            element,
            index,
            array,
            uses: Vec::new(),
            is_read: false,
            is_written: false,
        });
        access.uses.push(node.byte_range());
        access.is_read |= is_read;
        access.is_written |= is_written;
    }
    let found: Vec<Access<'s>> = found.into_values().collect();
    (!found.is_empty()).then_some(found)
}

/// The only child that the grammar names.
fn only(node: Node<'_>) -> Option<Node<'_>> {
    match children(node, true)[..] {
        [one] => Some(one),
        _ => None,
    }
}

/// The one place where an index names the loop's variable, which it adds to something else.
fn summand<'s>(subject: &Subject<'_>, index: Node<'s>, variable: &str) -> Option<Node<'s>> {
    let is_variable =
        |node: &Node<'s>| node.kind() == "identifier" && subject.tree.of(*node) == variable;
    if is_variable(&index) {
        return Some(index);
    }
    let operator = index.child_by_field_name("operator")?;
    if index.kind() != "binary_expression" || subject.tree.of(operator) != "+" {
        return None;
    }
    let (left, right) = (
        index.child_by_field_name("left")?,
        index.child_by_field_name("right")?,
    );
    let mentions = |node| mentions(subject.tree.of(node), variable);
    match (mentions(left), mentions(right)) {
        (1, 0) => summand(subject, left, variable),
        (0, 1) => summand(subject, right, variable),
        _ => None,
    }
}

/// How often a text names a variable.
pub(super) fn mentions(text: &str, variable: &str) -> usize {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| *word == variable).count()
}

/// The pointers of the function around a node, with the types of their elements.
pub(super) fn pointers<'s>(
    subject: &'s Subject<'_>,
    node: Node<'s>,
) -> Option<BTreeMap<&'s str, &'s str>> {
    let mut function = node;
    while function.kind() != "function_definition" {
        function = function.parent()?;
    }
    let declarations = subject.tree.all(function).into_iter();
    let pointers = declarations
        .filter(|node| matches!(node.kind(), "parameter_declaration" | "declaration"))
        .filter_map(|node| {
            let element = subject.tree.of(node.child_by_field_name("type")?);
            let mut declarator = node.child_by_field_name("declarator")?;
            if declarator.kind() == "init_declarator" {
                declarator = declarator.child_by_field_name("declarator")?;
            }
            let is_pointer = declarator.kind() == "pointer_declarator";
            let mut names = subject.tree.all(declarator).into_iter();
            let name = names.rfind(|node| node.kind() == "identifier")?;
            is_pointer.then_some((subject.tree.of(name), element))
        });
    Some(pointers.collect())
}

fn replacement(
    subject: &Subject<'_>,
    own: &Loop<'_>,
    accesses: &[Access<'_>],
    width: usize,
) -> Vec<(Range<usize>, String)> {
    let text = subject.tree.text;
    let (kind, variable) = own.variable;
    let (start, end, step) = (own.start, own.end, own.step);
    let mut lines = vec![format!("if (({end}) % {width} == 0) {{")];
    let mut reads = Vec::new();
    let mut writes = Vec::new();
    let mut uses = Vec::new();
    for (number, access) in accesses.iter().enumerate() {
        let (array, element) = (access.array, access.element);
        let bytes = bytes_of(element).unwrap_or(1) * width;
        lines.push(format!(
            "    using Piece_{number} = struct __align__({bytes}) {{ {element} of[{width}]; }};"
        ));
        let qualifier = if access.is_written { "" } else { "const " };
        let (before, after) = access.index;
        let place = format!(
            "*reinterpret_cast<{qualifier}Piece_{number}*>(&{array}[{before}first_{variable}{after}])"
        );
        let value = if access.is_read {
            format!(" = {place}")
        } else {
            String::new()
        };
        reads.push(format!("        Piece_{number} piece_{number}{value};"));
        if access.is_written {
            writes.push(format!("        {place} = piece_{number};"));
        }
        uses.extend(access.uses.iter().map(|range| (range, number)));
    }
    let mut body = text[own.body.byte_range()].to_owned();
    // From the end, so that the places of those before stay.
    uses.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    let from = own.body.start_byte();
    for (range, number) in uses {
        let range = range.start - from..range.end - from;
        body.replace_range(range, &format!("piece_{number}.of[of_piece]"));
    }
    lines.push(format!(
        "    for ({kind} first_{variable} = ({start}) * {width}; first_{variable} < {end}; \
         first_{variable} += ({step}) * {width}) {{"
    ));
    lines.extend(reads);
    lines.push("#pragma unroll".to_owned());
    lines.push(format!(
        "        for (int of_piece = 0; of_piece < {width}; ++of_piece) {{"
    ));
    if mentions(&body, variable) > 0 {
        lines.push(format!(
            "            const {kind} {variable} = first_{variable} + of_piece;"
        ));
    }
    lines.push(format!("            {body}"));
    lines.push("        }".to_owned());
    lines.extend(writes);
    lines.push("    }".to_owned());
    let line = subject.line_start(own.node);
    let line = line.unwrap_or(own.node.start_byte());
    let blanks = &text[line..own.node.start_byte()];
    let original = &text[own.node.byte_range()];
    let wide = lines.join(&format!("\n{blanks}")) + &format!("\n{blanks}}} else {original}");
    let mut replacements = vec![(own.node.byte_range(), wide)];
    if let Some(directive) = subject.directive(own.node) {
        // It would now stand before a condition.
        replacements.push((directive.start..line, String::new()));
    }
    replacements
}
