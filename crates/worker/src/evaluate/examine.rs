//! One stage of executions: run, judge the facts, compare the outputs, judge the comparisons.

use std::collections::BTreeMap;

use domain::evaluation::CheckOutcome;
use domain::judge::{self, Subject, Trouble};
use domain::plain;
use domain::plan::ResolvedPlan;
use domain::role::{
    Compiled, DeviceFault, ExecutionFacts, ExecutionPurpose, LaunchFacts, OutputComparison,
    RunReply, UnsupportedInstruction, Unwritten,
};
use domain::timing::ModelledLaunch;
use domain::verdict::Verdict;

use super::Fault;
use super::effort::Efforts;
use super::passes::{Against, Pass};
use super::roles::{Allowance, Numbered, Reference};
use super::stages::{Course, Stop};
use super::storage;

/// Counters kept of one launch: more than there are kinds of work to count.
const MAX_COUNTERS: usize = 128;

/// What every stage needs of a candidate.
#[derive(Debug, Clone, Copy)]
pub struct Trial<'t> {
    /// Its plan for each case.
    pub plans: &'t BTreeMap<String, ResolvedPlan>,
    /// Its image.
    pub compiled: &'t Compiled,
    /// The task's reference.
    pub reference: &'t Reference<'t>,
    /// How much work it may do.
    pub efforts: &'t Efforts,
}

/// Facts whose words are safe to repeat: whoever reported them ran candidate code.
fn cleaned(facts: ExecutionFacts) -> ExecutionFacts {
    let names = |names: Vec<String>| names.iter().map(|name| plain::name(name)).collect();
    ExecutionFacts {
        launches: facts.launches.into_iter().map(cleaned_launch).collect(),
        findings: facts.findings.into_iter().map(plain::finding).collect(),
        fault: facts.fault.map(|fault| DeviceFault {
            name: plain::name(&fault.name),
            call: plain::name(&fault.call),
            ..fault
        }),
        unsupported: facts.unsupported.map(|unsupported| UnsupportedInstruction {
            opcode: plain::line(&unsupported.opcode, plain::NAME_CHARACTERS),
            ..unsupported
        }),
        mutated: names(facts.mutated),
        overrun: names(facts.overrun),
        unwritten: facts
            .unwritten
            .into_iter()
            .map(|unwritten| Unwritten {
                tensor: plain::name(&unwritten.tensor),
                ..unwritten
            })
            .collect(),
        ..facts
    }
}

fn cleaned_launch(launch: LaunchFacts) -> LaunchFacts {
    LaunchFacts {
        kernel: plain::name(&launch.kernel),
        modelled: launch.modelled.map(|modelled| ModelledLaunch {
            kernel: plain::name(&modelled.kernel),
            bottleneck: plain::line(&modelled.bottleneck, plain::NAME_CHARACTERS),
            ..modelled
        }),
        counters: launch
            .counters
            .into_iter()
            .take(MAX_COUNTERS)
            .map(|(counter, value)| (plain::name(&counter), value))
            .collect(),
        ..launch
    }
}

impl Course<'_> {
    /// Makes the passes of one stage and lets the judge look at what they did, then at what they
    /// wrote.
    pub(super) fn examine(
        &mut self,
        allowance: Allowance,
        passes: &[Pass],
        trial: &Trial<'_>,
    ) -> Result<(), Stop> {
        let numbered = self.number(passes, trial, allowance)?;
        let roles = self.roles;
        self.timed(allowance.stage, |course| {
            roles.run(trial.compiled, &numbered, allowance, |made, reply| {
                course.hear(allowance.stage, made, reply.map_err(Stop::from)?)
            })
        })?;
        self.timed(&format!("verify {}", allowance.stage), |course| {
            let comparisons = roles.verify(trial.reference, &numbered)?;
            course.weigh(&numbered, &comparisons)
        })?;
        // What is judged is not kept: the outputs of large cases add up.
        for folder in numbered
            .iter()
            .filter_map(|numbered| numbered.save.as_ref())
        {
            std::fs::remove_dir_all(folder).map_err(storage(folder))?;
        }
        Ok(())
    }

    /// Numbers passes and makes folders for the outputs that will be compared with the reference.
    fn number<'p>(
        &mut self,
        passes: &'p [Pass],
        trial: &Trial<'p>,
        allowance: Allowance,
    ) -> Result<Vec<Numbered<'p>>, Fault> {
        let mut numbered = Vec::with_capacity(passes.len());
        for pass in passes {
            let id = self.next_id;
            self.next_id += 1;
            let plan = trial
                .plans
                .get(&pass.case)
                .expect("passes and plans are made for the same cases");
            let save = if pass.comparison == Against::Reference {
                let folder = self.roles.scratch.join(format!("outputs-{id}"));
                std::fs::create_dir(&folder).map_err(storage(&folder))?;
                Some(folder)
            } else {
                None
            };
            numbered.push(Numbered {
                id,
                pass,
                plan,
                save,
                budget: trial.efforts.budget(&pass.case, allowance.instructions),
            });
        }
        Ok(numbered)
    }

    /// Judges the facts of one run job.
    fn hear(&mut self, stage: &str, made: &[Numbered<'_>], reply: RunReply) -> Result<(), Stop> {
        self.evidence.ran = true;
        let label = |label: String| plain::line(&label, plain::NAME_CHARACTERS);
        self.evidence.label = reply.model_label.map(label);
        let facts = reply
            .executions
            .into_iter()
            .map(cleaned)
            .collect::<Vec<_>>();
        let heard = facts.len();
        let asked = made.len();
        for (numbered, facts) in made.iter().zip(facts) {
            if facts.id != numbered.id {
                let what = "run the executions in their order: their numbers differ";
                return Err(Trouble(what.to_owned()).into());
            }
            let pass = numbered.pass;
            let subject = Subject {
                stage,
                case: &pass.case,
                distribution: pass.distribution,
                plan: numbered.plan,
                tensors: &pass.tensors,
                tolerance: &self.task.tolerance,
            };
            self.evidence
                .findings
                .extend(facts.findings.iter().cloned());
            if let Some(verdict) = judge::execution(&facts, &subject)? {
                return Err(verdict.into());
            }
            if let Some(verdict) = self.compare_with_original(&facts, &subject, pass)? {
                return Err(verdict.into());
            }
            if pass.purpose == ExecutionPurpose::Score {
                self.scored.push((pass.case.clone(), facts.clone()));
            }
            self.originals.entry(pass.inputs()).or_insert(facts);
        }
        if heard == asked {
            return Ok(());
        }
        Err(Trouble(format!(
            "run all executions: the runner reports {heard} of {asked} and no reason"
        ))
        .into())
    }

    /// Compares a repeated execution with the first on the same inputs.
    fn compare_with_original(
        &self,
        facts: &ExecutionFacts,
        subject: &Subject<'_>,
        pass: &Pass,
    ) -> Result<Option<Verdict>, Trouble> {
        if pass.comparison == Against::Reference {
            return Ok(None);
        }
        let original = self.originals.get(&pass.inputs()).ok_or_else(|| {
            Trouble(format!(
                "repeat case {}: it was never run before",
                pass.case
            ))
        })?;
        Ok(match pass.comparison {
            Against::Repoisoned => judge::repeats(original, None, Some(facts), subject),
            Against::Rescheduled | Against::Reference => {
                judge::repeats(original, Some(facts), None, subject)
            }
        })
    }

    /// Records every comparison and stops at the first output that is not close enough.
    fn weigh(
        &mut self,
        made: &[Numbered<'_>],
        comparisons: &[OutputComparison],
    ) -> Result<(), Stop> {
        let mut first: Option<Verdict> = None;
        for numbered in made {
            let own = comparisons
                .iter()
                .filter(|comparison| comparison.id == numbered.id);
            for comparison in own {
                let pass = numbered.pass;
                let verdict = judge::comparison(
                    comparison,
                    &pass.case,
                    pass.distribution,
                    &self.task.tolerance,
                );
                self.evidence.checks.push(CheckOutcome {
                    case: pass.case.clone(),
                    distribution: pass.distribution,
                    tensor: comparison.tensor.clone(),
                    relative_l2: comparison.relative_l2,
                    worst_ratio: comparison.worst_ratio,
                    passed: verdict.is_none(),
                });
                first = first.or(verdict);
            }
        }
        first.map_or(Ok(()), |verdict| Err(verdict.into()))
    }
}
