//! One timing process, from its job to its rounds. It makes as many rounds as a decision needs at
//! first, and further ones only while the decision is open.

use std::time::Instant;

use domain::judge::{self, InfrastructureFault};
use domain::role::{Key, NextRounds, Sample, TimeJob, TimeReply, TimedBlock, TimedCase};
use domain::statistics::{
    self, Block, Conditions, PlannedBlock, Round, TimedInterval, TimedKernel,
};
use domain::timing::CacheState;
use tempfile::TempDir;

use super::watch::DeviceWatch;
use super::{DEADLINE, KernelAssignment, PairedComparison, TimedRounds};
use crate::evaluate::error::{EvaluateError, Stop, storage};
use crate::evaluate::examine::confirm::{rests_on_copies, unconfirmed};
use crate::evaluate::roles::Roles;
use crate::host::Role;
use crate::supervise::{self, Answer, SuperviseError};

/// The number of rounds that a process is asked for.
pub struct RoundRequest<'w> {
    /// The rounds of the first request.
    pub first: usize,
    /// The rounds of all requests together, at most.
    pub most: usize,
    /// Returns the number of further rounds, given all so far.
    pub more: &'w dyn Fn(&[Round]) -> usize,
    /// True to time the unscored state of the cache afterwards.
    pub unscored: bool,
}

impl RoundRequest<'_> {
    /// A fixed number of rounds.
    pub fn exactly(rounds: usize) -> Self {
        Self {
            first: rounds,
            most: rounds,
            more: &|_| 0,
            unscored: false,
        }
    }
}

/// The requests to a process, and its replies so far.
struct Conversation {
    /// The job, with all rounds requested so far.
    job: TimeJob,
    /// All replies merged into one.
    reply: Option<TimeReply>,
    /// True if the unscored rounds were requested, because the decision has been made.
    decided: bool,
    /// True if the process was told to end.
    dismissed: bool,
}

impl Conversation {
    /// Merges a further reply. Values of earlier replies stay.
    fn add(&mut self, further: TimeReply) {
        match &mut self.reply {
            None => self.reply = Some(further),
            Some(reply) => {
                reply.rounds.extend(further.rounds);
                reply.outcomes.extend(further.outcomes);
                reply.kept = further.kept;
                reply.failure = reply.failure.take().or(further.failure);
            }
        }
    }
}

/// One process while it works.
struct Session<'s, 'd> {
    comparison: &'s PairedComparison<'d>,
    assignment: KernelAssignment,
    /// Its number among those of its assignment.
    process: usize,
    wanted: &'s RoundRequest<'s>,
    key: Key,
    /// The plan of all rounds that may be requested.
    rounds: Vec<Vec<PlannedBlock>>,
    /// The watch on the device; `None` where its condition is not needed.
    watch: Option<DeviceWatch>,
    /// The folder for outputs whose values are compared.
    outputs: Option<TempDir>,
}

/// The result of a session.
struct SessionResult {
    job: TimeJob,
    reply: TimeReply,
    ticks: Vec<Instant>,
    /// Keeps the files that the job names.
    _outputs: Option<TempDir>,
}

impl PairedComparison<'_> {
    /// Runs one process and adds its rounds.
    pub(super) fn measure(
        &self,
        assignment: KernelAssignment,
        process: usize,
        wanted: &RoundRequest<'_>,
        taken: &mut TimedRounds,
    ) -> Result<(), Stop> {
        if self.until.is_some_and(|until| Instant::now() >= until) {
            return Err(InfrastructureFault("compare in the time that there is".to_owned()).into());
        }
        let name = format!("{} {process} {}", assignment.as_str(), wanted.most);
        let key = self.key.derive(&["timing", &name]);
        let mut session = self.session(assignment, process, wanted, key);
        session.watch = Some(DeviceWatch::begin(&self.roles, &name.replace(' ', "-")));
        let timed = session.ask()?;
        if let Err(stop) = self.check(&timed, assignment) {
            let compared = timed.job.rounds.iter().flatten();
            let compared = compared.filter(|block| block.case < self.cases.len());
            let rounds = compared.count() / self.cases.len();
            return Err(self.confirm_in_second_process(stop, &name, rounds));
        }
        if let Some(watch) = &mut session.watch {
            watch.collect_samples();
        }
        let rounds = session.rounds_of(&timed.job, &timed.reply, &timed.ticks);
        let (unscored, rounds) = rounds
            .into_iter()
            .partition::<Vec<_>, _>(|round| self.is_unscored(round));
        taken.rounds.extend(rounds);
        taken.unscored.extend(unscored);
        taken.label = timed.reply.model_label;
        taken.sets = timed.reply.sets;
        taken.warm_up = timed.reply.warm_up;
        Ok(())
    }

    /// Confirms a verdict in a second process, where it rests only on bytes that were copied from the
    /// device. Only the candidate runs in that process, so that it is executed as often in half as many
    /// rounds. The verdict stands if the second process brings one, too.
    fn confirm_in_second_process(&self, stop: Stop, name: &str, rounds: usize) -> Stop {
        let kind = self.roles.host.device().kind;
        let verdict = match &stop {
            Stop::Verdict(verdict) if rests_on_copies(verdict, kind) => verdict,
            _ => return stop,
        };
        let key = self.key.derive(&["timing", "doubt", name]);
        let assignment = KernelAssignment::Alone;
        let wanted = RoundRequest::exactly(rounds.div_ceil(2));
        let again = self.session(assignment, 0, &wanted, key).ask();
        let again = again.and_then(|timed| self.check(&timed, assignment));
        match again {
            Ok(()) => unconfirmed("while timing", verdict, kind),
            Err(Stop::Verdict(_)) => stop,
            Err(fault) => fault,
        }
    }

    /// Checks the reply of a process that has ended, and the values of its outputs where their bytes may
    /// differ.
    fn check(&self, timed: &SessionResult, assignment: KernelAssignment) -> Result<(), Stop> {
        self.check_reply(&timed.job, &timed.reply, &timed.ticks, assignment)?;
        self.check_values(&timed.job, &timed.reply, assignment)
    }

    fn session<'s>(
        &'s self,
        assignment: KernelAssignment,
        process: usize,
        wanted: &'s RoundRequest<'s>,
        key: Key,
    ) -> Session<'s, 's> {
        Session {
            comparison: self,
            assignment,
            process,
            wanted,
            key,
            rounds: statistics::plan_rounds(key, wanted.most, self.cases.len()),
            watch: None,
            outputs: None,
        }
    }
}

impl Session<'_, '_> {
    /// Runs the role. A process that dies is replaced once: if two die on a healthy device, the candidate
    /// is the reason.
    fn ask(&mut self) -> Result<SessionResult, Stop> {
        let Roles {
            host, cancellation, ..
        } = self.comparison.roles;
        host.end_spares_on_card();
        let first = match self.attempt() {
            // It ended before it knew its job.
            Err(EvaluateError::Supervise(SuperviseError::Unready { late: false, .. })) => {
                self.attempt()
            }
            other => other,
        };
        let (mut conversation, mut answer) = first?;
        if matches!(&answer.reply, Err(exit) if exit.may_succeed_on_retry()) {
            host.check_health(cancellation)
                .map_err(EvaluateError::from)?;
            (conversation, answer) = self.attempt()?;
        }
        match (answer.reply, conversation.reply) {
            (Ok(()), Some(reply)) if reply.device == *host.device() => Ok(SessionResult {
                job: conversation.job,
                reply,
                ticks: answer.ticks,
                _outputs: self.outputs.take(),
            }),
            (Ok(()), Some(reply)) => Err(InfrastructureFault(format!(
                "time on {}: the role used {}",
                host.device(),
                reply.device
            ))
            .into()),
            (Ok(()), None) => {
                Err(InfrastructureFault("time: the role said nothing".to_owned()).into())
            }
            (Err(exit), _) => {
                host.check_health(cancellation)
                    .map_err(EvaluateError::from)?;
                Err(judge::judge_runner_exit(&exit, "timing", host.device().kind)?.into())
            }
        }
    }

    fn attempt(&mut self) -> Result<(Conversation, Answer<()>), EvaluateError> {
        let Roles {
            host,
            scratch,
            cancellation,
            ..
        } = self.comparison.roles;
        if let Some(watch) = &mut self.watch {
            watch.resume();
        }
        let rounds = self.rounds[..self.wanted.first].to_vec();
        self.outputs = match &self.comparison.values {
            Some(_) => Some(tempfile::tempdir_in(scratch).map_err(storage(scratch))?),
            None => None,
        };
        let job = self.comparison.job(
            self.assignment,
            self.wanted.unscored,
            rounds,
            self.key,
            self.outputs.as_ref().map(TempDir::path),
        );
        let mut conversation = Conversation {
            job: job.clone(),
            reply: None,
            decided: false,
            dismissed: false,
        };
        let program = host.program(Role::Time, scratch);
        let bounds = host.timing_bounds(&job, DEADLINE);
        let answer = supervise::converse(&program, &job, bounds, cancellation, |reply, ticks| {
            self.handle_reply(&mut conversation, reply, ticks)
        })?;
        Ok((conversation, answer))
    }

    /// Records a reply and returns the rounds that are requested next; empty if the process is to
    /// end.
    fn handle_reply(
        &mut self,
        conversation: &mut Conversation,
        reply: TimeReply,
        ticks: &[Instant],
    ) -> Option<NextRounds> {
        let last = conversation.dismissed || reply.failure.is_some();
        conversation.add(reply);
        if last {
            return None;
        }
        let mut rounds = match conversation.decided {
            true => Vec::new(),
            false => self.further_rounds(conversation, ticks),
        };
        if rounds.is_empty() && !conversation.decided {
            conversation.decided = true;
            rounds = self.unscored_rounds(conversation);
        }
        conversation.dismissed = rounds.is_empty();
        conversation.job.rounds.extend_from_slice(&rounds);
        Some(NextRounds { rounds })
    }

    /// The unscored rounds; empty if they are not wanted, if the last rounds were cut off by the
    /// time limit, or if the process cannot make them.
    fn unscored_rounds(&self, conversation: &Conversation) -> Vec<Vec<PlannedBlock>> {
        let in_time = |reply: &&TimeReply| reply.rounds.len() == conversation.job.rounds.len();
        let Some(reply) = conversation.reply.as_ref().filter(in_time) else {
            return Vec::new();
        };
        let warm = |cases: &[(String, TimedCase)]| {
            let mut cases = cases.iter();
            cases.any(|(_, case)| case.cache == CacheState::Warm)
        };
        if !self.wanted.unscored || (warm(&self.comparison.unscored) && !reply.warms) {
            return Vec::new();
        }
        self.comparison.plan_unscored_rounds(self.key)
    }

    /// The further rounds that the decision needs; empty if the last rounds were cut off by the
    /// time limit, or if the reply is invalid.
    fn further_rounds(
        &mut self,
        conversation: &Conversation,
        ticks: &[Instant],
    ) -> Vec<Vec<PlannedBlock>> {
        let asked = conversation.job.rounds.len();
        let room = self.rounds.len() - asked;
        let Some(reply) = conversation.reply.as_ref().filter(|_| room > 0) else {
            return Vec::new();
        };
        let believed =
            self.comparison
                .check_reply(&conversation.job, reply, ticks, self.assignment);
        if reply.rounds.len() < asked || believed.is_err() {
            return Vec::new();
        }
        if let Some(watch) = &mut self.watch {
            watch.collect_samples();
        }
        let rounds = self.rounds_of(&conversation.job, reply, ticks);
        let more = (self.wanted.more)(&rounds).min(room);
        if let Some(watch) = self.watch.as_mut().filter(|_| more > 0) {
            watch.resume();
        }
        self.rounds[asked..asked + more].to_vec()
    }

    /// The rounds of a valid reply, each with the device's condition meanwhile.
    fn rounds_of(&self, job: &TimeJob, reply: &TimeReply, ticks: &[Instant]) -> Vec<Round> {
        let anchored = job.images.contains_key(&TimedKernel::Anchor);
        let mut ticks = ticks.chunks_exact(2);
        let mut conditions_of = |block: &TimedBlock| {
            let Some(watch) = &self.watch else {
                return Conditions::default();
            };
            let whose = statistics::sample_order(block.order, anchored).into_iter();
            let moments = whose
                .zip(ticks.by_ref())
                .map(|(contender, ends)| TimedInterval {
                    contender,
                    from_ns: watch.nanoseconds(ends[0]),
                    until_ns: watch.nanoseconds(ends[1]),
                })
                .collect::<Vec<_>>();
            statistics::summarise_conditions(watch.device_samples(), &moments)
        };
        let rounds = reply.rounds.iter().map(|blocks| Round {
            process: self.process,
            blocks: blocks
                .iter()
                .map(|block| as_block(block, anchored, conditions_of(block)))
                .collect(),
        });
        rounds.collect()
    }
}

/// The number of executions in a sample.
pub fn executions(sample: &Sample) -> u32 {
    let counts = sample.outcomes.values().copied();
    counts.fold(0, u32::saturating_add)
}

/// The times of a block by kernel, per execution.
fn as_block(block: &TimedBlock, anchored: bool, conditions: Conditions) -> Block {
    let turns = statistics::sample_order(block.order, anchored);
    let times = |contender: TimedKernel| {
        let own = turns.iter().zip(&block.samples);
        let mut own = own
            .filter(|(whose, _)| **whose == contender)
            .map(|(_, sample)| sample.event_us / f64::from(executions(sample)));
        let mut next = || own.next().unwrap_or(f64::NAN);
        [next(), next()]
    };
    let clocks = |contender: TimedKernel| {
        let own = turns.iter().zip(&block.samples);
        let mut own = own
            .filter(|(whose, _)| **whose == contender)
            .map(|(_, sample)| clock(sample));
        let (first, second) = own.next().zip(own.next())?;
        Some([first?, second?])
    };
    let counted = clocks(TimedKernel::Incumbent).zip(clocks(TimedKernel::Candidate));
    Block {
        case: block.case,
        order: block.order,
        incumbent_us: times(TimedKernel::Incumbent),
        candidate_us: times(TimedKernel::Candidate),
        anchor_us: anchored.then(|| times(TimedKernel::Anchor)),
        counted_mhz: counted.map(|(incumbent, candidate)| [incumbent, candidate]),
        conditions,
    }
}

/// The clock during a sample, MHz: the mean of those before and after it; `None` if the reported
/// values are no clock rate.
fn clock(sample: &Sample) -> Option<f64> {
    let [before, after] = sample.sm_mhz?;
    Some(before.midpoint(after)).filter(|mhz| mhz.is_finite() && *mhz > 0.0)
}
