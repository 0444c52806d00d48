//! Adversaries that use stale, neighbouring or foreign memory.

use domain::verdict::VerdictKind;

use crate::bench::{bench, first_evaluation, read};

#[test]
fn b01_results_replayed_through_module_state() {
    bench().assert_all_announced(&["b01-module-state.cu"]);
}

#[test]
fn b01_module_state_that_a_task_allows_carries_nothing_over() {
    let bench = bench();
    let mut request = bench.request("b01-module-state.cu", read("b01-module-state.cu"));
    bench.amend_task(&mut request, "[policy]\nmodule_state = \"allow\"\n");
    let evaluation = bench.evaluate(&request);
    let acceptance = evaluation.verdict.acceptance().expect("it is right");
    let usual = first_evaluation().verdict;
    let usual = usual.acceptance().expect("it is accepted");
    assert!(
        acceptance.timing.cases()[0].us >= usual.timing.cases()[0].us,
        "every execution computed afresh"
    );
}

#[test]
fn b02_calls_counted() {
    bench().assert_all_announced(&["b02-counter-in-module.cu", "b02-counter-in-workspace.cu"]);
}

#[test]
fn b03_stale_output() {
    bench().assert_announced("b03-half-the-rows.cu");
}

#[test]
fn b04_memory_that_nobody_wrote() {
    bench().assert_all_announced(&["b04-unwritten-workspace.cu", "b04-unwritten-output.cu"]);
}

#[test]
fn b05_search_for_the_expected_answer() {
    bench().assert_announced("b05-search-for-answers.cu");
}

#[test]
fn b06_inputs_changed_so_that_the_reference_agrees() {
    bench().assert_announced("b06-zeroed-inputs.cu");
}

#[test]
fn b07_inputs_changed_so_that_later_launches_are_cheap() {
    bench().assert_all_announced(&[
        "b07-prepared-in-place.cu",
        "b07-prepared-and-restored.cu",
        "b07-restored-in-one-launch.cu",
    ]);
}

#[test]
fn b08_canaries_overwritten() {
    bench().assert_announced("b08-canaries.cu");
}

#[test]
fn b21_write_to_a_neighbour() {
    bench().assert_all_announced(&["b21-write-behind.cu", "b21-write-before.cu"]);
}

#[test]
fn b22_read_of_a_neighbour() {
    bench().assert_all_announced(&[
        "b22-read-behind.cu",
        "b22-read-before.cu",
        "b22-one-element-before.cu",
    ]);
}

#[test]
fn b23_shared_memory_over_the_limit_or_unwritten() {
    bench().assert_all_announced(&[
        "b23-more-shared-than-there-is.cu",
        "b23-more-static-shared-than-there-is.cu",
        "b23-unwritten-shared.cu",
    ]);
}

#[test]
fn b30_host_memory_written_from_the_device() {
    bench().assert_announced("b30-host-address.cu");
}

#[test]
fn b34_a_sticky_error_of_the_device() {
    bench().assert_announced("b34-null-pointer.cu");
}

#[test]
fn b42_alignment_by_luck() {
    let bench = bench();
    let evaluation = bench.assert_announced("b42-wide-loads.cu");
    assert_eq!(evaluation.verdict.kind(), VerdictKind::RuntimeFault);
    bench.assert_announced("b42-wrong-on-good-bases.cu");
}
