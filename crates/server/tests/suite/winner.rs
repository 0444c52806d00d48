use domain::api::{CandidateDetail, PromotionState, PromotionView, RunView};
use domain::id::PromotionId;
use domain::search::Operator;
use server::evaluation_text::winner;

use crate::fixtures::{accepted, candidate_id, run, run_id};

/// The run whose champion's promotion is in this state, and whose best candidate is this one.
fn ended(state: PromotionState, best: &CandidateDetail) -> RunView {
    let mut run = run();
    let view = run.best.as_mut().unwrap();
    view.candidate = best.summary.id;
    run.promotion = Some(PromotionView {
        waits: None,
        checks: Vec::new(),
        id: "01938e5a-0000-7000-8000-00000000000c"
            .parse::<PromotionId>()
            .unwrap(),
        candidate: candidate_id(3),
        repository: "/data/promotions.git".to_owned(),
        branch: "kernelwright-modelled/demo".to_owned(),
        state,
    });
    run
}

fn detail(ordinal: u32, operator: Operator) -> CandidateDetail {
    let mut summary = accepted(ordinal, None, "candidate", 1.0);
    summary.operator = operator;
    CandidateDetail {
        run: run_id(),
        task: "demo".to_owned(),
        summary,
        file: "candidate.cu".to_owned(),
        source: String::new(),
        idea: None,
        digest: None,
        evaluation: None,
        confirmation: None,
        diff: Vec::new(),
        children: Vec::new(),
        calls: Vec::new(),
    }
}

#[test]
fn after_a_refused_champion_there_is_neither_winner_nor_branch() {
    let baseline = detail(0, Operator::Baseline);
    let refused = PromotionState::Refused {
        reason: "incorrect output".to_owned(),
    };
    let run = ended(refused, &baseline);
    let text = winner(&run, Some(&baseline));
    assert_eq!(
        text,
        "winner     none: no accepted candidate was confirmed\n\
         branch     none: not confirmed: incorrect output\n"
    );
    assert_eq!(text, winner(&run, None));
}

#[test]
fn a_branch_is_named_once_it_has_a_commit() {
    let swept = detail(1, Operator::Sweep);
    for (state, expected) in [
        (
            PromotionState::Confirming,
            "branch     none yet: being confirmed\n",
        ),
        (
            PromotionState::Blocked {
                reason: "no space left".to_owned(),
            },
            "branch     none yet: blocked: no space left\n",
        ),
        (
            PromotionState::Committed {
                commit: "c0ffee".to_owned(),
            },
            "branch     kernelwright-modelled/demo (commit c0ffee)\nin         /data/promotions.git\n",
        ),
    ] {
        let text = winner(&ended(state, &swept), Some(&swept));
        assert!(text.starts_with("winner     #1 candidate"), "{text}");
        assert!(text.ends_with(expected), "{text}");
    }
}
