//! Loops that copy a tile into shared memory and then compute with it, changed to copy the next tile meanwhile.

use std::collections::BTreeSet;
use std::ops::Range;

use tree_sitter::Node;

use super::loops::Loop;
use super::widen::{bytes_of, mentions, pointers};
use super::{Change, Subject};
use crate::init::source::{children, line_of};

const BARRIER: &str = "__syncthreads();";
/// Names that the changed text declares.
const NAMES: [&str; 3] = ["copy_tile", "stage_of_tile", "current_stage"];
/// Sizes of elements that `cp.async` copies, bytes.
const ASYNC_BYTES: [usize; 3] = [4, 8, 16];

/// A loop whose rounds each copy a tile, meet, and compute with it.
struct TiledLoop<'s> {
    own: Loop<'s>,
    copies: Vec<Node<'s>>,
    computes: Vec<Node<'s>>,
    tiles: Vec<Tile<'s>>,
}

/// A shared array that a round fills.
struct Tile<'s> {
    name: &'s str,
    element: &'s str,
    /// The end of its name where it is declared.
    declared: usize,
    /// The ends of its uses.
    uses: Vec<usize>,
}

/// A statement that copies an element into a tile, or zero where a condition does not hold.
struct Copy<'s> {
    statement: Node<'s>,
    to: Node<'s>,
    from: Node<'s>,
    condition: Option<Node<'s>>,
    bytes: usize,
}

/// Gives each such loop two tiles in place of one: while the threads compute with one they copy into the other, and
/// one barrier a round is enough. Where every element is copied as it is, a second change has them copied
/// asynchronously.
pub(super) fn copy_ahead(subject: &Subject<'_>) -> Vec<Change> {
    if NAMES
        .iter()
        .any(|name| mentions(subject.tree.text, name) > 0)
    {
        return Vec::new();
    }
    let loops = subject.of_kind("for_statement").into_iter();
    let loops = loops.filter_map(|node| TiledLoop::read(subject, Loop::read(subject, node)?));
    let mut changes = Vec::new();
    for tiled in loops {
        let line = line_of(tiled.own.node);
        let name = format!("copy the tiles of the loop in line {line} one round ahead");
        changes.push(Change::new(name, tiled.replacements(subject, &[])));
        if let Some(copies) = tiled.plain_copies(subject) {
            let name = format!(
                "copy the tiles of the loop in line {line} one round ahead, asynchronously"
            );
            changes.push(Change::new(name, tiled.replacements(subject, &copies)));
        }
    }
    changes
}

impl<'s> TiledLoop<'s> {
    /// None unless everything that a round writes before its barrier are shared arrays that nothing else writes and
    /// that are used nowhere else.
    fn read(subject: &'s Subject<'_>, own: Loop<'s>) -> Option<Self> {
        let statements = children(own.body, true);
        let is_barrier = |node: &Node<'s>| subject.tree.of(*node) == BARRIER;
        let parts: Vec<&[Node<'s>]> = statements.split(is_barrier).collect();
        let (copies, computes) = match parts[..] {
            [[], copies, computes] | [copies, computes, []] => (copies, computes),
            _ => return None,
        };
        let (copies, computes) = (copies.to_vec(), computes.to_vec());
        let inside = |nodes: &[Node<'s>]| -> Vec<Node<'s>> {
            let all = nodes.iter().flat_map(|node| subject.tree.all(*node));
            all.collect()
        };
        let (copying, computing) = (inside(&copies), inside(&computes));
        let mentions_barrier = |node: &Node<'_>| subject.tree.of(*node).contains("__sync");
        if copies.iter().chain(&computes).any(mentions_barrier) {
            return None;
        }
        let own_names: BTreeSet<&str> = copying
            .iter()
            .filter(|node| node.kind() == "init_declarator" || node.kind() == "declaration")
            .filter_map(|node| base(subject, node.child_by_field_name("declarator")?))
            .collect();
        let written = |nodes: &[Node<'s>]| -> Option<BTreeSet<&'s str>> {
            let changes = nodes.iter().filter_map(|node| match node.kind() {
                "assignment_expression" => node.child_by_field_name("left"),
                "update_expression" => node.child_by_field_name("argument"),
                _ => None,
            });
            changes.map(|target| base(subject, target)).collect()
        };
        let mut filled = written(&copying)?;
        filled.retain(|name| !own_names.contains(name));
        let disturbed = written(&computing)?;
        let is_used_later = |name: &&str| {
            let later = computing.iter().filter(|node| node.kind() == "identifier");
            later.clone().any(|node| subject.tree.of(*node) == *name)
        };
        if filled.is_empty()
            || !filled.is_disjoint(&disturbed)
            || own_names.iter().any(is_used_later)
        {
            return None;
        }
        let range = own.body.byte_range();
        let tiles: Option<Vec<Tile<'s>>> = filled
            .iter()
            .map(|name| Tile::read(subject, name, &range))
            .collect();
        Some(Self {
            own,
            copies,
            computes,
            tiles: tiles?,
        })
    }

    /// The copies, if nothing else fills the tiles and hardware can make each of them; none otherwise.
    fn plain_copies(&self, subject: &'s Subject<'_>) -> Option<Vec<Copy<'s>>> {
        let pointers = pointers(subject, self.own.node)?;
        let all = self.copies.iter().flat_map(|node| subject.tree.all(*node));
        let filling = all.filter_map(|node| {
            let to = node.child_by_field_name("left")?;
            let name = base(subject, to)?;
            let tile = self.tiles.iter().find(|tile| tile.name == name)?;
            (node.kind() == "assignment_expression").then_some((node, to, tile))
        });
        filling
            .map(|(node, to, tile)| {
                let bytes = bytes_of(tile.element).filter(|bytes| ASYNC_BYTES.contains(bytes))?;
                let operator = node.child_by_field_name("operator")?;
                let right = node.child_by_field_name("right")?;
                let (condition, from) = match right.kind() {
                    "conditional_expression" => {
                        let otherwise = right.child_by_field_name("alternative")?;
                        let is_zero =
                            matches!(subject.tree.of(otherwise), "0" | "0.0f" | "0.f" | "0.0");
                        let condition =
                            right.child_by_field_name("condition").filter(|_| is_zero)?;
                        (Some(condition), right.child_by_field_name("consequence")?)
                    }
                    _ => (None, right),
                };
                let is_element = from.kind() == "subscript_expression"
                    && pointers.get(base(subject, from)?) == Some(&tile.element);
                let statement = node.parent()?;
                let is_copy = is_element
                    && subject.tree.of(operator) == "="
                    && statement.kind() == "expression_statement";
                is_copy.then_some(Copy {
                    statement,
                    to,
                    from,
                    condition,
                    bytes,
                })
            })
            .collect()
    }

    /// The changed text, with asynchronous copies in place of `replaced`.
    fn replacements(
        &self,
        subject: &Subject<'_>,
        replaced: &[Copy<'_>],
    ) -> Vec<(Range<usize>, String)> {
        let text = subject.tree.text;
        let node = self.own.node;
        let line = subject.line_start(node).unwrap_or(node.start_byte());
        let begin = subject.directive(node).map_or(line, |range| range.start);
        let blanks = &text[line..node.start_byte()];
        let ((kind, variable), start) = (self.own.variable, self.own.start);
        let (end, step) = (self.own.end, self.own.step);
        let ahead = self.staged(subject, &self.copies, "stage_of_tile", replaced);
        let wait = if replaced.is_empty() {
            String::new()
        } else {
            format!("{blanks}    asm volatile(\"cp.async.wait_all;\" ::: \"memory\");\n")
        };
        let before = format!(
            "{blanks}const auto copy_tile = [&]({kind} {variable}, int stage_of_tile) {{\n\
             {blanks}    {ahead}\n\
             {blanks}}};\n\
             {blanks}int current_stage = 0;\n\
             {blanks}if (({start}) < ({end})) copy_tile({start}, 0);\n"
        );
        let computes = self.staged(subject, &self.computes, "current_stage", &[]);
        let body = format!(
            "{{\n{wait}\
             {blanks}    {BARRIER}\n\
             {blanks}    if ({variable} + ({step}) < ({end})) copy_tile({variable} + ({step}), current_stage ^ 1);\n\
             {blanks}    {computes}\n\
             {blanks}    current_stage ^= 1;\n\
             {blanks}}}"
        );
        let declarations = self.tiles.iter().map(|tile| {
            let at = tile.declared;
            (at..at, "[2]".to_owned())
        });
        declarations
            .chain([(begin..begin, before), (self.own.body.byte_range(), body)])
            .collect()
    }

    /// The text of these statements, where each use of a tile names the stage, and asynchronous copies replace others.
    fn staged(
        &self,
        subject: &Subject<'_>,
        statements: &[Node<'_>],
        stage: &str,
        replaced: &[Copy<'_>],
    ) -> String {
        let (Some(first), Some(last)) = (statements.first(), statements.last()) else {
            return String::new();
        };
        let range = first.start_byte()..last.end_byte();
        let indexed = |range: Range<usize>| {
            let uses = self.tiles.iter().flat_map(|tile| &tile.uses);
            let uses = uses.filter(|end| range.contains(end));
            let replacements = uses.map(|end| (*end..*end, format!("[{stage}]"))).collect();
            shifted(subject.tree.text, range, replacements)
        };
        let copies = replaced.iter().map(|copy| {
            let of = |node: Node<'_>| indexed(node.byte_range());
            let (to, from, bytes) = (of(copy.to), of(copy.from), copy.bytes);
            let (size, operand) = match copy.condition {
                Some(condition) => (", %2", format!(", \"r\"(({}) ? {bytes} : 0)", of(condition))),
                None => ("", String::new()),
            };
            let text = format!(
                "asm volatile(\"cp.async.ca.shared.global [%0], [%1], {bytes}{size};\" :: \
                 \"r\"(static_cast<unsigned>(__cvta_generic_to_shared(&{to}))), \"l\"(&{from}){operand} : \"memory\");"
            );
            (copy.statement.byte_range(), text)
        });
        let copies: Vec<_> = copies.collect();
        let is_replaced = |end: &usize| copies.iter().any(|(range, _)| range.contains(end));
        let uses = self.tiles.iter().flat_map(|tile| &tile.uses);
        let uses = uses.filter(|end| range.contains(end) && !is_replaced(end));
        let uses = uses.map(|end| (*end..*end, format!("[{stage}]")));
        let all = uses.chain(copies.clone()).collect();
        shifted(subject.tree.text, range, all)
    }
}

impl<'s> Tile<'s> {
    /// None unless it is declared alone and outside of the loop, and used in the loop only.
    fn read(subject: &'s Subject<'_>, name: &'s str, inside: &Range<usize>) -> Option<Self> {
        let declarations = subject.of_kind("declaration").into_iter();
        let mut own = declarations.filter_map(|node| {
            let declarator = node.child_by_field_name("declarator")?;
            let is_shared = subject.tree.of(node).starts_with("__shared__")
                && declarator.kind() == "array_declarator"
                && base(subject, declarator) == Some(name);
            is_shared.then_some((node, declarator))
        });
        let (declaration, declarator) = own.next().filter(|_| own.next().is_none())?;
        let is_name =
            |node: &Node<'s>| node.kind() == "identifier" && subject.tree.of(*node) == name;
        let declared = subject.tree.all(declarator).into_iter().find(is_name)?;
        let uses = subject.of_kind("identifier").into_iter().filter(is_name);
        let uses: Vec<Node<'s>> = uses
            .filter(|node| !declaration.byte_range().contains(&node.start_byte()))
            .collect();
        let is_inside = |node: &Node<'s>| inside.contains(&node.start_byte());
        uses.iter().all(is_inside).then(|| Self {
            name,
            element: declaration
                .child_by_field_name("type")
                .map_or("", |node| subject.tree.of(node)),
            declared: declared.end_byte(),
            uses: uses.iter().map(Node::end_byte).collect(),
        })
    }
}

/// The variable that an expression or a declarator is about, such as `x` in `x[i][j]`.
fn base<'s>(subject: &'s Subject<'_>, node: Node<'s>) -> Option<&'s str> {
    match node.kind() {
        "identifier" => Some(subject.tree.of(node)),
        "subscript_expression" => base(subject, node.child_by_field_name("argument")?),
        "array_declarator" | "init_declarator" => {
            base(subject, node.child_by_field_name("declarator")?)
        }
        _ => None,
    }
}

/// A part of a text with replacements that name places of the whole text.
fn shifted(
    text: &str,
    range: Range<usize>,
    mut replacements: Vec<(Range<usize>, String)>,
) -> String {
    replacements.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    let mut part = text[range.clone()].to_owned();
    for (own, by) in replacements {
        part.replace_range(own.start - range.start..own.end - range.start, &by);
    }
    part
}
