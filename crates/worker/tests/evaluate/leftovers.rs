//! Kernels that keep answers where a later launch finds them: in variables of their module, in
//! shared memory or on the stack. The emulated device is set to clear neither shared memory nor
//! stack, as silicon does.

use domain::evaluation::EvaluationRequest;
use domain::verdict::Outcome;
use worker::cancel::Cancellation;
use worker::evaluate::{Compared, Evaluator};
use worker::host::RepeatPolicy;

use crate::lab::lab;
use crate::paired::{kernel, request};

/// A kernel that computes as long as the baseline for new inputs, and keeps the answers to eight
/// others, outside of the kernel or inside.
fn remembering([outside, inside]: [&str; 2]) -> String {
    let usual = kernel(400);
    let (head, _) = usual.split_once("extern").unwrap();
    format!(
        r#"{head}{outside}
extern "C" __global__ void twice(const float* x, float* y, int N) {{
    {inside}
    const int i = threadIdx.x;
    const unsigned asked = __float_as_uint(x[i]);
    for (int slot = 0; slot < 8; ++slot) {{
        if (__syncthreads_and(INPUT(slot) == asked)) {{
            y[i] = __uint_as_float(ANSWER(slot));
            return;
        }}
    }}
    float sum = x[i];
    for (int step = 0; step < 400; ++step) sum = __fsqrt_rn(sum * sum) * (sum < 0 ? -1.0f : 1.0f);
    y[i] = 2.0f * sum;
    const int slot = __float_as_uint(x[0]) >> 9 & 7;
    INPUT(slot) = asked;
    ANSWER(slot) = __float_as_uint(y[i]);
}}
"#
    )
    .replace("cdiv(N, 32)", "1")
    .replace("block = [32]", "block = [64]")
}

const BY_THREAD: &str = "
#define INPUT(slot) left[slot * 128 + i]
#define ANSWER(slot) left[slot * 128 + 64 + i]";
const MODULE: [&str; 2] = ["__device__ unsigned left[8 * 128];", BY_THREAD];
const SHARED: [&str; 2] = ["__shared__ unsigned left[8 * 128];", BY_THREAD];
const STACK: [&str; 2] = [
    "",
    "volatile unsigned left[16];
#define INPUT(slot) left[slot * 2]
#define ANSWER(slot) left[slot * 2 + 1]",
];

fn timed(evaluator: &Evaluator, request: &EvaluationRequest) -> Compared {
    evaluator
        .bench(request, |_| {}, &Cancellation::new().unwrap())
        .unwrap()
}

/// Returns true if the candidate is slower than the baseline: it does the same work, and looks for
/// old answers besides.
fn gains_nothing(found: &Compared) -> bool {
    found.comparison.outcome == Outcome::NotFaster && found.comparison.ratio < 1.0
}

#[test]
fn answers_that_are_left_in_the_device_are_gone_before_the_next_batch() {
    let Some(lab) = lab() else { return };
    let remembers = lab.with_spoiled_timing("leftovers = true\n");
    let doubted = Evaluator::new(remembers.host().clone().assumed_unproved(RepeatPolicy {
        max_repeats: 1,
        large_tensor_elements: 1 << 31,
    }));
    let doubted = doubted.unwrap();
    for memory in [SHARED, STACK] {
        let cheat = request(&remembering(memory));
        // A device that proves that no execution reads such leftovers is not disturbed.
        let believed = timed(&remembers, &cheat).comparison;
        assert_eq!(believed.outcome, Outcome::Faster, "{memory:?}");
        assert!(believed.ratio > 2.0, "{memory:?}: {believed:?}");
        let found = timed(&doubted, &cheat);
        assert!(gains_nothing(&found), "{memory:?}: {:?}", found.comparison);
    }
    // A kernel that computes its answers has the same time as before.
    let honest = timed(&doubted, &request(&kernel(40))).comparison;
    assert_eq!(honest.outcome, Outcome::Faster);
}

#[test]
fn variables_that_a_task_lets_kernels_write_are_new_in_every_batch() {
    let Some(lab) = lab() else { return };
    let mut cheat = request(&remembering(MODULE));
    let task = cheat.task.files.get_mut("task.toml").unwrap();
    task.push_str("[policy]\nmodule_state = \"allow\"\n");
    let found = timed(lab.evaluator(), &cheat);
    assert!(gains_nothing(&found), "{:?}", found.comparison);
}

#[test]
fn variables_of_an_image_begin_anew_in_every_execution_whose_time_counts() {
    let Some(lab) = lab() else { return };
    let doubted = Evaluator::new(
        lab.evaluator()
            .host()
            .clone()
            .assumed_unproved(RepeatPolicy {
                max_repeats: 1,
                large_tensor_elements: 1 << 31,
            }),
    );
    // Right where its counter begins at zero.
    let usual = kernel(0);
    let (head, body) = usual.split_once("extern").unwrap();
    let counting = format!("{head}__device__ unsigned calls;\nextern{body}").replace(
        "float sum = x[i];",
        "float sum = atomicAdd(&calls, 1u) < N ? x[i] : 0.0f;",
    );
    assert!(counting.contains("atomicAdd"), "{counting}");
    let mut counts = request(&counting);
    let task = counts.task.files.get_mut("task.toml").unwrap();
    task.push_str("[policy]\nmodule_state = \"allow\"\n");
    let verdict = doubted
        .unwrap()
        .evaluate(&counts, |_| {}, &Cancellation::new().unwrap())
        .unwrap()
        .verdict;
    assert!(verdict.acceptance().is_some(), "{verdict}");
}
