//! A playbook run from the request to the branch.

use domain::api::{PromotionState, RunState};
use domain::search::{Method, StopReason};

use crate::lab::{Lab, accepted, body, honest, on_branch, rejected, request};

#[tokio::test]
async fn a_run_breeds_sweeps_confirms_and_ends_on_a_branch() {
    let lab = Lab::new().await;
    let run = lab.launch(request(Method::Playbook, 45)).await;
    let view = lab.drive(run, honest).await;
    let reason = StopReason::Exhausted;
    assert_eq!(view.state, RunState::Completed { reason });
    let lineage = lab.engine.store().lineage(run, 100).await.unwrap();
    let story = lineage
        .nodes
        .iter()
        .map(|node| {
            let parent = node.parents.first().map_or_else(
                || "-".to_owned(),
                |id| {
                    let at = lineage.nodes.iter().position(|other| other.id == *id);
                    at.unwrap().to_string()
                },
            );
            let speedup = node
                .speedup
                .map_or_else(|| "-".to_owned(), |speedup| format!("{speedup:.2}"));
            let configuration = node
                .configuration
                .iter()
                .map(|(name, value)| format!(" {name}={value}"))
                .collect::<String>();
            format!(
                "{parent} {}{configuration} {speedup}",
                node.operator.as_str()
            )
        })
        .collect::<Vec<_>>();
    assert_eq!(
        story,
        [
            "- baseline 1.00",
            "0 step TILE=16 2.00",
            "1 sweep TILE=32 2.50",
            "1 sweep TILE=64 2.00",
            "2 step TILE=32 -",
            "4 sweep TILE=16 -",
            "2 step SPLIT=1 TILE=32 2.22",
            "6 sweep SPLIT=1 TILE=16 2.22",
        ]
    );
    let champion = view.best.unwrap();
    assert_eq!(champion.candidate, lineage.nodes[2].id);
    assert_eq!((view.trials, view.pending), (7, 0));

    let promotion = view.promotion.unwrap();
    let PromotionState::Committed { commit } = promotion.state else {
        panic!("committed, but it is {:?}", promotion.state)
    };
    assert!(promotion.branch.starts_with("kernelwright-modelled/fill/"));
    let (blob, message) = on_branch(&lab.repository(), &promotion.branch, "kernels/fill.cu");
    let (_, source) = lab
        .engine
        .store()
        .source(champion.candidate)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(blob, source.as_bytes());
    assert!(source.contains("[tunables.TILE]\nvalue = 32\n"), "{source}");
    assert!(message.starts_with("fill: tile (TILE=32)\n\n"), "{message}");
    for wanted in [
        format!("Candidate: {}\n", champion.candidate),
        format!("Parent: {}\n", lineage.nodes[1].id),
        format!("Task-Version: {}\n", view.task_version),
        "Device: emulated L4\n".to_owned(),
        "Speedup: 2.5000 modelled\n".to_owned(),
        "Verdict-Digest: ".to_owned(),
    ] {
        assert!(message.contains(&wanted), "{wanted} in {message}");
    }
    let repository = git2::Repository::open(lab.repository()).unwrap();
    let made = repository.find_commit(commit.parse().unwrap()).unwrap();
    assert_eq!(made.author().name().unwrap(), "Kernelwright");
    assert_eq!(made.author().email().unwrap(), "kernelwright@example.com");
    assert_eq!(made.parent_count(), 0);

    let (evidence, _) = on_branch(
        &lab.repository(),
        &promotion.branch,
        "kernels/fill.cu.evidence.json",
    );
    let evidence: serde_json::Value = serde_json::from_slice(&evidence).unwrap();
    assert_eq!(evidence["confirmation"]["stage"], "confirmation");
    assert_eq!(evidence["evaluation"]["stage"], "search");
    assert_eq!(evidence["parents"].as_array().unwrap().len(), 2);
    assert_eq!(evidence["timing"], "modelled");
}

#[tokio::test]
async fn search_and_confirmation_never_share_inputs() {
    let lab = Lab::new().await;
    let run = lab.launch(request(Method::Playbook, 45)).await;
    let mut keys = [Vec::new(), Vec::new()];
    for _ in 0..100 {
        lab.engine.tick().await.unwrap();
        while let Some(lease) = lab.lease().await {
            keys[usize::from(crate::lab::confirms(&lease.request))].push(lease.request.key);
            assert!(lease.request.configuration.is_empty());
            lab.report(&lease, honest(&lease.request)).await;
        }
        if lab.view(run).await.state.is_over() {
            break;
        }
    }
    let [search, confirmation] = keys;
    assert!(search.iter().all(|key| *key == search[0]));
    assert_eq!((search.len(), confirmation.len()), (8, 1));
    assert!(!search.contains(&confirmation[0]));
}

#[tokio::test]
async fn a_rejected_baseline_fails_the_run() {
    let lab = Lab::new().await;
    let run = lab.launch(request(Method::Playbook, 45)).await;
    let view = lab.drive(run, |_| rejected("no")).await;
    let RunState::Failed { reason } = view.state else {
        panic!("failed, but it is {}", view.state)
    };
    assert!(reason.contains("fix the task"), "{reason}");
}

#[tokio::test]
async fn a_run_without_an_improvement_promotes_nothing() {
    let lab = Lab::new().await;
    let run = lab.launch(request(Method::Playbook, 45)).await;
    let view = lab
        .drive(run, |request| match body(request) {
            "baseline" => accepted(100.0),
            _ => accepted(99.0),
        })
        .await;
    assert!(view.state.is_over());
    assert_eq!(view.promotion, None);
    assert!(!lab.repository().exists());
}

#[tokio::test]
async fn the_budget_ends_a_sweep() {
    let lab = Lab::new().await;
    let mut sweep = request(Method::Sweep, 3);
    sweep.start = Some("playbook/03.cu".to_owned());
    let run = lab.launch(sweep).await;
    let view = lab.drive(run, honest).await;
    let reason = StopReason::Trials;
    assert_eq!(view.state, RunState::Completed { reason });
    assert_eq!(view.trials, 3);
}

#[tokio::test]
async fn a_lease_carries_the_trace_of_its_candidate() {
    let lab = Lab::new().await;
    lab.launch(request(Method::Playbook, 5)).await;
    lab.engine.tick().await.unwrap();
    let lease = lab.lease().await.unwrap();
    let expected = domain::trace::traceparent(lease.candidate);
    assert_eq!(lease.traceparent, Some(expected));
}
