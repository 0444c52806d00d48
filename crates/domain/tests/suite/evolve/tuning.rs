//! Sweeps of the elite's tunables beside the candidates that models write.

use std::collections::BTreeSet;

use domain::digest::Digest;
use domain::search::{Action, Entry, EntryState, Method, Operator, StopReason};

use super::ASKING;
use super::rehearsal::{Rehearsal, WRONG, accepted, task};

/// A kernel with a tunable of its launch, one of its code, and one that nothing uses.
pub const TUNABLE: &str = "/*---
[[launch]]
kernel = \"k\"
grid = [\"BLOCKS\"]
block = [\"THREADS\"]
args = [\"y\"]
[tunables.BLOCKS]
value = 1
choices = [1, 2]
[tunables.THREADS]
value = 32
choices = [32, 4096]
[tunables.TILE]
value = 16
choices = [16, 32, 64]
[tunables.UNUSED]
value = 0
choices = [0, 1, 2, 3]
---*/
extern \"C\" __global__ void k(float* y) {}
";

/// Takes a run to its end. `judge` gives the state of each candidate that has a configuration.
fn run(method: Method, percent: u32, judge: impl Fn(&Entry) -> EntryState) -> Vec<Entry> {
    let task = task();
    let mut run = Rehearsal::new(&task, method);
    run.evolution.sweep_percent = percent;
    run.source = TUNABLE;
    for _ in 0..1_000 {
        let (_, end) = run.act();
        if let Some(end) = end {
            let over = [StopReason::Trials, StopReason::Generations];
            assert!(over.map(Action::Finish).contains(&end), "{end:?}");
            return run.candidates;
        }
        for place in 0..run.candidates.len() {
            if run.candidates[place].state == EntryState::Pending {
                run.judge(place, accepted(1.0).into());
                let entry = &mut run.candidates[place];
                entry.state = judge(entry);
                let tile = entry.configuration["TILE"];
                entry.image = Some(Digest::of(tile.to_string()));
            }
        }
    }
    panic!("the run never ends");
}

/// Written candidates get faster with their generation, and a tile of 32 helps by half.
fn tile_helps(entry: &Entry) -> EntryState {
    let helped = if entry.configuration["TILE"] == 32 {
        1.5
    } else {
        1.0
    };
    accepted(helped * (1.0 + f64::from(entry.generation) / 1000.0))
}

fn swept(all: &[Entry]) -> Vec<&Entry> {
    let is_sweep = |entry: &&Entry| entry.operator == Operator::Sweep;
    all.iter().filter(is_sweep).collect()
}

#[test]
fn configurations_of_the_fastest_are_swept_within_their_share() {
    for method in ASKING {
        let name = method.as_str();
        let without = run(method, 0, tile_helps);
        let with = run(method, 25, tile_helps);
        assert!(swept(&without).is_empty());
        let children = swept(&with);
        assert!(children.len() > 4, "{name}: {}", children.len());
        assert!(4 * children.len() <= with.len(), "{name}");
        let different: BTreeSet<_> = children
            .iter()
            .map(|entry| (entry.parent, &entry.configuration))
            .collect();
        assert_eq!(different.len(), children.len(), "{name}");
        let charged = |all: &[Entry]| all.iter().filter(|entry| entry.trial).count();
        assert_eq!(charged(&with), charged(&without), "{name}");
        let best = |all: &[Entry]| all.iter().filter_map(Entry::speedup).fold(0.0, f64::max);
        assert!(best(&with) > 1.4 * best(&without), "{name}");
    }
}

#[test]
fn a_configuration_beyond_a_limit_of_the_device_is_not_evaluated() {
    let all = run(Method::BestOf, 75, tile_helps);
    assert!(!swept(&all).is_empty());
    assert!(
        all.iter()
            .all(|entry| entry.configuration.get("THREADS") != Some(&4096))
    );
}

#[test]
fn a_tunable_that_leaves_code_and_launches_alone_is_not_searched_further() {
    let all = run(Method::BestOf, 75, tile_helps);
    let children = swept(&all);
    let roots: BTreeSet<_> = children.iter().map(|entry| entry.parent).collect();
    for root in roots {
        let own = |entry: &&&Entry| entry.parent == root || Some(entry.id) == root;
        let tried: Vec<&Entry> = all.iter().collect();
        let tried: Vec<&Entry> = tried.iter().filter(own).copied().collect();
        let without = |entry: &Entry| {
            let mut others = entry.configuration.clone();
            others.remove("UNUSED");
            others
        };
        let mut known = BTreeSet::new();
        let shown = tried.iter().position(|entry| !known.insert(without(entry)));
        // The other configurations of a wave are chosen before its first verdict.
        let later = shown.map_or(&[][..], |at| &tried[(at + 4).min(tried.len())..]);
        assert!(
            later.iter().all(|entry| entry.configuration["UNUSED"] == 0),
            "{later:?}"
        );
    }
}

#[test]
fn a_sweep_that_only_fails_ends_and_the_next_of_the_elite_is_swept() {
    let only_written = |entry: &Entry| match entry.operator {
        Operator::Sweep => WRONG,
        _ => accepted(2.0),
    };
    let all = run(Method::BestOf, 90, only_written);
    let children = swept(&all);
    let roots: BTreeSet<_> = children.iter().map(|entry| entry.parent).collect();
    assert!(roots.len() > 1);
    for root in roots {
        let own = children.iter().filter(|entry| entry.parent == root);
        assert!(
            own.count() <= 9,
            "six failures, the last ones in a wave of four"
        );
    }
}

#[test]
fn a_candidate_and_its_configurations_are_one_member_of_the_elite() {
    let task = task();
    let mut run = Rehearsal::new(&task, Method::Full);
    run.evolution.sweep_percent = 50;
    run.source = TUNABLE;
    let all_equal = |_: usize, entry: &Entry| match entry.operator {
        Operator::Sweep => accepted(3.0).into(),
        _ => accepted(2.0).into(),
    };
    run.run(all_equal, |_| 0);
    let family = |id| {
        let entry = run.candidates.iter().find(|entry| entry.id == id);
        let entry = entry.expect("a parent is a candidate");
        let parent = entry.parent.filter(|_| entry.operator == Operator::Sweep);
        parent.unwrap_or(id)
    };
    let crossovers = run.drafts_of(&Operator::Crossover);
    assert!(!crossovers.is_empty());
    for draft in crossovers {
        assert_ne!(family(draft.parents[0]), family(draft.parents[1]));
    }
}
