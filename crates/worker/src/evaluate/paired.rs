//! Times a candidate beside an incumbent and decides what that shows.
//!
//! The times are events that the process with both images reports; the supervisor holds its own
//! clock against them and everything else the reply claims, and the decision is statistics.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use domain::device::DeviceKind;
use domain::digest::Digest;
use domain::evaluation::EvaluationStage;
use domain::judge::{self, Trouble};
use domain::role::{Key, Sample, Side, TimeJob, TimeReply, TimedCase, turns};
use domain::statistics::{
    self, Block, CONFIRMATION, Clocks, Conditions, History, LOOKS, Order, Reading, Regression,
    Round, Settled, regressions,
};
use domain::timing::{MeasuredTime, Timing};
use domain::verdict::{Access, Comparison, Outcome, Verdict};

use super::Fault;
use super::roles::Roles;
use super::stages::Stop;
use crate::host::Role;
use crate::supervise;

/// After so long no further round is begun.
const SECONDS: u32 = 15;
/// What the rounds, loading and the last round may take together.
const DEADLINE: Duration = Duration::from_secs(60);

/// Two images to be timed in turn.
#[derive(Debug)]
pub struct Duel<'a> {
    /// What the candidate must beat.
    pub incumbent: Side,
    /// The candidate.
    pub candidate: Side,
    /// The score cases by name.
    pub cases: Vec<(String, TimedCase)>,
    /// The digests of the candidate's outputs that the reference agreed with, by case and draw;
    /// absent where nobody looked yet.
    pub verified: BTreeMap<(usize, usize), Digest>,
    /// Decides orders and poison.
    pub key: Key,
    /// Whether a promotion depends on it.
    pub stage: EvaluationStage,
    /// Thread instructions of one launch, on the emulated device.
    pub instructions: u64,
    /// The roles.
    pub roles: Roles<'a>,
}

/// What a comparison showed.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// The candidate's times.
    pub timing: Timing,
    /// The incumbent's, taken beside them.
    pub incumbent: Timing,
    /// The decision.
    pub comparison: Comparison,
    /// What it rests on.
    pub settled: Settled,
    /// Every case before the regression gate.
    pub regressions: Vec<Regression>,
    /// Rounds that did not count, of how many.
    pub discarded: (usize, usize),
}

/// The executions of some processes.
struct Taken {
    rounds: Vec<Round>,
    label: Option<String>,
}

impl Duel<'_> {
    /// Measures and decides.
    pub(super) fn fight(&self) -> Result<Compared, Stop> {
        let confirming = self.stage == EvaluationStage::Confirmation;
        let (processes, rounds) = if confirming {
            (CONFIRMATION.processes, CONFIRMATION.pairs / 2)
        } else {
            (1, LOOKS[LOOKS.len() - 1] / 2)
        };
        let taken = self.measure(&self.candidate, processes, rounds)?;
        let kept = statistics::keep(&taken.rounds, self.cases.len(), &History::default());
        if let Some(reason) = kept.inconclusive {
            return Err(Verdict::Inconclusive { reason }.into());
        }
        let settled = if confirming {
            // The incumbent against itself: what this shows is noise.
            let control = self.measure(&self.incumbent, processes, rounds)?;
            let control = statistics::keep(&control.rounds, self.cases.len(), &History::default());
            statistics::confirm(&kept.whole, None, &control.whole, self.key)
                .map_err(|reason| Verdict::InvalidRun { reason })?
        } else {
            let rounds = kept.whole.concat();
            statistics::screen_all(&rounds, None, self.key).ok_or_else(|| {
                Verdict::Inconclusive {
                    reason: format!(
                        "{} pairs were timed in {SECONDS} s, {} are needed",
                        2 * rounds.len(),
                        LOOKS[0]
                    ),
                }
            })?
        };
        let regressions = regressions(&kept.cases);
        let outcome = match settled.outcome {
            Outcome::Faster if regressions.iter().any(|case| case.blocks) => Outcome::NotFaster,
            other => other,
        };
        let evidence = &settled.evidence;
        Ok(Compared {
            timing: self.timing(&taken, |block| block.candidate_us),
            incumbent: self.timing(&taken, |block| block.incumbent_us),
            comparison: Comparison {
                outcome,
                ratio: evidence.effect.exp(),
                interval: [evidence.interval.lower.exp(), evidence.interval.upper.exp()],
            },
            discarded: (kept.discarded.len(), taken.rounds.len()),
            settled,
            regressions,
        })
    }

    /// Runs processes in which `second` is timed against the incumbent.
    fn measure(&self, second: &Side, processes: usize, rounds: usize) -> Result<Taken, Stop> {
        let control = second == &self.incumbent;
        let mut taken = Taken {
            rounds: Vec::new(),
            label: None,
        };
        for process in 0..processes {
            let name = format!("{} {process}", if control { "control" } else { "duel" });
            let key = self.key.derive(&["timing", &name]);
            let job = self.job(second, control, rounds, key);
            let (reply, ticks) = self.ask(&job)?;
            self.check(&job, &reply, &ticks, control)?;
            taken.label = reply.model_label;
            taken.rounds.extend(reply.rounds.iter().map(|blocks| {
                Round {
                    process,
                    blocks: blocks
                        .iter()
                        .map(|block| as_block(block.case, block.order, &block.samples))
                        .collect(),
                }
            }));
        }
        Ok(taken)
    }

    fn job(&self, second: &Side, control: bool, rounds: usize, key: Key) -> TimeJob {
        let cases = self.cases.iter().map(|(_, case)| {
            let mut case = case.clone();
            if control {
                case.candidate.clone_from(&case.incumbent);
            }
            case
        });
        let Key(seed) = key.derive(&["poison"]);
        let (word, _) = seed
            .bytes()
            .split_first_chunk::<8>()
            .expect("a digest has 32 bytes");
        TimeJob {
            incumbent: self.incumbent.clone(),
            candidate: second.clone(),
            cases: cases.collect(),
            rounds: statistics::plan(key, rounds, self.cases.len()),
            seconds: SECONDS,
            poison: u64::from_le_bytes(*word),
            instruction_budget: Some(self.instructions),
            threads: self.roles.host.threads(),
        }
    }

    /// Asks the role. One that dies is replaced once: twice on a healthy device is the
    /// candidate's doing.
    fn ask(&self, job: &TimeJob) -> Result<(TimeReply, Vec<Instant>), Stop> {
        let host = self.roles.host;
        let program = host.program(Role::Time, self.roles.scratch);
        let bounds = host.bounds(Role::Time, DEADLINE);
        let ask = || {
            supervise::ask::<_, TimeReply>(&program, job, bounds, self.roles.cancellation)
                .map_err(Fault::from)
        };
        let mut answer = ask()?;
        if matches!(&answer.reply, Err(exit) if exit.is_sudden()) {
            host.check(self.roles.cancellation).map_err(Fault::from)?;
            answer = ask()?;
        }
        match answer.reply {
            Ok(reply) if reply.device == *host.device() => Ok((reply, answer.ticks)),
            Ok(reply) => Err(Trouble(format!(
                "time on {}: the role used {}",
                host.device(),
                reply.device
            ))
            .into()),
            Err(exit) => {
                host.check(self.roles.cancellation).map_err(Fault::from)?;
                Err(judge::runner_exit(&exit, "timing", host.device().kind)?.into())
            }
        }
    }

    /// Whether a reply can be believed at all: every output as verified, every buffer intact,
    /// and no contradiction between its clock and ours.
    fn check(
        &self,
        job: &TimeJob,
        reply: &TimeReply,
        ticks: &[Instant],
        control: bool,
    ) -> Result<(), Stop> {
        if let Some(failure) = &reply.failure {
            let (case, _) = &self.cases[failure.case.min(self.cases.len() - 1)];
            let fault = &failure.fault;
            let what = format!("{} returned {} on case {case}", fault.call, fault.name);
            if !judge::is_of_a_kernel(fault.code) {
                return Err(Trouble(format!("time the candidate: {what}")).into());
            }
            if failure.candidate && !control {
                return Err(Verdict::RuntimeFault {
                    code: fault.code,
                    name: fault.name.clone(),
                    finding: None,
                }
                .into());
            }
            let reason = format!("the incumbent failed beside the candidate: {what}");
            return Err(Verdict::InvalidRun { reason }.into());
        }
        let asked = job.rounds.iter().zip(&reply.rounds);
        let as_planned = reply.rounds.len() <= job.rounds.len()
            && asked.clone().all(|(planned, timed)| {
                planned.len() == timed.len()
                    && planned
                        .iter()
                        .zip(timed)
                        .all(|(p, t)| p.case == t.case && p.order == t.order)
            });
        let blocks = || reply.rounds.iter().flatten();
        if !as_planned || ticks.len() != 8 * blocks().count() {
            let what = "time in the planned order: blocks or ticks are missing";
            return Err(Trouble(what.to_owned()).into());
        }
        let mut seen = BTreeMap::new();
        let mut readings = vec![Vec::new(); self.cases.len()];
        let mut moments = ticks.chunks_exact(2);
        for block in blocks() {
            for (candidate, sample) in turns(block.order).into_iter().zip(&block.samples) {
                let own = candidate && !control;
                self.intact(block.case, sample, own, &mut seen)?;
                let [begin, end] = moments.next().expect("two ticks for each sample") else {
                    unreachable!("chunks of two");
                };
                readings[block.case].push(Reading {
                    candidate,
                    event_us: sample.event_us,
                    wall_us: end.duration_since(*begin).as_secs_f64() * 1e6,
                });
            }
        }
        let clocks = match self.roles.host.device().kind {
            DeviceKind::Nvidia => Clocks::Measured,
            DeviceKind::Emulated => Clocks::Modelled,
        };
        for ((case, _), readings) in self.cases.iter().zip(&readings) {
            if let Some(how) = statistics::disagreement(readings, clocks) {
                let reason = format!("case {case}: {how}");
                return Err(Verdict::ClockMismatch { reason }.into());
            }
        }
        Ok(())
    }

    /// Whether an execution left what it should, and nothing else.
    fn intact(
        &self,
        case: usize,
        sample: &Sample,
        candidate: bool,
        seen: &mut BTreeMap<(bool, usize, usize), Digest>,
    ) -> Result<(), Stop> {
        let (name, _) = &self.cases[case];
        let invalid = |what: String| Stop::from(Verdict::InvalidRun { reason: what });
        if let Some(tensor) = &sample.mutated {
            return Err(if candidate {
                Verdict::InputMutated {
                    tensor: tensor.clone(),
                }
                .into()
            } else {
                invalid(format!("the incumbent's {tensor} changed on case {name}"))
            });
        }
        if let Some(buffer) = &sample.overrun {
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
        let verified = self
            .verified
            .get(&(case, sample.draw))
            .filter(|_| candidate);
        let first = *seen
            .entry((candidate, case, sample.draw))
            .or_insert_with(|| *verified.unwrap_or(&sample.outputs));
        if first == sample.outputs {
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
                "the incumbent's outputs on case {name} changed beside the candidate"
            ))
        })
    }

    fn timing(&self, taken: &Taken, times: impl Fn(&Block) -> [f64; 2]) -> Timing {
        let device = self.roles.host.device();
        let cases = self.cases.iter().enumerate().map(|(number, (name, _))| {
            let samples = taken
                .rounds
                .iter()
                .flat_map(|round| &round.blocks)
                .filter(|block| block.case == number)
                .flat_map(&times)
                .filter(|us| us.is_finite())
                .collect::<Vec<_>>();
            let quantile = |share| statistics::quantile(&samples, share).unwrap_or(f64::NAN);
            MeasuredTime {
                case: name.clone(),
                median_us: quantile(0.5),
                quartiles_us: [quantile(0.25), quantile(0.75)],
                samples: u32::try_from(samples.len()).unwrap_or(u32::MAX),
            }
        });
        match device.kind {
            DeviceKind::Nvidia => Timing::Measured {
                cases: cases.collect(),
            },
            DeviceKind::Emulated => Timing::Modelled {
                device: device.name.clone(),
                label: taken
                    .label
                    .clone()
                    .unwrap_or_else(|| "unlabelled".to_owned()),
                cases: cases
                    .map(|time| domain::timing::ModelledTime {
                        case: time.case,
                        us: time.median_us,
                        launches: Vec::new(),
                    })
                    .collect(),
            },
        }
    }
}

fn as_block(case: usize, order: Order, samples: &[Sample; 4]) -> Block {
    let us = samples.each_ref().map(|sample| sample.event_us);
    let (outer, inner) = ([us[0], us[3]], [us[1], us[2]]);
    let (incumbent_us, candidate_us) = match order {
        Order::IncumbentOutside => (outer, inner),
        Order::CandidateOutside => (inner, outer),
    };
    Block {
        case,
        order,
        incumbent_us,
        candidate_us,
        conditions: Conditions::default(),
    }
}
