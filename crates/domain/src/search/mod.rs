//! The search: given everything a run knows, what happens next.
//!
//! [`next`] is a pure function of [`RunSnapshot`]: the same state gives the same actions, so a run
//! replays in a test without network or GPU, and a service that was killed anywhere goes on
//! where the rows say it stands. A method only decides which candidates to ask for.

mod playbook;
mod sweep;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::CandidateId;
use crate::plan::Configuration;
use crate::task::Task;

/// How candidates come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// The task's hand-written steps in order, each with a sweep of its tunables.
    Playbook,
    /// Values of one source's tunables.
    Sweep,
    /// Someone outside proposes: an agent, a script, a person.
    External,
}

impl Method {
    /// Name as the wire carries it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Playbook => "playbook",
            Self::Sweep => "sweep",
            Self::External => "external",
        }
    }
}

/// When a run stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// Candidates, the baseline and duplicates of a sweep not counted.
    pub trials: u32,
    /// Wall time of the run in seconds, pauses not counted; none is unlimited.
    pub wall_seconds: Option<u64>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            trials: 45,
            wall_seconds: None,
        }
    }
}

/// How a candidate came about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "operator", rename_all = "snake_case")]
pub enum Operator {
    /// The task's baseline.
    Baseline,
    /// A step of the playbook.
    Step {
        /// Its file.
        file: String,
    },
    /// A configuration of its parent's source.
    Sweep,
    /// Submitted by an outside proposer.
    Submit,
}

impl Operator {
    /// Name without the details.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Step { .. } => "step",
            Self::Sweep => "sweep",
            Self::Submit => "submit",
        }
    }
}

/// Why a run ended as planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The method has nothing left to try.
    Exhausted,
    /// The trials are used up.
    Trials,
    /// The wall time is used up.
    WallTime,
    /// The target was reached and the task says to stop there.
    Target,
    /// No candidate meets the gates that open the playbook's next phase.
    PhaseClosed,
    /// Someone asked for it.
    Requested,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exhausted => "nothing left to try",
            Self::Trials => "trial budget used up",
            Self::WallTime => "wall time used up",
            Self::Target => "target reached",
            Self::PhaseClosed => "no candidate opens the playbook's next phase",
            Self::Requested => "finished on request",
        })
    }
}

/// Everything the search knows of a run.
#[derive(Debug, Clone)]
pub struct RunSnapshot<'a> {
    /// The task.
    pub task: &'a Task,
    /// The method.
    pub method: Method,
    /// When to stop.
    pub budget: Budget,
    /// Seed of every random decision.
    pub seed: u64,
    /// The file a sweep starts from; the baseline when absent.
    pub start: Option<&'a str>,
    /// Time the run has been running.
    pub elapsed: Duration,
    /// Someone asked the run to finish.
    pub finish_requested: bool,
    /// Every candidate by ordinal.
    pub candidates: &'a [Entry],
    /// How far the promotion of the champion is.
    pub promotion: PromotionProgress,
    /// Candidates whose confirmation failed.
    pub refused: &'a [CandidateId],
}

/// One candidate as the search sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Identity.
    pub id: CandidateId,
    /// The primary parent.
    pub parent: Option<CandidateId>,
    /// How it came about.
    pub operator: Operator,
    /// Generation.
    pub generation: u32,
    /// Values of all its tunables.
    pub configuration: Configuration,
    /// What is known of it.
    pub standing: Standing,
    /// Whether it was charged as a trial.
    pub trial: bool,
}

/// What the search knows of a candidate's worth.
#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    /// No verdict yet.
    Pending,
    /// Accepted.
    Accepted {
        /// Baseline's time over its time.
        speedup: f64,
        /// Whether every gate that stands before promotion holds.
        promotable: bool,
        /// Names of the phases whose gates do not all hold.
        unmet_phases: Vec<String>,
    },
    /// Any other verdict.
    Rejected,
    /// No verdict will come: the infrastructure gave up.
    Abandoned,
}

/// How far the promotion of the champion is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PromotionProgress {
    /// Nothing was asked yet, or the last champion was refused.
    #[default]
    None,
    /// The champion is being confirmed or committed.
    Underway,
    /// The champion is committed.
    Committed,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Record a candidate and have it evaluated.
    Propose(Proposal),
    /// Confirm a candidate with fresh seeds and promote it if that holds.
    Promote(CandidateId),
    /// End the run.
    Finish(StopReason),
    /// End the run because it cannot go on.
    Fail(String),
}

/// A candidate to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The primary parent; none for the baseline.
    pub parent: Option<CandidateId>,
    /// How it comes about.
    pub operator: Operator,
    /// Generation.
    pub generation: u32,
    /// The task's file with its source.
    pub file: String,
    /// Values of all its tunables.
    pub configuration: Configuration,
    /// A few words.
    pub title: String,
    /// Whether it is charged as a trial.
    pub trial: bool,
}

/// The least speedup over the baseline that is worth a promotion: a 2% regression must not
/// undo it.
pub const PROMOTION_MARGIN: f64 = 1.02;

/// What a method wants when nothing stops the run.
enum Plan {
    Propose(Vec<Proposal>),
    Wait,
    Exhausted(StopReason),
}

/// Decides what happens next. Performs nothing: the same snapshot gives the same actions.
/// An empty answer means to wait for verdicts, submissions or requests.
pub fn next(run: &RunSnapshot<'_>) -> Vec<Action> {
    let Some(baseline) = run.candidates.first() else {
        return vec![Action::Propose(baseline_proposal(run.task))];
    };
    match baseline.standing {
        Standing::Pending => return Vec::new(),
        Standing::Rejected => {
            return vec![Action::Fail(
                "the baseline was not accepted: fix the task, nothing can be compared with it"
                    .to_owned(),
            )];
        }
        Standing::Abandoned => {
            return vec![Action::Fail(
                "the baseline could not be evaluated".to_owned(),
            )];
        }
        Standing::Accepted { .. } => {}
    }
    let reason = match run.stop_reason() {
        Some(reason) => reason,
        None => match run.plan() {
            Plan::Propose(mut proposals) => {
                proposals.truncate(run.trials_left() as usize);
                return proposals.into_iter().map(Action::Propose).collect();
            }
            Plan::Wait => return Vec::new(),
            Plan::Exhausted(reason) => reason,
        },
    };
    if run
        .candidates
        .iter()
        .any(|entry| entry.standing == Standing::Pending)
    {
        return Vec::new();
    }
    match (run.promotion, run.champion()) {
        (PromotionProgress::Underway, _) => Vec::new(),
        (PromotionProgress::None, Some(champion)) => vec![Action::Promote(champion.id)],
        (PromotionProgress::None, None) | (PromotionProgress::Committed, _) => {
            vec![Action::Finish(reason)]
        }
    }
}

fn baseline_proposal(task: &Task) -> Proposal {
    Proposal {
        parent: None,
        operator: Operator::Baseline,
        generation: 0,
        file: "baseline.cu".to_owned(),
        configuration: task.baseline.plan().default_configuration(),
        title: "baseline".to_owned(),
        trial: false,
    }
}

impl RunSnapshot<'_> {
    /// Trials charged so far.
    pub fn trials(&self) -> u32 {
        let charged = self.candidates.iter().filter(|entry| entry.trial).count();
        u32::try_from(charged).unwrap_or(u32::MAX)
    }

    /// Trials that may still be charged.
    pub fn trials_left(&self) -> u32 {
        self.budget.trials.saturating_sub(self.trials())
    }

    /// The fastest candidate that may be promoted: every gate holds, its confirmation has not
    /// failed, and it beats the baseline by more than the margin.
    pub fn champion(&self) -> Option<&Entry> {
        let eligible = |entry: &&Entry| {
            matches!(entry.standing, Standing::Accepted { promotable: true, speedup, .. } if speedup > PROMOTION_MARGIN)
                && !self.refused.contains(&entry.id)
        };
        fastest(self.candidates.iter().filter(eligible))
    }

    fn stop_reason(&self) -> Option<StopReason> {
        let target = self
            .task
            .objective
            .target_speedup
            .filter(|_| self.task.objective.stop_at_target);
        let reached = |target: f64| {
            self.champion()
                .and_then(Entry::speedup)
                .is_some_and(|speedup| speedup >= target)
        };
        if self.finish_requested {
            Some(StopReason::Requested)
        } else if self
            .budget
            .wall_seconds
            .is_some_and(|limit| self.elapsed.as_secs() >= limit)
        {
            Some(StopReason::WallTime)
        } else if target.is_some_and(reached) {
            Some(StopReason::Target)
        } else if self.trials_left() == 0 {
            Some(StopReason::Trials)
        } else {
            None
        }
    }

    fn plan(&self) -> Plan {
        match self.method {
            Method::Playbook => playbook::plan(self),
            Method::Sweep => sweep::plan(self),
            Method::External => Plan::Wait,
        }
    }

    fn of_step(&self, file: &str) -> Option<&Entry> {
        self.candidates
            .iter()
            .find(|entry| matches!(&entry.operator, Operator::Step { file: own } if own == file))
    }

    fn sweep_of(&self, parent: CandidateId) -> impl Iterator<Item = &Entry> {
        self.candidates
            .iter()
            .filter(move |entry| entry.operator == Operator::Sweep && entry.parent == Some(parent))
    }
}

impl Entry {
    /// Its speedup over the baseline, if accepted.
    pub fn speedup(&self) -> Option<f64> {
        match self.standing {
            Standing::Accepted { speedup, .. } => Some(speedup),
            _ => None,
        }
    }
}

/// The fastest of the accepted; the earliest of equals.
fn fastest<'a>(entries: impl Iterator<Item = &'a Entry>) -> Option<&'a Entry> {
    entries
        .filter(|entry| entry.speedup().is_some())
        .reduce(|best, entry| {
            if entry.speedup() > best.speedup() {
                entry
            } else {
                best
            }
        })
}
