//! Structural edits of a kernel's source: each changes one thing on the syntax tree, such as the unrolling
//! of a loop or the padding of a shared array.
//!
//! An edit need not be right. Whoever applies it has the result evaluated like any other candidate, so
//! that the rules here only leave out what rarely compiles.

mod constants;
mod crossover;
mod loops;
mod shared;
mod signatures;
mod stages;
mod widen;

use std::collections::BTreeSet;
use std::ops::Range;

use domain::candidate::{Edit, KernelSource};
use tree_sitter::Node;

use crate::init::source::Source;

/// A source that parts are taken over from.
#[derive(Debug, Clone, Copy)]
pub struct Donor<'a> {
    /// Its name in the names of edits.
    pub name: &'a str,
    /// The source.
    pub source: &'a KernelSource,
}

/// The edits of a source, always in the same order. `donors` are other sources of the same task; those that
/// equal the source are without effect. None if the code has no syntax tree without defects.
pub fn edits(file: &str, source: &KernelSource, donors: &[Donor<'_>]) -> Vec<Edit> {
    let Ok(tree) = Source::parse(file, source.text()) else {
        return Vec::new();
    };
    let subject = Subject {
        source,
        tree: &tree,
    };
    let mut changes = loops::unroll(&subject);
    changes.extend(widen::widen(&subject));
    changes.extend(stages::copy_ahead(&subject));
    changes.extend(signatures::bound_launches(&subject));
    changes.extend(signatures::restrict_pointers(&subject));
    changes.extend(shared::pad(&subject));
    changes.extend(shared::swizzle(&subject));
    changes.extend(constants::expose(&subject));
    for donor in donors {
        changes.extend(crossover::take_over(&subject, donor));
    }
    let mut known = BTreeSet::from([source.text().to_owned()]);
    let mut names = BTreeSet::new();
    let edited = changes.into_iter().filter_map(|change| {
        let text = change.applied_to(source.text())?;
        let is_new = known.insert(text.clone()) && names.insert(change.name.clone());
        let source = KernelSource::parse(file, text).ok().filter(|_| is_new)?;
        Some(Edit {
            name: change.name,
            source,
        })
    });
    edited.collect()
}

/// The source that is edited, with its syntax tree.
struct Subject<'a> {
    source: &'a KernelSource,
    tree: &'a Source<'a>,
}

impl<'a> Subject<'a> {
    /// Every node of the kind, in the order of the text.
    fn of_kind(&self, kind: &str) -> Vec<Node<'a>> {
        let all = self.tree.all(self.tree.root()).into_iter();
        all.filter(|node| node.kind() == kind).collect()
    }

    /// The line of an unrolling directive before a loop, without its end.
    fn directive(&self, node: Node<'_>) -> Option<Range<usize>> {
        let before = self.tree.text[..self.line_start(node)?].trim_end_matches('\n');
        let line = before.rfind('\n').map_or(0, |at| at + 1);
        let is_directive = before[line..].trim().starts_with("#pragma unroll");
        is_directive.then_some(line..before.len())
    }

    /// The start of a node's line, if only blanks stand before the node.
    fn line_start(&self, node: Node<'_>) -> Option<usize> {
        let before = &self.tree.text[..node.start_byte()];
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        before[start..].trim().is_empty().then_some(start)
    }
}

/// Replacements in a source's text.
struct Change {
    name: String,
    replacements: Vec<(Range<usize>, String)>,
}

impl Change {
    fn new(name: String, replacements: Vec<(Range<usize>, String)>) -> Self {
        Self { name, replacements }
    }

    /// The changed text; none if two replacements overlap.
    fn applied_to(&self, text: &str) -> Option<String> {
        let mut replacements: Vec<_> = self.replacements.iter().collect();
        replacements.sort_by_key(|(range, _)| range.start);
        let mut changed = String::with_capacity(text.len() + 64);
        let mut from = 0;
        for (range, by) in replacements {
            changed.push_str(text.get(from..range.start)?);
            changed.push_str(by);
            from = range.end;
        }
        changed.push_str(text.get(from..)?);
        Some(changed)
    }
}
