//! Shapes on which each condition of a candidate that depends on the shape alone has both of its outcomes. Code that is
//! wrong at one value of a dim stands behind such a condition.

use std::collections::{BTreeMap, BTreeSet};

use domain::problem::Problem;
use domain::task::Range;

use super::conditions::Conditions;
use super::{Edges, shown};
use crate::evaluate::passes::{SMALL_ELEMENTS, elements};

/// Values of each dim up to which all are tried. Of larger ones, powers of two and the candidate's constants are,
/// with their neighbours.
const ALL_VALUES: i64 = 1 << 13;
/// Conditions that are looked at.
const MAX_CONDITIONS: usize = 64;
/// Outcomes of the conditions that are looked at in pairs, and the number of their pairs.
const OUTCOMES: usize = 64;
const PAIRS: usize = OUTCOMES * OUTCOMES;
/// An outcome that changes at most so often along a dim has borders, which are met on both sides. Others are periodic.
const MAX_BORDERS: usize = 4;
/// Shapes along one dim at most, and those in which several dims take such values together.
const MAX_SINGLE: usize = 40;
const MAX_TOGETHER: usize = 16;
/// Shapes among which those with several such values are chosen.
const MAX_POOL: usize = 512;

type Dims = BTreeMap<String, i64>;

/// The outcomes of all conditions on one shape.
type Outcomes = Vec<Option<bool>>;

/// Two conditions with an outcome each, as one number.
type Pair = usize;

/// Values along one dim, with the shape and the outcomes of each.
type Sweep = Vec<(Dims, Outcomes)>;

impl Edges<'_> {
    /// Adds shapes on which conditions have outcomes that no shape has so far, shapes on both sides of each border, and
    /// shapes that show the outcomes of two conditions together.
    ///
    /// # Errors
    /// A [`Problem`] of the task: an extent without a value.
    pub(super) fn cover(&mut self, conditions: &Conditions) -> Result<(), Problem> {
        let cases = self.task.cases.iter().chain(&self.found);
        let mut known = cases
            .map(|case| limited(conditions.outcomes(&case.dims)))
            .collect::<Vec<_>>();
        if known.iter().all(Vec::is_empty) {
            return Ok(());
        }
        let seen = known.iter().flat_map(outcomes_of).collect::<BTreeSet<_>>();
        let mut interesting: BTreeMap<String, BTreeSet<i64>> = BTreeMap::new();
        let (mut missing, mut borders) = (Vec::new(), Vec::new());
        for (dim, range) in &self.task.free_dims {
            let sweep = self.sweep(dim, *range, conditions)?;
            let (unseen, both_sides) = select(&sweep, &seen);
            for index in unseen.iter().chain(&both_sides) {
                let values = interesting.entry(dim.clone()).or_default();
                values.insert(sweep[*index].0[dim]);
            }
            missing.extend(unseen.into_iter().map(|index| sweep[index].clone()));
            borders.extend(both_sides.into_iter().map(|index| sweep[index].clone()));
        }
        let most = self.found.len() + MAX_SINGLE;
        for (dims, outcomes) in missing.into_iter().chain(borders) {
            if self.found.len() < most && self.add(dims, SMALL_ELEMENTS, &[])? {
                known.push(outcomes);
            }
        }
        self.cover_pairs(conditions, &interesting, &known)
    }

    /// The outcomes at each value of a dim. The others are those of the largest small case with which a shape stays
    /// small.
    fn sweep(&self, dim: &str, range: Range, conditions: &Conditions) -> Result<Sweep, Problem> {
        let mut bases = Vec::new();
        for case in shown(self.task) {
            let elements = elements(self.task, case)?;
            if elements <= SMALL_ELEMENTS {
                bases.push((elements, case.dims.clone()));
            }
        }
        bases.sort_by_key(|(elements, _)| std::cmp::Reverse(*elements));
        let smallest = self.task.free_dims.iter();
        let smallest = smallest.map(|(name, range)| (name.clone(), range.least));
        let smallest = self.task.fixed_dims.clone().into_iter().chain(smallest);
        let mut bases = bases.into_iter().map(|(_, dims)| dims).collect::<Vec<_>>();
        bases.push(smallest.collect());
        let mut bases = bases.into_iter();
        let Some(mut base) = bases.next() else {
            return Ok(Vec::new());
        };
        let mut sweep = Vec::new();
        'values: for value in values(range, &conditions.constants()) {
            base.insert(dim.to_owned(), value);
            while self.size(&base)? > SMALL_ELEMENTS {
                let Some(next) = bases.next() else {
                    break 'values;
                };
                base = next;
                base.insert(dim.to_owned(), value);
            }
            sweep.push((base.clone(), limited(conditions.outcomes(&base))));
        }
        Ok(sweep)
    }

    /// Adds shapes in which several dims have values at which outcomes change, as long as each shows a pair of
    /// outcomes that no shape has so far.
    fn cover_pairs(
        &mut self,
        conditions: &Conditions,
        interesting: &BTreeMap<String, BTreeSet<i64>>,
        known: &[Outcomes],
    ) -> Result<(), Problem> {
        let mut seen = vec![false; PAIRS];
        for pair in known.iter().flat_map(pairs_of) {
            seen[pair] = true;
        }
        let mut pool = Vec::new();
        for case in shown(self.task) {
            let mut shapes = vec![case.dims.clone()];
            for (dim, values) in interesting {
                let longer = shapes.iter().flat_map(|dims| {
                    values.iter().map(|value| {
                        let mut dims = dims.clone();
                        dims.insert(dim.clone(), *value);
                        dims
                    })
                });
                shapes = longer.take(MAX_POOL).collect();
            }
            for dims in shapes {
                if pool.len() < MAX_POOL && self.size(&dims)? <= SMALL_ELEMENTS {
                    let pairs = pairs_of(&limited(conditions.outcomes(&dims)));
                    pool.push((dims, pairs));
                }
            }
        }
        for _ in 0..MAX_TOGETHER {
            for (_, pairs) in &mut pool {
                pairs.retain(|&pair| !seen[pair]);
            }
            let best = pool.iter().max_by_key(|(_, pairs)| pairs.len());
            let Some((dims, pairs)) = best.filter(|(_, pairs)| !pairs.is_empty()) else {
                break;
            };
            pairs.iter().for_each(|&pair| seen[pair] = true);
            let dims = dims.clone();
            self.add(dims, SMALL_ELEMENTS, &[])?;
        }
        Ok(())
    }
}

/// The indices of a sweep at which outcomes that are not `seen` begin and end, and those on both sides of borders.
fn select(sweep: &Sweep, seen: &BTreeSet<(usize, bool)>) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let (mut unseen, mut both_sides) = (BTreeSet::new(), BTreeSet::new());
    let count = sweep.first().map_or(0, |(_, outcomes)| outcomes.len());
    for condition in 0..count {
        let changes = (1..sweep.len())
            .filter(|&index| {
                let [before, after] = [index - 1, index].map(|index| sweep[index].1[condition]);
                before.is_some() && after.is_some() && before != after
            })
            .collect::<Vec<_>>();
        if changes.len() <= MAX_BORDERS {
            both_sides.extend(changes.iter().flat_map(|&index| [index - 1, index]));
        }
        for outcome in [false, true] {
            if seen.contains(&(condition, outcome)) {
                continue;
            }
            let has = |&index: &usize| sweep[index].1[condition] == Some(outcome);
            unseen.extend((0..sweep.len()).find(has));
            unseen.extend((0..sweep.len()).rfind(has));
        }
    }
    (unseen, both_sides)
}

/// The values of a dim that are tried, in ascending order.
fn values(range: Range, constants: &BTreeSet<i64>) -> BTreeSet<i64> {
    let powers = (0..40).map(|exponent| 1_i64 << exponent);
    let beyond = powers
        .chain(constants.iter().copied())
        .flat_map(|value| [value.saturating_sub(1), value, value.saturating_add(1)]);
    (1..=ALL_VALUES)
        .chain(beyond)
        .filter(|value| range.contains(*value))
        .collect()
}

fn limited(mut outcomes: Outcomes) -> Outcomes {
    outcomes.truncate(MAX_CONDITIONS);
    outcomes
}

/// The outcomes that a shape shows.
fn outcomes_of(outcomes: &Outcomes) -> impl Iterator<Item = (usize, bool)> {
    let indexed = outcomes.iter().enumerate();
    indexed.filter_map(|(index, outcome)| outcome.map(|outcome| (index, outcome)))
}

/// The pairs of outcomes that a shape shows, of the first conditions.
fn pairs_of(outcomes: &Outcomes) -> Vec<Pair> {
    let number = |(condition, outcome): (usize, bool)| 2 * condition + usize::from(outcome);
    let shown = outcomes_of(outcomes).map(number);
    let shown = shown.filter(|&one| one < OUTCOMES).collect::<Vec<_>>();
    let both = |(index, &one): (usize, &usize)| {
        let others = shown[index + 1..].iter();
        others.map(move |other| one * OUTCOMES + other)
    };
    shown.iter().enumerate().flat_map(both).collect()
}
