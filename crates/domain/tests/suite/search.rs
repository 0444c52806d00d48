//! The search as a whole: a run is driven by a scripted evaluator until it ends.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::DateTime;
use domain::brief::describe_verdict;
use domain::candidate::{Edit, KernelSource};
use domain::digest::Digest;
use domain::id::CandidateId;
use domain::plan::Configuration;
use domain::search::{
    Action, Budget, Cell, Entry, EntryState, Evolution, Method, Operator, PromotionProgress,
    RunSnapshot, Spend, Steering, StopReason, Totals, Tunables, next_actions,
};
use domain::task::{Bundle, Task};
use domain::tuner;
use domain::verdict::VerdictKind;
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::evolve::LIMITS;

fn kernel(title: &str, phase: &str, tunables: &[(&str, &[i64])]) -> String {
    let names = tunables
        .iter()
        .map(|(name, _)| format!("{name:?}"))
        .collect::<Vec<_>>()
        .join(", ");
    let declared = tunables
        .iter()
        .map(|(name, choices)| {
            format!(
                "[tunables.{name}]\nvalue = {}\nchoices = {choices:?}\n",
                choices[0]
            )
        })
        .collect::<String>();
    format!(
        "/*---\n[idea]\ntitle = {title:?}\n[step]\nphase = {phase:?}\nsweep = [{names}]\n\
         [[launch]]\nkernel = \"k\"\ngrid = [1]\nblock = [32]\nargs = [\"y\"]\n{declared}---*/\n"
    )
}

fn task() -> Task {
    let files = task_files();
    Task::load(&Bundle { files }).expect("the folder is whole")
}

fn task_files() -> BTreeMap<String, String> {
    let task = r#"
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
[[phase]]
name = "parallelism"
[[phase]]
name = "memory"
"#;
    BTreeMap::from([
        ("task.toml".to_owned(), task.to_owned()),
        ("reference.cu".to_owned(), kernel("r", "parallelism", &[])),
        ("check.cu".to_owned(), kernel("c", "parallelism", &[])),
        (
            "baseline.cu".to_owned(),
            kernel("b", "parallelism", &[("ROWS", &[1, 2])]),
        ),
        (
            "playbook/01.cu".to_owned(),
            kernel("tile", "parallelism", &[("TILE", &[16, 32, 64])]),
        ),
        (
            "playbook/02.cu".to_owned(),
            kernel(
                "split",
                "parallelism",
                &[("SPLIT", &[1, 4]), ("TILE", &[16, 64])],
            ),
        ),
        ("playbook/03.cu".to_owned(), kernel("vector", "memory", &[])),
    ])
}

/// The edits that every candidate has.
const EDITS: [&str; 3] = ["unroll", "pad", "bound"];

/// A run whose candidates are judged by a function of (operator, configuration).
struct Rehearsal<'a> {
    task: &'a Task,
    method: Method,
    budget: Budget,
    start: Option<&'a str>,
    seed: u64,
    evolution: Evolution,
    candidates: Vec<Entry>,
    promotion: PromotionProgress,
    refused: Vec<CandidateId>,
    edits: BTreeMap<CandidateId, Vec<Edit>>,
    tunables: BTreeMap<CandidateId, Tunables>,
    /// The machine code of a configuration, where a test is about it.
    images: Option<fn(&Configuration) -> Digest>,
}

impl<'a> Rehearsal<'a> {
    fn new(task: &'a Task, method: Method, trials: u32) -> Self {
        Self {
            task,
            method,
            budget: Budget {
                trials,
                ..Budget::default()
            },
            start: None,
            seed: 7,
            evolution: Evolution {
                sweep_percent: 0,
                ..Evolution::default()
            },
            candidates: Vec::new(),
            promotion: PromotionProgress::None,
            refused: Vec::new(),
            edits: BTreeMap::new(),
            tunables: BTreeMap::new(),
            images: None,
        }
    }

    /// The file of the candidate, the baseline or a step.
    fn source_of(&self, id: CandidateId) -> &KernelSource {
        let entry = self.candidates.iter().find(|entry| entry.id == id);
        let file = file(&entry.expect("it was proposed").operator);
        let step = self.task.playbook.iter().find(|(own, _)| own == file);
        step.map_or(&self.task.baseline, |(_, source)| source)
    }

    fn next(&self) -> Vec<Action> {
        let run = RunSnapshot {
            task: self.task,
            method: self.method,
            budget: self.budget,
            seed: self.seed,
            start: self.start,
            evolution: &self.evolution,
            models: &[],
            spend: Spend::default(),
            short_of: None,
            elapsed: Duration::ZERO,
            finish_requested: false,
            candidates: &self.candidates,
            promotion: self.promotion,
            excluded: &self.refused,
            steering: &Steering::default(),
            is_fork: false,
            tunables: &self.tunables,
            edits: &self.edits,
        };
        next_actions(&run, &mut Totals::default())
    }

    /// Carries out actions until the run ends; returns the promoted candidate and the end.
    fn run(
        &mut self,
        judge: impl Fn(&Operator, &BTreeMap<String, i64>) -> EntryState,
    ) -> (Option<CandidateId>, Action) {
        self.run_with_parents(|operator, configuration, _| judge(operator, configuration))
    }

    /// As [`Rehearsal::run`]; the judge is also told the parent's speedup.
    fn run_with_parents(
        &mut self,
        judge: impl Fn(&Operator, &BTreeMap<String, i64>, f64) -> EntryState,
    ) -> (Option<CandidateId>, Action) {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut promoted = None;
        for _ in 0..10_000 {
            let actions = self.next();
            assert!(
                !actions.is_empty(),
                "nothing is pending, so something must happen"
            );
            for action in actions {
                match action {
                    Action::Propose(proposal) => {
                        let mut parents = self.candidates.iter();
                        let parent = parents.find(|entry| Some(entry.id) == proposal.parent);
                        let parent = parent.and_then(Entry::speedup).unwrap_or(1.0);
                        let state = judge(&proposal.operator, &proposal.configuration, parent);
                        self.candidates.push(Entry {
                            id: CandidateId::generate(DateTime::UNIX_EPOCH, &mut rng),
                            parent: proposal.parent,
                            operator: proposal.operator,
                            generation: proposal.generation,
                            configuration: proposal.configuration.clone(),
                            state,
                            trial: proposal.trial,
                            duplicate: false,
                            thought: None,
                            image: self.images.map(|image| image(&proposal.configuration)),
                            floor_share: None,
                            cell: Cell::default(),
                            asked: None,
                        });
                    }
                    Action::Promote(id) => {
                        promoted = Some(id);
                        self.promotion = PromotionProgress::Committed(id);
                    }
                    end @ (Action::Finish(_) | Action::Fail(_)) => return (promoted, end),
                    Action::ReadEdits(id) => {
                        let edit = |name: &str| Edit {
                            name: name.to_owned(),
                            source: self.task.baseline.clone(),
                        };
                        let known = self.edits.insert(id, EDITS.map(edit).to_vec());
                        assert_eq!(known, None, "they were found already");
                    }
                    Action::ReadTunables(id) => {
                        let read = self.source_of(id);
                        let read = Tunables::read(self.task, "k.cu", read.text(), Some(&LIMITS));
                        let known = self.tunables.insert(id, read);
                        assert_eq!(known, None, "they were read already");
                    }
                    Action::Draft(_) | Action::AbandonDrafts | Action::ProposeOrigin => {
                        panic!("nobody asked for a model")
                    }
                }
            }
        }
        panic!("the run never ends")
    }

    fn story(&self) -> String {
        self.candidates
            .iter()
            .map(|entry| {
                let parent = entry
                    .parent
                    .and_then(|id| self.candidates.iter().position(|other| other.id == id))
                    .map_or_else(|| "-".to_owned(), |at| at.to_string());
                let values = entry
                    .configuration
                    .iter()
                    .map(|(k, v)| format!(" {k}={v}"))
                    .collect::<String>();
                format!("{parent} {}{values}\n", entry.operator.as_str())
            })
            .collect()
    }
}

fn accepted(speedup: f64) -> EntryState {
    EntryState::Accepted {
        speedup,
        promotable: true,
        unmet_phases: Vec::new(),
    }
}

fn abandoned() -> EntryState {
    EntryState::Abandoned {
        reason: "no disk".to_owned(),
    }
}

fn file(operator: &Operator) -> &str {
    match operator {
        Operator::Step { file } => file,
        _ => "",
    }
}

#[test]
fn the_playbook_steps_sweeps_and_inherits_what_was_found() {
    let task = task();
    let mut run = Rehearsal::new(&task, Method::Playbook, 45);
    let (promoted, end) = run.run(|operator, configuration| match operator {
        Operator::Baseline => accepted(1.0),
        Operator::Step { file } if file.ends_with("01.cu") => accepted(1.5),
        Operator::Step { file } if file.ends_with("02.cu") => accepted(4.0),
        Operator::Sweep if configuration.get("SPLIT") == Some(&4) => accepted(6.0),
        Operator::Sweep if configuration.get("TILE") == Some(&64) => accepted(2.0),
        _ => accepted(1.2),
    });
    insta::assert_snapshot!(run.story(), @r"
    - baseline ROWS=1
    0 step TILE=16
    1 sweep TILE=32
    1 sweep TILE=64
    3 step SPLIT=1 TILE=64
    4 sweep SPLIT=1 TILE=16
    4 sweep SPLIT=4 TILE=16
    4 sweep SPLIT=4 TILE=64
    6 step
    ");
    assert_eq!(
        promoted,
        Some(run.candidates[6].id),
        "the earliest of the fastest"
    );
    assert_eq!(end, Action::Finish(StopReason::Exhausted));
}

#[test]
fn a_step_that_is_poor_with_inherited_values_is_tried_with_its_own() {
    let task = task();
    for poor in [
        accepted(0.9),
        EntryState::Rejected(VerdictKind::LaunchRejected),
    ] {
        let mut run = Rehearsal::new(&task, Method::Playbook, 45);
        let (promoted, _) = run.run(|operator, configuration| {
            let tile = configuration.get("TILE");
            match (operator, configuration.contains_key("SPLIT")) {
                (Operator::Baseline, _) => accepted(1.0),
                (_, true) if tile == Some(&64) => poor.clone(),
                (_, true) => accepted(4.0),
                (_, false) if tile == Some(&64) => accepted(2.0),
                (_, false) => accepted(1.5),
            }
        });
        insta::allow_duplicates! {
            insta::assert_snapshot!(run.story(), @r"
            - baseline ROWS=1
            0 step TILE=16
            1 sweep TILE=32
            1 sweep TILE=64
            3 step SPLIT=1 TILE=64
            4 sweep SPLIT=1 TILE=16
            4 sweep SPLIT=4 TILE=16
            4 sweep SPLIT=4 TILE=64
            5 step
            ");
        }
        assert_eq!(promoted, Some(run.candidates[5].id));
    }
    // It is not swept if its own values do not help either.
    let mut run = Rehearsal::new(&task, Method::Playbook, 45);
    run.run(|operator, configuration| match operator {
        Operator::Baseline => accepted(1.0),
        _ if configuration.contains_key("SPLIT") => accepted(0.9),
        _ if configuration.get("TILE") == Some(&64) => accepted(2.0),
        _ => accepted(1.5),
    });
    insta::assert_snapshot!(run.story(), @r"
    - baseline ROWS=1
    0 step TILE=16
    1 sweep TILE=32
    1 sweep TILE=64
    3 step SPLIT=1 TILE=64
    4 sweep SPLIT=1 TILE=16
    3 step
    ");
}

#[test]
fn a_rejected_or_slower_step_is_passed_over_and_not_swept() {
    let task = task();
    let mut run = Rehearsal::new(&task, Method::Playbook, 45);
    let (promoted, _) = run.run(|operator, _| match file(operator) {
        "" => accepted(1.0),
        file if file.ends_with("01.cu") => EntryState::Rejected(VerdictKind::IncorrectOutput),
        file if file.ends_with("02.cu") => accepted(0.9),
        _ => accepted(1.3),
    });
    insta::assert_snapshot!(run.story(), @r"
    - baseline ROWS=1
    0 step TILE=16
    0 step SPLIT=1 TILE=16
    0 step
    ");
    assert_eq!(promoted, Some(run.candidates[3].id));
}

#[test]
fn an_unmet_phase_gate_keeps_the_next_phase_closed() {
    let task = task();
    let mut run = Rehearsal::new(&task, Method::Playbook, 45);
    let (promoted, end) = run.run(|_, _| EntryState::Accepted {
        speedup: 1.5,
        promotable: false,
        unmet_phases: vec!["parallelism".to_owned()],
    });
    assert!(
        !run.candidates
            .iter()
            .any(|entry| file(&entry.operator).ends_with("03.cu"))
    );
    assert_eq!(
        (promoted, end),
        (None, Action::Finish(StopReason::PhaseClosed))
    );
}

#[test]
fn a_slower_step_that_alone_meets_the_gates_of_its_phase_opens_the_next() {
    let task = task();
    let mut run = Rehearsal::new(&task, Method::Playbook, 45);
    run.run(|operator, _| {
        let file = file(operator);
        let is_second = file.ends_with("02.cu");
        let opens = is_second || file.ends_with("03.cu");
        EntryState::Accepted {
            speedup: match operator {
                Operator::Baseline => 1.0,
                _ if is_second => 1.5,
                _ => 4.0,
            },
            promotable: true,
            unmet_phases: if opens {
                Vec::new()
            } else {
                vec!["parallelism".to_owned()]
            },
        }
    });
    let parent_of_last = run.candidates.last().unwrap().parent;
    let last = file(&run.candidates.last().unwrap().operator);
    assert!(last.ends_with("03.cu"), "{}", run.story());
    let parent = run
        .candidates
        .iter()
        .find(|entry| Some(entry.id) == parent_of_last);
    let parent = file(&parent.unwrap().operator);
    assert!(parent.ends_with("02.cu"), "{}", run.story());
}

#[test]
fn a_slower_candidate_that_opens_the_phase_carries_the_playbook_on() {
    let task = task();
    let mut run = Rehearsal::new(&task, Method::Playbook, 45);
    run.run(|operator, configuration| {
        let opens = configuration.get("SPLIT") == Some(&4);
        let unmet_phases = if opens {
            Vec::new()
        } else {
            vec!["parallelism".to_owned()]
        };
        let speedup = match operator {
            Operator::Baseline => 1.0,
            _ if opens => 1.6,
            _ => 2.0,
        };
        EntryState::Accepted {
            speedup,
            promotable: opens,
            unmet_phases,
        }
    });
    let last = run.candidates.last().unwrap();
    assert!(file(&last.operator).ends_with("03.cu"));
    let parent = run
        .candidates
        .iter()
        .find(|entry| Some(entry.id) == last.parent)
        .unwrap();
    assert_eq!(parent.configuration["SPLIT"], 4);
}

#[test]
fn a_bad_baseline_fails_the_run_at_once() {
    let task = task();
    let mut run = Rehearsal::new(&task, Method::Playbook, 45);
    let (_, end) = run.run(|_, _| EntryState::Rejected(VerdictKind::IncorrectOutput));
    assert_eq!(run.candidates.len(), 1);
    let wanted = describe_verdict(VerdictKind::IncorrectOutput);
    assert!(matches!(end, Action::Fail(reason) if reason.contains(wanted)));
}

#[test]
fn a_baseline_that_nobody_could_evaluate_fails_the_run_with_the_cause() {
    let task = task();
    let mut run = Rehearsal::new(&task, Method::Playbook, 45);
    let (_, end) = run.run(|_, _| abandoned());
    assert_eq!(run.candidates.len(), 1);
    let reason = "the baseline could not be evaluated: no disk";
    assert_eq!(end, Action::Fail(reason.to_owned()));
}

#[test]
fn a_sweep_beyond_its_budget_is_steered_by_what_it_found() {
    let bundle = {
        let choices: &[i64] = &[1, 2, 4, 8, 16, 32, 64, 128];
        let mut files = task_files();
        files.insert(
            "baseline.cu".to_owned(),
            kernel(
                "b",
                "parallelism",
                &[("A", choices), ("B", choices), ("C", choices)],
            ),
        );
        Bundle { files }
    };
    let task = Task::load(&bundle).expect("the folder is whole");
    // The fastest of 512 is A = 32, B = 4, C = 16; every step of a factor of two away costs a fifth.
    let speedup = |configuration: &BTreeMap<String, i64>| {
        let steps = |name: &str, best: f64| ((configuration[name] as f64).log2() - best).abs();
        4.0 * 0.8_f64.powf(steps("A", 5.0) + steps("B", 2.0) + steps("C", 4.0))
    };
    let mut steered = Vec::new();
    for seed in 0..4 {
        let mut run = Rehearsal::new(&task, Method::Sweep, 60);
        run.seed = seed;
        let (_, end) = run.run(|operator, configuration| match operator {
            Operator::Baseline => accepted(1.0),
            _ if configuration["A"] == 128 => EntryState::Rejected(VerdictKind::LaunchRejected),
            _ => accepted(speedup(configuration)),
        });
        assert_eq!(end, Action::Finish(StopReason::Trials));
        let found = run.candidates.iter().filter_map(Entry::speedup);
        steered.push(found.fold(0.0, f64::max));
    }
    // A random sample of 60 finds the fastest in one search of nine.
    let optimal = steered.iter().filter(|found| **found > 3.99).count();
    assert!(optimal >= 3, "{steered:?}");
}

#[test]
fn a_sweep_beyond_its_budget_follows_the_strategy_of_its_run() {
    let mut files = task_files();
    let axes: &[(&str, &[i64])] = &[("A", &[1, 2, 4, 8]), ("B", &[1, 2, 4, 8])];
    files.insert("baseline.cu".to_owned(), kernel("b", "parallelism", axes));
    let task = Task::load(&Bundle { files }).expect("the folder is whole");
    let chosen = |strategy| {
        let mut run = Rehearsal::new(&task, Method::Sweep, 6);
        run.evolution.strategy = strategy;
        run.run(|_, _| accepted(1.0));
        let configurations = run.candidates.iter().map(|entry| &entry.configuration);
        let pairs = configurations.map(|one| (one["A"], one["B"]));
        pairs.collect::<Vec<_>>()
    };
    let in_order = [(1, 1), (1, 2), (1, 4), (1, 8), (2, 1), (2, 2), (2, 4)];
    assert_eq!(chosen(tuner::Strategy::Exhaustive), in_order);
    assert_ne!(chosen(tuner::Strategy::Random), in_order);
}

/// A value of another tunable, such as one that only a benchmark of a tile has, does not matter.
#[test]
fn a_sweep_begins_with_the_configurations_that_its_request_names() {
    let mut files = task_files();
    let axes: &[(&str, &[i64])] = &[("A", &[1, 2, 4, 8]), ("B", &[1, 2, 4, 8])];
    files.insert("baseline.cu".to_owned(), kernel("b", "parallelism", axes));
    let task = Task::load(&Bundle { files }).expect("the folder is whole");
    let values = |pairs: &[(&str, i64)]| -> Configuration {
        let pairs = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value));
        pairs.collect()
    };
    for trials in [6, 15] {
        let mut run = Rehearsal::new(&task, Method::Sweep, trials);
        run.evolution.first_configurations = vec![
            values(&[("A", 8), ("C", 3)]),
            values(&[("A", 3)]),
            values(&[("B", 4), ("A", 2)]),
            values(&[("A", 8)]),
            values(&[("A", 1), ("B", 1)]),
        ];
        run.run(|_, _| accepted(1.0));
        let pairs = run.candidates.iter().map(|entry| {
            let configuration = &entry.configuration;
            (configuration["A"], configuration["B"])
        });
        let pairs: Vec<_> = pairs.collect();
        assert_eq!(pairs[..3], [(1, 1), (8, 1), (2, 4)]);
        assert_eq!(pairs.len(), 1 + trials as usize);
    }
}

/// A block of 2048 threads breaks a limit, and no code depends on D.
#[test]
fn a_sweep_leaves_out_what_cannot_run_or_changes_nothing() {
    let mut files = task_files();
    let baseline = "/*---\n[tunables.T]\nvalue = 32\nchoices = [32, 64, 128, 256, 512, 2048]\n\
                    [tunables.D]\nvalue = 1\nchoices = [1, 2, 3, 4, 5, 6, 7, 8]\n\
                    [[launch]]\nkernel = \"k\"\ngrid = [1]\nblock = [\"T\"]\nargs = [\"y\"]\n---*/\n";
    files.insert("baseline.cu".to_owned(), baseline.to_owned());
    let task = Task::load(&Bundle { files }).expect("the folder is whole");
    let mut run = Rehearsal::new(&task, Method::Sweep, 30);
    run.images = Some(|configuration| Digest::of(configuration["T"].to_string()));
    let (_, end) = run.run(|_, _| accepted(1.0));
    assert_eq!(end, Action::Finish(StopReason::Exhausted));
    let tried = run.candidates.iter().map(|entry| &entry.configuration);
    let threads = |one: &Configuration| one["T"];
    let with_own = tried.clone().filter(|one| one["D"] == 1).map(threads);
    let with_own: std::collections::BTreeSet<i64> = with_own.collect();
    assert_eq!(with_own, [32, 64, 128, 256, 512].into());
    assert!(tried.clone().all(|one| one["T"] < 2048));
    // 39 configurations can run. A few show that D has no effect.
    assert!(tried.count() < 20, "{}", run.story());
}

#[test]
fn nothing_happens_while_verdicts_are_out() {
    let task = task();
    let mut run = Rehearsal::new(&task, Method::Playbook, 45);
    run.run(|_, _| accepted(1.0));
    run.promotion = PromotionProgress::None;
    for entry in &mut run.candidates[1..] {
        entry.state = EntryState::Pending;
    }
    assert_eq!(run.next(), []);
}

#[test]
fn a_refused_champion_makes_way_for_the_next_best() {
    let task = task();
    let mut run = Rehearsal::new(&task, Method::Sweep, 45);
    run.run(|operator, _| {
        if *operator == Operator::Baseline {
            accepted(1.0)
        } else {
            accepted(1.5)
        }
    });
    run.promotion = PromotionProgress::None;
    run.candidates[0].state = accepted(1.3);
    run.refused.push(run.candidates[1].id);
    assert_eq!(run.next(), [Action::Promote(run.candidates[0].id)]);
    run.refused.push(run.candidates[0].id);
    assert_eq!(run.next(), [Action::Finish(StopReason::Exhausted)]);
}

#[test]
fn an_outside_proposer_is_waited_for_until_the_trials_are_used() {
    let task = task();
    let mut run = Rehearsal::new(&task, Method::External, 1);
    let baseline = run.next();
    let [Action::Propose(proposal)] = baseline.as_slice() else {
        panic!("{baseline:?}")
    };
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let entry = Entry {
        id: CandidateId::generate(DateTime::UNIX_EPOCH, &mut rng),
        parent: None,
        operator: proposal.operator.clone(),
        generation: 0,
        configuration: BTreeMap::new(),
        state: accepted(1.0),
        trial: false,
        duplicate: false,
        thought: None,
        image: None,
        floor_share: None,
        cell: Cell::default(),
        asked: None,
    };
    run.candidates.push(entry.clone());
    assert_eq!(run.next(), []);
    run.candidates.push(Entry {
        operator: Operator::Submit,
        state: EntryState::Rejected(VerdictKind::IncorrectOutput),
        trial: true,
        ..entry
    });
    assert_eq!(run.next(), [Action::Finish(StopReason::Trials)]);
}

proptest! {
    #[test]
    fn no_judgement_overshoots_the_budget_or_starves_the_run(
        trials in 0_u32..12,
        seed in any::<u64>(),
        method in prop_oneof![Just(Method::Playbook), Just(Method::Sweep)],
        start in prop_oneof![Just(None), Just(Some("playbook/02.cu"))],
        verdicts in proptest::collection::vec(prop_oneof![
            Just(EntryState::Rejected(VerdictKind::IncorrectOutput)), Just(abandoned()), (0.5_f64..3.0).prop_map(accepted)
        ], 16),
    ) {
        let task = task();
        let mut run = Rehearsal::new(&task, method, trials);
        run.seed = seed;
        run.start = start;
        let drawn = std::cell::Cell::new(0);
        let (promoted, end) = run.run(|operator, _| {
            if *operator == Operator::Baseline {
                return accepted(1.0);
            }
            drawn.set(drawn.get() + 1);
            verdicts[drawn.get() % verdicts.len()].clone()
        });
        prop_assert!(matches!(end, Action::Finish(_)));
        prop_assert!(run.candidates.iter().filter(|entry| entry.trial).count() <= trials as usize);
        let best = run.candidates.iter().filter_map(Entry::speedup).fold(0.0, f64::max);
        let winner = promoted.and_then(|id| run.candidates.iter().find(|entry| entry.id == id));
        prop_assert_eq!(winner.and_then(Entry::speedup), (best > 1.02).then_some(best));
    }

    #[test]
    fn the_same_seed_is_the_same_run(seed in any::<u64>()) {
        let task = task();
        let story = || {
            let mut run = Rehearsal::new(&task, Method::Sweep, 3);
            run.start = Some("playbook/02.cu");
            run.seed = seed;
            run.run(|_, _| accepted(1.0));
            run.story()
        };
        prop_assert_eq!(story(), story());
    }
}

#[test]
fn edits_of_the_fastest_are_tried_once_each() {
    let task = task();
    let mut run = Rehearsal::new(&task, Method::Transform, 200);
    // Each padding makes its parent faster up to a limit, and the other edits make it slower or wrong.
    let (promoted, end) = run.run_with_parents(|operator, _, parent| match operator {
        Operator::Edit { edit } if edit == "pad" => accepted(f64::min(parent + 0.5, 3.0)),
        Operator::Edit { edit } if edit == "bound" => {
            EntryState::Rejected(VerdictKind::CompileRejected)
        }
        Operator::Edit { .. } => accepted(parent - 0.1),
        Operator::Step { .. } => accepted(1.5),
        _ => accepted(1.0),
    });
    assert_eq!(end, Action::Finish(StopReason::Exhausted));
    let steps = run.candidates[1..].iter().take(task.playbook.len());
    for step in steps {
        assert!(matches!(step.operator, Operator::Step { .. }), "{step:?}");
    }
    let mut seen = std::collections::BTreeSet::new();
    for entry in &run.candidates {
        if let Operator::Edit { edit } = &entry.operator {
            assert!(
                seen.insert((entry.parent, edit.clone())),
                "twice: {entry:?}"
            );
        }
    }
    let edited = seen.iter().map(|(parent, _)| *parent);
    let edited: std::collections::BTreeSet<_> = edited.collect();
    assert!(edited.len() > 4, "{} candidates were edited", edited.len());
    let best = run
        .candidates
        .iter()
        .find(|entry| Some(entry.id) == promoted);
    let best = best.expect("one is promoted");
    assert_eq!(best.speedup(), Some(3.0));
    assert!(best.generation >= 4, "three paddings of a step");
}
