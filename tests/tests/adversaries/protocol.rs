//! Tests of the evaluation protocol: the inputs that are drawn, the identity of an image, and the
//! resources that a candidate cannot reach.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use domain::brief::feedback;
use domain::evaluation::{EvaluationRequest, EvaluationStage};
use domain::role::{Distribution, ExecutionPurpose};
use domain::seeds::SeedFamily;
use domain::task::Role;
use domain::verdict::VerdictKind;
use worker::evaluate::{Evaluator, Extent, Pass, Passes};

use crate::bench::{adversaries_task, bench, discover, evaluate, first_evaluation, read, request};

/// All passes of a search whose failures are explained to the author.
fn passes_of_a_search(request: &EvaluationRequest) -> Vec<Pass> {
    let task = worker::evaluate::load_task(request).expect("the task reads");
    let passes = Passes {
        task: &task,
        key: request.key,
        family: SeedFamily::Feedback,
    };
    [
        passes.smoke(),
        passes.sensitivity_checks(),
        passes.screen(Extent::Sample),
        passes.repeats(Extent::Sample),
        passes.score_once(),
    ]
    .into_iter()
    .flat_map(|passes| passes.expect("the task has its extents"))
    .collect()
}

/// All passes of the gate.
fn passes_of_a_gate(request: &EvaluationRequest) -> Vec<Pass> {
    let task = worker::evaluate::load_task(request).expect("the task reads");
    let passes = Passes {
        task: &task,
        key: request.key,
        family: SeedFamily::Gate,
    };
    let passes = passes.gate(Extent::Sample);
    passes.expect("the task has its extents")
}

#[test]
fn b31_times_are_taken_on_ordinary_values() {
    let request = request(&adversaries_task(), "any.cu", String::new());
    let scored = passes_of_a_search(&request)
        .into_iter()
        .filter(|pass| pass.purpose == ExecutionPurpose::Score)
        .collect::<Vec<_>>();
    assert!(!scored.is_empty());
    for tensor in scored.iter().flat_map(|pass| &pass.tensors) {
        assert_eq!(tensor.distribution, Distribution::Normal);
        let values = tensors::inputs::decode(tensor.dtype, &tensors::inputs::bytes(tensor));
        let zeros = values.iter().filter(|value| **value == 0.0).count();
        assert_eq!(zeros, 0, "{}", tensor.name);
    }
}

/// Candidate that holds the inputs of some passes, and is right on these only.
fn learned_by_heart(passes: &[Pass]) -> String {
    let mut known = String::new();
    let first_of_a = passes
        .iter()
        .filter_map(|pass| pass.tensors.iter().find(|tensor| tensor.role == Role::In))
        .filter_map(|tensor| {
            let bytes = tensors::inputs::slice(tensor, 0, 1);
            bytes
                .first_chunk::<4>()
                .map(|bytes| u32::from_le_bytes(*bytes))
        })
        .collect::<BTreeSet<_>>();
    for bits in &first_of_a {
        write!(known, "{bits}u, ").expect("a string takes text");
    }
    read("b40-learned-by-heart.cu")
        .replace("KNOWN_COUNT", &first_of_a.len().to_string())
        .replace("KNOWN_BITS", &known)
}

#[test]
fn b40_inputs_of_the_search_learned_by_heart() {
    let bench = bench();
    let mut request = bench.request("b40-learned-by-heart.cu", String::new());
    let shown = passes_of_a_search(&request);
    request.source = learned_by_heart(&shown);
    let search = bench.evaluate(&request);
    assert_eq!(search.verdict.kind(), VerdictKind::IncorrectOutput);
    assert_eq!(search.found_on, Some(SeedFamily::Gate));
    let told = feedback(&search, &request.source);
    assert!(told.details.is_empty(), "{told:?}");

    // Inputs of a confirmation differ from those of the gate, even with the same root key.
    request.source = learned_by_heart(&[shown, passes_of_a_gate(&request)].concat());
    let search = bench.evaluate(&request);
    assert_eq!(search.verdict.kind(), VerdictKind::Accepted);
    request.stage = EvaluationStage::Confirmation;
    let confirmation = bench.evaluate(&request);
    assert_eq!(confirmation.verdict.kind(), VerdictKind::IncorrectOutput);
    assert_eq!(confirmation.found_on, Some(SeedFamily::Promotion));
}

#[test]
fn b43_no_fast_mathematics_behind_a_tasks_back() {
    bench().assert_announced("b43-looks-for-fast-math.cu");
}

#[test]
fn b44_an_image_is_known_by_what_executes() {
    let bench = bench();
    let folder = bench.scratch("another/folder/with a longer name");
    let elsewhere = Evaluator::new(discover(&folder)).expect("the folder is new");
    // Headers add their paths to the line table.
    let source = read("b44-with-a-header.cu");
    let request = bench.request("b44-with-a-header.cu", source.clone());
    let here = bench.evaluate(&request);
    let there = evaluate(&elsewhere, &request).expect("an honest candidate is no trouble");
    assert_eq!(here.verdict.kind(), VerdictKind::Accepted);
    assert!(here.image_digest.is_some());
    assert_eq!(here.image_digest, there.image_digest);
    let edited = |from: &str, to: &str| {
        assert!(source.contains(from), "{from}");
        let request = bench.request("edited.cu", source.replace(from, to));
        bench.evaluate(&request).image_digest
    };
    assert_eq!(edited("float sum", "\n\n    float  sum"), here.image_digest);
    assert_ne!(edited("sum = 0.0f", "sum = 1.0f"), here.image_digest);
}

#[test]
fn c05_c06_a_flood_of_output_is_drained_and_capped() {
    let bench = bench();
    let mut request = bench.request("b35-printf.cu", read("b35-printf.cu"));
    bench.amend_task(&mut request, "[policy]\ndevice_output = \"allow\"\n");
    let evaluation = bench.evaluate(&request);
    assert_eq!(evaluation.verdict.kind(), VerdictKind::IncorrectOutput);
    let whole = serde_json::to_string(&evaluation).expect("an evaluation is data");
    assert!(!whole.contains("the judge accepts"), "{whole}");
}

#[test]
fn c14_the_second_level_cache_is_the_drivers_word() {
    let device = first_evaluation().device.expect("it ran");
    assert_eq!(device.l2_bytes, 48 << 20, "an L4 has 48 MiB");
}

#[test]
fn c15_the_oracle_is_not_the_candidates() {
    let bench = bench();
    let honest = bench.task().files["baseline.cu"].clone();
    for lines in [
        "[tolerance]\nclass = \"f16-acc\"\n",
        "reference = \"mine.cu\"\n",
    ] {
        let source = honest.replacen("/*---\n", &format!("/*---\n{lines}"), 1);
        let evaluation = bench.evaluate(&bench.request("c15.cu", source));
        assert_eq!(evaluation.verdict.kind(), VerdictKind::ParseRejected);
    }
}
