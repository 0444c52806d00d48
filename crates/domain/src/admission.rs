//! Admission of tasks: the rules that a task must meet before it may be searched, because a task
//! that rewards the wrong kernel is worse than none.
//!
//! These functions are pure: the worker measures the reference's outputs and the errors of kernels and
//! passes them in. The thresholds of outputs are those with which METR filtered KernelBench. The
//! separation leaves room for one limit between the errors of two precisions.

mod advice;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::digest::Digest;
use crate::task::{TensorPart, ToleranceClass};
use crate::timing::CacheState;
use crate::verdict::VerdictKind;

pub use advice::advise;

/// Draws of all inputs over which outputs must vary.
pub const SEEDS: usize = 10;
/// The least magnitude of an output, and its least variation. An output below either one cannot tell
/// a right kernel from a wrong one.
pub const LEAST: f64 = 0.01;
/// The least ratio of the best forbidden precision's error to the worst honest kernel's.
pub const SEPARATION: f64 = 4.0;
/// The share of a candidate's tolerance by which two references may differ.
pub const AGREEMENT: f64 = 1e-3;

/// The result of a task's admission: every rule with the number that decides it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Admission {
    /// The task.
    pub task: String,
    /// Its version.
    pub version: Digest,
    /// The cases whose outputs were examined.
    pub cases: Vec<String>,
    /// Every rule with its number.
    #[serde(rename = "points")]
    pub results: Vec<RuleResult>,
    /// The least that each score case must move.
    pub floors: Vec<CaseFloor>,
    /// Advice on facts that the task does not state. It refuses nothing.
    #[serde(default)]
    pub advice: Vec<String>,
}

impl Admission {
    /// Returns true if every rule holds.
    pub fn admitted(&self) -> bool {
        !self.results.is_empty() && self.results.iter().all(|point| point.holds)
    }

    /// The rules that do not hold, each with its subject and its fix.
    pub fn broken_rules(&self) -> String {
        let broken = self.results.iter().filter(|point| !point.holds);
        broken
            .map(|point| format!("{}: {}", point.subject, point.explanation))
            .collect::<Vec<_>>()
            .join("; ")
    }
}

/// The result of one rule on one subject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = AdmissionRuleResult)]
pub struct RuleResult {
    /// The rule.
    pub rule: AdmissionRule,
    /// An output, an input, a file or a kernel made for the purpose.
    pub subject: String,
    /// The number that was found, where the rule is about one.
    pub found: Option<f64>,
    /// The limit that it is compared with.
    pub limit: Option<f64>,
    /// True if the rule holds.
    pub holds: bool,
    /// One sentence; for a rule that does not hold, with what to do.
    #[serde(rename = "says")]
    pub explanation: String,
}

/// The rules of admission.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum AdmissionRule {
    /// References and baseline compile.
    Compiles,
    /// The two references give the same answers.
    ReferencesAgree,
    /// Outputs are not all near zero.
    NotNearZero,
    /// Outputs change from draw to draw of the inputs.
    VariesWithSeeds,
    /// Outputs change along each axis.
    VariesAlongAxes,
    /// Outputs change with each input by itself.
    DependsOnInput,
    /// Outputs depend on the elements of inputs that the contract declares, and on no others.
    DependsAsDeclared,
    /// The task's own kernels are inside the tolerance.
    HonestInside,
    /// The next lower precision is outside the tolerance.
    ForbiddenOutside,
    /// Honest kernels and the next lower precision are far enough apart.
    Separation,
    /// A kernel that is right by no merit is turned away.
    ImpostorRejected,
    /// The baseline is accepted, on many draws of the inputs.
    BaselineAccepted,
    /// The baseline, timed against itself, is no faster than itself.
    BaselineNoise,
}

/// The least work of a score case, which every correct kernel has to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = AdmissionFloor)]
pub struct CaseFloor {
    /// The case.
    pub case: String,
    /// The state of the cache that is scored.
    #[serde(default)]
    pub cache: CacheState,
    /// Bytes of inputs that must be read and of outputs that must be written, once each.
    pub bytes: u64,
    /// The baseline's time, microseconds.
    pub baseline_us: Option<f64>,
    /// True if that time is modelled.
    pub modelled: bool,
}

/// The variation of one output over several draws of the inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Spread {
    /// The largest magnitude.
    pub largest: f64,
    /// The standard deviation of an element over the draws, averaged over the elements.
    pub over_seeds: f64,
    /// The standard deviation along each axis, averaged over its lines; none where an axis has one
    /// element.
    pub along: Vec<Option<f64>>,
}

impl Spread {
    /// Summarises the values of one output in several draws.
    ///
    /// # Panics
    /// If a draw does not have as many values as the extents say.
    pub fn of(draws: &[Vec<f64>], extents: &[u64]) -> Self {
        let extents: Vec<usize> = extents
            .iter()
            .map(|&extent| usize::try_from(extent).expect("a tensor fits the address space"))
            .collect();
        let elements: usize = extents.iter().product();
        assert!(draws.iter().all(|draw| draw.len() == elements));
        let largest = draws
            .iter()
            .flatten()
            .filter(|value| value.is_finite())
            .fold(0.0, |most: f64, value| most.max(value.abs()));
        let over_seeds = mean((0..elements).map(|at| deviation(draws.iter().map(|draw| draw[at]))));
        let along = (0..extents.len())
            .map(|axis| {
                let count = extents[axis];
                let stride: usize = extents[axis + 1..].iter().product();
                let lines = draws.iter().flat_map(|draw| {
                    let starts =
                        (0..elements).filter(move |at| (at / stride).is_multiple_of(count));
                    starts.map(move |start| {
                        deviation((0..count).map(|step| draw[start + step * stride]))
                    })
                });
                (count > 1).then(|| mean(lines))
            })
            .collect();
        Self {
            largest,
            over_seeds,
            along,
        }
    }

    /// The larger of each number of two cases: a property that one case shows is there.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let either = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.max(other)),
            (one, other) => one.or(other),
        };
        Self {
            largest: self.largest.max(other.largest),
            over_seeds: self.over_seeds.max(other.over_seeds),
            along: self
                .along
                .into_iter()
                .zip(other.along)
                .map(|(one, other)| either(one, other))
                .collect(),
        }
    }

    /// The results of the rules about a single output.
    pub fn rule_results(&self, output: &str) -> Vec<RuleResult> {
        let point = |rule, subject: String, found: f64, what: &str| {
            let holds = found >= LEAST;
            let verb = if holds { "is" } else { "is only" };
            let fix = if holds {
                ""
            } else {
                "; scale the inputs, or define the task on cases where the output says something"
            };
            RuleResult {
                rule,
                explanation: format!("{what} of {subject} {verb} {found:.3e}{fix}"),
                subject,
                found: Some(found),
                limit: Some(LEAST),
                holds,
            }
        };
        let own = output.to_owned();
        let mut results = vec![
            point(
                AdmissionRule::NotNearZero,
                own.clone(),
                self.largest,
                "the largest magnitude",
            ),
            point(
                AdmissionRule::VariesWithSeeds,
                own,
                self.over_seeds,
                "the standard deviation over the draws",
            ),
        ];
        results.extend(self.along.iter().enumerate().filter_map(|(axis, found)| {
            let subject = format!("{output}, axis {axis}");
            let what = "the standard deviation along the lines";
            Some(point(
                AdmissionRule::VariesAlongAxes,
                subject,
                (*found)?,
                what,
            ))
        }));
        results
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value;
        count += 1.0;
    }
    if count == 0.0 { 0.0 } else { sum / count }
}

/// The standard deviation of the finite values among these; 0 for fewer than two.
fn deviation(values: impl Iterator<Item = f64>) -> f64 {
    let finite = values.filter(|value| value.is_finite()).collect::<Vec<_>>();
    if finite.len() < 2 {
        return 0.0;
    }
    let centre = mean(finite.iter().copied());
    mean(finite.iter().map(|value| (value - centre).powi(2))).sqrt()
}

/// The relative L2 distance of two answers; infinite where NaN and infinities differ.
///
/// # Panics
/// If they have different lengths.
pub fn distance(one: &[f64], other: &[f64]) -> f64 {
    assert_eq!(one.len(), other.len(), "two answers to one question");
    let same = |one: f64, other: f64| one == other || one.is_nan() && other.is_nan();
    let finite = |(one, other): &(&f64, &f64)| one.is_finite() && other.is_finite();
    let special = one.iter().zip(other).filter(|pair| !finite(pair));
    if special.into_iter().any(|(one, other)| !same(*one, *other)) {
        return f64::INFINITY;
    }
    let pairs = || one.iter().zip(other).filter(finite);
    let scale = pairs().fold(0.0, |most: f64, (one, other)| {
        most.max(one.abs()).max(other.abs())
    });
    if scale == 0.0 {
        return 0.0;
    }
    let square = |value: f64| (value / scale).powi(2);
    let off: f64 = pairs().map(|(one, other)| square(one - other)).sum();
    let norm: f64 = pairs().map(|(one, _)| square(*one)).sum();
    if norm == 0.0 {
        f64::INFINITY
    } else {
        (off / norm).sqrt()
    }
}

/// The number of elements that changed with an element of an input although they cannot depend on
/// it, and of those that changed and can.
pub fn reached(before: &[f64], after: &[f64], extents: &[u64], parts: &[TensorPart]) -> [u64; 2] {
    let mut counts = [0, 0];
    for ((before, after), flat) in before.iter().zip(after).zip(0_u64..) {
        if before.to_bits() == after.to_bits() {
            continue;
        }
        let index = crate::judge::unravel_index(flat, extents);
        let inside = parts.iter().any(|part| {
            let mut axes = part.iter().zip(&index);
            axes.all(|(only, at)| only.is_none_or(|only| only == *at))
        });
        counts[usize::from(inside)] += 1;
    }
    counts
}

/// Significant bits, the first included, of the best precision that a class forbids for operands.
pub fn forbidden_bits(class: ToleranceClass) -> u32 {
    match class {
        // TF32 and f16.
        ToleranceClass::F32 => 11,
        // bf16.
        ToleranceClass::Tf32 | ToleranceClass::F16OutF32Acc => 8,
        // fp8 (e4m3).
        ToleranceClass::F16Acc | ToleranceClass::Bf16OutF32Acc => 4,
    }
}

/// The errors of honest kernels and of the baseline on operands of a forbidden precision, as
/// relative L2.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// The worst of the honest.
    pub honest: f64,
    /// That on the forbidden operands, on the same cases.
    pub forbidden: f64,
    /// The largest on the forbidden operands in one output, on these cases and on shapes that every
    /// confirmation executes.
    pub forbidden_largest: f64,
    /// The error that the task allows.
    pub allowed: f64,
}

impl Calibration {
    /// The ratio of the two errors. An exact honest kernel is infinitely far from any error.
    pub fn ratio(&self) -> f64 {
        if self.honest == 0.0 && self.forbidden > 0.0 {
            f64::MAX
        } else {
            self.forbidden / self.honest
        }
    }

    /// The limit with the same room on both sides.
    pub fn middle(&self) -> f64 {
        (self.honest * self.forbidden).sqrt()
    }

    /// The results of the rules about precision. Every condition is written so that a NaN fails it.
    pub fn rule_results(&self, worst: &str, imitation: &str) -> Vec<RuleResult> {
        let Self {
            honest,
            forbidden_largest,
            allowed,
            ..
        } = *self;
        let outside = forbidden_largest > allowed;
        let remedy = if outside {
            ""
        } else {
            "; list a case whose sums have fewer terms, or choose a class that allows such operands"
        };
        let point = |rule, subject: &str, found, limit, holds, explanation| RuleResult {
            rule,
            subject: subject.to_owned(),
            found: Some(found),
            limit: Some(limit),
            holds,
            explanation,
        };
        vec![
            point(
                AdmissionRule::HonestInside,
                worst,
                honest,
                allowed,
                honest <= allowed,
                format!(
                    "the least exact of the task's own kernels is off by {honest:.2e}, allowed is {allowed:.2e}"
                ),
            ),
            point(
                AdmissionRule::ForbiddenOutside,
                imitation,
                forbidden_largest,
                allowed,
                outside,
                format!(
                    "the baseline on such operands is off by {forbidden_largest:.2e} where it is off most, allowed is {allowed:.2e}{remedy}"
                ),
            ),
            point(
                AdmissionRule::Separation,
                "tolerance",
                self.ratio(),
                SEPARATION,
                self.ratio() >= SEPARATION,
                format!(
                    "forbidden over honest error, with {:.2e} in the middle; under {SEPARATION} no limit tells them apart",
                    self.middle()
                ),
            ),
        ]
    }
}

/// Returns true if a verdict rejects a kernel because of its outputs. A gate, or a runtime error, does
/// not show that the task distinguishes right outputs from wrong ones.
pub fn is_rejected_for_its_result(kind: VerdictKind) -> bool {
    matches!(
        kind,
        VerdictKind::IncorrectOutput
            | VerdictKind::PrecisionDowngrade
            | VerdictKind::UninitDependent
            | VerdictKind::NonDeterministic
            | VerdictKind::DataRace
            | VerdictKind::PolicyRejected
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_a_constant_is_nothing_and_each_axis_counts_for_itself() {
        let rows_differ = vec![vec![1.0, 1.0, 5.0, 5.0], vec![2.0, 2.0, 6.0, 6.0]];
        let spread = Spread::of(&rows_differ, &[2, 2]);
        assert_eq!(spread.largest, 6.0);
        assert_eq!(spread.over_seeds, 0.5);
        assert_eq!(spread.along, [Some(2.0), Some(0.0)]);
        let holds = spread
            .rule_results("c")
            .iter()
            .map(|point| point.holds)
            .collect::<Vec<_>>();
        assert_eq!(holds, [true, true, true, false]);

        let constant = Spread::of(&[vec![3.0; 4], vec![3.0; 4]], &[2, 2]);
        assert_eq!((constant.over_seeds, constant.largest), (0.0, 3.0));
        assert_eq!(spread.or(constant).over_seeds, 0.5);
        assert_eq!(Spread::of(&[vec![1.0]], &[1]).along, [None]);
    }

    #[test]
    fn a_distance_is_infinite_where_specials_differ() {
        assert_eq!(distance(&[1.0, f64::NAN], &[1.0, f64::NAN]), 0.0);
        assert_eq!(
            distance(&[1.0, f64::INFINITY], &[1.0, f64::NEG_INFINITY]),
            f64::INFINITY
        );
        assert_eq!(distance(&[0.0], &[1.0]), f64::INFINITY);
        assert!((distance(&[3.0, 4.0], &[3.0, 4.5]) - 0.1).abs() < 1e-12);
        assert!((distance(&[3e300, 4e300], &[3e300, 4.5e300]) - 0.1).abs() < 1e-12);
    }

    #[test]
    fn a_limit_needs_room_on_both_sides() {
        let failing_with = |honest, forbidden, forbidden_largest| {
            let calibration = Calibration {
                honest,
                forbidden,
                forbidden_largest,
                allowed: 4e-5,
            };
            let results = calibration
                .rule_results("baseline.cu", "11 bits")
                .into_iter();
            results
                .filter(|point| !point.holds)
                .map(|point| point.rule)
                .collect::<Vec<_>>()
        };
        let failing = |honest, forbidden| failing_with(honest, forbidden, forbidden);
        assert_eq!(failing(1e-6, 3e-4), []);
        // Averaged out in long sums, and rejected because of short ones.
        assert_eq!(failing_with(1e-6, 3e-5, 3e-4), []);
        assert_eq!(failing(0.0, 3e-4), []);
        assert_eq!(failing(2e-5, 5e-5), [AdmissionRule::Separation]);
        assert_eq!(failing(6e-5, 3e-4), [AdmissionRule::HonestInside]);
        assert_eq!(failing(1e-6, 3e-5), [AdmissionRule::ForbiddenOutside]);
        assert_eq!(failing(f64::NAN, f64::NAN).len(), 3);
    }

    #[test]
    fn what_an_element_reaches_is_counted_inside_and_outside() {
        let before = [0.0; 6];
        let after = [1.0, 1.0, 0.0, 0.0, 0.0, 1.0];
        let first_row = vec![vec![Some(0), None]];
        assert_eq!(reached(&before, &after, &[2, 3], &first_row), [1, 2]);
        assert_eq!(reached(&before, &before, &[2, 3], &first_row), [0, 0]);
    }
}
