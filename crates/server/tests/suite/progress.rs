use domain::api::{Event, EventKind, PromotionState, PromotionView, RunState};
use domain::id::{PromotionId, WorkerId};
use domain::search::StopReason;
use domain::verdict::VerdictKind;
use insta::assert_snapshot;
use server::progress::Progress;

use crate::fixtures::{candidate_id, run, run_id, then};

fn event(what: EventKind) -> Event {
    Event {
        id: 1,
        run: run_id(),
        at: then(),
        what,
    }
}

#[test]
fn the_headline_says_how_far_the_run_is_and_what_it_does() {
    let mut progress = Progress::of(&run());
    assert_snapshot!(progress.headline(), @"trials 3/45, 3 judged, 2 accepted; best 6.50x, 12.25 us modelled (KV split); running");
    let stage = event(EventKind::Stage {
        candidate: candidate_id(3),
        stage: "compile".to_owned(),
        worker: "01938e5a-0000-7000-8000-00000000000b"
            .parse::<WorkerId>()
            .unwrap(),
    });
    assert_eq!(
        progress.absorb(&stage),
        None,
        "a stage changes the headline alone"
    );
    assert!(
        progress.headline().ends_with("; compile"),
        "{}",
        progress.headline()
    );
}

#[test]
fn verdicts_and_promotions_are_lines_that_stay() {
    let mut progress = Progress::of(&run());
    let judged = event(EventKind::Judged {
        candidate: candidate_id(3),
        ordinal: 3,
        title: "rows across warps".to_owned(),
        verdict: VerdictKind::Accepted,
        summary: "accepted, 10.00 us modelled".to_owned(),
        speedup: Some(8.0),
        best: true,
    });
    let requeued = event(EventKind::Requeued {
        candidate: candidate_id(3),
        reason: "the worker was lost\u{1b}[2J".to_owned(),
    });
    let committed = event(EventKind::Promotion {
        promotion: PromotionView {
            waits: None,
            checks: Vec::new(),
            id: "01938e5a-0000-7000-8000-00000000000c"
                .parse::<PromotionId>()
                .unwrap(),
            candidate: candidate_id(3),
            repository: "/data/promotions.git".to_owned(),
            branch: "kernelwright-modelled/attention-f16/demo".to_owned(),
            state: PromotionState::Committed {
                commit: "0123456789abcdef".to_owned(),
            },
        },
    });
    let over = event(EventKind::RunChanged {
        state: RunState::Completed {
            reason: StopReason::Exhausted,
        },
    });
    let lines: Vec<_> = [judged, requeued, committed, over]
        .iter()
        .filter_map(|event| progress.absorb(event))
        .collect();
    assert_snapshot!(lines.join("\n"), @r"
    #3 rows across warps: 8.00x, accepted, 10.00 us modelled  * best so far
    back to the queue: the worker was lost
    committed 0123456789ab on kernelwright-modelled/attention-f16/demo
    run completed: nothing left to try
    ");
    assert!(progress.is_over());
}
