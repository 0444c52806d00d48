//! Times with a cold and with a warm cache: the scored ones, the recorded ones, and a cheat that
//! gains nothing from a cache that holds its buffers.

use std::collections::BTreeMap;

use domain::evaluation::{EvaluationRequest, EvaluationStage, Incumbent};
use domain::plan::Configuration;
use domain::task::Bundle;
use domain::timing::{CacheState, CaseTime, Timing};
use domain::verdict::{Outcome, Verdict, VerdictKind};
use worker::cancel::Cancellation;
use worker::evaluate::{Compared, Evaluator, Stop};

use crate::lab::{Lab, lab};

/// The task y = x + the first of eight rows of w. All its tensors together are a small part of an
/// L4's cache.
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
dims = { N = 16384 }
use = ["score"]
[objective]
cache = "CACHE"
"#;

const FRONT: &str = r#"/*---
[[launch]]
kernel = "sum"
grid = ["cdiv(N, 256)"]
block = [256]
args = ["x", "w", "y", "N"]
---*/
extern "C" __global__ void sum(const float* x, const float* w, float* y, int N) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) return;
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

/// Copies x after some double-precision work that the compiler cannot remove.
const SLOWLY: &str = "    double slow = x[i];
    for (int step = 0; step < 12; ++step) slow *= (double)blockDim.y;
";

/// Reads one row and computes for a long time.
fn frugal() -> String {
    format!("{FRONT}{SLOWLY}    y[i] = (float)slow + w[i];\n}}\n")
}

/// Reads all rows at once and computes little.
fn lavish() -> String {
    format!(
        "{FRONT}    const volatile float* rows = w;
    float all[8];
#pragma unroll
    for (int row = 0; row < 8; ++row) all[row] = rows[row * N + i];
    float sum = x[i] + all[0];
#pragma unroll
    for (int row = 1; row < 8; ++row) sum += all[row] == 12345.678f ? 0.0f * all[row] : 0.0f;
    y[i] = sum;
}}
"
    )
}

fn request(cache: &str, source: &str) -> EvaluationRequest {
    let mut request = Lab::request("gemm-f32", "a.cu", source.to_owned());
    let files = [
        ("task.toml", TASK.replace("CACHE", cache)),
        ("reference.cu", REFERENCE.to_owned()),
        ("check.cu", REFERENCE.to_owned()),
        ("baseline.cu", frugal()),
    ];
    request.task = Bundle {
        files: files.map(|(name, text)| (name.to_owned(), text)).into(),
    };
    request.stage = EvaluationStage::Search;
    request
}

fn compare(evaluator: &Evaluator, request: &EvaluationRequest) -> Result<Compared, Box<Verdict>> {
    match evaluator.bench(request, |_| {}, &Cancellation::new().unwrap()) {
        Ok(compared) => Ok(compared),
        Err(Stop::Verdict(verdict)) => Err(verdict),
        Err(Stop::Fault(error)) => panic!("{error}"),
    }
}

fn duel(lab: &Lab, cache: &str, source: &str) -> Compared {
    compare(lab.evaluator(), &request(cache, source)).unwrap()
}

fn times(times: &[CaseTime<'_>]) -> BTreeMap<CacheState, f64> {
    let all = times.iter().map(|time| (time.cache, time.us));
    all.collect()
}

#[test]
fn a_kernel_that_reads_more_wins_where_the_cache_is_warm_and_nowhere_else() {
    let Some(lab) = lab() else { return };
    let cold = duel(&lab, "cold", &lavish());
    assert_eq!(cold.comparison.outcome, Outcome::NotFaster, "{cold:?}");
    assert!(cold.comparison.ratio < 0.9);
    let warm = duel(&lab, "warm", &lavish());
    assert_eq!(warm.comparison.outcome, Outcome::Faster, "{warm:?}");
    assert!(warm.comparison.ratio > 1.1);

    // The state that one task scores is recorded for the other, for both kernels, and decides
    // nothing there.
    let (scored, beside) = (times(&cold.timing.cases()), times(&cold.timing.unscored()));
    assert!(beside[&CacheState::Warm] < 0.8 * scored[&CacheState::Cold]);
    let found = &cold.measurement.incumbent_timing;
    let slow = times(&found.unscored())[&CacheState::Warm];
    assert!(
        beside[&CacheState::Warm] < 0.9 * slow,
        "though it is faster there"
    );
    let (scored, beside) = (times(&warm.timing.cases()), times(&warm.timing.unscored()));
    assert!(scored[&CacheState::Warm] < 0.8 * beside[&CacheState::Cold]);
    for (compared, state) in [(&cold, CacheState::Cold), (&warm, CacheState::Warm)] {
        let cases = &compared.measurement.cases;
        assert_eq!((cases.len(), cases[0].cache), (1, state));
        assert!(
            compared.measurement.anchor.timing.is_none(),
            "it is the incumbent"
        );
    }
}

#[test]
fn a_case_that_counts_in_both_states_has_a_ratio_and_a_gate_in_each() {
    let Some(lab) = lab() else { return };
    let both = duel(&lab, "both", &lavish());
    assert_eq!(both.comparison.outcome, Outcome::NotFaster, "{both:?}");
    let states = both.measurement.cases.iter().map(|case| case.cache);
    assert_eq!(states.collect::<Vec<_>>(), CacheState::ALL);
    let [cold, warm] = &both.measurement.regressions[..] else {
        panic!("{:?}", both.measurement.regressions);
    };
    assert!(cold.effect < 0.0 && cold.blocks, "{cold:?}");
    assert!(warm.effect > 0.0 && !warm.blocks, "{warm:?}");
    let mean = (cold.effect + warm.effect) / 2.0;
    assert!((both.measurement.settled.evidence.effect - mean).abs() < 1e-6);
    assert!(both.timing.unscored().is_empty());
    assert_eq!(both.timing.cases().len(), 2);
}

#[test]
fn the_model_answers_as_the_comparison_does() {
    let Some(lab) = lab() else { return };
    for cache in ["cold", "warm"] {
        let request = request(cache, &lavish());
        let cancellation = Cancellation::new().unwrap();
        let (looked, timed) = lab
            .evaluator()
            .measure(&request, |_| {}, &cancellation)
            .unwrap();
        let timed = timed.unwrap_or_else(|| panic!("{:?}", looked.against));
        let Timing::Modelled {
            cases, unscored, ..
        } = &timed.timing
        else {
            panic!("{:?}", timed.timing);
        };
        assert_eq!((cases.len(), unscored.len()), (1, 1));
        assert_eq!(cases[0].cache.as_str(), cache);
        assert!(!cases[0].launches.is_empty() && !unscored[0].launches.is_empty());
        let in_turn = duel(&lab, cache, &lavish());
        let share = timed.comparison.ratio / in_turn.comparison.ratio;
        assert!((share - 1.0).abs() < 0.02, "{cache}: {share}");
    }
}

#[test]
fn the_baseline_is_timed_beside_in_both_states_and_survives_its_way() {
    let Some(lab) = lab() else { return };
    let mut request = request("warm", &lavish());
    request.incumbent = Some(Incumbent {
        file: "incumbent.cu".to_owned(),
        source: lavish().replace("12345.678f", "12345.5f"),
        configuration: Configuration::new(),
        timing: Timing::Measured {
            cases: Vec::new(),
            unscored: Vec::new(),
        },
    });
    let compared = compare(lab.evaluator(), &request).unwrap();
    let anchor = &compared.measurement.anchor;
    assert!(anchor.ratio > 1.1, "{anchor:?}");
    let baseline = anchor.timing.as_ref().unwrap();
    let ratio = compared.timing.speedup_over(baseline).unwrap();
    assert!((ratio / anchor.ratio - 1.0).abs() < 1e-3);
    assert_eq!(times(&baseline.unscored()).len(), 1);
    let json = serde_json::to_string(&compared.measurement).unwrap();
    let read: domain::measurement::Measurement = serde_json::from_str(&json).unwrap();
    assert_eq!(read.cases, compared.measurement.cases);
}

/// A cheat: computes slowly once and keeps the results in a workspace for the next execution on the
/// same inputs.
fn remembering() -> String {
    let front = FRONT
        .replace(
            "args = [\"x\", \"w\", \"y\", \"N\"]",
            "args = [\"x\", \"w\", \"y\", \"memo\", \"N\"]",
        )
        .replace(
            "---*/",
            "[workspace.memo]\ndtype = \"u32\"\nshape = [\"2 * N\"]\n---*/",
        )
        .replace("float* y, int N", "float* y, unsigned* memo, int N");
    format!(
        "{front}    const unsigned tag = __float_as_uint(x[i]) ^ 0x9e3779b9u;
    if (memo[2 * i] == tag) {{
        y[i] = __uint_as_float(memo[2 * i + 1]);
        return;
    }}
{SLOWLY}    const float sum = (float)slow + w[i];
    memo[2 * i] = tag;
    memo[2 * i + 1] = __float_as_uint(sum);
    y[i] = sum;
}}
"
    )
}

#[test]
fn b45_results_left_where_a_warm_cache_would_find_them() {
    let Some(lab) = lab() else { return };
    // Runs the role alone, without the earlier stages and rules that reject the cheat.
    let compared = duel(&lab, "warm", &remembering());
    assert_eq!(
        compared.comparison.outcome,
        Outcome::NotFaster,
        "{compared:?}"
    );
    assert!(
        compared.comparison.ratio < 1.0,
        "every execution began anew"
    );
    // A whole evaluation rejects the cheat before it is timed.
    let cancellation = Cancellation::new().unwrap();
    let request = request("warm", &remembering());
    let evaluation = lab
        .evaluator()
        .evaluate(&request, |_| {}, &cancellation)
        .unwrap();
    assert_eq!(evaluation.verdict.kind(), VerdictKind::UninitDependent);
}

#[test]
fn faults_with_a_warm_cache_never_win_and_leave_cold_scores_unchanged() {
    let Some(lab) = lab() else { return };
    let rule = |call: &str, nth: &str, action: &str| {
        format!("[[fault]]\ncall = \"{call}\"\nnth = {nth}\ndo = {action}\n")
    };
    let damaged = rule("cuMemcpyDtoH_v2", "60", "{ corrupt = { bytes = 4 } }");
    let spoiled = lab.with_spoiled_timing(&damaged);
    let verdict = compare(&spoiled, &request("warm", &lavish())).unwrap_err();
    let expected = [VerdictKind::NonDeterministic, VerdictKind::InvalidRun];
    assert!(expected.contains(&verdict.kind()), "{verdict}");

    // A driver that cannot compile our PTX: two images are loaded first, then the one that counts
    // cycles.
    let no_ptx = [3, 4].map(|nth| rule("cuModuleLoadDataEx", &nth.to_string(), "{ error = 222 }"));
    let spoiled = lab.with_spoiled_timing(&no_ptx.concat());
    let cold = compare(&spoiled, &request("cold", &lavish())).unwrap();
    assert_eq!(cold.comparison.outcome, Outcome::NotFaster);
    assert!(cold.timing.unscored().is_empty() && cold.timing.cases().len() == 1);
    let request = request("warm", &lavish());
    let asked = spoiled.bench(&request, |_| {}, &Cancellation::new().unwrap());
    assert!(matches!(asked, Err(Stop::Fault(_))), "{asked:?}");
}
