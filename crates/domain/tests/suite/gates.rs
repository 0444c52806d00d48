//! Soft gates: what they look at, whom they concern, and that no dummy launch meets them.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its functions too"
)]

use std::collections::BTreeMap;

use domain::device::Limits;
use domain::evaluation::EvaluationStage;
use domain::judge;
use domain::plan::{ResolvedLaunch, ResolvedPlan, ResolvedStep};
use domain::role::{KernelResources, LaunchFacts};
use domain::task::{Bundle, Task};
use domain::timing::ModelledLaunch;
use domain::verdict::Verdict;

fn limits() -> Limits {
    Limits {
        sm_count: 58,
        threads_per_block: 1024,
        block: [1024, 1024, 64],
        grid: [i32::MAX.cast_unsigned(), 65535, 65535],
        shared_per_block: 49152,
        shared_per_block_optin: 101_376,
        shared_per_sm: 102_400,
        registers_per_block: 65536,
        registers_per_sm: 65536,
        threads_per_sm: 1536,
        blocks_per_sm: 24,
    }
}

const TASK: &str = r#"name = "scale"
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
name = "one"
dims = { N = 64 }
use = ["check", "score"]
[gates.ctas_per_sm]
min = 2
enforce = "phase"
[gates.registers]
max = 128
enforce = "reject"
[[phase]]
name = "tensor"
[phase.gates.spill_bytes]
max = 0
enforce = "reject"
"#;
const SOURCE: &str =
    "/*---\n[[launch]]\nkernel = \"scale\"\ngrid = [1]\nblock = [1]\nargs = [\"y\"]\n---*/\n";

fn task() -> Task {
    Task::load(&Bundle {
        files: task_files(),
    })
    .unwrap()
}

fn task_files() -> BTreeMap<String, String> {
    let files = [
        ("task.toml", TASK),
        ("reference.cu", SOURCE),
        ("check.cu", SOURCE),
        ("baseline.cu", SOURCE),
    ];
    files
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .into()
}

#[test]
fn gates_are_judged_per_case_and_reject_only_whom_they_concern() {
    let task = task();
    let spilling = KernelResources {
        kernel: "scale".to_owned(),
        registers: 64,
        spill_bytes: 8,
        stack_bytes: 0,
        static_shared_bytes: 0,
        constant_bytes: 0,
        parameters: Vec::new(),
    };
    let one = [executed(58, 2.5, 2.0)];
    let blocks = judge::GateFacts::executed("one", &one).unwrap();
    let outcomes = judge::evaluate_gates(&task, &[blocks], &[spilling], &limits());
    let found = outcomes
        .iter()
        .map(|gate| {
            (
                gate.subject.as_str(),
                gate.case.as_deref(),
                gate.found,
                gate.met,
            )
        })
        .collect::<Vec<_>>();
    assert_eq!(
        found,
        [
            ("ctas_per_sm", Some("one"), 1.0, false),
            ("registers", None, 64.0, true),
            ("spill_bytes", None, 8.0, false),
        ]
    );
    let rejected = |phase, stage| judge::judge_gates(&outcomes, phase, stage);
    assert_eq!(rejected(None, EvaluationStage::Search), None);
    assert_eq!(rejected(Some("tensor"), EvaluationStage::Baseline), None);
    assert_eq!(
        rejected(Some("tensor"), EvaluationStage::Search),
        Some(Verdict::GateRejected {
            gate: "spill_bytes".to_owned(),
            limit: 0.0,
            found: 8.0
        })
    );
}

/// A plan with a launch of each of these numbers of blocks.
fn planned(grids: &[u32]) -> ResolvedPlan {
    let launch = |&blocks: &u32| {
        ResolvedStep::Kernel(ResolvedLaunch {
            kernel: "scale".to_owned(),
            grid: [blocks, 1, 1],
            block: [1, 1, 1],
            shared_bytes: 0,
            cooperative: false,
            l2_persist: None,
            arguments: Vec::new(),
        })
    };
    ResolvedPlan {
        workspaces: Vec::new(),
        steps: grids.iter().map(launch).collect(),
    }
}

/// A launch of so many blocks that took `us` in all, of which launching alone took `launch_us`.
fn executed(blocks: u32, us: f64, launch_us: f64) -> LaunchFacts {
    LaunchFacts {
        kernel: "scale".to_owned(),
        grid: [blocks, 1, 1],
        block: [1, 1, 1],
        shared_bytes: 0,
        modelled: Some(ModelledLaunch {
            kernel: "scale".to_owned(),
            us,
            launch_us,
            bottleneck: "issue".to_owned(),
            share: 0.5,
        }),
        modelled_warm: None,
        modelled_terms: BTreeMap::new(),
        counters: BTreeMap::new(),
    }
}

#[test]
fn the_launches_that_do_the_work_are_judged_and_no_dummy_beside_them() {
    let untimed = LaunchFacts {
        modelled: None,
        ..executed(5800, 0.0, 0.0)
    };
    let table = [
        ("one launch", vec![executed(58, 9.0, 2.0)], 1.0),
        (
            "an idle launch of many blocks",
            vec![executed(58, 9.0, 2.0), executed(5800, 2.0, 2.0)],
            1.0,
        ),
        (
            "many idle launches, together longer",
            [
                vec![executed(58, 4.0, 2.0)],
                vec![executed(5800, 2.1, 2.0); 15],
            ]
            .concat(),
            1.0,
        ),
        (
            "work split over launches of few blocks",
            vec![
                executed(58, 4.0, 2.0),
                executed(116, 4.0, 2.0),
                executed(5800, 5.0, 2.0),
            ],
            2.0,
        ),
        (
            "a short last launch of few blocks",
            vec![executed(580, 4.0, 2.0), executed(58, 2.5, 2.0)],
            10.0,
        ),
        (
            "an exact half is not most",
            vec![executed(580, 3.0, 2.0), executed(58, 3.0, 2.0)],
            1.0,
        ),
        (
            "a launch without a time",
            vec![executed(58, 2.1, 2.0), untimed],
            1.0,
        ),
        (
            "a time that is none",
            vec![executed(58, 2.1, 2.0), executed(5800, f64::NAN, 2.0)],
            1.0,
        ),
        (
            "nothing but launching",
            vec![executed(580, 2.0, 2.0), executed(58, 2.0, 2.0)],
            1.0,
        ),
    ];
    for (name, launches, expected) in table {
        let blocks = judge::GateFacts::executed("one", &launches).unwrap();
        let outcomes = judge::evaluate_gates(&task(), &[blocks], &[], &limits());
        assert_eq!(outcomes[0].found, expected, "{name}");
        assert_eq!(outcomes[0].met, expected >= 2.0, "{name}");
    }
    assert_eq!(judge::GateFacts::executed("one", &[]), None);
}

#[test]
fn blocks_without_a_share_of_the_work_meet_no_gate() {
    let of_working = |working: u64| {
        let mut launch = executed(5800, 9.0, 2.0);
        launch.counters.insert("working_blocks".to_owned(), working);
        let launches = [launch];
        let blocks = judge::GateFacts::executed("one", &launches).unwrap();
        judge::evaluate_gates(&task(), &[blocks], &[], &limits())[0].found
    };
    assert_eq!(of_working(58), 1.0);
    assert_eq!(of_working(5800), 100.0);
    // More than were launched are not believed.
    assert_eq!(of_working(58_000), 100.0);
}

#[test]
fn before_anything_ran_only_what_is_certain_is_judged() {
    let table = [
        ("one launch", vec![116], Some((2.0, true))),
        ("one launch of few", vec![58], Some((1.0, false))),
        ("all enough", vec![580, 116], Some((2.0, true))),
        ("none enough", vec![29, 58], Some((1.0, false))),
        ("it depends", vec![58, 5800], None),
    ];
    for (name, grids, expected) in table {
        let blocks = judge::GateFacts::planned("one", &planned(&grids)).unwrap();
        let outcomes = judge::evaluate_gates(&task(), &[blocks], &[], &limits());
        let found = outcomes.first().map(|gate| (gate.found, gate.met));
        assert_eq!(found, expected, "{name}");
        assert!(outcomes.len() <= 1, "{name}: resources are unknown");
    }
    assert_eq!(judge::GateFacts::planned("one", &planned(&[])), None);
}

/// The gates of a task on what counters give.
const COUNTED: &str = "[gates.dram_percent]\nmin = 40\nenforce = \"phase\"\n[gates.sm_percent]\nmin = 60\nenforce = \"advise\"\n\
     [gates.bank_conflict_percent]\nmax = 5\nenforce = \"reject\"\n";

#[test]
fn counters_of_all_launches_of_a_case_decide_gates() {
    let mut files = task_files();
    let text = files.get_mut("task.toml").unwrap();
    let start = text.find("[gates").unwrap();
    text.replace_range(start.., COUNTED);
    let task = Task::load(&Bundle { files }).unwrap();
    let launch = |us, terms: &[(&str, f64)], passes: [u64; 2]| {
        let mut launch = executed(58, us, 2.0);
        launch.modelled_terms = terms
            .iter()
            .map(|(name, us)| ((*name).to_owned(), *us))
            .collect();
        for (name, count) in ["shared.wavefronts", "shared.wavefronts_ideal"]
            .into_iter()
            .zip(passes)
        {
            launch.counters.insert(name.to_owned(), count);
        }
        launch
    };
    let found = |launches: &[domain::role::LaunchFacts]| {
        let facts = judge::GateFacts::executed("one", launches).unwrap();
        let outcomes = judge::evaluate_gates(&task, &[facts], &[], &limits());
        let pairs = outcomes
            .iter()
            .map(|gate| (gate.subject.as_str(), gate.found.round(), gate.met));
        (
            pairs.collect::<Vec<_>>(),
            judge::judge_gates(&outcomes, None, EvaluationStage::Search),
        )
    };
    // 3 of 10 us and 5 of 10 us of device memory; units that work side by side are not added up.
    let first = launch(
        10.0,
        &[("dram_bytes", 3.0), ("issue", 6.0), ("tensor", 8.0)],
        [100, 90],
    );
    let second = launch(
        10.0,
        &[("dram_bytes", 5.0), ("issue", 2.0), ("tensor", 1.0)],
        [100, 100],
    );
    let (gates, verdict) = found(&[first.clone(), second]);
    let expected = [
        ("bank_conflict_percent", 5.0, true),
        ("dram_percent", 40.0, true),
        ("sm_percent", 50.0, false),
    ];
    assert_eq!(sorted(gates), expected);
    assert_eq!(verdict, None, "advice rejects nobody");
    let (gates, verdict) = found(&[first]);
    assert_eq!(sorted(gates)[0], ("bank_conflict_percent", 10.0, false));
    let rejected = Verdict::GateRejected {
        gate: "bank_conflict_percent".to_owned(),
        limit: 5.0,
        found: 10.0,
    };
    assert_eq!(verdict, Some(rejected));
    // A device without counters decides none of them.
    let mut silent = executed(58, 10.0, 2.0);
    silent.modelled = None;
    silent.counters.clear();
    assert_eq!(found(&[silent]).0, []);
}

fn sorted<T: PartialOrd>(mut gates: Vec<T>) -> Vec<T> {
    gates.sort_by(|one, other| one.partial_cmp(other).unwrap());
    gates
}
