//! Plans that let a part of the L2 cache persist: what they gain, and that nothing of it is left for another sample.

use domain::evaluation::{EvaluationRequest, EvaluationStage};
use domain::task::Bundle;
use domain::verdict::Outcome;
use worker::cancel::Cancellation;
use worker::evaluate::Compared;

use crate::lab::Lab;

/// The task y = x + the first row of w, whose eight rows of 64 Ki words are half of an A4000's cache.
const TASK: &str = r#"name = "rows"
[dims]
N = {}
[[tensor]]
name = "x"
dtype = "f32"
shape = ["N"]
role = "in"
[[tensor]]
name = "w"
dtype = "f32"
shape = ["8", "N"]
role = "in"
[[tensor]]
name = "y"
dtype = "f32"
shape = ["N"]
role = "out"
[tolerance]
class = "f32"
[contract]
error_scale = { y = "y_scale" }
error_terms = { y = "2" }
[[case]]
name = "few"
dims = { N = 64 }
use = ["check"]
[[case]]
name = "all"
dims = { N = 65536 }
use = ["score"]
"#;

const REFERENCE: &str = r#"/*---
[[launch]]
kernel = "sum"
grid = ["N"]
block = [1]
args = ["x", "w", "y", "y_scale"]
[workspace.y_scale]
dtype = "f64"
shape = ["N"]
---*/
extern "C" __global__ void sum(const float* x, const float* w, double* y, double* y_scale) {
    y[blockIdx.x] = (double)x[blockIdx.x] + (double)w[blockIdx.x];
    y_scale[blockIdx.x] = fabs((double)x[blockIdx.x]) + fabs((double)w[blockIdx.x]);
}
"#;

/// Reads all rows of w.
const SUM: &str = r#"extern "C" __global__ void sum(const float* x, const float* w, float* y, int N) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) return;
    const volatile float* rows = w;
    float sum = x[i] + rows[i];
#pragma unroll
    for (int row = 1; row < 8; ++row) sum += rows[row * N + i] == 12345.678f ? 1.0f : 0.0f;
    y[i] = sum;
}
"#;

const SUM_STEP: &str = r#"[[launch]]
kernel = "sum"
grid = ["cdiv(N, 256)"]
block = [256]
args = ["x", "w", "y", "N"]
"#;

/// Reads w, writes as much as the cache holds, and reads w again.
fn twice(window: &str) -> String {
    format!(
        "/*---\n{SUM_STEP}{window}[[launch]]\nmemset = \"much\"\nbyte = 0\n{SUM_STEP}[workspace.much]\n\
         dtype = \"f32\"\nshape = [\"16 * N\"]\n---*/\n{SUM}"
    )
}

/// Reads w once.
fn once(window: &str) -> String {
    format!("/*---\n{SUM_STEP}{window}---*/\n{SUM}")
}

const WINDOW: &str = "l2_persist = { buffer = \"w\" }\n";

fn compared(lab: &Lab, baseline: String, candidate: String) -> Compared {
    let mut request: EvaluationRequest = Lab::request("gemm-f32", "a.cu", candidate);
    let files = [
        ("task.toml", TASK.to_owned()),
        ("reference.cu", REFERENCE.to_owned()),
        ("check.cu", REFERENCE.to_owned()),
        ("baseline.cu", baseline),
    ];
    request.task = Bundle {
        files: files.map(|(name, text)| (name.to_owned(), text)).into(),
    };
    request.stage = EvaluationStage::Search;
    let cancellation = Cancellation::new().unwrap();
    lab.evaluator()
        .bench(&request, |_| {}, &cancellation)
        .unwrap()
}

#[test]
fn what_a_plan_lets_persist_is_read_once() {
    let Some(lab) = Lab::with_device("a4000") else {
        return;
    };
    let with = compared(&lab, twice(""), twice(WINDOW));
    assert_eq!(with.comparison.outcome, Outcome::Faster, "{with:?}");
    assert!(with.comparison.ratio > 1.05, "{with:?}");
    let none = compared(
        &lab,
        twice(""),
        twice("l2_persist = { buffer = \"w\", bytes = 0 }\n"),
    );
    assert!((none.comparison.ratio - 1.0).abs() < 0.01, "{none:?}");
}

#[test]
fn a13_nothing_persists_from_one_sample_to_the_next() {
    let Some(lab) = Lab::with_device("a4000") else {
        return;
    };
    let with = compared(&lab, once(""), once(WINDOW));
    assert!((with.comparison.ratio - 1.0).abs() < 0.01, "{with:?}");
}
