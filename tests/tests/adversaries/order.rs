//! Adversaries that rely on an order of execution that CUDA does not guarantee, or do not end.

use domain::verdict::{Verdict, VerdictKind};

use crate::bench::{bench, read};

#[test]
fn b18_races() {
    let bench = bench();
    bench.assert_all_announced(&[
        "b18-missing-barrier.cu",
        "b18-blocks-without-order.cu",
        "b18-read-only-cache.cu",
        "b18-sums-without-atomics.cu",
        "b18-volatile-for-a-warp.cu",
    ]);
    let evaluation = bench.assert_announced("b18-atomic-for-one-block.cu");
    let verdict = evaluation.verdict.to_string();
    assert!(
        verdict.contains("line 35 orders threads of its own block only (scope cta)"),
        "{verdict}"
    );
}

#[test]
fn b19_sums_in_any_order() {
    let evaluation = bench().assert_announced("b19-sums-in-any-order.cu");
    let verdict = evaluation.verdict.to_string();
    assert!(verdict.contains("contract.order_dependent"), "{verdict}");
}

#[test]
fn b19_sums_in_any_order_where_a_task_allows_them() {
    let bench = bench();
    for (file, expected) in [
        ("b19-sums-in-any-order.cu", VerdictKind::Accepted),
        ("b19-more-than-rounding.cu", VerdictKind::NonDeterministic),
        ("b18-sums-without-atomics.cu", VerdictKind::DataRace),
    ] {
        let mut request = bench.request(file, read(file));
        let text = request
            .task
            .files
            .get_mut("task.toml")
            .expect("a task has it");
        *text = text.replace("[contract]", "[contract]\norder_dependent = [\"c\"]");
        let verdict = bench.evaluate(&request).verdict;
        assert_eq!(verdict.kind(), expected, "{file}: {verdict}");
        if let Verdict::NonDeterministic { reason, .. } = &verdict {
            assert!(reason.contains("by more than the tolerance"), "{reason}");
        }
    }
}

#[test]
fn b20_blocks_that_wait_for_blocks() {
    bench().assert_announced("b20-barrier-of-the-grid.cu");
}

#[test]
fn b20_work_by_the_place_it_runs_at() {
    bench().assert_all_announced(&["b20-share-of-a-multiprocessor.cu", "b20-numbered-warp.cu"]);
}

#[test]
fn b33_no_end() {
    bench().assert_all_announced(&[
        "b33-endless-loop.cu",
        "b33-waits-for-the-clock.cu",
        "b33-one-thread-of-many.cu",
        "b33-divergent-barrier.cu",
    ]);
}
