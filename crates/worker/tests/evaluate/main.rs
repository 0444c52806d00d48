//! Whole evaluations: the real compiler, the real roles, the emulated device.
//!
//! A role process is this test binary, started again: the supervisor's arguments `role NAME`
//! select the tests with "role" or NAME in their names, so that only one test may have these.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its functions too"
)]

mod admission;
mod allclose;
mod caches;
mod controls;
mod deaths;
mod evidence;
mod faults;
mod health;
mod lab;
mod leftovers;
mod modelling;
mod paired;
mod partial;
mod persistence;
mod prescreen;
mod protocol;
mod rivals;
mod sanitizers;
mod second_reference;
mod snippets;
mod unproved;
mod walls;

use std::process::ExitCode;

use domain::evaluation::{EvaluationStage, Incumbent, MachineCode};
use domain::task::GateSubject;
use domain::verdict::{Outcome, Verdict, VerdictKind};

use lab::{Lab, lab, read};

const ATTENTION: &str = "attention-f16";

#[test]
fn plays_a_role_when_started_as_one() {
    if std::env::var_os(domain::role::SOCKET_VARIABLE).is_none() {
        return;
    }
    let role = std::env::args().nth(2).unwrap();
    let succeeded = gpu::role::main(&role) == ExitCode::SUCCESS;
    std::process::exit(if succeeded {
        0
    } else {
        i32::from(domain::role::FAULT_STATUS)
    });
}

#[test]
fn baselines_are_accepted_with_a_time_for_each_score_case() {
    let Some(lab) = lab() else { return };
    for task in [ATTENTION, "softmax-f32", "gemm-f32"] {
        let mut request = Lab::request(task, "baseline.cu", read(task, "baseline.cu"));
        request.stage = EvaluationStage::Baseline;
        let evaluation = lab.evaluate(&request);
        eprintln!("{task}: {} {:?}", evaluation.verdict, evaluation.stages);
        let Some(acceptance) = evaluation.verdict.acceptance() else {
            panic!("{task}: {}", evaluation.verdict);
        };
        assert!(acceptance.timing.is_modelled());
        assert!(!acceptance.timing.cases().is_empty());
        assert_eq!(
            evaluation.launches.len(),
            acceptance.timing.cases().len(),
            "every time has its launches as evidence"
        );
        assert!(evaluation.checks.iter().all(|check| check.passed));
    }
}

#[test]
fn a_kernel_is_checked_on_weak_bases_and_on_good_ones_whatever_its_task_promises() {
    let Some(lab) = lab() else { return };
    for (promised, goes_wrong) in [
        // Bases as aligned as every allocator gives them.
        (4, "((size_t)x | (size_t)y) % 256 == 0"),
        // Not wrong on the largest small case, on which the repeats are made.
        (16, "(size_t)x % 32 != 0 && C == 3"),
    ] {
        let source = read("softmax-f32", "baseline.cu");
        let right = "* inverse;";
        assert!(source.contains(right));
        let wrong = source.replace(right, &format!("* inverse * ({goes_wrong} ? 2.0f : 1.0f);"));
        for (source, expected) in [
            (source, VerdictKind::Accepted),
            (wrong, VerdictKind::IncorrectOutput),
        ] {
            let mut request = Lab::request("softmax-f32", "baseline.cu", source);
            let text = request.task.files.get_mut("task.toml").unwrap();
            *text = text.replace("align = 16", &format!("align = {promised}"));
            let verdict = lab.evaluate(&request).verdict;
            assert_eq!(verdict.kind(), expected, "{goes_wrong}: {verdict}");
        }
    }
}

/// The attention baseline with `from` replaced by `to`.
fn edited(from: &str, to: &str) -> String {
    let source = read(ATTENTION, "baseline.cu");
    assert!(source.contains(from), "{from}");
    source.replace(from, to)
}

#[test]
fn each_way_to_fail_has_its_verdict_and_its_line() {
    use VerdictKind as V;
    let Some(lab) = lab() else { return };
    let body = "const int row = ";
    let table = [
        (
            "front matter",
            "block = [64]",
            "block = [",
            V::ParseRejected,
        ),
        (
            "policy",
            "#include <cuda_fp16.h>",
            "#include \"/etc/passwd\"",
            V::PolicyRejected,
        ),
        (
            "too many threads",
            "block = [64]",
            "block = [2048]",
            V::LaunchRejected,
        ),
        (
            "no such entry",
            "kernel = \"attention\"",
            "kernel = \"attn\"",
            V::LaunchRejected,
        ),
        (
            "an argument too many",
            "\"S\", \"scale\"]",
            "\"S\", \"S\", \"scale\"]",
            V::LaunchRejected,
        ),
        (
            "a dim as i64",
            "\"S\", \"scale\"]",
            "{ dim = \"S\", as = \"i64\" }, \"scale\"]",
            V::LaunchRejected,
        ),
        (
            "more scratch memory than it is worth",
            "\"S\", \"scale\"]",
            "\"w\", \"S\", \"scale\"]\n[workspace.w]\ndtype = \"f64\"\nshape = [\"60000000\"]",
            V::LaunchRejected,
        ),
        (
            "no such name",
            body,
            "undeclared(); const int row = ",
            V::CompileRejected,
        ),
        ("trap", body, "__trap(); const int row = ", V::RuntimeFault),
        (
            "an input is changed",
            body,
            "const_cast<__half*>(q)[0] = __half(7.0f); const int row = ",
            V::InputMutated,
        ),
        (
            "nothing is written",
            body,
            "return; const int row = ",
            V::IncorrectOutput,
        ),
        (
            "a loop without an end",
            body,
            "while (clock64()) {} const int row = ",
            V::ExcessiveEffort,
        ),
    ];
    for (name, from, to, expected) in table {
        let evaluation = lab.evaluate(&Lab::request(ATTENTION, "a.cu", edited(from, to)));
        let verdict = &evaluation.verdict;
        eprintln!("{name}: {verdict}");
        assert_eq!(verdict.kind(), expected, "{name}: {verdict}");
        assert!(evaluation.launches.is_empty(), "{name}");
        if matches!(
            expected,
            V::CompileRejected | V::RuntimeFault | V::ExcessiveEffort
        ) {
            assert_eq!(verdict.line(), Some(19), "{name}: {verdict}");
        }
    }
}

#[test]
fn an_idle_launch_of_many_blocks_meets_no_gate() {
    let Some(lab) = lab() else { return };
    // Two blocks do all the work of the case `starved`; four thousand others do nothing.
    let source = edited(
        "---*/",
        "[[launch]]\nkernel = \"idle\"\ngrid = [4096]\nblock = [32]\nargs = [\"S\"]\n---*/",
    );
    let source = format!("{source}\nextern \"C\" __global__ void idle(int) {{}}\n");
    let evaluation = lab.evaluate(&Lab::request(ATTENTION, "a.cu", source));
    assert_eq!(
        evaluation.verdict.kind(),
        VerdictKind::Accepted,
        "{}",
        evaluation.verdict
    );
    let gate = evaluation
        .gates
        .iter()
        .find(|gate| gate.case.as_deref() == Some("starved"))
        .unwrap();
    assert!(!gate.met && gate.found < 1.0, "{gate:?}");
    assert!(!evaluation.promotable());
}

#[test]
fn gates_on_counters_hold_for_a_padded_tile_and_not_for_a_plain_one() {
    const TASK: &str = "transpose-f32";
    let Some(lab) = lab() else { return };
    let source = read(TASK, "playbook/01-shared-tile.cu");
    let evaluate = |source: String| {
        let mut request = Lab::request(TASK, "a.cu", source);
        let text = request.task.files.get_mut("task.toml").unwrap();
        text.push_str(
            "\n[gates.bank_conflict_percent]\nmax = 5\nenforce = \"reject\"\n\
             [gates.dram_percent]\nmin = 50\nenforce = \"phase\"\n",
        );
        lab.evaluate(&request)
    };
    let padded = evaluate(source.clone());
    let acceptance = padded.verdict.acceptance().unwrap();
    let (_, launch) = acceptance.timing.largest_bottleneck().unwrap();
    assert_eq!(launch.bottleneck, "dram_bytes");
    let dram = padded.gates.iter();
    let mut dram = dram.filter(|gate| gate.subject == GateSubject::DramPercent);
    assert!(dram.all(|gate| gate.met && (gate.found - 100.0 * launch.share).abs() < 0.1));
    let plain = source.replace("[TILE + 1]", "[TILE]");
    assert_ne!(plain, source, "the tile is padded");
    let plain = evaluate(plain).verdict;
    let Verdict::GateRejected { gate, found, .. } = &plain else {
        panic!("{plain}");
    };
    assert_eq!(gate, "bank_conflict_percent");
    assert!(*found > 90.0, "32 lanes of one bank: {found}");
}

#[test]
fn the_same_text_is_compiled_once_and_a_damaged_build_again() {
    let Some(lab) = lab() else { return };
    let source = edited("constexpr int ROWS = 64;", "constexpr int ROWS = 32 + 32;");
    let request = Lab::request(ATTENTION, "a.cu", source);
    let before = lab.builds();
    let first = lab.evaluate(&request);
    let after = lab.builds();
    let fresh = after
        .iter()
        .filter(|build| !before.contains(build))
        .filter(|build| {
            let source = lab.build(build).join("source/candidate.cu");
            std::fs::read_to_string(source).is_ok_and(|text| text.contains("32 + 32"))
        })
        .collect::<Vec<_>>();
    let [build] = fresh.as_slice() else {
        panic!("{fresh:?}");
    };
    let cubin = lab.build(build).join("image/image.cubin");
    let bytes = std::fs::read(&cubin).unwrap();
    std::fs::write(&cubin, "damaged").unwrap();
    let again = lab.evaluate(&request);
    assert_eq!(std::fs::read(&cubin).unwrap(), bytes);
    assert_eq!(first.image_digest, again.image_digest);
    assert_eq!(first.verdict, again.verdict);
}

#[test]
fn a_confirmation_asks_more_and_compares_with_the_incumbent() {
    let Some(lab) = lab() else { return };
    let task = "gemm-f32";
    let baseline = lab.evaluate(&Lab::request(
        task,
        "baseline.cu",
        read(task, "baseline.cu"),
    ));
    let incumbent = baseline.verdict.acceptance().unwrap().timing.clone();
    let step = "playbook/02-register-tiles.cu";
    let mut request = Lab::request(task, step, read(task, step));
    request.incumbent = Some(Incumbent {
        file: "baseline.cu".to_owned(),
        source: read(task, "baseline.cu"),
        configuration: domain::plan::Configuration::new(),
        timing: incumbent,
    });
    let search = lab.evaluate(&request);
    request.stage = EvaluationStage::Confirmation;
    let confirmation = lab.evaluate(&request);
    let cases = |evaluation: &domain::evaluation::Evaluation| {
        let checks = evaluation.checks.iter();
        checks
            .map(|check| check.case.clone())
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert!(!cases(&search).contains("wide"));
    assert!(cases(&confirmation).contains("wide"));
    match &confirmation.verdict {
        Verdict::Accepted(acceptance) => {
            let comparison = acceptance.comparison.as_ref().unwrap();
            assert_eq!(comparison.outcome, Outcome::Faster);
            assert!(comparison.ratio > 1.0);
        }
        other => panic!("{other}"),
    }
    assert_eq!(search.drawn_shapes, None, "a search draws no shapes");
    assert_eq!(
        confirmation.drawn_shapes.map(|drawn| drawn.to_string()),
        Some("right on 64 drawn shapes: wrong on at most 4.6% of this law at 95%".to_owned())
    );
    assert_eq!(search.machine_code, None, "a confirmation's business");
    let Some(MachineCode::Read { kernels, .. }) = &confirmation.machine_code else {
        panic!("{:?}", confirmation.machine_code);
    };
    let launched = confirmation.kernels.iter().map(|kernel| &kernel.kernel);
    for kernel in launched {
        let code = kernels.iter().find(|code| code.kernel == *kernel);
        let code = code.unwrap_or_else(|| panic!("{kernel} in {kernels:?}"));
        assert!(code.mix["FFMA"] > 0, "an f32 product: {:?}", code.mix);
        assert_eq!(code.tensor, 0, "without tensor cores");
    }
}

#[test]
fn machine_code_that_cannot_be_disassembled_has_a_row() {
    let Some(lab) = Lab::without_disassembler() else {
        return;
    };
    let mut request = Lab::small_request("baseline.cu");
    request.stage = EvaluationStage::Confirmation;
    let evaluation = lab.evaluate(&request);
    let Some(MachineCode::NotRun { reason }) = &evaluation.machine_code else {
        panic!("{:?}", evaluation.machine_code);
    };
    assert!(reason.contains("install it with"), "{reason}");
}
