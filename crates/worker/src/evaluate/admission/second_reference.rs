//! The second reference of a task, as a kernel or in Python.

use domain::admission::{AdmissionRule, RuleResult};
use domain::role::Compiled;
use domain::task::{Case, SecondReference};

use super::Examiner;
use crate::evaluate::error::EvaluateError;
use crate::evaluate::passes::Pass;
use crate::evaluate::python_answers::{Calls, PythonAnswers, PythonReference};
use crate::evaluate::roles::Reference;
use crate::python;

/// A second reference that can answer.
pub(super) enum ReadyReference<'a> {
    Kernel(Reference<'a>),
    Python(PythonReference<'a>),
}

impl<'a> Examiner<'a> {
    /// Finds the interpreter of a reference in Python; none where it is a kernel.
    ///
    /// # Errors
    /// [`EvaluateError::Lacking`] if this machine cannot run it.
    pub(super) fn python_reference(&self) -> Result<Option<PythonReference<'a>>, EvaluateError> {
        let SecondReference::Python(source) = &self.task().check else {
            return Ok(None);
        };
        let named = self.evaluator.host.python();
        let interpreter = python::find(named).map_err(EvaluateError::Lacking)?;
        Ok(Some(PythonReference {
            task: self.task(),
            source,
            interpreter,
        }))
    }

    /// Calls a reference in Python twice on ordinary inputs of the examined cases.
    pub(super) fn try_python(
        &self,
        reference: &PythonReference<'_>,
        cases: &[&Case],
    ) -> Result<RuleResult, EvaluateError> {
        let ordinary = cases.iter().map(|case| self.passes().ordinary(case));
        let passes = ordinary.collect::<Result<Vec<_>, _>>()?;
        let roles = self.context.roles;
        let answers = roles.python_answers(reference, &passes, Calls::Two)?;
        let explanation = match answers {
            Err(reason) => Err(reason),
            Ok(answers) => {
                let mut outputs = passes.iter().zip(&answers).flat_map(|(pass, answer)| {
                    answer
                        .iter()
                        .map(move |(name, values)| (pass, name, values))
                });
                let strange =
                    outputs.find(|(_, _, values)| values.iter().any(|value| !value.is_finite()));
                match strange {
                    Some((pass, name, values)) => Err(format!(
                        "{name} of case {} has {} values that are not finite, on ordinary inputs; correct the formula",
                        pass.case,
                        values.iter().filter(|value| !value.is_finite()).count()
                    )),
                    None => Ok("it gives the same answers twice".to_owned()),
                }
            }
        };
        Ok(RuleResult {
            rule: AdmissionRule::Compiles,
            subject: self.task().check.file().to_owned(),
            found: None,
            limit: None,
            holds: explanation.is_ok(),
            explanation: explanation.unwrap_or_else(|reason| reason),
        })
    }

    /// Chooses the second reference of what was prepared.
    pub(super) fn second_reference(
        &self,
        compiled: Option<Compiled>,
        python: Option<PythonReference<'a>>,
    ) -> Option<ReadyReference<'a>> {
        let kernel = compiled
            .zip(self.check)
            .map(|(compiled, task)| ReadyReference::Kernel(Reference { task, compiled }));
        kernel.or_else(|| python.map(ReadyReference::Python))
    }

    /// The second reference's answers, or its defect.
    pub(super) fn second_answers(
        &self,
        reference: &ReadyReference<'_>,
        passes: &[Pass],
    ) -> Result<PythonAnswers, EvaluateError> {
        match reference {
            ReadyReference::Kernel(reference) => Ok(Ok(self.answers(reference, passes)?)),
            ReadyReference::Python(reference) => {
                let roles = self.context.roles;
                roles.python_answers(reference, passes, Calls::One)
            }
        }
    }
}
