//! The inputs that a candidate gets, for the project's own tasks.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its functions too"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use domain::digest::Digest;
use domain::evaluation::{EvaluationRequest, EvaluationStage};
use domain::role::{Alteration, Distribution, ExecutionPurpose, Key, Placement};
use domain::seeds::SeedFamily;
use domain::task::{Bundle, Case, CasePurpose, Task};
use worker::evaluate::{ExpectedOutputs, Extent, Pass, Passes, Repetition, load_task};

fn bundle(name: &str) -> Bundle {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../kernels")
        .join(name);
    let mut files = BTreeMap::new();
    for file in ["task.toml", "reference.cu", "check.cu", "baseline.cu"] {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        files.insert(file.to_owned(), text);
    }
    Bundle { files }
}

fn task(name: &str) -> Task {
    let mut task = Task::load(&bundle(name)).unwrap();
    // The task may grow; these tests count six cases of attention.
    const COUNTED: [&str; 6] = ["starved", "ladder", "single", "ragged", "odd", "wide"];
    if name == "attention-f16" {
        task.cases
            .retain(|case| COUNTED.contains(&case.name.as_str()));
    }
    task
}

fn passes(task: &Task, holdout: bool) -> Passes<'_> {
    Passes {
        task,
        key: Key(Digest::of("a run")),
        family: if holdout {
            SeedFamily::Promotion
        } else {
            SeedFamily::Feedback
        },
    }
}

fn names(passes: &[Pass]) -> Vec<&str> {
    passes.iter().map(|pass| pass.case.as_str()).collect()
}

#[test]
fn small_cases_are_looked_at_first_and_the_large_ones_last() {
    let task = task("attention-f16");
    let search = passes(&task, false);
    assert_eq!(
        names(&search.smoke().unwrap()),
        ["single", "ragged", "starved", "odd"]
    );
    let score = search.score_once().unwrap();
    assert_eq!(names(&score), ["starved", "ladder"]);
    assert!(
        score
            .iter()
            .all(|pass| pass.purpose == ExecutionPurpose::Score)
    );
}

#[test]
fn a_sample_of_the_screen_has_every_distribution_on_the_largest_and_every_small_case() {
    let task = task("attention-f16");
    let search = passes(&task, false);
    let (all, sample) = (
        search.screen(Extent::All).unwrap(),
        search.screen(Extent::Sample).unwrap(),
    );
    assert_eq!((all.len(), sample.len()), (14 * 4, 14 * 2));
    let on = |case: &str| {
        let passes = sample.iter().filter(|pass| pass.case == case);
        passes
            .map(|pass| pass.distribution)
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(on("odd").len(), 14);
    for case in ["single", "ragged", "starved"] {
        assert!(!on(case).is_empty(), "{case}");
    }
}

#[test]
fn held_out_cases_appear_only_in_a_confirmation() {
    let task = task("attention-f16");
    let everything = |passes: &Passes<'_>| {
        let all = [
            passes.smoke().unwrap(),
            passes.screen(Extent::All).unwrap(),
            passes.repeats(Extent::All).unwrap(),
            passes.score_once().unwrap(),
        ];
        all.concat()
    };
    let wide = |holdout| {
        everything(&passes(&task, holdout))
            .into_iter()
            .filter(|pass| pass.case == "wide")
            .map(|pass| pass.purpose)
            .collect::<Vec<_>>()
    };
    assert!(wide(false).is_empty());
    assert_eq!(wide(true), [ExecutionPurpose::Check]);
}

#[test]
fn a_task_without_small_cases_is_looked_at_on_its_smallest() {
    let mut task = task("attention-f16");
    task.cases.retain(|case| case.name == "ladder");
    let search = passes(&task, false);
    assert_eq!(names(&search.smoke().unwrap()), ["ladder"]);
}

#[test]
fn no_two_executions_share_inputs_unless_they_are_repeats() {
    for name in ["attention-f16", "softmax-f32", "gemm-f32"] {
        let task = task(name);
        let search = passes(&task, false);
        let mut seen = BTreeSet::new();
        let fresh = [
            search.smoke().unwrap(),
            search.screen(Extent::All).unwrap(),
            search.score(|_| Ok(4)).unwrap(),
        ]
        .concat();
        for pass in &fresh {
            assert!(seen.insert(pass.inputs()), "{name}: {:?}", pass.inputs());
            assert_eq!(pass.comparison, ExpectedOutputs::Reference);
        }
        for pass in search.repeats(Extent::All).unwrap() {
            assert!(seen.contains(&pass.inputs()), "{name}: {:?}", pass.inputs());
        }
    }
}

#[test]
fn a_repeat_changes_the_schedule_the_fragments_or_what_lies_around_and_no_inputs() {
    let task = task("attention-f16");
    let search = passes(&task, false);
    let smoke = search.smoke().unwrap();
    let repeats = search.repeats(Extent::Sample).unwrap();
    let original = smoke.last().unwrap();
    let [rescheduled, relaid, repoisoned] = repeats.as_slice() else {
        panic!("{} repeats", repeats.len());
    };
    assert!(rescheduled.schedule.is_some());
    assert_eq!(rescheduled.poison, original.poison);
    // A kernel that loads as widely as its base allows may add in another order on another base.
    assert_eq!(rescheduled.placement, original.placement);
    assert_eq!((relaid.schedule, relaid.poison), (None, original.poison));
    assert_eq!(relaid.comparison, ExpectedOutputs::Relaid);
    assert_eq!(repoisoned.schedule, None);
    assert_eq!(repoisoned.placement, Placement::Shifted);
    assert_ne!(repoisoned.poison, original.poison);
    for repeat in &repeats {
        assert_eq!(repeat.tensors, original.tensors);
    }
    assert_eq!(search.repeats(Extent::All).unwrap().len(), 3 * smoke.len());
}

/// A kernel may distinguish weakly from strongly aligned bases, and be wrong on either.
#[test]
fn every_small_case_and_edge_is_met_on_bases_of_both_kinds_by_a_search_and_by_a_promotion() {
    for name in ["attention-f16", "softmax-f32", "gemm-f32"] {
        let task = task(name);
        for (holdout, extent) in [(false, Extent::Sample), (true, Extent::All)] {
            let passes = passes(&task, holdout);
            let checks = [passes.smoke().unwrap(), passes.screen(extent).unwrap()].concat();
            for case in passes.smoke().unwrap() {
                let met = checks.iter().filter(|pass| pass.case == case.case);
                let met = met.map(|pass| pass.placement).collect::<Vec<_>>();
                for kind in [Placement::Ending, Placement::Allocated] {
                    assert!(met.contains(&kind), "{name} {}: {kind:?}", case.case);
                }
            }
            let gate = passes.gate(extent).unwrap();
            for case in passes.smoke().unwrap() {
                let weak = gate.iter().filter(|pass| pass.case == case.case);
                assert!(weak.clone().any(|pass| pass.placement == Placement::Ending));
                assert!(weak.clone().count() > 1);
            }
        }
        let search = passes(&task, false);
        let repeats = search.determinism(16).unwrap();
        let kinds = repeats
            .iter()
            .map(|pass| (format!("{:?}", pass.placement), pass.company))
            .collect::<BTreeSet<_>>();
        assert_eq!(kinds.len(), 8, "four kinds, each with company and without");
    }
}

#[test]
fn large_values_go_to_linear_inputs_and_to_one_other_at_a_time() {
    let task = task("attention-f16");
    let screen = passes(&task, false).screen(Extent::Sample).unwrap();
    let mut provoked = BTreeSet::new();
    for pass in &screen {
        let of = |name: &str| {
            let tensor = pass.tensors.iter().find(|tensor| tensor.name == name);
            tensor.unwrap().distribution
        };
        match pass.distribution {
            Distribution::Large | Distribution::HeavyTail => {
                assert_eq!(of("v"), pass.distribution);
                let hit = ["q", "k"].map(|name| of(name) == pass.distribution);
                assert_ne!(hit[0], hit[1], "{pass:?}");
                provoked.insert(hit);
            }
            Distribution::Impulse => {
                let struck = ["q", "k", "v"].map(|name| of(name) == Distribution::Impulse);
                assert_eq!(struck, [false, false, true], "{pass:?}");
            }
            Distribution::Shifted => {
                let shifted = ["q", "k", "v"].map(|name| of(name) == Distribution::Shifted);
                assert!(!shifted[2] && shifted[0] != shifted[1], "{pass:?}");
            }
            Distribution::Huge => {
                let huge = ["q", "k", "v"].map(|name| of(name) == Distribution::Huge);
                assert_eq!(huge, [false, false, true], "{pass:?}");
            }
            Distribution::Specials => {
                let special = ["q", "k", "v"].map(|name| of(name) == Distribution::Specials);
                assert_eq!(special, [true, false, false], "{pass:?}");
            }
            Distribution::Cancellation => {
                let held = ["q", "k", "v"].map(of);
                let alternating = held.iter().filter(|held| **held == pass.distribution);
                assert_eq!(alternating.count(), 1, "{pass:?}");
                assert!(held.contains(&Distribution::Ties));
            }
            other => assert!(["q", "k", "v"].iter().all(|name| of(name) == other)),
        }
    }
    assert_eq!(provoked.len(), 2, "both q and k have their turn");
}

#[test]
fn a_promotion_asks_of_a_score_case_what_a_search_asks_of_small_ones() {
    let task = task("softmax-f32");
    let promotion = passes(&task, true);
    let cases = promotion.untimed_score_cases().unwrap();
    assert_eq!(cases.len(), 2);
    for passes in &cases {
        let met = passes.iter().map(|pass| pass.distribution);
        let met = met.collect::<BTreeSet<_>>();
        // All but those that need an input in which the function is linear.
        assert_eq!(met.len(), Distribution::ALL.len() - 3, "{met:?}");
        assert!(!met.contains(&Distribution::Integers));
        let original = &passes[0];
        let struck = passes
            .iter()
            .filter_map(Pass::changed_element)
            .collect::<Vec<_>>();
        let [rows, columns] = [0, 1].map(|axis| original.tensors[0].extents[axis]);
        assert_eq!(struck.len(), 2);
        assert_eq!(struck[0].1 / columns, rows - 1, "the last row");
        assert_eq!(struck[1].1 % columns, columns - 1, "the last column");
        assert!(
            passes
                .iter()
                .all(|pass| pass.purpose == ExecutionPurpose::Check)
        );
    }
}

#[test]
fn the_key_decides_every_secret() {
    let task = task("gemm-f32");
    let one = passes(&task, false);
    let other = Passes {
        key: Key(Digest::of("another run")),
        ..one
    };
    assert_eq!(one.smoke().unwrap(), one.smoke().unwrap());
    for (a, b) in one.smoke().unwrap().iter().zip(&other.smoke().unwrap()) {
        assert_ne!(a.poison, b.poison);
        for (a, b) in a.tensors.iter().zip(&b.tensors) {
            assert_ne!(a.key, b.key);
        }
    }
}

#[test]
fn every_input_has_one_element_struck_and_nothing_else_changed() {
    for (name, inputs) in [("attention-f16", 3), ("gemm-f32", 2), ("softmax-f32", 1)] {
        let task = task(name);
        let search = passes(&task, false);
        let probes = search.sensitivity_checks().unwrap();
        assert_eq!(probes.len(), inputs, "{name}");
        let smoke = search.smoke().unwrap();
        for probe in probes {
            let (input, at) = probe.changed_element().unwrap();
            let mut original = probe.clone();
            for tensor in &mut original.tensors {
                if let Some(alteration) = tensor.alteration.take() {
                    assert_eq!(
                        (&tensor.name, alteration),
                        (&input, Alteration::ElementReplaced(at))
                    );
                    assert!(at < tensor.elements());
                }
            }
            assert!(smoke.contains(&original), "{name}: {input}");
        }
    }
}

#[test]
fn what_only_silicon_needs_is_asked_as_often_as_wanted() {
    let task = task("gemm-f32");
    let search = passes(&task, false);
    let largest = search.smoke().unwrap().pop().unwrap();
    let again = search.determinism(20).unwrap();
    assert_eq!(again.len(), 20);
    let poisons = again
        .iter()
        .map(|pass| pass.poison)
        .collect::<BTreeSet<_>>();
    assert_eq!(poisons.len(), 20, "a poison of its own for each");
    for pass in &again {
        assert_eq!(pass.inputs(), largest.inputs());
        // On weak bases a kernel may add in another order.
        let compared_with = match pass.placement {
            Placement::Allocated | Placement::Shifted => ExpectedOutputs::Itself,
            _ => ExpectedOutputs::Reference,
        };
        assert_eq!(pass.comparison, compared_with, "{:?}", pass.placement);
    }
    let company = again.iter().filter(|pass| pass.company).count();
    assert_eq!(company, 10, "every other one, whichever process makes it");
    let untimed = search.untimed(64).unwrap();
    let timed = search.score(|_| Ok(4)).unwrap();
    let inputs = untimed.iter().chain(&timed).map(Pass::inputs);
    assert_eq!(inputs.collect::<BTreeSet<_>>().len(), 64 + timed.len());
    assert!(
        untimed
            .iter()
            .all(|pass| pass.purpose == ExecutionPurpose::Check)
    );
}

/// All secrets of one evaluation: keys of tensors, seeds of poison and schedules.
fn draws(passes: &[Pass]) -> BTreeSet<Vec<u8>> {
    let mut draws = BTreeSet::new();
    for pass in passes {
        draws.insert(pass.poison.to_le_bytes().to_vec());
        draws.extend(pass.schedule.map(|seed| seed.to_le_bytes().to_vec()));
        for tensor in &pass.tensors {
            draws.insert(tensor.key.0.bytes().to_vec());
        }
    }
    draws
}

/// All passes that an evaluation may request of a family.
fn all_of(passes: &Passes<'_>) -> Vec<Pass> {
    [
        passes.smoke(),
        passes.sensitivity_checks(),
        passes.screen(Extent::All),
        passes.gate(Extent::Sample),
        passes.gate(Extent::All),
        passes.repeats(Extent::All),
        passes.determinism(3),
        passes.untimed(2),
        passes.untimed_score_cases().map(|cases| cases.concat()),
        passes.score(|_| Ok(4)),
    ]
    .into_iter()
    .flat_map(Result::unwrap)
    .collect()
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 24, ..Default::default() })]

    /// Holds for all keys, also for equal ones.
    #[test]
    fn no_two_families_share_a_draw(roots in proptest::collection::vec(proptest::prelude::any::<[u8; 32]>(), 1..3)) {
        let task = task("gemm-f32");
        let mut seen = BTreeSet::new();
        for root in roots.iter().collect::<BTreeSet<_>>() {
            for family in SeedFamily::ALL {
                let key = Key(Digest::of(root));
                let passes = Passes { task: &task, key, family };
                proptest::prop_assert_ne!(passes.secret(), key);
                for draw in draws(&all_of(&passes)) {
                    proptest::prop_assert!(seen.insert(draw), "{family:?}");
                }
            }
        }
    }
}

#[test]
fn a_gate_asks_every_small_case_and_edge_twice_and_each_key_asks_otherwise() {
    let task = task("gemm-f32");
    let gate = Passes {
        family: SeedFamily::Gate,
        ..passes(&task, false)
    };
    let (asked, small) = (
        gate.gate(Extent::Sample).unwrap(),
        gate.small_cases().unwrap(),
    );
    assert_eq!(asked.len(), 2 * small.len());
    let inputs = asked.iter().map(Pass::inputs).collect::<BTreeSet<_>>();
    assert_eq!(inputs.len(), asked.len());
    let distributions = |key: &str| {
        let gate = Passes {
            key: Key(Digest::of(key)),
            ..gate
        };
        let asked = gate.gate(Extent::Sample).unwrap();
        asked
            .iter()
            .map(|pass| pass.distribution)
            .collect::<Vec<_>>()
    };
    let keys = ["a", "b", "c", "d"].map(distributions);
    assert!(keys.iter().any(|other| *other != keys[0]));
    assert_eq!(
        gate.gate(Extent::All).unwrap().len(),
        small.len() + gate.screen(Extent::All).unwrap().len()
    );
}

#[test]
fn a_champion_is_asked_most() {
    use domain::evaluation::EvaluationStage as Stage;
    let counts = [Stage::Search, Stage::Confirmation, Stage::Champion].map(|stage| {
        let Repetition { repeats, draws } = Repetition::of(stage);
        (repeats, draws)
    });
    assert_eq!(counts, [(20, 0), (250, 64), (1000, 512)]);
}

/// The shapes of a confirmation that go towards the maximum of a dim, where the dim M has these bounds.
fn towards_maximum(name: &str, bounds: &str) -> Vec<Case> {
    let mut bundle = bundle(name);
    let text = bundle.files.get_mut("task.toml").unwrap();
    // The maxima that the task states for itself give way.
    *text = text
        .replace("{ max = 65536 }", "{}")
        .replacen("M = {}", &format!("M = {bounds}"), 1);
    let request = EvaluationRequest {
        source: bundle.files["baseline.cu"].clone(),
        task: bundle,
        file: "baseline.cu".to_owned(),
        configuration: BTreeMap::new(),
        stage: EvaluationStage::Confirmation,
        key: Key(Digest::of("a confirmation")),
        incumbent: None,
    };
    let mut cases = load_task(&request).unwrap().cases;
    cases.retain(|case| case.is_for(CasePurpose::TowardsMaximum));
    cases
}

#[test]
fn a_promotion_goes_up_to_a_stated_maximum_while_the_other_dims_stay_small() {
    let rows = |cases: &[Case]| cases.iter().map(|case| case.dims["M"]).collect::<Vec<_>>();
    let is_small = |case: &&Case| 2 * case.dims["M"] * case.dims["N"] <= 1 << 17;
    let cases = towards_maximum("transpose-f32", "{ max = 40000 }");
    assert!(cases.len() > 20, "{cases:?}");
    // The largest that is listed is 16384.
    let mut all = rows(&cases);
    assert!(all.iter().all(|rows| (16385..=40_000).contains(rows)));
    assert!(all.contains(&40_000) && all.contains(&39_999));
    assert!(cases.iter().all(|case| is_small(&case)), "{cases:?}");
    let widths = cases.iter().map(|case| case.dims["N"]);
    assert!(widths.collect::<BTreeSet<_>>().len() > 1);
    all.retain(|rows| rows % 4 == 0);
    assert!(all.len() > 8 && all.len() + 4 < cases.len(), "{cases:?}");
    let products = towards_maximum("gemm-int8", "{}");
    let depths = products.iter().map(|case| case.dims["K"]);
    let depths = depths.collect::<BTreeSet<_>>();
    assert!(depths.iter().all(|depth| depth % 16 == 0), "{depths:?}");
    assert!(depths.contains(&65_536) && depths.contains(&65_520));
    // The largest case has 2^21 elements in its two tensors together.
    let mut beyond_reach = towards_maximum("transpose-f32", "{ max = 100000000 }");
    assert_eq!(rows(&beyond_reach).iter().max(), Some(&(1 << 20)));
    beyond_reach.retain(|case| !is_small(&case));
    assert!((1..=6).contains(&beyond_reach.len()), "{beyond_reach:?}");
    assert!(beyond_reach.iter().all(|case| case.dims["N"] == 1));
    assert_eq!(towards_maximum("transpose-f32", "{}"), []);
}
