//! Runs that edit kernels without a model.

use domain::api::{BudgetRequest, ForkRequest, Submission};
use domain::evaluation::EvaluationRequest;
use domain::search::{Method, Operator};
use domain::verdict::Verdict;

use crate::lab::{Lab, accepted, honest, request};
use crate::models::candidates;

const SOURCE: &str = "/*---\n[[launch]]\nkernel = \"k\"\ngrid = [1]\nblock = [32]\nargs = [\"y\"]\n---*/\n\
                      extern \"C\" __global__ void k(float* y) {\n    \
                      for (int i = 0; i < 8; ++i) y[i] = 3.0f;\n}\n";

/// Unrolling by four and launch bounds help, each once.
fn judge(request: &EvaluationRequest) -> Verdict {
    let source = request.source.as_str();
    if !source.contains("__global__") {
        return honest(request);
    }
    let gains = ["#pragma unroll 4", "__launch_bounds__(32) k"];
    let gains = gains.into_iter().filter(|gain| source.contains(gain));
    accepted(5.0 - gains.count() as f64)
}

#[tokio::test]
async fn edits_of_a_kernel_find_what_helps() {
    let lab = Lab::new().await;
    let run = lab.launch(request(Method::External, 1)).await;
    let submission = Submission {
        source: SOURCE.to_owned(),
        file: None,
        parent: None,
        proposer: Some("ada".to_owned()),
        hypothesis: None,
    };
    let start = lab.engine.submit(run, submission).await.unwrap();
    lab.drive(run, judge).await;
    let fork = ForkRequest {
        candidate: start.id,
        method: Some(Method::Transform),
        models: None,
        budget: BudgetRequest {
            trials: Some(40),
            ..BudgetRequest::default()
        },
        evolution: None,
        seed: Some(3),
        name: None,
    };
    let fork = lab.engine.fork(run, "a person", fork, None).await.unwrap();
    let ended = lab.drive(fork.run.id, judge).await;
    let all = candidates(&lab, fork.run.id).await;
    let steps = all.iter().filter(|one| one.operator.as_str() == "step");
    assert_eq!(steps.count(), 3, "the playbook comes first");
    let edited = all.iter().filter(|one| one.operator.as_str() == "edit");
    assert!(edited.clone().count() > 8, "{}", ended.state);
    let best = ended.best.expect("edits help").candidate;
    let best = edited.clone().find(|one| one.id == best).expect("an edit");
    let us = best.time_us.expect("accepted");
    assert!((us - 3.0).abs() < 1e-9, "{us}");
    let parent = all.iter().find(|one| best.parents == [one.id]).unwrap();
    assert!(
        matches!(parent.operator, Operator::Edit { .. }),
        "{parent:?}"
    );
    let detail = lab.engine.candidate(best.id).await.unwrap().unwrap();
    for part in [
        "#pragma unroll 4\n    for (",
        "void __launch_bounds__(32) k(",
    ] {
        assert!(detail.source.contains(part), "{}", detail.source);
    }
    assert!(ended.promotion.is_some());
}
