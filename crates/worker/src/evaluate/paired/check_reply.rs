//! Checks of the reply of a process that ran a candidate: every planned execution was made, all
//! outputs are those that were verified (or are [compared by their values](super::values)), every buffer is intact, and the event times do not
//! contradict the supervisor's clock.

use std::collections::BTreeMap;
use std::time::Instant;

use domain::cleaning;
use domain::device::DeviceKind;
use domain::digest::Digest;
use domain::judge::{self, InfrastructureFault};
use domain::role::{ExecutionOutcome, Failure, Sample, TimeJob, TimeReply};
use domain::statistics::{self, ClockReading, EventTimes, TimedKernel, sample_order};
use domain::verdict::{Access, Verdict};

use super::process::executions;
use super::{KernelAssignment, PairedComparison};
use crate::evaluate::error::Stop;

/// The first outputs of each kernel that ran, by case and draw.
type FirstOutputs = BTreeMap<(TimedKernel, usize, usize), Digest>;

impl PairedComparison<'_> {
    pub(super) fn check_reply(
        &self,
        job: &TimeJob,
        reply: &TimeReply,
        ticks: &[Instant],
        assignment: KernelAssignment,
    ) -> Result<(), Stop> {
        if let Some(failure) = &reply.failure {
            return Err(self.judge_failure(failure, assignment));
        }
        let anchored = job.images.contains_key(&TimedKernel::Anchor);
        check_plan(job, reply, ticks, anchored)?;
        let mut seen = FirstOutputs::new();
        let mut readings = vec![Vec::new(); job.cases.len()];
        let mut moments = ticks.chunks_exact(2);
        for block in reply.rounds.iter().flatten() {
            let whose = sample_order(block.order, anchored);
            for (place, sample) in whose.into_iter().zip(&block.samples) {
                let player = assignment.kernel_in(place);
                for number in sample.outcomes.keys() {
                    // `check_plan` has checked that the indices are valid.
                    self.check_buffers(block.case, &reply.outcomes[*number], player, &mut seen)?;
                }
                let [begin, end] = moments.next().expect("two ticks for each sample") else {
                    unreachable!("chunks of two");
                };
                readings[block.case].push(ClockReading {
                    contender: place,
                    event_us: sample.event_us,
                    wall_us: end.duration_since(*begin).as_secs_f64() * 1e6,
                });
            }
        }
        let clocks = match self.roles.host.device().kind {
            DeviceKind::Nvidia => EventTimes::Measured,
            DeviceKind::Emulated => EventTimes::Modelled,
        };
        for (number, readings) in readings.iter().enumerate() {
            // The few rounds of the unscored state allow only a check for impossible times.
            let clocks = if number < self.cases.len() {
                clocks
            } else {
                EventTimes::Modelled
            };
            if let Some(how) = statistics::find_clock_contradiction(readings, clocks) {
                let reason = format!("case {}: {how}", self.case_name(number));
                return Err(Verdict::ClockMismatch { reason }.into());
            }
        }
        Ok(())
    }

    /// Judges a driver call that failed, by the kernel that was running.
    fn judge_failure(&self, failure: &Failure, assignment: KernelAssignment) -> Stop {
        let case = self.case_name(failure.case);
        let fault = &failure.fault;
        let name = cleaning::clean_name(&fault.name);
        let player = assignment.kernel_in(failure.contender);
        let what = format!(
            "{} returned {name} on case {case}",
            cleaning::clean_name(&fault.call)
        );
        if !judge::can_kernel_cause(fault.code) {
            return InfrastructureFault(format!("time the {}: {what}", player.as_str())).into();
        }
        if player == TimedKernel::Candidate {
            return Verdict::RuntimeFault {
                code: fault.code,
                name,
                finding: None,
            }
            .into();
        }
        let reason = format!(
            "the {} failed beside the candidate: {what}",
            player.as_str()
        );
        Verdict::InvalidRun { reason }.into()
    }

    /// Checks that an execution left the right outputs and changed nothing else.
    fn check_buffers(
        &self,
        case: usize,
        outcome: &ExecutionOutcome,
        player: TimedKernel,
        seen: &mut FirstOutputs,
    ) -> Result<(), Stop> {
        let name = self.case_name(case);
        let candidate = player == TimedKernel::Candidate;
        let invalid = |what: String| Stop::from(Verdict::InvalidRun { reason: what });
        let who = player.as_str();
        if let Some(tensor) = &outcome.mutated {
            let tensor = cleaning::clean_name(tensor);
            return Err(if candidate {
                Verdict::InputMutated { tensor }.into()
            } else {
                invalid(format!("the {who}'s {tensor} changed on case {name}"))
            });
        }
        if let Some(buffer) = &outcome.overrun {
            let buffer = cleaning::clean_name(buffer);
            let reason = format!("the memory beside {buffer} was changed on case {name}");
            return Err(if candidate {
                Verdict::OutOfBounds {
                    access: Access::Write,
                    finding: None,
                    reason,
                }
                .into()
            } else {
                invalid(reason)
            });
        }
        let entry = self.case_by_number(case).filter(|_| candidate);
        let verified = entry.and_then(|(name, _)| self.verified.get(&(name.clone(), outcome.draw)));
        let first = *seen
            .entry((player, case, outcome.draw))
            .or_insert_with(|| *verified.unwrap_or(&outcome.outputs));
        if first == outcome.outputs {
            return Ok(());
        }
        Err(if candidate {
            Verdict::NonDeterministic {
                reason: format!("a timed execution of case {name} has other outputs than before"),
                finding: None,
            }
            .into()
        } else {
            invalid(format!(
                "the {who}'s outputs on case {name} changed beside the candidate"
            ))
        })
    }
}

/// Checks that the reply covers the planned rounds, with nothing missing.
fn check_plan(
    job: &TimeJob,
    reply: &TimeReply,
    ticks: &[Instant],
    anchored: bool,
) -> Result<(), InfrastructureFault> {
    let turns_of_a_block = if anchored { 6 } else { 4 };
    let complete = |sample: &Sample, case: usize| {
        let sets = reply.sets.get(case).copied().unwrap_or_default();
        let draws = job.cases[case].draws.len();
        let known = sample.outcomes.keys().all(|number| {
            let outcome = reply.outcomes.get(*number);
            outcome.is_some_and(|outcome| outcome.draw < draws)
        });
        // Every execution is recorded; where memory ran out there are fewer than planned.
        let counted = u64::from(executions(sample));
        known && counted == u64::from(job.cases[case].batch.min(sets)) && counted > 0
    };
    let asked = job.rounds.iter().zip(&reply.rounds);
    let planned = reply.rounds.len() <= job.rounds.len()
        && asked.into_iter().all(|(planned, timed)| {
            planned.len() == timed.len()
                && planned.iter().zip(timed).all(|(planned, timed)| {
                    planned.case == timed.case
                        && planned.order == timed.order
                        && timed.samples.len() == turns_of_a_block
                        && timed
                            .samples
                            .iter()
                            .all(|sample| complete(sample, timed.case))
                })
        });
    let blocks = reply.rounds.iter().flatten().count();
    if planned && ticks.len() == 2 * turns_of_a_block * blocks {
        return Ok(());
    }
    let what = "time in the planned order: blocks, executions or ticks are missing";
    Err(InfrastructureFault(what.to_owned()))
}
