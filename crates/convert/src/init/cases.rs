//! Values of dims: their ranges, and the cases of a new task.

use std::collections::BTreeMap;

use domain::expr::Expr;
use domain::problem::{Problem, Problems};

use super::Work;
use super::answers::DimAnswer;
use super::arithmetic::Arith;
use super::shape::{Direction, PlanWithBuffers};
use super::source::Source;

/// Elements that the largest tensor of the scored case has about, where the file names no values.
const SCORED_ELEMENTS_LOG2: u32 = 18;
/// Most elements of one axis, because a reference may take time with their square.
const LONGEST_LOG2: u32 = 14;
/// Elements above which a value of the file is replaced.
const MOST_ELEMENTS: i64 = 1 << 22;
/// Largest extent of a grid in y and z.
const MOST_BLOCKS: i64 = 65_535;
/// Threads of a block at most.
const MOST_THREADS: i64 = 1024;
/// The largest value of a dim over its value in the scored case.
const HEADROOM: i64 = 16;
/// Extents of the case `odd`, the innermost dim first.
const ODD: [i64; 5] = [129, 33, 7, 5, 3];

/// The plan with ranges of dims and cases.
pub(super) struct Sized {
    pub found: PlanWithBuffers,
    pub dims: Vec<(String, Range)>,
    pub cases: Vec<Case>,
    /// Terms summed for an output's element, where they are known.
    pub terms: Option<String>,
}

/// The values of one dim.
#[derive(Clone, Copy)]
pub(super) struct Range {
    pub scored: i64,
    pub fixed: bool,
    pub min: i64,
    pub max: i64,
    pub multiple: i64,
}

pub(super) struct Case {
    pub name: &'static str,
    pub comment: &'static str,
    pub uses: &'static str,
    pub dims: Vec<(String, i64)>,
}

/// Chooses ranges and cases.
///
/// # Errors
/// An answer about a dim that does not exist, or one that contradicts itself.
pub(super) fn choose(
    work: &mut Work<'_>,
    source: &Source<'_>,
    found: PlanWithBuffers,
) -> Result<Sized, Problems> {
    let names = found
        .plan
        .dims
        .iter()
        .map(|dim| dim.name.clone())
        .collect::<Vec<_>>();
    for name in work.request.answers.dims.keys() {
        if !names.contains(name) {
            let message = format!("--dim names {name:?}, which is no dim of the kernel");
            let fix = format!("its dims are: {}", names.join(", "));
            return Err(work.problem(0, message, fix).into());
        }
    }
    for name in work.request.answers.tensors.keys() {
        if !found.buffers.iter().any(|buffer| buffer.name == *name) {
            let known = found.buffers.iter().map(|buffer| buffer.name.as_str());
            let fix = format!("its tensors are: {}", known.collect::<Vec<_>>().join(", "));
            let message = format!("--tensor names {name:?}, which is no tensor of the kernel");
            return Err(work.problem(0, message, fix).into());
        }
    }
    let usual = usual_value(&found);
    let by_file = values_of_file(&found, usual);
    let mut dims = Vec::new();
    for dim in &found.plan.dims {
        let multiple = multiple_of(source, &found, &dim.name);
        let most = limit_of(&found, &dim.name);
        let range = match work.request.answers.dims.get(&dim.name) {
            Some(answer) => answered(work, &dim.name, *answer, multiple, most)?,
            None => {
                let (value, reason) = match by_file.get(&dim.name) {
                    Some(value) => (*value, "as in the file"),
                    None => (usual, "no line names a value"),
                };
                let scored = value.min(most) / multiple * multiple;
                let scored = scored.max(multiple);
                let range = Range {
                    scored,
                    fixed: false,
                    min: multiple,
                    max: (scored * HEADROOM).min(most / multiple * multiple),
                    multiple,
                };
                work.guess(
                    dim.line,
                    format!(
                        "{} is {scored} where it is scored: {reason}; it may be {} to {} in steps of {multiple}",
                        dim.name, range.min, range.max
                    ),
                );
                range
            }
        };
        dims.push((dim.name.clone(), range));
    }
    let cases = make_cases(&found, &dims);
    Ok(Sized {
        found,
        dims,
        cases,
        terms: None,
    })
}

fn answered(
    work: &Work<'_>,
    name: &str,
    answer: DimAnswer,
    multiple: i64,
    most: i64,
) -> Result<Range, Problem> {
    let multiple = answer.multiple.unwrap_or(multiple);
    let range = Range {
        scored: answer.value,
        fixed: answer.fixed,
        min: answer.min.unwrap_or(multiple),
        max: answer.max.unwrap_or((answer.value * HEADROOM).min(most)),
        multiple,
    };
    let inside = (range.min..=range.max).contains(&range.scored) && range.scored % multiple == 0;
    if inside || range.fixed {
        return Ok(range);
    }
    let message = format!(
        "--dim {name}: {} is not among {} to {} in steps of {multiple}",
        range.scored, range.min, range.max
    );
    Err(work.problem(0, message, "choose a value inside, or other bounds"))
}

/// The value of a dim that no line names: its power for all dims of the largest tensor is about
/// two to the [`SCORED_ELEMENTS_LOG2`].
fn usual_value(found: &PlanWithBuffers) -> i64 {
    let counts = found.buffers.iter().map(|buffer| {
        let names = buffer
            .shape
            .iter()
            .filter_map(|extent| Expr::parse(extent).ok());
        names.map(|extent| extent.names().len()).sum::<usize>()
    });
    let most = u32::try_from(counts.max().unwrap_or(1).max(1)).unwrap_or(1);
    1 << (SCORED_ELEMENTS_LOG2 / most).clamp(2, LONGEST_LOG2)
}

/// Values that the file gives to dims, unless a tensor would be too large with them.
fn values_of_file(found: &PlanWithBuffers, usual: i64) -> BTreeMap<String, i64> {
    let given = found.plan.dims.iter().filter_map(|dim| {
        let value = dim.value.filter(|value| *value >= 1)?;
        Some((dim.name.clone(), value))
    });
    let given = given.collect::<BTreeMap<_, _>>();
    let mut scope = found
        .plan
        .dims
        .iter()
        .map(|dim| (dim.name.clone(), usual))
        .collect::<BTreeMap<_, _>>();
    scope.extend(given.clone());
    let too_large = found.buffers.iter().any(|buffer| {
        let extents = buffer
            .shape
            .iter()
            .filter_map(|extent| Expr::parse(extent).ok());
        let extents = extents.filter_map(|extent| extent.integer(&scope).ok());
        extents.fold(1_i64, i64::saturating_mul) > MOST_ELEMENTS
    });
    if too_large { BTreeMap::new() } else { given }
}

/// The multiple that vector accesses and checks of the file ask of a dim.
fn multiple_of(source: &Source<'_>, found: &PlanWithBuffers, name: &str) -> i64 {
    let innermost = found.buffers.iter().filter(|buffer| {
        buffer.direction != Direction::Workspace
            && buffer.shape.last().is_some_and(|extent| extent == name)
    });
    let vector = innermost.map(|buffer| buffer.vector).max().unwrap_or(1);
    let checked = source
        .all(source.root())
        .into_iter()
        .filter(|node| node.kind() == "binary_expression")
        .filter_map(|node| match Arith::read(node, source.text) {
            Arith::Binary('%', left, right) => match (*left, *right) {
                (Arith::Name(left), Arith::Number(right)) if left == name => {
                    let compared = node
                        .parent()
                        .filter(|parent| parent.kind() == "binary_expression");
                    let zero = compared.is_some_and(|parent| source.of(parent).ends_with("== 0"));
                    zero.then_some(right)
                }
                _ => None,
            },
            _ => None,
        })
        .max();
    vector.max(checked.unwrap_or(1)).max(1)
}

/// The largest value that the limits of grids and blocks leave to a dim.
fn limit_of(found: &PlanWithBuffers, name: &str) -> i64 {
    let mut most = i64::from(i32::MAX);
    for step in &found.plan.steps {
        let (in_block, in_grid) = (step.block.iter(), step.grid.iter().skip(1));
        let limited = in_block.map(|extent| (extent, MOST_THREADS));
        for (extent, limit) in limited.chain(in_grid.map(|extent| (extent, MOST_BLOCKS))) {
            let names = extent.names();
            if names.contains(name) && !extent.to_plan().contains(['/', '(']) {
                let share = match names.len() {
                    1 => limit,
                    2 if limit == MOST_BLOCKS => 255,
                    2 => 32,
                    _ => 8,
                };
                most = most.min(share);
            }
        }
    }
    most
}

fn make_cases(found: &PlanWithBuffers, dims: &[(String, Range)]) -> Vec<Case> {
    let inside = |range: &Range, value: i64| {
        let value = value.clamp(range.min, range.max) / range.multiple * range.multiple;
        value.max(round_up(range.min, range.multiple))
    };
    let ranks = ranks(found, dims);
    let case = |name, comment, uses, value: &dyn Fn(usize, &Range) -> i64| Case {
        name,
        comment,
        uses,
        dims: dims
            .iter()
            .enumerate()
            .filter(|(_, (_, range))| !range.fixed)
            .map(|(at, (name, range))| (name.clone(), inside(range, value(at, range))))
            .collect(),
    };
    let odd = |at: usize| ODD[ranks[at].min(ODD.len() - 1)];
    let all = [
        case(
            "scored",
            "the shape whose time counts",
            r#""check", "score""#,
            &|_, range| range.scored,
        ),
        case(
            "odd",
            "no extent is a multiple of a warp or a tile",
            r#""check""#,
            &|at, range| odd(at).min(range.scored),
        ),
        case(
            "least",
            "the smallest value of every dim",
            r#""check""#,
            &|_, range| range.min,
        ),
        case(
            "below-a-warp",
            "one less than a warp",
            r#""check""#,
            &|at, range| (odd(at).min(range.scored) / 2).min(31),
        ),
        case(
            "other",
            "a shape that only a confirmation sees",
            r#""holdout""#,
            &|at, range| (range.scored / 2 + 1).min(odd(at) + 64),
        ),
    ];
    let mut cases: Vec<Case> = Vec::new();
    for case in all {
        if !cases.iter().any(|known| known.dims == case.dims) {
            cases.push(case);
        }
    }
    cases
}

/// For each dim how far inside it stands: 0 for the innermost.
fn ranks(found: &PlanWithBuffers, dims: &[(String, Range)]) -> Vec<usize> {
    dims.iter()
        .map(|(name, _)| {
            let places = found.buffers.iter().filter_map(|buffer| {
                let mut extents = buffer.shape.iter().rev();
                extents.position(|extent| super::baseline::has_word(extent, name))
            });
            places.max().unwrap_or(0)
        })
        .collect()
}

/// The smallest multiple of `multiple` that is not below `value`.
fn round_up(value: i64, multiple: i64) -> i64 {
    (value + multiple - 1) / multiple * multiple
}
