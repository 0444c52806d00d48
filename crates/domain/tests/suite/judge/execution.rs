//! Verdicts on one execution: findings, driver errors and changed buffers.

use domain::digest::Digest;
use domain::finding::{Finding, FindingKind};
use domain::judge::{self, ExecutionContext, RepeatVariation};
use domain::role::{DeviceFault, Distribution, UnsupportedInstruction, UnwrittenOutput};
use domain::task::ToleranceClass;
use domain::verdict::{Verdict, VerdictKind};

use super::{facts, fault, finding, judged, kind, of_the_case, plan, tensors};

#[test]
fn an_execution_without_blemish_has_no_verdict_yet() {
    assert_eq!(kind(&facts()), None);
}

#[test]
fn every_finding_has_its_verdict_with_the_line() {
    use FindingKind as K;
    use VerdictKind as V;
    let table = [
        (K::OutOfBoundsRead, V::OutOfBounds),
        (K::OutOfBoundsWrite, V::OutOfBounds),
        (K::Misaligned, V::RuntimeFault),
        (K::Uninitialised, V::UninitDependent),
        (K::SharedRace, V::DataRace),
        (K::GlobalRace, V::DataRace),
        (K::DivergentBarrier, V::BarrierError),
        (K::Deadlock, V::BarrierError),
        (K::Hang, V::ExcessiveEffort),
        (K::Trap, V::RuntimeFault),
        (K::Assert, V::RuntimeFault),
        (K::ScheduleDependent, V::NonDeterministic),
        (K::LayoutDependent, V::NonDeterministic),
        (K::IllegalAddress, V::RuntimeFault),
    ];
    for (found, expected) in table {
        let mut facts = facts();
        facts.findings.push(finding(found));
        let verdict = judged(&facts).unwrap().unwrap();
        assert_eq!(verdict.kind(), expected, "{found:?}");
        assert_eq!(verdict.line(), Some(7), "{found:?}");
    }
}

#[test]
fn faults_proved_on_the_emulated_device_carry_the_drivers_codes() {
    let table = [
        (FindingKind::Misaligned, 716),
        (FindingKind::Trap, 715),
        (FindingKind::Assert, 710),
        (FindingKind::IllegalAddress, 700),
    ];
    for (found, expected) in table {
        let mut facts = facts();
        facts.findings.push(finding(found));
        match judged(&facts).unwrap().unwrap() {
            Verdict::RuntimeFault { code, .. } => assert_eq!(code, expected, "{found:?}"),
            other => panic!("{found:?}: {other}"),
        }
    }
}

#[test]
fn the_cause_is_named_rather_than_what_follows_from_it() {
    use FindingKind as K;
    // Each row: findings in the order they were made, and the one that decides.
    let table = [
        (vec![K::SharedRace, K::OutOfBoundsRead], K::OutOfBoundsRead),
        (vec![K::Uninitialised, K::SharedRace], K::SharedRace),
        (
            vec![K::SharedRace, K::DivergentBarrier],
            K::DivergentBarrier,
        ),
        (vec![K::Hang, K::Uninitialised], K::Uninitialised),
        (vec![K::IllegalAddress, K::Misaligned], K::Misaligned),
        (vec![K::ScheduleDependent, K::GlobalRace], K::GlobalRace),
    ];
    for (kinds, deciding) in table {
        let mut facts = facts();
        facts.findings = kinds.iter().map(|&kind| finding(kind)).collect();
        facts.fault = Some(fault(700, "cuStreamSynchronize"));
        facts.mutated = vec!["x".to_owned()];
        let verdict = judged(&facts).unwrap().unwrap();
        assert_eq!(verdict.finding().unwrap().kind, deciding, "{kinds:?}");
    }
}

#[test]
fn of_an_execution_on_another_device_only_a_broken_rule_counts() {
    use FindingKind as K;
    // Each row: what was found, and the one that decides.
    let table = [
        (vec![K::OutOfBoundsRead], Some(K::OutOfBoundsRead)),
        (vec![K::OutOfBoundsWrite], Some(K::OutOfBoundsWrite)),
        (vec![K::Misaligned], Some(K::Misaligned)),
        (vec![K::IllegalAddress], Some(K::IllegalAddress)),
        (vec![K::Uninitialised], Some(K::Uninitialised)),
        (vec![K::SharedRace], Some(K::SharedRace)),
        (vec![K::GlobalRace], Some(K::GlobalRace)),
        (vec![K::DivergentBarrier], Some(K::DivergentBarrier)),
        (vec![K::Deadlock], Some(K::Deadlock)),
        (vec![K::Hang], None),
        (vec![K::Trap], None),
        (vec![K::Assert], None),
        (vec![K::ScheduleDependent], None),
        (vec![K::LayoutDependent], None),
        (
            vec![K::Hang, K::Uninitialised, K::SharedRace],
            Some(K::SharedRace),
        ),
        (vec![K::Trap, K::Misaligned], Some(K::Misaligned)),
        (Vec::new(), None),
    ];
    for (kinds, deciding) in table {
        let mut facts = facts();
        facts.findings = kinds.iter().map(|&kind| finding(kind)).collect();
        // The real device judges other failures of the emulated execution.
        facts.fault = Some(fault(702, "cuStreamSynchronize"));
        facts.mutated = vec!["x".to_owned()];
        facts.overrun = vec!["y".to_owned()];
        let verdict = of_the_case(|subject| judge::judge_proven_findings(&facts, subject));
        let decided = verdict.as_ref().and_then(Verdict::finding);
        assert_eq!(decided.map(|found| found.kind), deciding, "{kinds:?}");
        assert_eq!(verdict.is_some(), deciding.is_some(), "{kinds:?}");
        if deciding.is_some() {
            // It is the verdict that the same findings have where that device judges.
            assert_eq!(verdict, judged(&facts).unwrap(), "{kinds:?}");
        }
    }
}

#[test]
fn a_driver_error_is_the_candidates_only_where_a_kernel_can_cause_it() {
    let table = [
        (700, "cuStreamSynchronize", Some(VerdictKind::RuntimeFault)),
        (710, "cuStreamSynchronize", Some(VerdictKind::RuntimeFault)),
        (719, "cuMemcpyDtoHAsync_v2", Some(VerdictKind::RuntimeFault)),
        (702, "cuStreamSynchronize", Some(VerdictKind::Timeout)),
        (1, "cuLaunchKernel", Some(VerdictKind::LaunchRejected)),
        (701, "cuLaunchKernel", Some(VerdictKind::LaunchRejected)),
        // The threads' own memory does not fit.
        (2, "cuLaunchKernel", Some(VerdictKind::LaunchRejected)),
        (
            720,
            "cuLaunchCooperativeKernel",
            Some(VerdictKind::LaunchRejected),
        ),
        (1, "cuFuncSetAttribute", Some(VerdictKind::LaunchRejected)),
        (
            500,
            "cuModuleGetFunction",
            Some(VerdictKind::LaunchRejected),
        ),
        (218, "cuModuleLoadDataEx", Some(VerdictKind::Unsupported)),
        (1, "cuMemcpyHtoDAsync_v2", None),
        (2, "cuMemAlloc_v2", None),
        (100, "cuInit", None),
        (214, "cuStreamSynchronize", None),
        (999, "cuStreamSynchronize", None),
        // An error that a kernel leaves behind cannot occur before the first kernel has begun.
        (700, "cuLaunchKernel", None),
    ];
    for (code, call, expected) in table {
        let mut facts = facts();
        facts.launches.clear();
        facts.fault = Some(fault(code, call));
        let verdict = judged(&facts);
        match expected {
            Some(expected) => {
                let verdict = verdict.unwrap().unwrap();
                assert_eq!(verdict.kind(), expected, "{code} from {call}");
            }
            None => {
                let trouble = verdict.unwrap_err().to_string();
                assert!(trouble.contains(call), "{trouble}");
            }
        }
    }
}

#[test]
fn a_module_that_the_emulated_device_cannot_read_is_named_with_the_reason() {
    let mut facts = facts();
    facts.launches.clear();
    facts.fault = Some(DeviceFault {
        log: Some("line 7: no operand".to_owned()),
        ..fault(218, "cuModuleLoadDataEx")
    });
    let verdict = judged(&facts).unwrap().unwrap();
    assert_eq!(
        verdict.to_string(),
        "the emulated device does not support the module: line 7: no operand"
    );
}

#[test]
fn an_error_before_the_first_launch_is_nobodys() {
    for code in [700, 702, 710, 716, 719] {
        let mut facts = facts();
        facts.launches.clear();
        facts.fault = Some(DeviceFault {
            launch: None,
            ..fault(code, "cuMemAlloc_v2")
        });
        assert!(judged(&facts).is_err(), "{code}");
    }
}

#[test]
fn what_a_run_leaves_behind_is_judged() {
    let mut overrun = facts();
    overrun.overrun = vec!["y".to_owned()];
    assert_eq!(kind(&overrun), Some(VerdictKind::OutOfBounds));

    let mut mutated = facts();
    mutated.mutated = vec!["x".to_owned()];
    assert_eq!(kind(&mutated), Some(VerdictKind::InputMutated));
    // Right in the end, but only after the blocks beside it had given up.
    let mut outlasted = facts();
    outlasted.outlasted = true;
    assert_eq!(kind(&outlasted), Some(VerdictKind::Timeout));
    outlasted.mutated = vec!["x".to_owned()];
    assert_eq!(kind(&outlasted), Some(VerdictKind::InputMutated));

    let mut unsupported = facts();
    unsupported.launches.clear();
    unsupported.fault = Some(fault(801, "cuLaunchKernel"));
    unsupported.unsupported = Some(UnsupportedInstruction {
        opcode: "wgmma".to_owned(),
        line: Some(9),
    });
    assert_eq!(kind(&unsupported), Some(VerdictKind::Unsupported));
}

#[test]
fn an_element_nobody_wrote_is_named_by_its_index() {
    let mut facts = facts();
    facts.unwritten = vec![UnwrittenOutput {
        tensor: "y".to_owned(),
        elements: 2,
        first: 23,
    }];
    match judged(&facts).unwrap().unwrap() {
        Verdict::IncorrectOutput(mismatch) => {
            assert_eq!(mismatch.worst.unwrap().index, [1, 1, 3]);
        }
        other => panic!("{other}"),
    }
}

#[test]
fn launches_that_were_not_planned_say_nothing_about_the_candidate() {
    let mut fewer = facts();
    fewer.launches.clear();
    let mut smaller = facts();
    smaller.launches[0].grid = [1, 1, 1];
    for facts in [fewer, smaller] {
        let trouble = judged(&facts).unwrap_err().to_string();
        assert!(trouble.contains("as planned"), "{trouble}");
    }
    let mut silent = facts();
    silent.outputs.clear();
    let trouble = judged(&silent).unwrap_err().to_string();
    assert!(trouble.contains("read y"), "{trouble}");
}

#[test]
fn repeats_that_differ_are_told_apart_by_what_was_changed() {
    let (plan, tensors) = (plan(), tensors());
    let tolerance = ToleranceClass::F32.tolerance();
    let subject = ExecutionContext {
        stage: "repeat",
        case: "odd",
        distribution: Distribution::Normal,
        plan: &plan,
        tensors: &tensors,
        tolerance: &tolerance,
        order_dependent: &[],
    };
    let same = facts();
    let mut other = facts();
    other.outputs.insert("y".to_owned(), Digest::of("others"));
    let mut missing = facts();
    missing.outputs.clear();
    let table = [
        (RepeatVariation::None, VerdictKind::NonDeterministic, None),
        (
            RepeatVariation::Schedule,
            VerdictKind::NonDeterministic,
            Some((FindingKind::ScheduleDependent, None)),
        ),
        (
            RepeatVariation::FragmentLayout { line: Some(40) },
            VerdictKind::NonDeterministic,
            Some((FindingKind::LayoutDependent, Some(40))),
        ),
        (
            RepeatVariation::MemoryState,
            VerdictKind::UninitDependent,
            None,
        ),
    ];
    for (change, kind, named) in table {
        assert_eq!(judge::judge_repeat(&same, &same, change, &subject), None);
        for differing in [&other, &missing] {
            let verdict = judge::judge_repeat(&same, differing, change, &subject).unwrap();
            assert_eq!(verdict.kind(), kind, "{change:?}");
            let finding = verdict.finding();
            assert_eq!(finding.map(|found| (found.kind, found.line)), named);
            assert!(finding.is_none_or(|found| found.kernel == "scale"));
        }
        // If sums may be taken in any order, values are compared and not bytes.
        let names = ["y".to_owned()];
        let spread = ExecutionContext {
            order_dependent: &names,
            ..subject
        };
        assert_eq!(judge::judge_repeat(&same, &other, change, &spread), None);
    }
}

#[test]
fn a_conflict_blames_the_lines_of_both_its_parties() {
    let party = domain::finding::OtherParty {
        block: [0, 0, 0],
        thread: [32, 0, 0],
        line: Some(63),
    };
    let finding = Finding {
        line: Some(76),
        other: Some(party),
        ..finding(FindingKind::SharedRace)
    };
    let verdict = Verdict::DataRace { finding };
    let blamed = |line| verdict.blames(line);
    assert_eq!([blamed(63), blamed(76), blamed(70)], [true, true, false]);
}
