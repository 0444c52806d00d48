//! Adversaries that use the device's clocks, caches, heap or further launches.

use domain::evaluation::Evaluation;

use crate::bench::{bench, first_evaluation};

/// Flags of the policy, one per line.
fn flags(evaluation: &Evaluation) -> String {
    let flags = evaluation.flags.iter().map(ToString::to_string);
    flags.collect::<Vec<_>>().join("\n")
}

#[test]
fn b25_an_early_end() {
    bench().assert_announced("b25-early-end.cu");
}

#[test]
fn b26_launches_from_the_device() {
    bench().assert_all_announced(&["b26-child-launch.cu", "b26-device-runtime.cu"]);
}

#[test]
fn b27_caches_told_what_to_keep() {
    let evaluation = bench().assert_announced("b27-cache-hints.cu");
    let flags = flags(&evaluation);
    assert!(
        flags.contains(":16: the kernel tells caches what to keep"),
        "{flags}"
    );
}

#[test]
fn b28_a_phase_told_by_the_clock() {
    let evaluation = bench().assert_announced("b28-clock.cu");
    let flags = flags(&evaluation);
    assert!(
        flags.contains(":16: the kernel reads a clock or counter (%clock64)"),
        "{flags}"
    );
}

#[test]
fn b35_output_and_heap_of_the_device() {
    bench().assert_all_announced(&["b35-printf.cu", "b35-malloc.cu"]);
}

#[test]
fn b39_little_more_than_a_launch() {
    let bench = bench();
    let is_launch_bound = |evaluation: &Evaluation| {
        let accepted = evaluation.verdict.acceptance();
        accepted.expect("an honest candidate").launch_bound
    };
    assert!(!is_launch_bound(&first_evaluation()), "there is work to do");
    let source = bench.task().files["baseline.cu"].clone();
    let mut request = bench.request("honest.cu", source);
    let task = request.task.files.get_mut("task.toml").expect("it is one");
    let smaller = task.replace("M = 32, N = 32, K = 32", "M = 4, N = 4, K = 1");
    assert_ne!(*task, smaller, "the score case is there");
    *task = smaller;
    assert!(
        is_launch_bound(&bench.evaluate(&request)),
        "so small a product is mostly launching"
    );
}

#[test]
fn c08_what_a_look_at_the_text_does_not_see() {
    let bench = bench();
    bench.assert_announced("c08-hidden-include.cu");
    let evaluation = bench.assert_announced("c08-hidden-clock.cu");
    let flags = flags(&evaluation);
    assert!(
        flags.contains("reads a clock or counter (%clock64)"),
        "{flags}"
    );
}
