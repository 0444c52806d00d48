//! The parts of the protocol beyond a comparison with the reference: each candidate here is right
//! on the cases that its task lists, or nearly so, and is rejected.

use std::collections::BTreeMap;

use domain::digest::Digest;
use domain::evaluation::{EvaluationRequest, EvaluationStage};
use domain::finding::FindingKind;
use domain::role::{Distribution, Key};
use domain::task::Bundle;
use domain::verdict::{Verdict, VerdictKind};
use worker::cancel::Cancellation;
use worker::host::Role;

use crate::admission::product;
use crate::lab::{Lab, lab, read};

/// The correct product, with the sum of an element or its use replaced.
fn candidate(from: &str, to: &str) -> String {
    let honest = product()["baseline.cu"].clone();
    assert!(honest.contains(from), "{from}");
    honest.replace(from, to)
}

fn request(source: String) -> EvaluationRequest {
    with_task(product(), source)
}

fn with_task(files: BTreeMap<String, String>, source: String) -> EvaluationRequest {
    EvaluationRequest {
        task: Bundle { files },
        ..Lab::request("gemm-f32", "candidate.cu", source)
    }
}

/// The task with one text in its `task.toml` replaced.
fn task(from: &str, to: &str) -> BTreeMap<String, String> {
    let mut files = product();
    let text = files.get_mut("task.toml").unwrap();
    assert!(text.contains(from), "{from}");
    *text = text.replace(from, to);
    files
}

#[test]
fn shapes_that_no_task_lists_are_examined() {
    let Some(lab) = lab() else { return };
    // Right on every extent that the task lists, wrong on all others.
    let listed = "N == 1 || N == 13 || N == 32 || N == 40";
    let others = "M == 1 || M == 7 || M == 20 || M == 32";
    let source = candidate(
        "= sum;",
        &format!("= ({listed}) && ({others}) ? sum : sum + 1;"),
    );
    let mut request = request(source);
    request.stage = EvaluationStage::Confirmation;
    match lab.evaluate(&request).verdict {
        Verdict::IncorrectOutput(mismatch) => assert!(mismatch.case.contains('='), "{mismatch:?}"),
        other => panic!("{other}"),
    }
}

#[test]
fn a_promotion_goes_beyond_what_the_task_lists() {
    let Some(lab) = lab() else { return };
    // Wrong like a kernel that keeps the terms of a sum in a table of a fixed size, which suffices
    // for every listed shape and every extent around warps and tiles.
    let files = task("K = 33 }", "K = 1500 }");
    let mut request = with_task(files, candidate("k < K", "k < K && k < 2500"));
    assert_eq!(lab.evaluate(&request).verdict.kind(), VerdictKind::Accepted);
    request.stage = EvaluationStage::Confirmation;
    match lab.evaluate(&request).verdict {
        Verdict::IncorrectOutput(mismatch) => {
            assert!(mismatch.case.contains("K=3001"), "{mismatch:?}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn the_key_of_a_search_chooses_its_edges() {
    let Some(lab) = lab() else { return };
    let edges = |key: &str| {
        let mut request = request(product()["baseline.cu"].clone());
        request.key = Key(Digest::of(key));
        let evaluation = lab.evaluate(&request);
        assert_eq!(evaluation.verdict.kind(), VerdictKind::Accepted);
        let checks = evaluation.checks.into_iter().map(|check| check.case);
        checks
            .filter(|case| case.contains('='))
            .collect::<std::collections::BTreeSet<_>>()
    };
    let (one, other) = (edges("one"), edges("another"));
    assert_eq!((one.len(), other.len()), (3, 3));
    assert_ne!(one, other);
}

#[test]
fn a_dependence_between_rows_is_detected_below_every_tolerance() {
    let Some(lab) = lab() else { return };
    let source = candidate(
        "float sum = 0.0f;",
        "float all = 0.0f;
    for (int i = 0; i < M * K; ++i) all += a[i];
    float sum = M > 1 ? 1e-7f * all : 0.0f;",
    );
    let verdict = lab.evaluate(&request(source)).verdict;
    let Verdict::IncorrectOutput(mismatch) = verdict else {
        panic!("{verdict}");
    };
    assert!(
        mismatch.reason.contains("do not depend on it"),
        "{mismatch:?}"
    );
}

#[test]
fn nan_and_infinities_go_where_the_reference_sends_them() {
    let Some(lab) = lab() else { return };
    let clamped = || candidate("= sum;", "= fminf(fmaxf(sum, -3e38f), 3e38f);");
    assert_eq!(
        lab.evaluate(&request(clamped())).verdict.kind(),
        VerdictKind::Accepted,
        "a task that says nothing of NaN asks for nothing"
    );
    let linear = "linear_in = [\"a\", \"b\"]";
    let files = task(linear, &format!("{linear}\nspecials_in = [\"a\", \"b\"]"));
    let verdict = lab.evaluate(&with_task(files, clamped())).verdict;
    let Verdict::IncorrectOutput(mismatch) = verdict else {
        panic!("{verdict}");
    };
    assert_eq!(mismatch.distribution, Distribution::Specials.as_str());
}

#[test]
fn a_weakly_aligned_base_does_not_reject_a_correct_candidate() {
    let Some(lab) = lab() else { return };
    let files = task("align = 4", "align = 16");
    let source = candidate(
        "= sum;",
        "= reinterpret_cast<size_t>(a) % 256 ? sum * 1.000001f : sum;",
    );
    let verdict = lab.evaluate(&with_task(files, source)).verdict;
    assert!(
        matches!(
            verdict.kind(),
            VerdictKind::IncorrectOutput | VerdictKind::NonDeterministic
        ),
        "{verdict}"
    );
}

#[test]
fn half_precision_operands_are_a_downgrade_whatever_is_drawn() {
    let Some(lab) = lab() else { return };
    let source = candidate(
        "a[m * K + k] *",
        "__half2float(__float2half(a[m * K + k])) *",
    )
    .replace(
        "* b[k * N + n]",
        "* __half2float(__float2half(b[k * N + n]))",
    )
    .replace("// Honest", "#include <cuda_fp16.h>\n// Honest");
    for key in 0..8 {
        let mut request = request(source.clone());
        request.key = Key(Digest::of(key.to_string()));
        let verdict = lab.evaluate(&request).verdict;
        assert_eq!(
            verdict.kind(),
            VerdictKind::PrecisionDowngrade,
            "{key}: {verdict}"
        );
    }
}

/// Sums in f32, stored to c through a `wmma` fragment: through shared memory, or element by element
/// in the layout of this generation's hardware.
fn by_way_of_a_fragment(store: &str) -> String {
    format!(
        r#"/*---
[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [32]
args = ["a", "b", "c", "M", "N", "K"]
---*/
#include <mma.h>
extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {{
    __shared__ float tile[256];
    const int first_n = blockIdx.x * 16, first_m = blockIdx.y * 16, lane = threadIdx.x;
    for (int at = lane; at < 256; at += 32) {{
        const int m = first_m + at / 16, n = first_n + at % 16;
        float sum = 0.0f;
        if (m < M && n < N)
            for (int k = 0; k < K; ++k) sum += a[m * K + k] * b[k * N + n];
        tile[at] = sum;
    }}
    __syncwarp();
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> sums;
    nvcuda::wmma::load_matrix_sync(sums, tile, 16, nvcuda::wmma::mem_row_major);
    __syncwarp();
    {store}
    __syncwarp();
    for (int at = lane; at < 256; at += 32) {{
        const int m = first_m + at / 16, n = first_n + at % 16;
        if (m < M && n < N) c[m * N + n] = tile[at];
    }}
}}
"#
    )
}

#[test]
fn a_candidate_must_not_rely_on_the_layout_of_fragments() {
    let Some(lab) = lab() else { return };
    let mut files = product();
    let text = files.get_mut("task.toml").unwrap();
    text.push_str("\n[policy]\ntensor_operations = \"allow\"\n");
    let honest = "nvcuda::wmma::store_matrix_sync(tile, sums, 16, nvcuda::wmma::mem_row_major);";
    let evaluation = lab.evaluate(&with_task(files.clone(), by_way_of_a_fragment(honest)));
    assert_eq!(
        evaluation.verdict.kind(),
        VerdictKind::Accepted,
        "{}",
        evaluation.verdict
    );
    let by_place = "for (int i = 0; i < 8; ++i)
        tile[(lane / 4 + 8 * (i / 2 % 2)) * 16 + 8 * (i / 4) + 2 * (lane % 4) + i % 2] = sums.x[i];";
    let source = by_way_of_a_fragment(by_place);
    let line = 1 + source
        .lines()
        .position(|line| line.contains("load_matrix_sync"))
        .unwrap();
    let verdict = lab.evaluate(&with_task(files, source)).verdict;
    assert_eq!(verdict.kind(), VerdictKind::NonDeterministic, "{verdict}");
    let finding = verdict.finding().unwrap();
    assert_eq!(finding.kind, FindingKind::LayoutDependent);
    assert_eq!(finding.kernel, "product");
    assert!(
        finding.line.is_none_or(|found| found as usize == line),
        "{finding:?}"
    );
}

#[test]
fn a_damaged_copy_does_not_reject_a_correct_candidate() {
    let Some(lab) = lab() else { return };
    let honest = request(product()["baseline.cu"].clone());
    // A copy in the runner's first process, whose many executions have three copies from the device
    // each. The process that confirms has one execution.
    for nth in [4, 5, 6, 9, 12] {
        let plan = format!(
            "[[fault]]\ncall = \"cuMemcpyDtoH_v2\"\nnth = {nth}\ndo = {{ corrupt = {{ bytes = 4 }} }}\n"
        );
        let evaluator = lab.spoiled(&[(Role::Run, &plan)]);
        let cancellation = Cancellation::new().unwrap();
        let outcome = evaluator.evaluate(&honest, |_| {}, &cancellation);
        let fault = outcome.expect_err("nothing that was damaged is believed");
        assert!(fault.to_string().contains("confirm"), "{nth}: {fault}");
    }
}

#[test]
fn a_block_per_row_is_no_excess_of_effort_where_the_baseline_has_a_thread_per_row() {
    let Some(lab) = lab() else { return };
    let source = read("softmax-f32", "playbook/01-block-per-row.cu");
    let source = source.replace("value = 128", "value = 256");
    let mut request = Lab::request("softmax-f32", "step.cu", source);
    let task = request.task.files.get_mut("task.toml").unwrap();
    task.push_str("\n[[case]]\nname = \"rows\"\ndims = { R = 6000, C = 2 }\nuse = [\"check\"]\n");
    let found = lab.evaluate(&request);
    assert_eq!(
        found.verdict.kind(),
        VerdictKind::Accepted,
        "{}",
        found.verdict
    );
}

#[test]
fn an_endless_loop_is_rejected_for_its_effort_with_its_case() {
    let Some(lab) = lab() else { return };
    let source = read("softmax-f32", "playbook/01-block-per-row.cu");
    let endless = source.replace(
        "float largest = -INFINITY;",
        "float largest = -INFINITY;\n    volatile int on = 1;\n    while (on) {}",
    );
    let request = Lab::request("softmax-f32", "endless.cu", endless);
    let verdict = lab.evaluate(&request).verdict;
    assert_eq!(verdict.kind(), VerdictKind::ExcessiveEffort, "{verdict}");
    let words = verdict.to_string();
    assert!(
        words.starts_with("more effort than allowed in smoke, case "),
        "{words}"
    );
}

/// A gate on blocks, and a kernel that launches enough of them, of which only one in each row works.
#[test]
fn blocks_that_only_end_do_not_meet_a_gate_on_blocks() {
    let Some(lab) = lab() else { return };
    let honest = read("softmax-f32", "playbook/01-block-per-row.cu");
    let idle = honest
        .replace("grid = [\"R\"]", "grid = [\"R\", 64]")
        .replace(
            "    const float* from =",
            "    if (blockIdx.y > 0) return;\n    const float* from =",
        );
    assert_ne!(idle, honest);
    let found = |source: String| {
        let request = Lab::request("softmax-f32", "blocks.cu", source);
        let evaluation = lab.evaluate(&request);
        assert_eq!(
            evaluation.verdict.kind(),
            VerdictKind::Accepted,
            "{}",
            evaluation.verdict
        );
        let gates = evaluation.gates.iter();
        gates.map(|gate| gate.found).collect::<Vec<_>>()
    };
    assert_eq!(found(idle), found(honest));
}
