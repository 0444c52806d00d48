//! One run of a search method with the simulated author and recorded results: the search's own decisions,
//! without service, prompts and device.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use anyhow::{Result, bail};
use chrono::DateTime;
use domain::candidate::Technique;
use domain::evaluation::BoundingResource;
use domain::id::CandidateId;
use domain::model::Dollars;
use domain::search::{
    Action, AskedModel, Budget, Cell, Draft, Entry, EntryState, Evolution, Method, ModelChoice,
    Operator, PromotionProgress, RunSnapshot, Spend, Steering, Totals, next_actions,
};
use domain::task::Task;
use domain::verdict::VerdictKind;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::author::{Author, Situation, Step, Written, write};
use super::landscape::{Landscape, Outcome};
use super::libraries::{Choices, Defect, MARK};

/// The setting that all runs share.
#[derive(Debug)]
pub struct Setting<'a> {
    task: &'a Task,
    author: &'a Author,
    landscape: &'a Landscape,
    /// The cell of each kernel in an archive.
    cells: HashMap<Choices, Cell>,
}

impl<'a> Setting<'a> {
    /// Runs of a task with its author and the results of all kernels.
    #[must_use]
    pub fn new(task: &'a Task, author: &'a Author, landscape: &'a Landscape) -> Self {
        let cell = |choices: &Choices, outcome: &Outcome| Cell {
            technique: Some(Technique::of(&author.library.compose(choices, None, ""))),
            bound: outcome.bottleneck.as_deref().map(BoundingResource::of_term),
        };
        let kernels = landscape.kernels.iter();
        let cells = kernels.map(|(choices, outcome)| (*choices, cell(choices, outcome)));
        Self {
            task,
            author,
            landscape,
            cells: cells.collect(),
        }
    }
}

/// Course of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    /// Highest speedup after each trial.
    pub best: Vec<f64>,
    /// Simulated cost, US dollars.
    pub dollars: f64,
    /// Share of trials whose candidate, or a repair of it, was accepted.
    pub valid: f64,
}

/// Name of the author as a model.
const MODEL: &str = "simulated";

struct Run<'a> {
    setting: &'a Setting<'a>,
    method: Method,
    seed: u64,
    entries: Vec<Entry>,
    written: HashMap<CandidateId, Written>,
    known: HashSet<Choices>,
    dollars: f64,
    finish: bool,
}

/// Runs a method with these settings for a number of trials. Generations do not end it.
///
/// # Errors
/// If the run fails or does not end.
pub fn run(
    setting: &Setting<'_>,
    method: Method,
    evolution: &Evolution,
    trials: u32,
    seed: u64,
) -> Result<Course> {
    let mut run = Run {
        setting,
        method,
        seed,
        entries: Vec::new(),
        written: HashMap::new(),
        known: HashSet::from([setting.author.library.baseline]),
        dollars: 0.0,
        finish: false,
    };
    let evolution = Evolution {
        generations: trials.max(1),
        ..evolution.clone()
    };
    let models = [ModelChoice {
        name: MODEL.to_owned(),
        weight: 1.0,
    }];
    let mut totals = Totals::default();
    let mut promotion = PromotionProgress::None;
    for _ in 0..100 * trials {
        let actions = next_actions(
            &RunSnapshot {
                task: setting.task,
                method,
                budget: Budget {
                    trials,
                    ..Budget::default()
                },
                seed,
                start: None,
                evolution: &evolution,
                models: &models,
                spend: Spend::default(),
                short_of: None,
                elapsed: Duration::ZERO,
                finish_requested: run.finish,
                candidates: &run.entries,
                promotion,
                excluded: &[],
                steering: &Steering::default(),
                is_fork: false,
                tunables: &BTreeMap::new(),
                edits: &BTreeMap::new(),
            },
            &mut totals,
        );
        // All slots of one decision see the same, so they are written before the first verdict.
        for action in actions {
            match action {
                Action::Propose(_) => run.add_baseline(),
                Action::Draft(draft) => run.add(&draft),
                Action::Promote(winner) => promotion = PromotionProgress::Committed(winner),
                Action::AbandonDrafts
                | Action::ProposeOrigin
                | Action::ReadTunables(_)
                | Action::ReadEdits(_) => {}
                Action::Finish(_) => return Ok(run.course(trials)),
                Action::Fail(why) => bail!("the run failed: {why}"),
            }
        }
    }
    bail!("the run with {} does not end", method.as_str())
}

impl Run<'_> {
    fn push(&mut self, operator: Operator, draft: Option<&Draft>, written: Written) {
        let mut rng = ChaCha8Rng::seed_from_u64(self.entries.len() as u64);
        let id = CandidateId::generate(DateTime::UNIX_EPOCH, &mut rng);
        let state = self.state(&written);
        let duplicate = written.defect.is_none()
            && operator != Operator::Baseline
            && !self.known.insert(written.choices);
        self.written.insert(id, written);
        let cell = self.setting.cells.get(&written.choices);
        let cell = cell.copied().unwrap_or_default();
        let speedup = match &state {
            EntryState::Accepted { speedup, .. } => Some(*speedup),
            _ => None,
        };
        let of_baseline = self.setting.landscape.baseline_floor_share;
        let floor_share = of_baseline
            .zip(speedup)
            .map(|(share, speedup)| share * speedup);
        self.entries.push(Entry {
            id,
            parent: draft.and_then(|draft| draft.parents.first().copied()),
            operator,
            generation: draft.map_or(0, |draft| draft.generation),
            configuration: BTreeMap::new(),
            state,
            trial: draft.is_some_and(|draft| draft.trial),
            duplicate,
            thought: draft.map(|_| format!("{MARK}{}", written.choices)),
            image: None,
            floor_share,
            cell,
            asked: None,
        });
    }

    fn add_baseline(&mut self) {
        let written = Written {
            choices: self.setting.author.library.baseline,
            defect: None,
        };
        self.push(Operator::Baseline, None, written);
        self.entries[0].state = EntryState::Accepted {
            speedup: 1.0,
            promotable: true,
            unmet_phases: Vec::new(),
        };
    }

    fn add(&mut self, draft: &Draft) {
        let situation = self.situation(draft);
        let parameters = &self.setting.author.parameters;
        let lines = draft.insights.len() + draft.attempts.len() + draft.duplicates.len();
        let read = parameters.task_tokens
            + parameters.kernel_tokens * situation.kernels.len() as u64
            + parameters.line_tokens * lines as u64;
        let dollars = parameters.dollars(read, parameters.reply_tokens);
        self.dollars += dollars;
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(self.entries.len() as u64);
        let written = write(self.setting.author, &situation, &mut rng);
        self.push(draft.operator.clone(), Some(draft), written);
        let last = self.entries.last_mut().expect("one was pushed");
        last.asked = Some(AskedModel {
            model: MODEL.to_owned(),
            cost: Dollars::new(dollars).unwrap_or_default(),
        });
    }

    fn state(&self, written: &Written) -> EntryState {
        let Written { choices, defect } = written;
        let library = self.setting.author.library;
        let rejected = match defect.map(|defect| library.possible(choices, defect)) {
            Some(Defect::Race) => VerdictKind::DataRace,
            Some(Defect::Compile) => VerdictKind::CompileRejected,
            Some(Defect::Wrong) => VerdictKind::IncorrectOutput,
            None => match self.setting.landscape.speedup(choices) {
                Some(speedup) => {
                    return EntryState::Accepted {
                        speedup,
                        promotable: true,
                        unmet_phases: Vec::new(),
                    };
                }
                None => {
                    let kernels = &self.setting.landscape.kernels;
                    let outcome = kernels.get(choices).map(|outcome| outcome.verdict);
                    outcome.unwrap_or(VerdictKind::InvalidRun)
                }
            },
        };
        EntryState::Rejected(rejected)
    }

    fn entry(&self, id: CandidateId) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id == id)
    }

    /// The contents of the draft's prompt, by the rules of `docs/reference/prompts.md`.
    fn situation(&self, draft: &Draft) -> Situation {
        let choices = |id: &CandidateId| self.written[id].choices;
        let failed = self.written.get(&draft.parents[0]);
        let step = match draft.operator {
            Operator::Crossover => Step::Merge,
            Operator::Mutation => Step::Differ,
            Operator::Explore => Step::Explore,
            Operator::Retune => Step::Retune,
            Operator::Repair => {
                // A kernel that its idea makes wrong has no defect that a repair could take out.
                let defect = failed.and_then(|failed| failed.defect);
                Step::Repair(defect.unwrap_or(Defect::Wrong))
            }
            _ => Step::Improve,
        };
        let mut kernels: Vec<Choices> = draft.parents.iter().map(choices).collect();
        let best = choices(&draft.best);
        if !kernels.contains(&best) && draft.operator != Operator::Repair {
            kernels.push(best);
        }
        let has_profile = !matches!(
            self.method,
            Method::Free | Method::Eoh | Method::Funsearch | Method::AiCudaEngineer
        );
        let outcome = self.setting.landscape.kernels.get(&kernels[0]);
        let speedup = |id: &CandidateId| self.entry(*id).and_then(Entry::speedup);
        Situation {
            step,
            bottleneck: outcome
                .filter(|_| has_profile)
                .and_then(|outcome| outcome.bottleneck.clone()),
            kernels,
            tried: draft
                .attempts
                .iter()
                .chain(&draft.duplicates)
                .map(choices)
                .collect(),
            insights: draft
                .insights
                .iter()
                .filter_map(|id| Some((choices(id), speedup(id)?)))
                .collect(),
            names_line: true,
        }
    }

    fn course(&self, trials: u32) -> Course {
        let mut best = Vec::with_capacity(trials as usize);
        let mut valid: HashSet<CandidateId> = HashSet::new();
        let mut fastest = 1.0_f64;
        for entry in &self.entries {
            if entry.trial {
                best.push(fastest);
            }
            if let Some(speedup) = entry.speedup() {
                fastest = fastest.max(speedup);
                // The candidate that a chain of repairs began with.
                let mut first = entry;
                while first.operator == Operator::Repair
                    && let Some(parent) = first.parent.and_then(|id| self.entry(id))
                {
                    first = parent;
                }
                valid.extend(Some(first.id).filter(|_| first.trial));
            }
            if let Some(last) = best.last_mut() {
                *last = fastest;
            }
        }
        best.resize(trials as usize, fastest);
        Course {
            best,
            dollars: self.dollars,
            valid: valid.len() as f64 / f64::from(trials.max(1)),
        }
    }
}
