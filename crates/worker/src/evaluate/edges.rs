//! Shapes that no task file lists: at the edges of warps and tiles, where loops have their tails,
//! and, before a promotion, on both sides of the candidate's own conditions, drawn ones, some
//! beyond what the task lists, and some up to the maxima of dims.
//!
//! A search meets a few of them, which its key chooses, so that the reference's answers are
//! computed once per run; a confirmation meets all. The values that a dim may have are the task's.

mod conditions;
mod drawn;
mod maxima;
mod outcomes;

use std::collections::{BTreeMap, BTreeSet};

use domain::candidate::KernelSource;
use domain::evaluation::EvaluationRequest;
use domain::problem::Problem;
use domain::role::Key;
use domain::seeds::SeedFamily;
use domain::task::{Case, CasePurpose, Task};

use self::conditions::Conditions;
use super::passes::{SMALL_ELEMENTS, elements};

/// Around one warp and four, one alone, and a prime that no tile divides.
const EDGES: [i64; 8] = [1, 31, 32, 33, 127, 128, 129, 1009];
/// Edges of one search.
const SEARCHED: usize = 3;
/// Tunables beyond this are no sizes of tiles.
const LARGEST_TILE: i64 = 256;
/// Numbers at most that are taken from comparisons of values other than the shape's.
const MAX_CONSTANTS: usize = 12;
/// Elements of all tensors together, at most.
const MOST_ELEMENTS: u64 = 1 << 15;
/// Largest number of elements of a shape beyond the listed ones, as a multiple of those of the largest
/// case that a search shows. It bounds the cost of a promotion.
const ROOM_BEYOND: u64 = 8;
/// The same where all dims have grown, since work often grows faster than elements do.
const ROOM_TOGETHER: u64 = 4;

/// The cases of one evaluation beyond those of its task. A promotion also meets shapes on both
/// sides of the conditions in the candidate's PTX, where that is given.
///
/// # Errors
/// A [`Problem`] of the task: an extent without a value.
pub fn cases(
    task: &Task,
    request: &EvaluationRequest,
    ptx: Option<&str>,
) -> Result<Vec<Case>, Problem> {
    let family = SeedFamily::of(request.stage).key(request.key);
    let key = family.derive(&["edges", &task.version.to_string()]);
    let mut edges = Edges {
        task,
        found: in_every_confirmation(task)?,
    };
    if !request.stage.decides_promotion() {
        return Ok(chosen(edges.found, key, SEARCHED));
    }
    for tile in tiles(request) {
        for value in [tile - 1, tile, tile + 1] {
            edges.everywhere(value, MOST_ELEMENTS)?;
        }
    }
    if let Some(conditions) = ptx.and_then(|ptx| conditions(request, ptx)) {
        edges.cover(&conditions)?;
        let largest = shown(task).flat_map(|case| case.dims.values()).max();
        let most = largest.map_or(1, |largest| largest + largest / 4);
        // The largest first: small numbers are tiles, which the edges and the tunables have already.
        let others = conditions.other_constants().iter().rev();
        let others = others.filter(|constant| (2..=most).contains(*constant));
        for constant in others.take(MAX_CONSTANTS) {
            for value in [constant - 1, *constant, constant + 1] {
                edges.everywhere(value, SMALL_ELEMENTS)?;
            }
        }
    }
    edges.beyond()?;
    edges.draw(key)?;
    edges.approach_maxima(key)?;
    Ok(edges.found)
}

/// The shapes around warps, each of which every confirmation meets.
///
/// # Errors
/// A [`Problem`] of the task: an extent without a value.
pub fn in_every_confirmation(task: &Task) -> Result<Vec<Case>, Problem> {
    let mut edges = Edges {
        task,
        found: Vec::new(),
    };
    for &value in &EDGES {
        edges.everywhere(value, MOST_ELEMENTS)?;
    }
    Ok(edges.found)
}

struct Edges<'a> {
    task: &'a Task,
    found: Vec<Case>,
}

impl Edges<'_> {
    /// Puts a value into each free dim of a case that has at most `most` elements with it.
    fn everywhere(&mut self, value: i64, most: u64) -> Result<(), Problem> {
        let task = self.task;
        for (dim, range) in &task.free_dims {
            if !range.contains(value) {
                continue;
            }
            let mut bases = Vec::new();
            // Held-out cases are no bases, because a search must not show their shapes. Nor are large
            // cases: with one extent of 1 they leave a large grid with nothing to do.
            for case in shown(task) {
                let elements = elements(task, case)?;
                if elements <= SMALL_ELEMENTS {
                    bases.push((elements, case));
                }
            }
            bases.sort_by_key(|(elements, _)| std::cmp::Reverse(*elements));
            for (_, base) in bases {
                let mut dims = base.dims.clone();
                dims.insert(dim.clone(), value);
                if self.add(dims, most, &[])? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Grows each free dim to more than twice what a search shows of it, and all of them together to
    /// more than half as much again: a buffer, a table or a grid of a fixed size that is enough for
    /// the listed shapes need not be for others. Each is met once, held out.
    fn beyond(&mut self) -> Result<(), Problem> {
        let task = self.task;
        let mut sized = Vec::new();
        for case in shown(task) {
            sized.push((elements(task, case)?, case));
        }
        let Some((most, largest)) = sized.iter().max_by_key(|(elements, _)| *elements) else {
            return Ok(());
        };
        let grown = |dim: &str, from: i64, by: i64| {
            let range = &task.free_dims[dim];
            let wanted = from.saturating_add(by).saturating_add(1);
            let steps = wanted.saturating_add(range.multiple - 1) / range.multiple;
            steps
                .saturating_mul(range.multiple)
                .min(range.most - range.most % range.multiple)
        };
        for dim in task.free_dims.keys() {
            let shown = sized.iter().map(|(_, case)| case.dims[dim]).max();
            let shown = shown.expect("there is a case");
            let value = grown(dim, shown, shown);
            if value <= shown {
                continue;
            }
            let others = |case: &Case| {
                let mut others = task.free_dims.keys().filter(|other| *other != dim);
                task.free_dims.len() == 1 || others.any(|other| case.dims[other] > 1)
            };
            let mut bases = Vec::new();
            for (_, case) in sized.iter().filter(|(_, case)| others(case)) {
                let mut dims = case.dims.clone();
                dims.insert(dim.clone(), value);
                bases.push((self.size(&dims)?, dims));
            }
            if let Some((_, dims)) = bases.into_iter().min_by_key(|(elements, _)| *elements) {
                self.add(
                    dims,
                    most.saturating_mul(ROOM_BEYOND),
                    &[CasePurpose::Holdout],
                )?;
            }
        }
        let mut dims = largest.dims.clone();
        for dim in task.free_dims.keys() {
            dims.insert(dim.clone(), grown(dim, dims[dim], dims[dim] / 2));
        }
        let most = most.saturating_mul(ROOM_TOGETHER);
        self.add(dims, most, &[CasePurpose::Holdout])?;
        Ok(())
    }

    /// Elements of all tensors together in a shape.
    fn size(&self, dims: &BTreeMap<String, i64>) -> Result<u64, Problem> {
        let case = Case {
            name: String::new(),
            dims: dims.clone(),
            uses: Vec::new(),
        };
        elements(self.task, &case)
    }

    /// Adds a shape if it has no more elements than `most` and is new. Returns true if the shape is
    /// known now.
    fn add(
        &mut self,
        dims: BTreeMap<String, i64>,
        most: u64,
        uses: &[CasePurpose],
    ) -> Result<bool, Problem> {
        let known = self.task.cases.iter().chain(&self.found);
        if known.into_iter().any(|case| case.dims == dims) {
            return Ok(true);
        }
        let free = dims
            .iter()
            .filter(|(dim, _)| self.task.free_dims.contains_key(*dim));
        let words = free.map(|(dim, value)| format!("{dim}={value}"));
        let case = Case {
            name: words.collect::<Vec<_>>().join(" "),
            dims,
            uses: uses.to_vec(),
        };
        let allowed = self
            .task
            .free_dims
            .iter()
            .all(|(dim, range)| range.contains(case.dims[dim]));
        if !allowed || elements(self.task, &case)? > most {
            return Ok(false);
        }
        self.found.push(case);
        Ok(true)
    }
}

/// The cases that a search meets.
fn shown(task: &Task) -> impl Iterator<Item = &Case> {
    let shown = |case: &&Case| case.is_for(CasePurpose::Check) || case.is_for(CasePurpose::Score);
    task.cases.iter().filter(shown)
}

/// As many of the cases as asked for, which ones the key decides.
fn chosen(mut cases: Vec<Case>, key: Key, count: usize) -> Vec<Case> {
    cases.sort_by_key(|case| word(key, &[&case.name]));
    cases.truncate(count);
    cases
}

/// The conditions of the candidate's PTX; none if the candidate does not parse.
fn conditions(request: &EvaluationRequest, ptx: &str) -> Option<Conditions> {
    let source = KernelSource::parse(&request.file, request.source.as_str()).ok()?;
    let configuration = source.configure(&request.configuration).ok()?;
    Some(Conditions::of(&source, &configuration, ptx))
}

/// The values of the candidate's tunables, which are the sizes of its tiles among others.
fn tiles(request: &EvaluationRequest) -> BTreeSet<i64> {
    let Ok(source) = KernelSource::parse(&request.file, request.source.as_str()) else {
        return BTreeSet::new();
    };
    let configured = source.configure(&request.configuration).unwrap_or_default();
    configured
        .into_values()
        .filter(|value| (2..=LARGEST_TILE).contains(value))
        .collect()
}

fn word(key: Key, parts: &[&str]) -> u64 {
    super::passes::first_word(&key.derive(parts).0)
}
