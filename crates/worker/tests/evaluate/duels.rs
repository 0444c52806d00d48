//! A candidate timed in turn with the baseline: what is decided, and what a process that lies,
//! dies or disturbs gets instead.

use domain::evaluation::EvaluationStage;
use domain::statistics::LOOKS;
use domain::task::Bundle;
use domain::verdict::{Outcome, Verdict, VerdictKind};
use worker::cancel::Cancellation;
use worker::evaluate::{Compared, Evaluator};

use crate::lab::{Lab, lab};

const TASK: &str = r#"name = "double"
[dims]
N = {}
[[tensor]]
name = "x"
dtype = "f32"
shape = ["N"]
role = "in"
align = 16
values = "normal"
[[tensor]]
name = "y"
dtype = "f32"
shape = ["N"]
role = "out"
align = 16
[tolerance]
class = "f32"
[contract]
error_scale = { y = "y_scale" }
error_terms = { y = "1" }
[[case]]
name = "one"
dims = { N = 64 }
use = ["check", "score"]
[objective]
minimise = "geomean"
target_speedup = 1.5
stop_at_target = false
"#;

/// Doubles every element, after `rounds` dependent steps that change nothing.
fn kernel(rounds: u32) -> String {
    format!(
        r#"/*---
[[launch]]
kernel = "twice"
grid = ["cdiv(N, 32)"]
block = [32]
args = ["x", "y", "N"]
---*/
extern "C" __global__ void twice(const float* x, float* y, int N) {{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) return;
    float sum = x[i];
    for (int step = 0; step < {rounds}; ++step) sum = __fsqrt_rn(sum * sum) * (sum < 0 ? -1.0f : 1.0f);
    y[i] = 2.0f * sum;
}}
"#
    )
}

const REFERENCE: &str = r#"/*---
[[launch]]
kernel = "twice"
grid = ["N"]
block = [1]
args = ["x", "y", "y_scale"]
[workspace.y_scale]
dtype = "f64"
shape = ["N"]
---*/
extern "C" __global__ void twice(const double* x, double* y, double* y_scale) {
    y[blockIdx.x] = 2.0 * x[blockIdx.x];
    y_scale[blockIdx.x] = fabs(y[blockIdx.x]);
}
"#;

fn duel(evaluator: &Evaluator, source: &str) -> Result<Compared, Box<Verdict>> {
    let mut request = Lab::request("gemm-f32", "a.cu", source.to_owned());
    let files = [
        ("task.toml", TASK.to_owned()),
        ("reference.cu", REFERENCE.to_owned()),
        ("check.cu", REFERENCE.to_owned()),
        ("baseline.cu", kernel(400)),
    ];
    request.task = Bundle {
        files: files.map(|(name, text)| (name.to_owned(), text)).into(),
    };
    request.stage = EvaluationStage::Search;
    evaluator
        .bench(&request, |_| {}, &Cancellation::new().unwrap())
        .unwrap()
        .map_err(Box::new)
}

#[test]
fn a_duel_tells_the_faster_from_the_equal() {
    let Some(lab) = lab() else { return };
    let faster = duel(lab.evaluator(), &kernel(40)).unwrap();
    assert_eq!(faster.comparison.outcome, Outcome::Faster, "{faster:?}");
    assert!(faster.comparison.interval[0] > 1.005);
    assert!(faster.timing.is_modelled() && faster.incumbent.is_modelled());
    let ratio = faster.timing.speedup_over(&faster.incumbent).unwrap();
    assert!((ratio / faster.comparison.ratio - 1.0).abs() < 1e-3);
    assert_eq!(
        faster.settled.evidence.pairs, LOOKS[0],
        "one look settles it"
    );
    let equal = duel(lab.evaluator(), &kernel(400)).unwrap();
    assert_eq!(equal.comparison.outcome, Outcome::NotFaster, "{equal:?}");
    let slower = duel(lab.evaluator(), &kernel(800)).unwrap();
    assert_eq!(slower.comparison.outcome, Outcome::NotFaster);
    assert!(slower.regressions[0].blocks);
}

/// The rules of a fault plan: what the driver answers when asked how long something took.
fn elapsed(answers: impl Iterator<Item = f64>) -> String {
    answers
        .enumerate()
        .map(|(call, ms)| {
            format!(
                "[[fault]]\ncall = \"cuEventElapsedTime_v2\"\nnth = {}\ndo = {{ elapsed_ms = {ms:.6} }}\n",
                call + 1
            )
        })
        .collect()
}

#[test]
fn noise_that_hides_a_gain_leaves_the_comparison_unresolved() {
    let Some(lab) = lab() else { return };
    let mut state = 1_u32;
    let noisy = (0..480).map(move |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        0.005 * (1.0 + 0.5 * f64::from(state >> 8) / f64::from(1 << 24))
    });
    let spoiled = lab.with_spoiled_timing(&elapsed(noisy));
    let compared = duel(&spoiled, &kernel(400)).unwrap();
    assert_eq!(
        compared.comparison.outcome,
        Outcome::Unresolved,
        "{compared:?}"
    );
    let [lower, upper] = compared.comparison.interval;
    assert!(lower < 1.0 && upper > 1.0, "{compared:?}");
}

#[test]
fn trouble_while_timing_is_never_a_win() {
    let Some(lab) = lab() else { return };
    let rule = |call: &str, nth: &str, action: &str| {
        format!("[[fault]]\ncall = \"{call}\"\nnth = {nth}\ndo = {action}\n")
    };
    let table: [(&str, String, &[VerdictKind]); 6] = [
        (
            "a clock that runs ahead of the wall",
            rule("cuEventElapsedTime_v2", "\"every\"", "{ elapsed_ms = 1e7 }"),
            &[VerdictKind::ClockMismatch],
        ),
        (
            "times of nothing",
            rule("cuEventElapsedTime_v2", "\"every\"", "{ elapsed_ms = 0.0 }"),
            &[VerdictKind::Inconclusive],
        ),
        (
            "a process that ends in the middle",
            rule("cuLaunchKernel", "7", "\"exit\""),
            &[VerdictKind::RunnerCrash],
        ),
        (
            "a process that dies in the middle",
            rule("cuLaunchKernel", "7", "\"abort\""),
            &[VerdictKind::RunnerCrash],
        ),
        (
            "an illegal address",
            rule("cuLaunchKernel", "7", "{ error = 700 }"),
            &[VerdictKind::RuntimeFault, VerdictKind::InvalidRun],
        ),
        (
            "bytes that are not what was written",
            rule("cuMemcpyDtoH_v2", "60", "{ corrupt = { bytes = 4 } }"),
            &[VerdictKind::NonDeterministic, VerdictKind::InvalidRun],
        ),
    ];
    for (name, plan, expected) in table {
        let spoiled = lab.with_spoiled_timing(&plan);
        let verdict = duel(&spoiled, &kernel(40)).expect_err(name);
        assert!(expected.contains(&verdict.kind()), "{name}: {verdict}");
    }
    let after = duel(lab.evaluator(), &kernel(40)).unwrap();
    assert_eq!(
        after.comparison.outcome,
        Outcome::Faster,
        "nothing is left behind"
    );
}
