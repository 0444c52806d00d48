//! One stage of executions: run, judge the facts, compare the outputs, judge the comparisons.

use std::collections::BTreeMap;
use std::path::Path;

use domain::cleaning;
use domain::device::DeviceKind;
use domain::evaluation::{CheckOutcome, NotRun, ProtocolPart};
use domain::judge::{self, ComparedOutput, ExecutionContext, InfrastructureFault, RepeatVariation};
use domain::plan::ResolvedPlan;
use domain::role::{
    Compiled, DeviceFault, ExecutionFacts, ExecutionPurpose, LaunchFacts, OutputComparison,
    Placement, RunReply, TensorData, UnsupportedInstruction, Unwritten,
};
use domain::task::Task;
use domain::timing::ModelledLaunch;
use domain::verdict::Verdict;

use super::EvaluateError;
use super::effort::Efforts;
use super::passes::{Against, Pass};
use super::roles::{Allowance, Numbered, Reference};
use super::stages::{Course, Judged, Stop};
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
pub(super) fn cleaned(facts: ExecutionFacts) -> ExecutionFacts {
    let names = |names: Vec<String>| {
        names
            .iter()
            .map(|name| cleaning::clean_name(name))
            .collect()
    };
    ExecutionFacts {
        launches: facts.launches.into_iter().map(cleaned_launch).collect(),
        findings: facts
            .findings
            .into_iter()
            .map(cleaning::clean_finding)
            .collect(),
        fault: facts.fault.map(|fault| DeviceFault {
            name: cleaning::clean_name(&fault.name),
            call: cleaning::clean_name(&fault.call),
            ..fault
        }),
        unsupported: facts.unsupported.map(|unsupported| UnsupportedInstruction {
            opcode: cleaning::clean_line(&unsupported.opcode, cleaning::NAME_CHARACTERS),
            ..unsupported
        }),
        mutated: names(facts.mutated),
        overrun: names(facts.overrun),
        unwritten: facts
            .unwritten
            .into_iter()
            .map(|unwritten| Unwritten {
                tensor: cleaning::clean_name(&unwritten.tensor),
                ..unwritten
            })
            .collect(),
        ..facts
    }
}

/// The line where an image's source first uses `wmma` fragments.
fn fragments(compiled: Option<&Compiled>) -> Option<u32> {
    let uses = compiled
        .into_iter()
        .flat_map(|compiled| &compiled.contents.uses);
    uses.filter(|found| found.what.starts_with("wmma"))
        .find_map(|found| found.line)
}

fn cleaned_launch(launch: LaunchFacts) -> LaunchFacts {
    LaunchFacts {
        kernel: cleaning::clean_name(&launch.kernel),
        modelled: launch.modelled.as_ref().map(cleaned_time),
        modelled_warm: launch.modelled_warm.as_ref().map(cleaned_time),
        counters: launch
            .counters
            .into_iter()
            .take(MAX_COUNTERS)
            .map(|(counter, value)| (cleaning::clean_name(&counter), value))
            .collect(),
        ..launch
    }
}

fn cleaned_time(modelled: &ModelledLaunch) -> ModelledLaunch {
    ModelledLaunch {
        kernel: cleaning::clean_name(&modelled.kernel),
        bottleneck: cleaning::clean_line(&modelled.bottleneck, cleaning::NAME_CHARACTERS),
        ..*modelled
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
        let ran = self.timed(allowance.stage, |course| {
            roles.run(trial.compiled, &numbered, allowance, |made, reply| {
                course.hear(allowance.stage, made, reply.map_err(Stop::from)?)
            })
        });
        if let Err(Stop::Verdict(verdict)) = &ran {
            let judged = self.judged;
            self.confirm(verdict, judged, &numbered, trial, allowance)?;
            if let Some(cause) = self.cause(verdict, judged, &numbered, trial, allowance)? {
                return Err(cause.into());
            }
        }
        ran?;
        self.timed(&format!("verify {}", allowance.stage), |course| {
            let comparisons = roles.verify(trial.reference, &numbered)?;
            if let Some((verdict, execution)) = course.weigh(&numbered, &comparisons) {
                let judged = Judged {
                    id: execution,
                    outlasted: false,
                };
                course.confirm(&verdict, judged, &numbered, trial, allowance)?;
                return Err(verdict.into());
            }
            course.probe(&numbered, trial)
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
    ) -> Result<Vec<Numbered<'p>>, EvaluateError> {
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
                budget: self.budget(pass, trial, allowance),
            });
        }
        Ok(numbered)
    }

    /// Thread instructions of one launch. On the odd shapes that no task lists the baseline may do
    /// next to nothing where an honest kernel starts whole blocks, so that they get as much as a
    /// small case whose baseline is not known.
    fn budget(&self, pass: &Pass, trial: &Trial<'_>, allowance: Allowance) -> u64 {
        let known = trial.efforts.budget(&pass.case, allowance.instructions);
        let listed = self.task.case(&pass.case);
        if listed.is_some_and(|case| !case.uses.is_empty()) {
            known
        } else {
            known.max(allowance.instructions)
        }
    }

    /// Judges the facts of one run job.
    fn hear(&mut self, stage: &str, made: &[Numbered<'_>], reply: RunReply) -> Result<(), Stop> {
        self.evidence.ran = true;
        let label = |label: String| cleaning::clean_line(&label, cleaning::NAME_CHARACTERS);
        self.evidence.label = reply.model_label.map(label);
        let facts = reply
            .executions
            .into_iter()
            .map(cleaned)
            .collect::<Vec<_>>();
        let line = fragments(self.evidence.compiled.as_ref());
        let heard = facts.len();
        let asked = made.len();
        for (numbered, facts) in made.iter().zip(facts) {
            if facts.id != numbered.id {
                let what = "run the executions in their order: their numbers differ";
                return Err(InfrastructureFault(what.to_owned()).into());
            }
            let pass = numbered.pass;
            let subject = subject(self.task, stage, numbered);
            self.judged = Judged {
                id: numbered.id,
                outlasted: facts.outlasted,
            };
            if facts.unprotected {
                self.note_writable_inputs();
            }
            self.evidence
                .findings
                .extend(facts.findings.iter().cloned());
            if let Some(verdict) = judge::judge_execution(&facts, &subject)? {
                return Err(verdict.into());
            }
            if pass.comparison != Against::Reference {
                let original = self.originals.get(&pass.inputs()).ok_or_else(|| {
                    InfrastructureFault(format!(
                        "repeat case {}: it was never run before",
                        pass.case
                    ))
                })?;
                let change = change(pass.comparison, line);
                if let Some(verdict) = judge::judge_repeat(original, &facts, change, &subject) {
                    return Err(verdict.into());
                }
            }
            if pass.purpose == ExecutionPurpose::Score {
                self.scored.push((pass.case.clone(), facts.clone()));
            }
            self.originals.entry(pass.inputs()).or_insert(facts);
        }
        if heard == asked {
            return Ok(());
        }
        Err(InfrastructureFault(format!(
            "run all executions: the runner reports {heard} of {asked} and no reason"
        ))
        .into())
    }

    /// Records every comparison; if an output is not close enough, the verdict and the number of
    /// the first such execution.
    fn weigh(
        &mut self,
        made: &[Numbered<'_>],
        comparisons: &[OutputComparison],
    ) -> Option<(Verdict, u32)> {
        let mut weighed = Vec::new();
        for numbered in made {
            let pass = numbered.pass;
            let own = comparisons
                .iter()
                .filter(|comparison| comparison.id == numbered.id);
            weighed.extend(own.map(|facts| ComparedOutput {
                facts,
                case: &pass.case,
                distribution: pass.distribution,
            }));
        }
        let tolerance = &self.task.tolerance;
        let close = |one: &ComparedOutput<'_>| judge::is_within_tolerance(one.facts, tolerance);
        let outcome = |one: &ComparedOutput<'_>| CheckOutcome {
            case: one.case.to_owned(),
            distribution: one.distribution,
            tensor: one.facts.tensor.clone(),
            relative_l2: one.facts.relative_l2,
            worst_ratio: one.facts.worst_ratio,
            passed: close(one),
        };
        self.evidence.checks.extend(weighed.iter().map(outcome));
        let verdict = judge::judge_outputs(&weighed, tolerance)?;
        let first = weighed.iter().find(|one| !close(one))?;
        Some((verdict, first.facts.id))
    }

    /// Asks a second runner where only bytes that were copied from the device speak against the
    /// candidate, which may have been damaged on their way, or only that it outlasted the blocks
    /// beside it, which a device may have been too busy for. Nobody honest must pay for that: such
    /// bad news stands if it comes twice.
    ///
    /// # Errors
    /// [`Stop`] with trouble where the second runner has good news on the emulated device, which
    /// does the same every time; on silicon with [`Verdict::InvalidRun`], since a race may be the
    /// reason as well.
    fn confirm(
        &mut self,
        verdict: &Verdict,
        judged: Judged,
        made: &[Numbered<'_>],
        trial: &Trial<'_>,
        allowance: Allowance,
    ) -> Result<(), Stop> {
        let kind = self.evaluator.host().device().kind;
        let suspect = made.iter().find(|numbered| numbered.id == judged.id);
        let doubtful = rests_on_copies(verdict, kind) || rests_on_company(verdict, judged);
        let Some(suspect) = suspect.filter(|_| doubtful) else {
            return Ok(());
        };
        let mut passes = vec![suspect.pass.clone()];
        if suspect.pass.comparison != Against::Reference {
            let original = Pass {
                poison: suspect.pass.poison.wrapping_add(1),
                placement: Placement::Allocated,
                schedule: None,
                comparison: Against::Reference,
                company: false,
                ..suspect.pass.clone()
            };
            passes.insert(0, original);
        }
        if self.fails_again(&passes, trial, allowance)? {
            return Ok(());
        }
        Err(unconfirmed(
            &format!("on case {}", suspect.pass.case),
            verdict,
            kind,
        ))
    }

    /// What an illegal address was, where inputs are mapped for reading only and the device does not
    /// say: an input that changes when it may be written to. None if it is nothing of the kind.
    fn cause(
        &mut self,
        verdict: &Verdict,
        judged: Judged,
        made: &[Numbered<'_>],
        trial: &Trial<'_>,
        allowance: Allowance,
    ) -> Result<Option<Verdict>, Stop> {
        const ILLEGAL_ADDRESS: u32 = 700;
        let illegal =
            matches!(verdict, Verdict::RuntimeFault { code, .. } if *code == ILLEGAL_ADDRESS);
        let suspect = made.iter().find(|numbered| numbered.id == judged.id);
        let Some(suspect) = suspect.filter(|suspect| {
            illegal
                && self.evaluator.host().is_unproved()
                && matches!(
                    suspect.pass.placement,
                    Placement::Ending | Placement::Allocated
                )
        }) else {
            return Ok(None);
        };
        let writable = Pass {
            placement: Placement::Weakest,
            comparison: Against::Reference,
            company: false,
            ..suspect.pass.clone()
        };
        let again = self.again(&[writable], trial, allowance)?;
        let mutated = |verdict: &Verdict| matches!(verdict, Verdict::InputMutated { .. });
        Ok(again.verdict.filter(mutated))
    }

    /// Whether anything speaks against the candidate when it makes these passes in a process of
    /// their own.
    pub(super) fn fails_again(
        &mut self,
        passes: &[Pass],
        trial: &Trial<'_>,
        allowance: Allowance,
    ) -> Result<bool, Stop> {
        Ok(self.again(passes, trial, allowance)?.failed)
    }

    fn again(
        &mut self,
        passes: &[Pass],
        trial: &Trial<'_>,
        allowance: Allowance,
    ) -> Result<Again, Stop> {
        let again = self.number(passes, trial, allowance)?;
        let line = fragments(Some(trial.compiled));
        let mut known: Vec<ExecutionFacts> = Vec::new();
        let mut failed = false;
        let mut verdict = None;
        self.roles
            .run(trial.compiled, &again, allowance, |made, reply| {
                let Ok(reply) = reply else {
                    failed = true;
                    return Ok::<_, EvaluateError>(());
                };
                failed |= reply.executions.len() != made.len();
                for (numbered, facts) in made.iter().zip(reply.executions) {
                    let subject = subject(self.task, allowance.stage, numbered);
                    let judged = judge::judge_execution(&facts, &subject);
                    failed |= !matches!(judged, Ok(None));
                    verdict = verdict.take().or_else(|| judged.ok().flatten());
                    if let Some(original) = known.first() {
                        let change = change(numbered.pass.comparison, line);
                        failed |= judge::judge_repeat(original, &facts, change, &subject).is_some();
                    }
                    known.push(facts);
                }
                Ok(())
            })?;
        if failed {
            return Ok(Again { failed, verdict });
        }
        let comparisons = self.roles.verify(trial.reference, &again)?;
        let tolerance = &self.task.tolerance;
        let mut comparisons = comparisons.iter();
        Ok(Again {
            failed: comparisons.any(|facts| !judge::is_within_tolerance(facts, tolerance)),
            verdict: None,
        })
    }

    /// Says once that the driver maps no memory for reading alone.
    fn note_writable_inputs(&mut self) {
        let row = NotRun {
            part: ProtocolPart::ReadOnlyInputs,
            reason: "the driver maps no memory for reading only; inputs were compared after every \
                     launch instead"
                .to_owned(),
        };
        if !self.evidence.not_run.contains(&row) {
            self.evidence.not_run.push(row);
        }
    }

    /// Compares the executions that differ in one element of one input from another of this stage.
    fn probe(&self, made: &[Numbered<'_>], trial: &Trial<'_>) -> Result<(), Stop> {
        for struck in made {
            let Some((input, at)) = struck.pass.struck() else {
                continue;
            };
            let original = made.iter().find(|other| {
                let mut same = struck.pass.inputs();
                same.3 = None;
                other.pass.inputs() == same
            });
            let Some(original) = original else { continue };
            let folders = [original, struck].map(|numbered| numbered.save.as_ref());
            let [Some(before), Some(after)] = folders else {
                continue;
            };
            let tensors = &struck.pass.tensors;
            let source = tensors.iter().find(|tensor| tensor.name == input);
            let index = source.map(|tensor| judge::unravel_index(at, &tensor.extents));
            let index = index.unwrap_or_default();
            for (output, dependences) in &trial.reference.task.contract.depends {
                let Some(tensor) = tensors.iter().find(|tensor| tensor.name == *output) else {
                    continue;
                };
                let reached = dependences
                    .iter()
                    .filter(|dependence| dependence.input == input)
                    .map(|dependence| dependence.reach(&index, tensor.extents.len()))
                    .collect::<Vec<_>>();
                let (before, after) = (saved(before, tensor)?, saved(after, tensor)?);
                let verdict = judge::judge_dependence(
                    &input,
                    tensor,
                    &struck.pass.case,
                    &reached,
                    [&before, &after],
                    &self.task.tolerance,
                );
                if let Some(verdict) = verdict {
                    return Err(verdict.into());
                }
            }
        }
        Ok(())
    }
}

/// What a second process found.
struct Again {
    /// Whether anything spoke against the candidate.
    failed: bool,
    /// The first verdict on an execution, where there was one.
    verdict: Option<Verdict>,
}

/// What was asked of an execution.
pub(super) fn subject<'s>(
    task: &'s Task,
    stage: &'s str,
    numbered: &'s Numbered<'_>,
) -> ExecutionContext<'s> {
    let pass = numbered.pass;
    ExecutionContext {
        stage,
        case: &pass.case,
        distribution: pass.distribution,
        plan: numbered.plan,
        tensors: &pass.tensors,
        tolerance: &task.tolerance,
    }
}

/// What a repeat changes; `line` is where the source first uses fragments.
fn change(comparison: Against, line: Option<u32>) -> RepeatVariation {
    match comparison {
        Against::Itself | Against::Reference => RepeatVariation::None,
        Against::Rescheduled => RepeatVariation::Schedule,
        Against::Relaid => RepeatVariation::FragmentLayout { line },
        Against::Repoisoned => RepeatVariation::MemoryState,
    }
}

/// Whether nothing but copies of the device's memory speaks against a candidate. Where a kernel
/// can race unseen, outputs that differ are no surprise.
pub(super) fn rests_on_copies(verdict: &Verdict, device: DeviceKind) -> bool {
    match verdict {
        Verdict::IncorrectOutput(_)
        | Verdict::PrecisionDowngrade(_)
        | Verdict::InputMutated { .. } => true,
        Verdict::OutOfBounds { finding, .. } => finding.is_none(),
        Verdict::UninitDependent { finding, .. } => {
            finding.is_none() && device == DeviceKind::Emulated
        }
        Verdict::NonDeterministic { .. } => device == DeviceKind::Emulated,
        _ => false,
    }
}

/// Whether nothing but the blocks beside an execution speaks against it.
fn rests_on_company(verdict: &Verdict, judged: Judged) -> bool {
    judged.outlasted && matches!(verdict, Verdict::Timeout { .. })
}

/// What becomes of bad news that a second process does not bring.
pub(super) fn unconfirmed(place: &str, verdict: &Verdict, device: DeviceKind) -> Stop {
    let what =
        format!("confirm what was found {place}: {verdict}, and nothing of it in the next process");
    match device {
        DeviceKind::Emulated => InfrastructureFault(what).into(),
        DeviceKind::Nvidia => Verdict::InvalidRun { reason: what }.into(),
    }
}

/// What a runner saved of an output.
///
/// # Errors
/// [`InfrastructureFault`] if the file does not have the tensor's size.
fn saved(folder: &Path, tensor: &TensorData) -> Result<Vec<u8>, Stop> {
    let path = folder.join(format!("{}.bin", tensor.name));
    let content = std::fs::read(&path).map_err(storage(&path))?;
    if content.len() as u64 == tensor.elements() * tensor.dtype.bytes() {
        Ok(content)
    } else {
        let what = format!("read the output {}: it has another size", tensor.name);
        Err(InfrastructureFault(what).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_rests_on_one_process_is_asked_again() {
        let timeout = Verdict::Timeout {
            stage: "repeat, beside other blocks".to_owned(),
            finding: None,
        };
        let fault = Verdict::RuntimeFault {
            code: 700,
            name: "CUDA_ERROR_ILLEGAL_ADDRESS".to_owned(),
            finding: None,
        };
        let mutated = Verdict::InputMutated {
            tensor: "x".to_owned(),
        };
        for (verdict, outlasted, company, copies) in [
            (&timeout, true, true, false),
            // Its time ran out without anybody beside it: a second process would take as long.
            (&timeout, false, false, false),
            (&fault, true, false, false),
            (&mutated, true, false, true),
        ] {
            let judged = Judged { id: 3, outlasted };
            assert_eq!(rests_on_company(verdict, judged), company, "{verdict}");
            for device in [DeviceKind::Emulated, DeviceKind::Nvidia] {
                assert_eq!(rests_on_copies(verdict, device), copies, "{verdict}");
            }
        }
    }
}
