//! Times a candidate beside an incumbent, and beside the task's baseline where that is another,
//! and decides what that shows.
//!
//! The times are events that the process with the images reports; the supervisor holds its own
//! clock against them and everything else the reply claims ([`believe`]), and the decision is
//! statistics.

mod apart;
mod believe;
mod watch;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use domain::device::DeviceKind;
use domain::digest::Digest;
use domain::evaluation::EvaluationStage;
use domain::judge::{self, Trouble};
use domain::measurement::{Anchored, CaseProtocol, Discarded, Measurement, Noise, Watched};
use domain::role::{Key, Sample, Side, TimeJob, TimeReply, TimedBlock, TimedCase};
use domain::statistics::{
    self, ALPHA, ALTERNATIONS, Block, CONFIRMATION, Conditions, Contender, History, Interval, Kept,
    LOOKS, Moment, Round, Settled, Split, WarmUp, regressions,
};
use domain::timing::{MeasuredTime, ModelledTime, Timing};
use domain::verdict::{Comparison, Outcome, Verdict};

pub use self::apart::Apart;
use self::watch::Watch;
use super::Fault;
use super::examine::{rests_on_copies, unconfirmed};
use super::roles::Roles;
use super::stages::Stop;
use crate::host::Role;
use crate::supervise;

/// After so long no further round is begun.
const SECONDS: u32 = 15;
/// What the rounds, loading and the last round may take together.
const DEADLINE: Duration = Duration::from_secs(60);
/// The longest batch on the emulated device, where a time is exact whatever its length: long
/// enough to be one.
const EMULATED_BATCH: u32 = 2;

/// Images to be timed in turn.
#[derive(Debug)]
pub struct Duel<'a> {
    /// Identity of what the candidate must beat.
    pub incumbent: Digest,
    /// Incumbent and candidate, and the anchor where it is not the incumbent.
    pub sides: BTreeMap<Contender, Side>,
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
    /// The decision.
    pub comparison: Comparison,
    /// What it rests on.
    pub measurement: Measurement,
}

/// Who runs in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lineup {
    /// Everybody in its own place.
    Duel,
    /// The incumbent in all places: what that shows is noise.
    Control,
    /// The candidate in all places, so that it meets nobody.
    Alone,
}

impl Lineup {
    /// Who really runs in a contender's place.
    fn plays(self, place: Contender) -> Contender {
        match self {
            Self::Duel => place,
            Self::Control => Contender::Incumbent,
            Self::Alone => Contender::Candidate,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Duel => "duel",
            Self::Control => "control",
            Self::Alone => "alone",
        }
    }
}

/// The rounds of some processes.
#[derive(Default)]
struct Taken {
    rounds: Vec<Round>,
    label: Option<String>,
    sets: Vec<u32>,
    warm_up: Vec<u32>,
}

impl Duel<'_> {
    /// Measures and decides.
    pub(super) fn fight(mut self) -> Result<Compared, Stop> {
        self.measure_batches()?;
        let confirming = self.stage.decides_promotion();
        let (processes, rounds) = if confirming {
            (CONFIRMATION.processes, CONFIRMATION.pairs / 2)
        } else {
            (1, LOOKS[LOOKS.len() - 1] / 2)
        };
        let (mut taken, mut control, mut alone) =
            (Taken::default(), Taken::default(), Taken::default());
        for process in 0..processes {
            self.measure(Lineup::Duel, process, rounds, &mut taken)?;
            if confirming {
                // In turn with the others, so that all see the same device.
                self.measure(Lineup::Control, process, rounds, &mut control)?;
            }
            if confirming && process < ALTERNATIONS {
                self.measure(Lineup::Alone, process, rounds, &mut alone)?;
            }
        }
        let kept = self.keep(&taken)?;
        let (settled, noise) = if confirming {
            self.confirm(&kept, &control)?
        } else {
            (self.screen(&kept)?, None)
        };
        let split = if confirming {
            Some(self.split(&control, &alone, settled.evidence.interval)?)
        } else {
            None
        };
        let regressions = regressions(&kept.cases);
        let outcome = match settled.outcome {
            Outcome::Faster if regressions.iter().any(|case| case.blocks) => Outcome::NotFaster,
            other => other,
        };
        let evidence = &settled.evidence;
        Ok(Compared {
            timing: self.timing(&taken, |block| block.candidate_us),
            comparison: Comparison {
                outcome,
                ratio: evidence.effect.exp(),
                interval: exponential(evidence.interval),
            },
            measurement: Measurement {
                incumbent: self.incumbent,
                incumbent_timing: self.timing(&taken, |block| block.incumbent_us),
                looks: looks(&settled, confirming),
                anchor: Anchored {
                    ratio: statistics::effect(&kept.anchored).map_or(f64::NAN, f64::exp),
                    interval: exponential(statistics::interval(&kept.anchored, ALPHA)),
                },
                settled,
                rounds: kept.whole,
                timed: count(taken.rounds.len()),
                discarded: kept
                    .discarded
                    .into_iter()
                    .map(|(round, reason)| Discarded {
                        round: count(round),
                        reason,
                    })
                    .collect(),
                regressions,
                noise,
                split,
                watched: Watched::of(&taken.rounds),
                cases: self.protocol(&taken),
            },
        })
    }

    fn keep(&self, taken: &Taken) -> Result<Kept, Stop> {
        let mut kept = statistics::keep(&taken.rounds, self.cases.len(), &History::default());
        match kept.inconclusive.take() {
            Some(reason) => Err(Verdict::Inconclusive { reason }.into()),
            None => Ok(kept),
        }
    }

    fn screen(&self, kept: &Kept) -> Result<Settled, Stop> {
        let rounds = kept.whole.concat();
        statistics::screen_all(&rounds, None, self.key).ok_or_else(|| {
            let reason = format!(
                "{} pairs were timed in {SECONDS} s, {} are needed",
                2 * rounds.len(),
                LOOKS[0]
            );
            Verdict::Inconclusive { reason }.into()
        })
    }

    fn confirm(&self, kept: &Kept, control: &Taken) -> Result<(Settled, Option<Noise>), Stop> {
        let control = self.keep(control)?;
        let settled = statistics::confirm(&kept.whole, None, &control.whole, self.key)
            .map_err(|reason| Verdict::InvalidRun { reason })?;
        let noise = Noise {
            interval: statistics::interval(&control.whole, ALPHA / 2.0),
            pairs: count(2 * control.whole.iter().map(Vec::len).sum::<usize>()),
            processes: count(control.whole.len()),
        };
        Ok((settled, Some(noise)))
    }

    /// Holds the ratio seen in shared processes against that of processes of one contender only.
    fn split(&self, control: &Taken, alone: &Taken, shared: Interval) -> Result<Split, Stop> {
        let ratios = (0..ALTERNATIONS)
            .filter_map(|process| {
                let of_both = self.centres(control, process);
                let of_both = of_both.iter().zip(self.centres(alone, process));
                let logarithms = of_both.map(|(incumbent, own)| (incumbent / own).ln());
                statistics::mean(&logarithms.collect::<Vec<_>>())
            })
            .filter(|ratio| ratio.is_finite())
            .collect::<Vec<_>>();
        statistics::split(&ratios, shared).map_err(|reason| Verdict::InvalidRun { reason }.into())
    }

    /// The middle of all times of each case in one process whose places were all one contender's;
    /// NaN where there are none.
    fn centres(&self, taken: &Taken, process: usize) -> Vec<f64> {
        let centre = |case: usize| {
            let own = taken.rounds.iter().filter(|round| round.process == process);
            let blocks = own.flat_map(|round| &round.blocks);
            let times = blocks
                .filter(|block| block.case == case)
                .flat_map(|block| block.incumbent_us.into_iter().chain(block.candidate_us))
                .filter(|us| us.is_finite() && *us > 0.0)
                .collect::<Vec<_>>();
            statistics::median(&times).unwrap_or(f64::NAN)
        };
        (0..self.cases.len()).map(centre).collect()
    }

    /// Finds out which cases are so short that they have to be timed in batches.
    fn measure_batches(&mut self) -> Result<(), Stop> {
        let mut first = Taken::default();
        self.measure(Lineup::Duel, 0, 1, &mut first)?;
        let most = match self.roles.host.device().kind {
            DeviceKind::Nvidia => u32::MAX,
            DeviceKind::Emulated => EMULATED_BATCH,
        };
        for (number, (_, case)) in self.cases.iter_mut().enumerate() {
            let blocks = first.rounds.iter().flat_map(|round| &round.blocks);
            let times = blocks
                .filter(|block| block.case == number)
                .flat_map(|block| block.incumbent_us.into_iter().chain(block.candidate_us));
            // Of a time that is none nothing follows; the rounds will say so.
            let shortest = times.fold(f64::INFINITY, f64::min);
            case.batch = statistics::batch(shortest).min(most);
        }
        Ok(())
    }

    /// Runs one process and adds its rounds.
    fn measure(
        &self,
        lineup: Lineup,
        process: usize,
        rounds: usize,
        taken: &mut Taken,
    ) -> Result<(), Stop> {
        let name = format!("{} {process} {rounds}", lineup.as_str());
        let key = self.key.derive(&["timing", &name]);
        let job = self.job(lineup, rounds, key);
        let watch = Watch::begin(&self.roles, &name.replace(' ', "-"));
        let asked = self.ask(&job);
        let seen = watch.end();
        let (reply, ticks) = asked?;
        if let Err(stop) = self.believe(&job, &reply, &ticks, lineup) {
            return Err(self.doubt(stop, &name, rounds));
        }
        let anchored = job.sides.contains_key(&Contender::Anchor);
        let mut ticks = ticks.chunks_exact(2);
        for blocks in &reply.rounds {
            let blocks = blocks.iter().map(|block| {
                let whose = statistics::turns(block.order, anchored).into_iter();
                let moments = whose
                    .zip(ticks.by_ref())
                    .map(|(contender, ends)| Moment {
                        contender,
                        from_ns: seen.nanoseconds(ends[0]),
                        until_ns: seen.nanoseconds(ends[1]),
                    })
                    .collect::<Vec<_>>();
                let conditions = statistics::conditions(seen.glimpses(), &moments);
                as_block(block, anchored, conditions)
            });
            taken.rounds.push(Round {
                process,
                blocks: blocks.collect(),
            });
        }
        taken.label = reply.model_label;
        taken.sets = reply.sets;
        taken.warm_up = reply.warm_up;
        Ok(())
    }

    /// Asks a second process where only bytes that were copied from the device speak against the
    /// candidate: one that meets nobody, so that the candidate is executed as often in half as many
    /// rounds. Bad news stands if that brings any, too.
    fn doubt(&self, stop: Stop, name: &str, rounds: usize) -> Stop {
        let kind = self.roles.host.device().kind;
        let verdict = match &stop {
            Stop::Verdict(verdict) if rests_on_copies(verdict, kind) => verdict,
            _ => return stop,
        };
        let key = self.key.derive(&["timing", "doubt", name]);
        let job = self.job(Lineup::Alone, rounds.div_ceil(2), key);
        let again = self
            .ask(&job)
            .and_then(|(reply, ticks)| self.believe(&job, &reply, &ticks, Lineup::Alone));
        match again {
            Ok(()) => unconfirmed("while timing", verdict, kind),
            Err(Stop::Verdict(_)) => stop,
            Err(fault) => fault,
        }
    }

    fn job(&self, lineup: Lineup, rounds: usize, key: Key) -> TimeJob {
        let places = self
            .sides
            .keys()
            .copied()
            .filter(|place| lineup == Lineup::Duel || *place != Contender::Anchor)
            .collect::<Vec<_>>();
        let cases = self.cases.iter().map(|(_, case)| TimedCase {
            plans: places
                .iter()
                .map(|place| (*place, case.plans[&lineup.plays(*place)].clone()))
                .collect(),
            draws: case.draws.clone(),
            batch: case.batch,
        });
        let Key(seed) = key.derive(&["poison"]);
        let (word, _) = seed
            .bytes()
            .split_first_chunk::<8>()
            .expect("a digest has 32 bytes");
        TimeJob {
            sides: places
                .iter()
                .map(|place| (*place, self.sides[&lineup.plays(*place)].clone()))
                .collect(),
            cases: cases.collect(),
            rounds: statistics::plan(key, rounds, self.cases.len()),
            warm_up: match self.roles.host.device().kind {
                DeviceKind::Nvidia => WarmUp::MEASURED,
                DeviceKind::Emulated => WarmUp::MODELLED,
            },
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
        host.clear_the_device();
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

    fn protocol(&self, taken: &Taken) -> Vec<CaseProtocol> {
        let cases = self.cases.iter().enumerate();
        cases
            .map(|(number, (name, case))| CaseProtocol {
                case: name.clone(),
                batch: case.batch,
                sets: taken.sets.get(number).copied().unwrap_or_default(),
                warm_up: taken.warm_up.get(number).copied().unwrap_or_default(),
            })
            .collect()
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
                samples: count(samples.len()),
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
                    .map(|time| ModelledTime {
                        case: time.case,
                        us: time.median_us,
                        launches: Vec::new(),
                    })
                    .collect(),
            },
        }
    }
}

/// How often the pairs were looked at: a screening up to the look that decided, a confirmation
/// once.
fn looks(settled: &Settled, confirming: bool) -> u32 {
    if confirming {
        return 1;
    }
    let seen = LOOKS
        .iter()
        .filter(|look| **look <= settled.evidence.pairs)
        .count();
    count(seen)
}

fn exponential(interval: Interval) -> [f64; 2] {
    [interval.lower.exp(), interval.upper.exp()]
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// How many executions a sample is the time of.
fn executions(sample: &Sample) -> u32 {
    let counts = sample.left.values().copied();
    counts.fold(0, u32::saturating_add)
}

/// A block by who was timed, per execution.
fn as_block(block: &TimedBlock, anchored: bool, conditions: Conditions) -> Block {
    let turns = statistics::turns(block.order, anchored);
    let times = |contender: Contender| {
        let own = turns.iter().zip(&block.samples);
        let mut own = own
            .filter(|(whose, _)| **whose == contender)
            .map(|(_, sample)| sample.event_us / f64::from(executions(sample)));
        let mut next = || own.next().unwrap_or(f64::NAN);
        [next(), next()]
    };
    Block {
        case: block.case,
        order: block.order,
        incumbent_us: times(Contender::Incumbent),
        candidate_us: times(Contender::Candidate),
        anchor_us: anchored.then(|| times(Contender::Anchor)),
        conditions,
    }
}
