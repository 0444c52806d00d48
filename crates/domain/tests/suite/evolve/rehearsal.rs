//! A run whose models and evaluator are scripted, taken from one decision to the next.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use chrono::DateTime;
use domain::candidate::KernelSource;
use domain::device::Limits;
use domain::id::CandidateId;
use domain::model::Dollars;
use domain::search::{
    Action, AskedModel, Budget, Cell, Draft, Entry, EntryState, Evolution, Method, ModelChoice,
    Operator, PromotionProgress, RunSnapshot, Spend, Steering, Totals, Tunables, next_actions,
};
use domain::task::{Bundle, Task};
use domain::verdict::VerdictKind;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

const KERNEL: &str =
    "/*---\n[[launch]]\nkernel = \"k\"\ngrid = [1]\nblock = [32]\nargs = [\"y\"]\n---*/\n";

/// The limits of the device.
pub const LIMITS: Limits = Limits {
    sm_count: 58,
    threads_per_block: 1024,
    block: [1024, 1024, 64],
    grid: [i32::MAX.cast_unsigned(), 65_535, 65_535],
    shared_per_block: 49_152,
    shared_per_block_optin: 101_376,
    shared_per_sm: 102_400,
    registers_per_block: 65_536,
    registers_per_sm: 65_536,
    threads_per_sm: 1536,
    blocks_per_sm: 24,
};

const TASK: &str = r#"
name = "t"
[dims]
N = {}
[[tensor]]
name = "y"
dtype = "f32"
shape = ["N"]
role = "out"
[tolerance]
class = "f32"
[[case]]
name = "only"
dims = { N = 8 }
use = ["check", "score"]
"#;

pub fn task() -> Task {
    let mut files = BTreeMap::from([("task.toml".to_owned(), TASK.to_owned())]);
    for file in ["reference.cu", "check.cu", "baseline.cu"] {
        files.insert(file.to_owned(), KERNEL.to_owned());
    }
    Task::load(&Bundle { files }).expect("the folder is whole")
}

pub fn model(name: &str, weight: f64) -> ModelChoice {
    ModelChoice {
        name: name.to_owned(),
        weight,
    }
}

pub fn accepted(speedup: f64) -> EntryState {
    EntryState::Accepted {
        speedup,
        promotable: true,
        unmet_phases: Vec::new(),
    }
}

pub fn abandoned() -> EntryState {
    EntryState::Abandoned {
        reason: "no disk".to_owned(),
    }
}

pub const WRONG: EntryState = EntryState::Rejected(VerdictKind::IncorrectOutput);
pub const UNREAD: EntryState = EntryState::Rejected(VerdictKind::ParseRejected);

/// The outcome of a model's reply.
#[derive(Clone)]
pub struct Written {
    pub state: EntryState,
    pub thought: String,
    pub duplicate: bool,
    pub cell: Cell,
}

impl From<EntryState> for Written {
    fn from(state: EntryState) -> Self {
        Self {
            state,
            thought: String::new(),
            duplicate: false,
            cell: Cell::default(),
        }
    }
}

/// A run whose replies and verdicts arrive in a chosen order.
pub struct Rehearsal<'a> {
    pub task: &'a Task,
    pub method: Method,
    pub budget: Budget,
    pub evolution: Evolution,
    pub models: Vec<ModelChoice>,
    pub candidates: Vec<Entry>,
    pub drafts: Vec<(usize, Draft)>,
    pub spend: Spend,
    pub finish_requested: bool,
    pub promotion: PromotionProgress,
    pub steering: Steering,
    pub is_fork: bool,
    /// The source that models write.
    pub source: &'static str,
    /// The floor over the baseline's time, where floors are known.
    pub floor_of_baseline: Option<f64>,
    /// The cost of an answer of each model.
    pub price: fn(&str) -> Dollars,
    tunables: BTreeMap<CandidateId, Tunables>,
    /// The totals, which are kept from one decision to the next as in a service.
    totals: RefCell<Totals>,
}

impl<'a> Rehearsal<'a> {
    pub fn new(task: &'a Task, method: Method) -> Self {
        Self {
            task,
            method,
            budget: Budget::default(),
            evolution: Evolution {
                repairs: 0,
                ..Evolution::default()
            },
            models: vec![model("m", 1.0)],
            candidates: Vec::new(),
            drafts: Vec::new(),
            spend: Spend::default(),
            finish_requested: false,
            promotion: PromotionProgress::None,
            steering: Steering::default(),
            is_fork: false,
            source: KERNEL,
            floor_of_baseline: None,
            price: |_| Dollars::default(),
            tunables: BTreeMap::new(),
            totals: RefCell::default(),
        }
    }

    pub fn next(&self) -> Vec<Action> {
        let run = RunSnapshot {
            task: self.task,
            method: self.method,
            budget: self.budget,
            seed: 7,
            start: None,
            evolution: &self.evolution,
            models: &self.models,
            spend: self.spend,
            short_of: None,
            elapsed: Duration::ZERO,
            finish_requested: self.finish_requested,
            candidates: &self.candidates,
            promotion: self.promotion,
            excluded: &self.steering.banned,
            steering: &self.steering,
            is_fork: self.is_fork,
            tunables: &self.tunables,
            edits: &BTreeMap::new(),
        };
        let actions = next_actions(&run, &mut Totals::default());
        let with_kept_totals = next_actions(&run, &mut self.totals.borrow_mut());
        assert_eq!(actions, with_kept_totals, "kept totals changed a decision");
        actions
    }

    pub fn push(
        &mut self,
        operator: Operator,
        parent: Option<CandidateId>,
        generation: u32,
        trial: bool,
    ) {
        // Ids depend on the place alone, so that two rehearsals can be compared.
        let mut rng = ChaCha8Rng::seed_from_u64(self.candidates.len() as u64);
        self.candidates.push(Entry {
            id: CandidateId::generate(DateTime::UNIX_EPOCH, &mut rng),
            parent,
            operator,
            generation,
            configuration: BTreeMap::new(),
            state: EntryState::Pending,
            trial,
            duplicate: false,
            thought: None,
            image: None,
            floor_share: None,
            cell: Cell::default(),
            asked: None,
        });
    }

    /// Carries out what is decided now; the end of the run, if that is it.
    pub fn act(&mut self) -> (usize, Option<Action>) {
        let actions = self.next();
        let count = actions.len();
        for action in actions {
            match action {
                Action::Propose(proposal) if proposal.operator == Operator::Sweep => {
                    self.push(Operator::Sweep, proposal.parent, proposal.generation, false);
                    let last = self.candidates.last_mut().expect("just pushed");
                    last.configuration = proposal.configuration;
                }
                Action::ReadEdits(_) => panic!("only transform edits"),
                Action::ReadTunables(id) => {
                    let read = Tunables::read(self.task, "k.cu", self.source, Some(&LIMITS));
                    self.tunables.insert(id, read);
                }
                Action::Propose(proposal) => {
                    self.push(
                        proposal.operator,
                        proposal.parent,
                        proposal.generation,
                        proposal.trial,
                    );
                    let last = self.candidates.last_mut().expect("just pushed");
                    last.state = accepted(1.0);
                    // A task's description of its baseline is not an insight.
                    last.thought = Some("one thread per row".to_owned());
                }
                Action::Draft(draft) => {
                    let parent = draft.parents.first().copied();
                    self.drafts.push((self.candidates.len(), draft.clone()));
                    self.push(draft.operator, parent, draft.generation, draft.trial);
                    let last = self.candidates.last_mut().expect("just pushed");
                    last.asked = Some(AskedModel {
                        model: draft.model,
                        cost: Dollars::default(),
                    });
                }
                Action::ProposeOrigin => {
                    self.push(Operator::Fork, Some(self.candidates[0].id), 1, false);
                }
                Action::Promote(winner) => self.promotion = PromotionProgress::Committed(winner),
                Action::AbandonDrafts => {
                    for entry in &mut self.candidates {
                        if entry.state == EntryState::Pending {
                            entry.state = abandoned();
                        }
                    }
                }
                end @ (Action::Finish(_) | Action::Fail(_)) => return (count, Some(end)),
            }
        }
        (count, None)
    }

    pub fn judge(&mut self, place: usize, written: Written) {
        let entry = &mut self.candidates[place];
        if let Some(asked) = &mut entry.asked {
            asked.cost = (self.price)(&asked.model);
            let source = KernelSource::parse("k.cu", self.source).expect("it parses");
            entry.configuration = source.plan().default_configuration();
        }
        entry.state = written.state;
        let known = self.floor_of_baseline.zip(entry.speedup());
        entry.floor_share = known.map(|(floor, speedup)| floor * speedup);
        entry.duplicate = written.duplicate;
        entry.cell = written.cell;
        entry.thought = Some(written.thought).filter(|thought| !thought.is_empty());
    }

    /// Runs to the end; `write` gives what each place's reply is worth, `arrival` which of the
    /// open places is judged next.
    pub fn run(
        &mut self,
        write: impl Fn(usize, &Entry) -> Written,
        mut arrival: impl FnMut(&[usize]) -> usize,
    ) -> Action {
        for _ in 0..10_000 {
            let (count, end) = self.act();
            if let Some(end) = end {
                return end;
            }
            let open = (0..self.candidates.len())
                .filter(|place| self.candidates[*place].state == EntryState::Pending)
                .collect::<Vec<_>>();
            if open.is_empty() {
                assert!(count > 0, "nothing is open, so something must happen");
                continue;
            }
            let place = open[arrival(&open) % open.len()];
            let written = write(place, &self.candidates[place]);
            self.judge(place, written);
        }
        panic!("the run never ends")
    }

    pub fn drafts_of(&self, operator: &Operator) -> Vec<&Draft> {
        self.drafts
            .iter()
            .map(|(_, draft)| draft)
            .filter(|draft| draft.operator == *operator)
            .collect()
    }

    pub fn trials(&self) -> usize {
        self.candidates.iter().filter(|entry| entry.trial).count()
    }
}

pub fn first(_: &[usize]) -> usize {
    0
}
