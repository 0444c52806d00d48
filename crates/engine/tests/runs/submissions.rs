//! Kernels from outside, and what their authors are told.

use domain::api::{CandidateState, InsightRequest, RunState, Submission};
use domain::search::{Method, StopReason};
use domain::verdict::VerdictKind;
use engine::EngineError;

use crate::lab::{Lab, WHO, accepted, honest, kernel, request};

fn submission(source: &str) -> Submission {
    Submission {
        source: source.to_owned(),
        file: None,
        parent: None,
        proposer: Some("ada".to_owned()),
        hypothesis: Some("less work".to_owned()),
    }
}

#[tokio::test]
async fn a_submission_before_the_first_round_finds_its_baseline() {
    let lab = Lab::new().await;
    let run = lab.launch(request(Method::External, 3)).await;
    let source = kernel("tile", &[("TILE", &[32, 16])]);
    let summary = lab.engine.submit(run, submission(&source)).await.unwrap();
    assert_eq!((summary.ordinal, summary.generation), (1, 1));
    assert_eq!(summary.state, CandidateState::Queued);
    for _ in 0..3 {
        lab.engine.tick().await.unwrap();
        lab.work(honest).await;
    }
    let detail = lab.engine.candidate(summary.id).await.unwrap().unwrap();
    assert_eq!(detail.summary.verdict, Some(VerdictKind::Accepted));
    assert_eq!(detail.summary.proposer, "ada");
    assert_eq!(detail.idea.unwrap().hypothesis, "less work");
    let added = detail
        .diff
        .iter()
        .filter(|line| line.change == domain::api::Change::Added)
        .map(|line| line.text.as_str())
        .collect::<Vec<_>>();
    assert!(added.contains(&"value = 32"), "{added:?}");
    let brief = lab.engine.brief(run).await.unwrap();
    assert_eq!(brief.parent, summary.id);
    assert_eq!(brief.parent_source, source);
    assert_eq!(brief.trials_left, 2);
    assert_eq!(brief.context, "Fill it.");
    assert!(brief.device.is_some());
    assert_eq!(brief.history.len(), 2);
    assert!(brief.history[1].outcome.contains("2.50 times"), "{brief:?}");
    assert!(
        brief.insights.contains("Wide stores are good.")
            && brief.insights.contains("- tile: accepted"),
        "{}",
        brief.insights
    );
    for (text, shown) in [(Some("wide tiles"), "- wide tiles: accepted"), (None, "")] {
        let edit = InsightRequest {
            candidate: summary.id,
            text: text.map(str::to_owned),
        };
        let entry = lab
            .engine
            .edit_insight(run, "a person", edit)
            .await
            .unwrap();
        let insights = lab.engine.brief(run).await.unwrap().insights;
        assert!(
            insights.contains(shown) && !insights.contains("- tile:"),
            "{insights}"
        );
        let is_listed = insights.lines().any(|line| line.starts_with("- "));
        assert_eq!(is_listed, text.is_some(), "{insights}");
        lab.engine
            .withdraw(run, "a person", entry.entry)
            .await
            .unwrap();
        let restored = lab.engine.brief(run).await.unwrap().insights;
        assert!(restored.contains("- tile: accepted"), "{restored}");
    }
}

#[tokio::test]
async fn a_text_that_does_not_parse_is_a_verdict_and_costs_a_trial() {
    let lab = Lab::new().await;
    let run = lab.launch(request(Method::External, 3)).await;
    let summary = lab
        .engine
        .submit(run, submission("int main() {}\n"))
        .await
        .unwrap();
    assert_eq!(summary.verdict, Some(VerdictKind::ParseRejected));
    assert_eq!(summary.state, CandidateState::Evaluated);
    assert_eq!(lab.view(run).await.trials, 1);
    let detail = lab.engine.candidate(summary.id).await.unwrap().unwrap();
    assert_eq!(detail.digest, None);
    assert_eq!(detail.summary.line, Some(1));
}

#[tokio::test]
async fn what_cannot_be_kept_is_refused_and_costs_nothing() {
    let lab = Lab::new().await;
    let run = lab.launch(request(Method::External, 3)).await;
    let mut control = submission("x");
    control.proposer = Some("a\nCandidate: b".to_owned());
    let cases = [
        (submission(&"x".repeat(300_000)), "300000 bytes"),
        (submission("a\0b"), "NUL"),
        (control, "printable"),
    ];
    for (submission, wanted) in cases {
        let refused = lab.engine.submit(run, submission).await.unwrap_err();
        assert!(
            matches!(&refused, EngineError::Invalid(problems) if problems.to_string().contains(wanted)),
            "{refused}"
        );
    }
    assert_eq!(lab.view(run).await.trials, 0);
}

#[tokio::test]
async fn used_up_trials_end_the_run_with_its_champion() {
    let lab = Lab::new().await;
    let run = lab.launch(request(Method::External, 1)).await;
    let source = kernel("tile", &[("TILE", &[32])]);
    lab.engine.submit(run, submission(&source)).await.unwrap();
    let other = kernel("split", &[("SPLIT", &[4])]);
    let refused = lab.engine.submit(run, submission(&other)).await;
    let refused = refused.unwrap_err();
    assert!(matches!(refused, EngineError::Refused { .. }), "{refused}");
    let view = lab.drive(run, honest).await;
    let reason = StopReason::Trials;
    assert_eq!(view.state, RunState::Completed { reason });
    assert!(view.promotion.is_some());
    let late = lab.engine.submit(run, submission(&other)).await;
    assert!(late.unwrap_err().to_string().contains("completed"));
}

#[tokio::test]
async fn the_same_code_submitted_again_has_its_verdict_at_once() {
    let lab = Lab::new().await;
    let run = lab.launch(request(Method::External, 5)).await;
    let source = kernel("tile", &[("TILE", &[32])]);
    let first = lab.engine.submit(run, submission(&source)).await.unwrap();
    for _ in 0..3 {
        lab.engine.tick().await.unwrap();
        lab.work(|_| accepted(80.0)).await;
    }
    let again = lab.engine.submit(run, submission(&source)).await.unwrap();
    assert_eq!(again.state, CandidateState::Duplicate { of: first.id });
    assert_eq!(again.verdict, Some(VerdictKind::Accepted));
    assert_eq!(lab.view(run).await.trials, 2, "each was paid for");
}

#[tokio::test]
async fn defects_of_a_request_are_all_named() {
    let lab = Lab::new().await;
    let mut wrong = request(Method::Playbook, 0);
    wrong.start = Some("playbook/03.cu".to_owned());
    wrong.name = Some("\n".to_owned());
    wrong.promotion = Some(domain::api::PromotionTarget {
        repository: String::new(),
        base: None,
        path: Some("../escape.cu".to_owned()),
        region: None,
    });
    let refused = lab.engine.create_run(wrong, None, WHO).await.unwrap_err();
    let EngineError::Invalid(problems) = refused else {
        panic!("invalid, but it is {refused}")
    };
    let fields = problems.0.iter().map(|p| p.file.as_str());
    assert_eq!(
        fields.collect::<Vec<_>>(),
        [
            "budget.trials",
            "name",
            "start",
            "promotion.repository",
            "promotion.path"
        ]
    );
}
