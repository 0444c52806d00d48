//! Admission of tasks: each planted task has one fault and is refused by the rule for it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use domain::admission::{Admission, AdmissionRule};
use domain::evaluation::EvaluationStage;
use domain::task::Bundle;
use worker::cancel::Cancellation;

use crate::lab::{Lab, lab};

/// A task: the product of two small matrices.
pub fn product() -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/adversaries/task");
    ["task.toml", "reference.cu", "check.cu", "baseline.cu"]
        .map(|name| {
            let text = std::fs::read_to_string(folder.join(name)).unwrap();
            (name.to_owned(), text)
        })
        .into()
}

/// A task with one element of `x` for each of `y`, of the types of the pointers.
fn elementwise(role: &str, value: &str) -> BTreeMap<String, String> {
    let inout = role == "inout";
    let input = "[[tensor]]\nname = \"x\"\ndtype = \"f32\"\nshape = [\"N\"]\nrole = \"in\"\n";
    let task = format!(
        "name = \"planted\"\n[dims]\nN = {{}}\n{}[[tensor]]\nname = \"y\"\ndtype = \"f32\"\n\
         shape = [\"N\"]\nrole = \"{role}\"\n[tolerance]\nclass = \"f32\"\n[[case]]\nname = \"some\"\n\
         dims = {{ N = 200 }}\nuse = [\"check\", \"score\"]\n",
        if inout { "" } else { input }
    );
    let kernel = |element: &str| {
        let (arguments, parameters) = if inout {
            ("\"y\"", format!("{element}* y"))
        } else {
            ("\"x\", \"y\"", format!("const float* x, {element}* y"))
        };
        format!(
            "/*---\n[[launch]]\nkernel = \"each\"\ngrid = [\"N\"]\nblock = [1]\nargs = [{arguments}]\n---*/\n\
             extern \"C\" __global__ void each({parameters}) {{ const int i = blockIdx.x; y[i] = {value}; }}\n"
        )
    };
    [
        ("task.toml", task),
        ("reference.cu", kernel("double")),
        ("check.cu", kernel("double")),
        ("baseline.cu", kernel("float")),
    ]
    .map(|(name, text)| (name.to_owned(), text))
    .into()
}

pub fn admit(lab: &Lab, files: BTreeMap<String, String>) -> Admission {
    let cancellation = Cancellation::new().unwrap();
    lab.evaluator()
        .admit(&Bundle { files }, |_| {}, &cancellation)
        .unwrap()
}

#[test]
fn a_search_admits_its_task_once_and_begins_only_then() {
    let Some(lab) = lab() else { return };
    let search = |files: BTreeMap<String, String>| {
        let mut request = Lab::request("gemm-f32", "baseline.cu", files["baseline.cu"].clone());
        request.task = Bundle { files };
        request.stage = EvaluationStage::Baseline;
        let stages = RefCell::new(Vec::new());
        let progress = |stage: &str| stages.borrow_mut().push(stage.to_owned());
        let cancellation = Cancellation::new().unwrap();
        let outcome = lab.evaluator().search(&request, &progress, &cancellation);
        (outcome, stages.take())
    };
    let (first, stages) = search(product());
    let first = first.unwrap();
    assert!(first.evaluation.verdict.acceptance().is_some());
    assert_eq!(stages[0], "admission");
    let (again, stages) = search(product());
    let again = again.unwrap();
    assert!(again.evaluation.verdict.acceptance().is_some());
    assert!(!stages.contains(&"admission".to_owned()), "{stages:?}");
    let admission = first.admission.unwrap();
    assert!(admission.admitted(), "{admission:?}");
    assert_eq!(
        again.admission,
        Some(admission),
        "the record has every number"
    );

    // The result does not depend on the key of the request.
    let (refused, stages) = search(elementwise("out", "0.5 + 0 * x[i]"));
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.starts_with("admit the task planted: ") && refused.contains("task check"),
        "{refused}"
    );
    assert_eq!(stages, ["admission"], "its baseline is not evaluated");
}

/// The broken rules, each once, with their subjects.
fn refusals(admission: &Admission) -> Vec<(AdmissionRule, &str)> {
    let failing = admission.results.iter().filter(|point| !point.holds);
    failing
        .map(|point| (point.rule, point.subject.as_str()))
        .collect()
}

/// Applies edits `(file, from, to)` to the product task and expects that one rule refuses it.
fn refused(edits: &[(&str, &str, &str)], rule: AdmissionRule, subject: &str) {
    refused_by(edits, &[(rule, subject)]);
}

/// Applies edits and expects that several rules refuse the task.
fn refused_by(edits: &[(&str, &str, &str)], rules: &[(AdmissionRule, &str)]) {
    let Some(lab) = lab() else { return };
    let mut files = product();
    for (file, from, to) in edits {
        let text = files.get_mut(*file).unwrap();
        assert!(text.contains(from), "{file}: {from}");
        *text = text.replace(from, to);
    }
    let admission = admit(&lab, files);
    let found = refusals(&admission);
    for rule in rules {
        assert!(found.contains(rule), "{found:?}");
    }
    assert!(!admission.admitted());
}

#[test]
fn a_sound_task_is_admitted_with_every_number() {
    let Some(lab) = lab() else { return };
    let admission = admit(&lab, product());
    assert_eq!(refusals(&admission), []);
    assert!(admission.admitted());
    let rules = admission
        .results
        .iter()
        .map(|point| point.rule)
        .collect::<std::collections::BTreeSet<_>>();
    // All rules but the one that needs measured times.
    assert_eq!(rules.len(), 12, "{rules:?}");
    let turned_away = admission
        .results
        .iter()
        .filter(|point| point.rule == AdmissionRule::ImpostorRejected);
    assert_eq!(turned_away.count(), 6);
    let separation = admission
        .results
        .iter()
        .find(|point| point.rule == AdmissionRule::Separation)
        .unwrap();
    assert!(separation.found.unwrap() > 100.0);
    let [floor] = admission.floors.as_slice() else {
        panic!("{:?}", admission.floors);
    };
    assert_eq!(floor.bytes, 3 * 32 * 32 * 4);
    assert!(floor.modelled && floor.baseline_us.unwrap() > 0.0);
}

#[test]
fn a_reference_that_does_not_compile() {
    refused(
        &[("check.cu", "double sum = 0.0;", "double sum = ;")],
        AdmissionRule::Compiles,
        "check.cu",
    );
}

#[test]
fn references_that_disagree() {
    refused(
        &[("check.cu", "k < K;", "k < K - 1;")],
        AdmissionRule::ReferencesAgree,
        "reference.cu and check.cu",
    );
}

#[test]
fn outputs_all_near_zero() {
    refused(
        &[
            ("reference.cu", "= sum;", "= 1e-5 * sum;"),
            ("check.cu", "= sums[0];", "= 1e-5 * sums[0];"),
        ],
        AdmissionRule::NotNearZero,
        "c",
    );
}

#[test]
fn outputs_that_no_draw_changes() {
    refused(
        &[
            ("reference.cu", "= sum;", "= 1.0 + row + 2.0 * column;"),
            ("check.cu", "= sums[0];", "= 1.0 + row + 2.0 * column;"),
        ],
        AdmissionRule::VariesWithSeeds,
        "c",
    );
}

#[test]
fn outputs_that_are_constant_along_an_axis() {
    refused(
        &[
            ("reference.cu", "N + column]);", "N]);"),
            ("check.cu", "N + column];\n        sum", "N];\n        sum"),
        ],
        AdmissionRule::VariesAlongAxes,
        "c, axis 1",
    );
}

#[test]
fn an_input_that_the_answer_ignores() {
    refused(
        &[
            (
                "reference.cu",
                "double(b[size_t(k) * N + column])",
                "(1 + column)",
            ),
            ("check.cu", "b[size_t(k) * N + column]", "1 + column"),
        ],
        AdmissionRule::DependsOnInput,
        "b",
    );
}

#[test]
fn a_contract_that_names_the_wrong_axis() {
    refused(
        &[("task.toml", "b[:,n]", "b[:,m]")],
        AdmissionRule::DependsAsDeclared,
        "b to c",
    );
}

#[test]
fn a_baseline_as_coarse_as_what_is_forbidden() {
    let coarse = "__half2float(__float2half(a[m * K + k]))";
    let edits = [
        ("baseline.cu", "a[m * K + k]", coarse),
        (
            "baseline.cu",
            "b[k * N + n]",
            "__half2float(__float2half(b[k * N + n]))",
        ),
        (
            "baseline.cu",
            "// Honest",
            "#include <cuda_fp16.h>\n// Honest",
        ),
    ];
    refused_by(
        &edits,
        &[
            (AdmissionRule::HonestInside, "baseline.cu"),
            (AdmissionRule::BaselineAccepted, "baseline.cu"),
            (AdmissionRule::Separation, "tolerance"),
        ],
    );
}

#[test]
fn a_baseline_that_is_wrong_on_few_draws() {
    let Some(lab) = lab() else { return };
    let mut files = elementwise("out", "2.0f * x[i]");
    let baseline = files.get_mut("baseline.cu").unwrap();
    let unlucky = "(__float_as_uint(x[0]) & 255) == 77 ? 1.0f : 2.0f * x[i]";
    *baseline = baseline.replace("2.0f * x[i]", unlucky);
    let admission = admit(&lab, files);
    let refused = admission.results.iter().find(|point| !point.holds);
    let refused = refused.expect("some draw meets the condition");
    assert_eq!(refused.rule, AdmissionRule::BaselineAccepted);
    // Its own evaluation, which decided alone before, accepts it.
    let explanation = &refused.explanation;
    assert!(
        explanation.contains("rejected on one of 15 further draws"),
        "{explanation}"
    );
    assert!(explanation.contains("y"), "{explanation}");
}

#[test]
fn an_input_that_matters_in_all_cases_but_the_smallest() {
    let Some(lab) = lab() else { return };
    let mut files = elementwise(
        "out",
        "2.0f * x[i] - (gridDim.x == 1 ? 2.0f * x[0] - 3.0f : x[0])",
    );
    let one = "[[case]]\nname = \"one\"\ndims = { N = 1 }\nuse = [\"check\"]\n";
    let task = files.get_mut("task.toml").unwrap();
    // With 2 * 40,000 elements the other case is too large to be among those that are preferred.
    *task = task.replace("N = 200", "N = 40000") + one;
    let admission = admit(&lab, files);
    assert_eq!(admission.cases, ["one", "some"]);
    let mut depends = admission.results.iter();
    let depends = depends.find(|point| point.rule == AdmissionRule::DependsOnInput);
    assert!(depends.unwrap().holds, "{depends:?}");
}

#[test]
fn a_sound_task_is_told_the_margin_of_its_baseline_and_what_it_does_not_state() {
    let Some(lab) = lab() else { return };
    let admission = admit(&lab, elementwise("out", "2.0f * x[i]"));
    let mut baseline = admission.results.iter();
    let baseline = baseline.find(|point| point.rule == AdmissionRule::BaselineAccepted);
    let baseline = baseline.unwrap();
    assert!(
        baseline.holds && baseline.limit == Some(1.0),
        "{baseline:?}"
    );
    assert!(baseline.found.unwrap() < 1.0, "{baseline:?}");
    let [advice] = admission.advice.as_slice() else {
        panic!("{:?}", admission.advice);
    };
    let wanted = "no largest value is stated for N: ";
    assert!(advice.starts_with(wanted), "{advice}");
}

#[test]
fn an_answer_that_precision_does_not_touch() {
    let Some(lab) = lab() else { return };
    let admission = admit(&lab, elementwise("out", "x[i] > 0.0f ? 1.0f : -1.0f"));
    let found = refusals(&admission);
    let imitation = (
        AdmissionRule::ForbiddenOutside,
        "baseline.cu on operands of 11 bits",
    );
    assert!(found.contains(&imitation), "{found:?}");
}

#[test]
fn tasks_that_an_impostor_solves() {
    let Some(lab) = lab() else { return };
    for (files, winners) in [
        (elementwise("out", "x[i]"), vec!["a kernel that copies x"]),
        (
            elementwise("inout", "y[i]"),
            vec!["a kernel that does nothing"],
        ),
    ] {
        let admission = admit(&lab, files);
        let found = refusals(&admission);
        for winner in winners {
            assert!(
                found.contains(&(AdmissionRule::ImpostorRejected, winner)),
                "{found:?}"
            );
        }
    }
}

#[test]
fn a_kernel_that_is_not_extern_c_is_refused_with_the_words_to_write() {
    let Some(lab) = lab() else { return };
    let mut files = product();
    let baseline = files.get_mut("baseline.cu").unwrap();
    assert!(baseline.contains("extern \"C\" __global__"), "{baseline}");
    *baseline = baseline.replace("extern \"C\" __global__", "__global__");
    let admission = admit(&lab, files);
    let broken = admission.results.iter().find(|point| !point.holds);
    let broken = broken.expect("the baseline cannot be launched");
    assert_eq!(broken.subject, "baseline.cu");
    assert!(
        broken.explanation.contains("extern \"C\" __global__"),
        "{}",
        broken.explanation
    );
}

#[test]
fn the_same_task_has_the_same_admission_every_time() {
    let Some(lab) = lab() else { return };
    assert_eq!(
        admit(&lab, product()).results,
        admit(&lab, product()).results
    );
}
