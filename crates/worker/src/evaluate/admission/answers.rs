//! Checks of the references' answers: whether both agree, and on which inputs and elements they
//! depend.

use std::collections::{BTreeMap, BTreeSet};

use domain::admission::{AGREEMENT, AdmissionRule, RuleResult, SEEDS, Spread, distance, reached};
use domain::judge;
use domain::role::Distribution;
use domain::task::{Case, Role};

use super::second_reference::ReadyReference;
use super::{Examiner, ReferenceValues, as_optional_f64};
use crate::evaluate::error::EvaluateError;
use crate::evaluate::passes::{Extent, Passes};
use crate::evaluate::roles::Reference;

/// Elements of each input that are changed one at a time.
const STRUCK: u32 = 8;

impl Examiner<'_> {
    /// Compares both references on all inputs that candidates get for a case.
    pub(super) fn check_agreement(
        &self,
        reference: &Reference<'_>,
        check: &ReadyReference<'_>,
        case: &Case,
    ) -> Result<RuleResult, EvaluateError> {
        let everything = [self.passes().smoke()?, self.passes().screen(Extent::All)?].concat();
        let passes = everything
            .into_iter()
            .filter(|pass| pass.case == case.name || pass.distribution == Distribution::Normal)
            .collect::<Vec<_>>();
        let answers = self.answers(reference, &passes)?;
        let limit = AGREEMENT * self.task().tolerance.relative_l2;
        let subject = format!("reference.cu and {}", self.task().check.file());
        let others = match self.second_answers(check, &passes)? {
            Ok(others) => others,
            Err(reason) => {
                return Ok(RuleResult {
                    rule: AdmissionRule::ReferencesAgree,
                    subject,
                    found: None,
                    limit: Some(limit),
                    holds: false,
                    explanation: reason,
                });
            }
        };
        let mut worst = (0.0, String::new());
        for ((pass, answer), other) in passes.iter().zip(&answers).zip(&others) {
            for (output, values) in answer {
                let off = distance(values, &other[output]);
                if off > worst.0 || worst.1.is_empty() || off.is_nan() {
                    worst = (
                        off,
                        format!("{output} of {}, {}", pass.case, pass.distribution.as_str()),
                    );
                }
            }
        }
        let (found, place) = worst;
        let holds = found <= limit;
        let fix = if holds {
            ""
        } else {
            "; one of them is wrong, or rounds where it should not"
        };
        Ok(RuleResult {
            rule: AdmissionRule::ReferencesAgree,
            subject,
            found: Some(found.min(f64::MAX)),
            limit: Some(limit),
            holds,
            explanation: format!(
                "they differ most in {place}, by {found:.2e} of {} inputs{fix}",
                passes.len()
            ),
        })
    }

    /// Computes the reference's answers on each case for several draws of all inputs.
    pub(super) fn answer_draws(
        &self,
        reference: &Reference<'_>,
        cases: &[&Case],
    ) -> Result<Vec<Vec<ReferenceValues>>, EvaluateError> {
        let mut draws = Vec::new();
        for case in cases {
            let passes = (0..SEEDS)
                .map(|seed| {
                    let key = self
                        .context
                        .request
                        .key
                        .derive(&["seed", &seed.to_string()]);
                    Passes {
                        key,
                        ..self.passes()
                    }
                    .ordinary(case)
                })
                .collect::<Result<Vec<_>, _>>()?;
            draws.push(self.answers(reference, &passes)?);
        }
        Ok(draws)
    }

    pub(super) fn check_spread(
        &self,
        cases: &[&Case],
        draws: &[Vec<ReferenceValues>],
    ) -> Result<Vec<RuleResult>, EvaluateError> {
        let mut results = Vec::new();
        let task = self.task();
        for output in task.tensors.iter().filter(|tensor| tensor.role != Role::In) {
            let mut whole: Option<Spread> = None;
            for (case, draws) in cases.iter().zip(draws) {
                let extents = task.extents(output, case)?;
                let values = draws
                    .iter()
                    .map(|answer| answer[&output.name].clone())
                    .collect::<Vec<_>>();
                let spread = Spread::of(&values, &extents);
                whole = Some(match whole {
                    Some(known) => known.or(spread),
                    None => spread,
                });
            }
            results.extend(
                whole
                    .into_iter()
                    .flat_map(|whole| whole.rule_results(&output.name)),
            );
        }
        Ok(results)
    }

    /// Checks that the answers change when one input alone is drawn anew.
    pub(super) fn check_input_dependence(
        &self,
        reference: &Reference<'_>,
        cases: &[&Case],
    ) -> Result<Vec<RuleResult>, EvaluateError> {
        let task = self.task();
        let limit = task.tolerance.relative_l2;
        let mut results = Vec::new();
        for (number, input) in task.tensors.iter().enumerate() {
            if input.role == Role::Out {
                continue;
            }
            let mut largest = 0.0_f64;
            for case in cases {
                let original = self.passes().ordinary(case)?;
                let mut varied = original.clone();
                let key = &mut varied.tensors[number].key;
                *key = key.derive(&["varied"]);
                let answers = self.answers(reference, &[original, varied])?;
                for (output, before) in &answers[0] {
                    largest = largest.max(distance(before, &answers[1][output]));
                }
            }
            let holds = largest > limit;
            let fix = if holds {
                ""
            } else {
                "; a kernel that ignores it would pass: leave it out, or let it matter"
            };
            results.push(RuleResult {
                rule: AdmissionRule::DependsOnInput,
                subject: input.name.clone(),
                found: Some(largest.min(f64::MAX)),
                limit: Some(limit),
                holds,
                explanation: format!(
                    "drawn anew by itself it changes the answers by {largest:.2e}{fix}"
                ),
            });
        }
        Ok(results)
    }

    /// Checks that single elements of an input change only output elements that the contract declares,
    /// and that one of [`STRUCK`] changes some. One alone may change nothing where the function selects:
    /// a small logit is not among the largest.
    pub(super) fn check_declared_dependences(
        &self,
        reference: &Reference<'_>,
    ) -> Result<Vec<RuleResult>, EvaluateError> {
        let task = self.task();
        let mut changed: BTreeMap<(String, String), [u64; 2]> = BTreeMap::new();
        let mut undeclared = BTreeSet::new();
        let rounds = (0..STRUCK).map(|round| self.passes().sensitivity_checks_of(round));
        for check in rounds.collect::<Result<Vec<_>, _>>()?.concat() {
            let Some((input, at)) = check.changed_element() else {
                continue;
            };
            let mut original = check.clone();
            for tensor in &mut original.tensors {
                tensor.alteration = None;
            }
            let answers = self.answers(reference, &[original, check.clone()])?;
            let extents = |name: &str| {
                let mut tensors = check.tensors.iter();
                let tensor = tensors.find(|tensor| tensor.name == name);
                tensor
                    .map(|tensor| tensor.extents.as_slice())
                    .unwrap_or_default()
            };
            let index = judge::unravel_index(at, extents(&input));
            for (output, dependences) in &task.contract.depends {
                let own = dependences.iter().filter(|one| one.input == input);
                let parts = own
                    .map(|one| one.reach(&index, extents(output).len()))
                    .collect::<Vec<_>>();
                let [outside, inside] = reached(
                    &answers[0][output],
                    &answers[1][output],
                    extents(output),
                    &parts,
                );
                let pair = (input.clone(), output.clone());
                if parts.is_empty() {
                    undeclared.insert(pair.clone());
                }
                let counts = changed.entry(pair).or_default();
                counts[0] += outside;
                counts[1] += inside;
            }
        }
        let results = changed.into_iter().map(|(pair, [outside, inside])| {
            let holds = outside == 0 && (inside > 0 || undeclared.contains(&pair));
            let fix = if holds {
                ""
            } else {
                "; correct [contract] depends"
            };
            let (input, output) = pair;
            RuleResult {
                rule: AdmissionRule::DependsAsDeclared,
                subject: format!("{input} to {output}"),
                found: as_optional_f64(outside),
                limit: Some(0.0),
                holds,
                explanation: format!(
                    "{STRUCK} elements of it, changed one at a time, change {inside} elements that depend on them as declared, and {outside} others{fix}"
                ),
            }
        });
        Ok(results.collect())
    }
}

/// The mean of each output's finite values over all draws of the largest case.
pub(super) fn mean_values(draws: &[Vec<ReferenceValues>]) -> Vec<(String, f64)> {
    let mut sums: BTreeMap<&String, (f64, f64)> = BTreeMap::new();
    for (output, values) in draws.last().into_iter().flatten().flatten() {
        let (sum, count) = sums.entry(output).or_default();
        for value in values.iter().filter(|value| value.is_finite()) {
            *sum += value;
            *count += 1.0;
        }
    }
    sums.into_iter()
        .filter(|(_, (_, count))| *count > 0.0)
        .map(|(output, (sum, count))| (output.clone(), sum / count))
        .collect()
}
