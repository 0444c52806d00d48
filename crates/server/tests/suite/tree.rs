use domain::api::{CandidateState, Lineage, PromotionState, RunState};
use domain::search::Operator;
use domain::task::GateSubject;
use domain::verdict::VerdictKind;
use insta::assert_snapshot;
use server::tree::render;

use crate::fixtures::{accepted, candidate_id, rejected};

fn family() -> Lineage {
    let mut tiled = accepted(1, Some(0), "shared tiles", 3.2);
    tiled.unmet_gates = vec![GateSubject::CtasPerSm];
    let mut swept = accepted(2, Some(1), "BLOCK_M=32 BLOCK_N=64", 3.5);
    swept.operator = Operator::Sweep;
    let racy = rejected(
        3,
        2,
        "rows across warps",
        VerdictKind::DataRace,
        "data race: line 41: two threads of a block write the same word",
    );
    let mut split = accepted(4, Some(2), "KV split", 9.25);
    split.best = true;
    let mut twin = accepted(5, Some(4), "KV split again", 9.25);
    twin.state = CandidateState::Duplicate {
        of: candidate_id(4),
    };
    let mut waiting = rejected(6, 0, "from outside", VerdictKind::Accepted, "");
    waiting.operator = Operator::Submit;
    waiting.proposer = "someone".to_owned();
    waiting.state = CandidateState::Queued;
    waiting.verdict = None;
    waiting.summary = None;
    Lineage {
        nodes: vec![
            accepted(0, None, "baseline", 1.0),
            tiled,
            swept,
            racy,
            split,
            twin,
            waiting,
        ],
        truncated: false,
    }
}

#[test]
fn every_candidate_hangs_under_its_parent_with_its_outcome() {
    assert_snapshot!(render(&family(), &RunState::Running, 120), @r"
    #0 baseline                      1.00x 100.00 us modelled
    ├─ #1 shared tiles               3.20x 31.25 us modelled (gate not met: ctas_per_sm)
    │  └─ #2 BLOCK_M=32 BLOCK_N=64   3.50x 28.57 us modelled
    │     ├─ #3 rows across warps    data race: line 41: two threads of a block write the same word
    │     └─ #4 KV split             9.25x 10.81 us modelled * best
    │        └─ #5 KV split again    9.25x 10.81 us modelled (same code as #4)
    └─ #6 from outside (by someone)  waits for a worker
    ");
}

#[test]
fn a_narrow_terminal_cuts_outcomes_not_the_tree() {
    let text = render(&family(), &RunState::Running, 60);
    assert!(
        text.lines().all(|line| line.chars().count() <= 60),
        "{text}"
    );
    assert!(text.contains("└─ #4 KV split"), "{text}");
}

#[test]
fn a_candidate_whose_parent_is_not_shown_is_a_root() {
    let lineage = Lineage {
        nodes: vec![accepted(8, Some(7), "late", 2.0)],
        truncated: true,
    };
    assert_snapshot!(render(&lineage, &RunState::Running, 80), @r"
    #8 late  2.00x 50.00 us modelled
    … more candidates than are shown
    ");
}

#[test]
fn a_title_cannot_command_the_terminal() {
    let lineage = Lineage {
        nodes: vec![accepted(0, None, "\u{1b}]0;owned\u{7}", 1.0)],
        truncated: false,
    };
    assert!(!render(&lineage, &RunState::Running, 80).contains('\u{1b}'));
}

#[test]
fn a_candidate_that_was_not_confirmed_says_so() {
    let mut refused = accepted(1, Some(0), "lucky", 9.0);
    refused.promotion = Some(PromotionState::Refused {
        reason: "incorrect output on fresh inputs".to_owned(),
    });
    let mut reverted = accepted(2, Some(0), "unlucky", 8.0);
    reverted.promotion = Some(PromotionState::Reverted {
        commit: "c0ffee".to_owned(),
        reason: "incorrect output on another card".to_owned(),
    });
    let lineage = Lineage {
        nodes: vec![accepted(0, None, "baseline", 1.0), refused, reverted],
        truncated: false,
    };
    assert_snapshot!(render(&lineage, &RunState::Running, 140), @r"
    #0 baseline    1.00x 100.00 us modelled
    ├─ #1 lucky    9.00x 11.11 us modelled (not confirmed: incorrect output on fresh inputs)
    └─ #2 unlucky  8.00x 12.50 us modelled (promotion taken back: incorrect output on another card)
    ");
}

#[test]
fn a_baseline_is_not_marked_as_the_best() {
    let mut baseline = accepted(0, None, "baseline", 1.0);
    baseline.operator = Operator::Baseline;
    baseline.best = true;
    let lineage = Lineage {
        nodes: vec![baseline],
        truncated: false,
    };
    let text = render(&lineage, &RunState::Running, 80);
    assert!(!text.contains("best"), "{text}");
}

#[test]
fn nothing_waits_for_a_worker_once_the_run_is_over() {
    let mut waiting = rejected(0, 0, "baseline", VerdictKind::Accepted, "");
    waiting.parents = Vec::new();
    waiting.state = CandidateState::Queued;
    waiting.verdict = None;
    waiting.summary = None;
    let lineage = Lineage {
        nodes: vec![waiting],
        truncated: false,
    };
    let failed = RunState::Failed {
        reason: "the task was refused".to_owned(),
    };
    assert_snapshot!(render(&lineage, &failed, 80), @"#0 baseline  not evaluated: the run ended before");
}
