//! The search: the next actions of a run, from its recorded state.
//!
//! [`next_actions`] is a pure function of [`RunSnapshot`]: the same state gives the same actions, so a
//! run replays in a test without network or GPU, and a service that was killed continues from the
//! recorded rows. A method only decides which candidates to ask for.

mod archive;
mod bandit;
mod budget;
mod chains;
mod evolution;
mod evolve;
mod insights;
mod islands;
mod lessons;
mod limits;
mod methods;
mod playbook;
mod population;
pub mod selection;
mod settled;
mod steering;
mod sweep;
mod totals;
mod transform;
mod tuning;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::brief::describe_verdict;
use crate::candidate::Edit;
use crate::digest::Digest;
use crate::id::CandidateId;
use crate::margins::is_promotable;
use crate::model::Dollars;
use crate::plan::Configuration;
use crate::task::Task;
use crate::verdict::VerdictKind;

pub use archive::Cell;
pub use budget::{Budget, Spend, StopReason};
pub use evolution::{Evolution, ModelChoice, PromptStyle, Schedule};
pub use evolve::Draft;
pub use insights::{Insight, InsightRecords, insights};
pub use islands::Membership;
pub use lessons::{LessonsOrigin, lessons};
pub use methods::most_slots;
pub use steering::{Hint, InsightEdit, Steering};
pub use totals::Totals;
pub use tuning::{MAX_SWEEP_PERCENT, Tunables};

/// The methods by which candidates are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// The task's hand-written steps in order, each with a sweep of its tunables.
    Playbook,
    /// Values of one source's tunables.
    Sweep,
    /// Someone outside proposes: an agent, a script, a person.
    External,
    /// Structural edits of the fastest candidates, without a model.
    Transform,
    /// A model that is shown the task and the best code, nothing else (EvoEngineer-Free).
    Free,
    /// A model that is also shown times, a profile and insights (EvoEngineer-Insight).
    Insight,
    /// A model that breeds from an elite, with insights (EvoEngineer-Full).
    Full,
    /// A model that breeds from the fastest of each technique and bounding resource, with insights.
    Archive,
    /// A model that writes one candidate after another from the best (greedy best-of-N).
    BestOf,
    /// A model that improves several chains step by step; the slower half is dropped every four steps.
    Refine,
    /// A model that is asked by four operators for new forms and parameters (EoH).
    Eoh,
    /// A model that continues programs of islands (FunSearch).
    Funsearch,
    /// A model that is shown the five fastest, from slow to fast (The AI CUDA Engineer).
    AiCudaEngineer,
    /// A model that is shown as much of the run as validity and progress ask for.
    Adaptive,
}

impl Method {
    /// Name as the wire carries it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Playbook => "playbook",
            Self::Sweep => "sweep",
            Self::External => "external",
            Self::Transform => "transform",
            Self::Free => "free",
            Self::Insight => "insight",
            Self::Full => "full",
            Self::Archive => "archive",
            Self::BestOf => "best_of",
            Self::Refine => "refine",
            Self::Eoh => "eoh",
            Self::Funsearch => "funsearch",
            Self::AiCudaEngineer => "ai_cuda_engineer",
            Self::Adaptive => "adaptive",
        }
    }

    /// Returns true if its candidates are written by models.
    pub fn asks_models(self) -> bool {
        !matches!(
            self,
            Self::Playbook | Self::Sweep | Self::External | Self::Transform
        )
    }

    /// Returns true if those who write its candidates are shown lessons of earlier runs.
    pub fn shows_lessons(self) -> bool {
        match self {
            Self::Playbook
            | Self::Sweep
            | Self::Transform
            | Self::Free
            | Self::Funsearch
            | Self::Eoh => false,
            Self::External
            | Self::Insight
            | Self::Full
            | Self::Archive
            | Self::BestOf
            | Self::Refine
            | Self::AiCudaEngineer
            | Self::Adaptive => true,
        }
    }
}

/// The operators by which a candidate is made.
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
    /// A structural edit of its parent's source.
    Edit {
        /// The change in words.
        edit: String,
    },
    /// Submitted by an outside proposer.
    Submit,
    /// A copy of the candidate that the run was forked from.
    Fork,
    /// Written by a model that was shown the best.
    Init,
    /// Written by a model that was shown two parents to merge.
    Crossover,
    /// Written by a model that was shown one parent to change.
    Mutation,
    /// Written by a model that was shown its parent's failure.
    Repair,
    /// Written by a model that was shown versions to improve on: its parents, the fastest first.
    Improve,
    /// Written by a model that was asked for another form than those of two parents.
    Explore,
    /// Written by a model that was asked for other parameters of its parent.
    Retune,
}

impl Operator {
    /// Name without the details.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Step { .. } => "step",
            Self::Sweep => "sweep",
            Self::Edit { .. } => "edit",
            Self::Submit => "submit",
            Self::Fork => "fork",
            Self::Init => "init",
            Self::Crossover => "crossover",
            Self::Mutation => "mutation",
            Self::Repair => "repair",
            Self::Improve => "improve",
            Self::Explore => "explore",
            Self::Retune => "retune",
        }
    }

    /// Returns true if a model writes the candidate.
    pub fn asks_model(&self) -> bool {
        matches!(
            self,
            Self::Init
                | Self::Crossover
                | Self::Mutation
                | Self::Repair
                | Self::Improve
                | Self::Explore
                | Self::Retune
        )
    }
}

/// The state of a run, as the search uses it.
#[derive(Debug, Clone)]
pub struct RunSnapshot<'a> {
    /// The task.
    pub task: &'a Task,
    /// The method.
    pub method: Method,
    /// The limits that stop the run.
    pub budget: Budget,
    /// Seed of every random decision.
    pub seed: u64,
    /// The file a sweep starts from; the baseline when absent.
    pub start: Option<&'a str>,
    /// The settings of the methods that ask models.
    pub evolution: &'a Evolution,
    /// The models to ask.
    pub models: &'a [ModelChoice],
    /// The resources that models and devices have used.
    pub spend: Spend,
    /// The limit that the next call would break, if that is known.
    pub short_of: Option<StopReason>,
    /// Time the run has been running.
    pub elapsed: Duration,
    /// Someone asked the run to finish.
    pub finish_requested: bool,
    /// Every candidate by ordinal.
    pub candidates: &'a [Entry],
    /// The progress of the champion's promotion.
    pub promotion: PromotionProgress,
    /// Candidates that are nobody's parent and no champion: their confirmation failed, or someone banned
    /// them.
    pub excluded: &'a [CandidateId],
    /// The directions that people gave.
    pub steering: &'a Steering,
    /// True if the run starts from a candidate of another run.
    pub is_fork: bool,
    /// Tunables of candidates, as far as [`Action::ReadTunables`] asked for them.
    pub tunables: &'a BTreeMap<CandidateId, Tunables>,
    /// Edits of candidates, as far as [`Action::ReadEdits`] asked for them.
    pub edits: &'a BTreeMap<CandidateId, Vec<Edit>>,
}

/// One candidate as the search sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Identity.
    pub id: CandidateId,
    /// The primary parent.
    pub parent: Option<CandidateId>,
    /// The operator.
    pub operator: Operator,
    /// Generation.
    pub generation: u32,
    /// Values of all its tunables.
    pub configuration: Configuration,
    /// The candidate's state.
    pub state: EntryState,
    /// True if it is charged as a trial; one that a model has not written yet is counted too, as a
    /// commitment.
    pub trial: bool,
    /// True if it repeats the code of another candidate.
    pub duplicate: bool,
    /// The reason why its author expects it to be faster.
    pub thought: Option<String>,
    /// Digest of the code that was executed, if it was compiled.
    pub image: Option<Digest>,
    /// The floor over its time, geometric mean over the score cases, where the floors are known.
    pub floor_share: Option<f64>,
    /// Its cell in an archive.
    pub cell: Cell,
    /// The model that was asked for it, if one was.
    pub asked: Option<AskedModel>,
}

/// The model that was asked for a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedModel {
    /// Its configured name.
    pub model: String,
    /// The cost of the answers for the candidate, as far as prices are known.
    pub cost: Dollars,
}

/// The state of a candidate in the search.
#[derive(Debug, Clone, PartialEq)]
pub enum EntryState {
    /// No verdict yet, perhaps not even a text.
    Pending,
    /// Accepted.
    Accepted {
        /// Baseline's time over its time.
        speedup: f64,
        /// True if every gate that stands before promotion holds.
        promotable: bool,
        /// Names of the phases whose gates do not all hold.
        unmet_phases: Vec<String>,
    },
    /// Any other verdict.
    Rejected(VerdictKind),
    /// No verdict will come: the infrastructure gave up.
    Abandoned {
        /// The reason, in words.
        reason: String,
    },
}

/// The progress of the champion's promotion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PromotionProgress {
    /// No promotion was requested yet, or the last champion was refused.
    #[default]
    None,
    /// The champion is being confirmed or committed.
    Underway,
    /// A champion is committed, and no later one is on its way.
    Committed(CandidateId),
}

/// The actions that the search asks the engine for.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Record a candidate and have it evaluated.
    Propose(Proposal),
    /// Record a copy of the candidate that the run was forked from, and have it evaluated.
    ProposeOrigin,
    /// Record a candidate and have a model write it.
    Draft(Draft),
    /// Read the tunables of a candidate, and decide again with them. It is the only action.
    ReadTunables(CandidateId),
    /// Find the edits of a candidate's source, and decide again with them. It is the only action.
    ReadEdits(CandidateId),
    /// Give up waiting for the models that write the run's open candidates.
    AbandonDrafts,
    /// Confirm a candidate with fresh seeds and promote it if that holds.
    Promote(CandidateId),
    /// End the run.
    Finish(StopReason),
    /// End the run because it cannot go on.
    Fail(String),
}

/// A candidate to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The primary parent; none for the baseline.
    pub parent: Option<CandidateId>,
    /// The operator.
    pub operator: Operator,
    /// Generation.
    pub generation: u32,
    /// The task's file with its source.
    pub file: String,
    /// Values of all its tunables.
    pub configuration: Configuration,
    /// A few words.
    pub title: String,
    /// True if it is charged as a trial.
    pub trial: bool,
}

/// A method's next step where no limit stops the run.
enum Plan {
    Propose(Vec<Proposal>),
    Draft(Vec<Draft>),
    ReadTunables(CandidateId),
    ReadEdits(CandidateId),
    Wait,
    Exhausted(StopReason),
}

/// Decides the next actions of a run, and performs none. An empty list means to wait for verdicts,
/// submissions or requests.
///
/// `totals` holds what earlier decisions of the same run added up. It changes the cost of a decision
/// and never the decision.
pub fn next_actions(run: &RunSnapshot<'_>, totals: &mut Totals) -> Vec<Action> {
    let Some(baseline) = run.candidates.first() else {
        return vec![Action::Propose(baseline_proposal(run.task))];
    };
    match &baseline.state {
        EntryState::Pending => return Vec::new(),
        EntryState::Rejected(kind) => {
            return vec![Action::Fail(format!(
                "the baseline was not accepted ({}): fix the task, nothing can be compared with it",
                describe_verdict(*kind)
            ))];
        }
        EntryState::Abandoned { reason } => {
            return vec![Action::Fail(format!(
                "the baseline could not be evaluated: {reason}"
            ))];
        }
        EntryState::Accepted { .. } => {}
    }
    if run.is_fork {
        match run.origin().map(|origin| &origin.state) {
            None => return vec![Action::ProposeOrigin],
            Some(EntryState::Pending) => return Vec::new(),
            Some(_) => {}
        }
    }
    totals.settle(run.candidates, run.excluded);
    let stop = run.stop_reason(totals.settled());
    // Repairs cost no trial, so they are allowed after the last trial.
    let plan = match stop {
        None | Some(StopReason::Trials) => run.plan(totals),
        Some(reason) => Plan::Exhausted(reason),
    };
    let settled = totals.settled();
    let trials_left = run.trials_left(settled);
    let (mut actions, reason) = match plan {
        Plan::Propose(proposals) => {
            let charged = |proposal: &Proposal| proposal.trial;
            (
                affordable(proposals, trials_left, charged, Action::Propose),
                stop,
            )
        }
        Plan::Draft(drafts) => {
            let charged = |draft: &Draft| draft.trial;
            (
                affordable(drafts, trials_left, charged, Action::Draft),
                stop,
            )
        }
        Plan::ReadTunables(candidate) => return vec![Action::ReadTunables(candidate)],
        Plan::ReadEdits(candidate) => return vec![Action::ReadEdits(candidate)],
        Plan::Wait => (Vec::new(), stop),
        Plan::Exhausted(reason) => (Vec::new(), Some(stop.unwrap_or(reason))),
    };
    let waiting = settled.is_waiting(run.candidates);
    let reason = match run.device_room(settled) {
        Some((room, limit)) if !actions.is_empty() => {
            actions.truncate(room);
            if actions.is_empty() && waiting {
                // Evaluations that are under way may need less device time than was reserved for them.
                return Vec::new();
            }
            Some(limit)
        }
        _ => reason,
    };
    let Some(reason) = reason.filter(|_| actions.is_empty()) else {
        return actions;
    };
    if waiting {
        // A limit that cuts the run short does not wait for a model, which may never answer. The
        // others have their commitments counted.
        let cut = matches!(
            reason,
            StopReason::Requested
                | StopReason::WallTime
                | StopReason::DeviceTime
                | StopReason::DeviceDollars
                | StopReason::Target
        );
        return if cut && run.method.asks_models() {
            vec![Action::AbandonDrafts]
        } else {
            Vec::new()
        };
    }
    let champion = settled.champion(run.candidates, run.excluded);
    match (run.promotion, champion) {
        (PromotionProgress::Underway, _) => Vec::new(),
        (PromotionProgress::None, Some(champion)) => vec![Action::Promote(champion.id)],
        (PromotionProgress::Committed(before), Some(champion))
            if run.is_slower(before, champion) =>
        {
            vec![Action::Promote(champion.id)]
        }
        (PromotionProgress::None, None) | (PromotionProgress::Committed(_), _) => {
            vec![Action::Finish(reason)]
        }
    }
}

/// The first items that the remaining trials cover.
fn affordable<T>(
    planned: Vec<T>,
    trials_left: usize,
    charged: impl Fn(&T) -> bool,
    action: impl Fn(T) -> Action,
) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut left = trials_left;
    for one in planned {
        if charged(&one) {
            if left == 0 {
                continue;
            }
            left -= 1;
        }
        actions.push(action(one));
    }
    actions
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
    /// The copy of the candidate that the run was forked from.
    fn origin(&self) -> Option<&Entry> {
        let mut entries = self.candidates.iter().skip(1);
        entries.find(|entry| entry.operator == Operator::Fork)
    }

    /// Returns true if the candidate with an id was slower than another when both were searched.
    fn is_slower(&self, id: CandidateId, other: &Entry) -> bool {
        let entry = self.candidates.iter().find(|entry| entry.id == id);
        entry.is_some_and(|entry| entry.compare_speedups(other).is_lt())
    }

    fn plan(&self, totals: &mut Totals) -> Plan {
        match self.method {
            Method::Playbook => playbook::plan(self),
            Method::Sweep => sweep::plan(self, totals.settled()),
            Method::External => Plan::Wait,
            Method::Transform => transform::plan(self, totals),
            _ => evolve::plan(self, totals),
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
        match self.state {
            EntryState::Accepted { speedup, .. } => Some(speedup),
            _ => None,
        }
    }

    /// A total order by speedup. A candidate that was not accepted is slower than all others.
    fn compare_speedups(&self, other: &Self) -> Ordering {
        let key = |entry: &Self| entry.speedup().unwrap_or(f64::NEG_INFINITY);
        key(self).total_cmp(&key(other))
    }
}

/// Returns true if a candidate may be promoted: every gate holds, it is not excluded, it repeats no other
/// candidate, and [`is_promotable`] holds for its speedup.
fn is_eligible(entry: &Entry, excluded: &[CandidateId]) -> bool {
    matches!(entry.state, EntryState::Accepted { promotable: true, speedup, .. } if is_promotable(speedup))
        && !entry.duplicate
        && !excluded.contains(&entry.id)
}

/// The fastest of the accepted; the earliest of equals.
fn fastest<'a>(entries: impl Iterator<Item = &'a Entry>) -> Option<&'a Entry> {
    entries
        .filter(|entry| entry.speedup().is_some())
        .reduce(|best, entry| {
            if entry.compare_speedups(best).is_gt() {
                entry
            } else {
                best
            }
        })
}
