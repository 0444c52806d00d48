//! Quality-diversity archive: the fastest valid candidate of each cell, where a cell is a technique with the
//! kind of resource that bounds the time (MAP-Elites, arXiv 1504.04909). Parents are drawn from all cells
//! alike, so that a slower kernel of another technique stays a parent while a method with an elite would
//! have dropped it.

use std::collections::BTreeMap;

use rand::Rng;

use super::Entry;
use super::selection::draw_uniform;
use crate::candidate::Technique;
use crate::evaluation::BoundingResource;

/// The cell of a candidate in the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Cell {
    /// The technique; none before the candidate is written, and for candidates of earlier versions.
    pub technique: Option<Technique>,
    /// The resource that bounds the time; none where times are measured, because no model names it.
    pub bound: Option<BoundingResource>,
}

/// The archive of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Archive(BTreeMap<Cell, usize>);

impl Archive {
    /// Adds a valid candidate at its place of the run, if it is faster than the member of its cell.
    pub(super) fn add(&mut self, place: usize, entry: &Entry, entries: &[Entry]) {
        let member = self.0.entry(entry.cell).or_insert(place);
        if entries[*member].compare_speedups(entry).is_lt() {
            *member = place;
        }
    }

    /// Draws up to `count` members of different cells, every cell as likely as another: their places, the
    /// fastest first, equals in the order of their places.
    pub(super) fn draw(&self, count: usize, entries: &[Entry], rng: &mut impl Rng) -> Vec<usize> {
        let members: Vec<usize> = self.0.values().copied().collect();
        let drawn = draw_uniform(members.len(), count, rng);
        let mut places: Vec<usize> = drawn.into_iter().map(|index| members[index]).collect();
        places.sort_by(|one, other| {
            let faster_first = entries[*other].compare_speedups(&entries[*one]);
            faster_first.then(one.cmp(other))
        });
        places
    }
}
