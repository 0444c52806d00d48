//! The judge's tables: which facts give which verdict, and which of several causes is named.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its functions too"
)]

use std::collections::BTreeMap;

use domain::device::{DeviceKind, Limits};
use domain::digest::Digest;
use domain::finding::{Finding, FindingKind};
use domain::judge::{self, ComparedOutput, ExecutionContext, Exit, RepeatVariation};
use domain::plan::{ResolvedArgument, ResolvedLaunch, ResolvedPlan, ResolvedStep};
use domain::role::{
    CompileReply, DeviceFault, Distribution, ExecutionFacts, KernelResources, Key, LaunchFacts,
    OutputComparison, TensorData, UnsupportedInstruction, Unwritten,
};
use domain::task::{Role, Tolerance, ToleranceClass};
use domain::timing::{CacheState, MeasuredTime, ModelledTime, Timing};
use domain::verdict::{Outcome, Verdict, VerdictKind};
use proptest::prelude::*;

fn limits() -> Limits {
    Limits {
        sm_count: 58,
        threads_per_block: 1024,
        block: [1024, 1024, 64],
        grid: [i32::MAX.cast_unsigned(), 65535, 65535],
        shared_per_block: 49152,
        shared_per_block_optin: 101_376,
        shared_per_sm: 102_400,
        registers_per_block: 65536,
        registers_per_sm: 65536,
        threads_per_sm: 1536,
        blocks_per_sm: 24,
    }
}

fn launch() -> ResolvedLaunch {
    ResolvedLaunch {
        kernel: "scale".to_owned(),
        grid: [4, 1, 1],
        block: [128, 1, 1],
        shared_bytes: 0,
        cooperative: false,
        arguments: vec![
            ResolvedArgument::Buffer("y".to_owned()),
            ResolvedArgument::I32(3),
        ],
    }
}

fn plan() -> ResolvedPlan {
    ResolvedPlan {
        workspaces: Vec::new(),
        steps: vec![
            ResolvedStep::Memset {
                buffer: "y".to_owned(),
                byte: 0,
            },
            ResolvedStep::Kernel(launch()),
        ],
    }
}

fn resources() -> KernelResources {
    KernelResources {
        kernel: "scale".to_owned(),
        registers: 32,
        spill_bytes: 0,
        stack_bytes: 0,
        static_shared_bytes: 1024,
        constant_bytes: 0,
        parameters: vec![8, 4],
    }
}

fn tensors() -> Vec<TensorData> {
    vec![TensorData {
        name: "y".to_owned(),
        dtype: domain::dtype::Dtype::F16,
        extents: vec![2, 3, 5],
        role: Role::Out,
        align: 16,
        distribution: Distribution::Normal,
        key: Key(Digest::of("key")),
        alteration: None,
    }]
}

fn facts() -> ExecutionFacts {
    ExecutionFacts {
        id: 0,
        launches: vec![LaunchFacts {
            kernel: "scale".to_owned(),
            grid: [4, 1, 1],
            block: [128, 1, 1],
            shared_bytes: 0,
            modelled: None,
            modelled_warm: None,
            counters: BTreeMap::new(),
        }],
        findings: Vec::new(),
        fault: None,
        unsupported: None,
        mutated: Vec::new(),
        overrun: Vec::new(),
        unwritten: Vec::new(),
        event_us: None,
        outlasted: false,
        unprotected: false,
        outputs: BTreeMap::from([("y".to_owned(), Digest::of("bytes"))]),
    }
}

fn finding(kind: FindingKind) -> Finding {
    Finding {
        kind,
        kernel: "scale".to_owned(),
        line: Some(7),
        block: [0; 3],
        thread: [3, 0, 0],
        buffer: None,
        offset: None,
        other: None,
        occurrences: 1,
        message: format!("{kind:?}"),
    }
}

fn fault(code: u32, call: &str) -> DeviceFault {
    DeviceFault {
        code,
        name: "CUDA_ERROR".to_owned(),
        call: call.to_owned(),
        launch: Some(0),
    }
}

fn judged(facts: &ExecutionFacts) -> Result<Option<Verdict>, judge::InfrastructureFault> {
    of_the_case(|subject| judge::judge_execution(facts, subject))
}

fn of_the_case<T>(judge: impl FnOnce(&ExecutionContext<'_>) -> T) -> T {
    let (plan, tensors) = (plan(), tensors());
    let tolerance = ToleranceClass::F16OutF32Acc.tolerance();
    let subject = ExecutionContext {
        stage: "smoke",
        case: "odd",
        distribution: Distribution::Normal,
        plan: &plan,
        tensors: &tensors,
        tolerance: &tolerance,
    };
    judge(&subject)
}

fn kind(facts: &ExecutionFacts) -> Option<VerdictKind> {
    judged(facts).unwrap().map(|verdict| verdict.kind())
}

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
        (K::Hang, V::Timeout),
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
        (218, "cuModuleLoadData", Some(VerdictKind::Unsupported)),
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
    facts.unwritten = vec![Unwritten {
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
    }
}

fn close() -> OutputComparison {
    OutputComparison {
        id: 0,
        tensor: "y".to_owned(),
        relative_l2: Some(2e-4),
        worst_ratio: Some(0.5),
        worst: None,
        special_mismatches: 0,
        beyond_bound: 0,
        elements: 30,
    }
}

fn together(facts: &[OutputComparison], tolerance: &Tolerance) -> Option<Verdict> {
    let compared = facts
        .iter()
        .map(|facts| ComparedOutput {
            facts,
            case: "odd",
            distribution: Distribution::Normal,
        })
        .collect::<Vec<_>>();
    judge::judge_outputs(&compared, tolerance)
}

fn compared(facts: &OutputComparison) -> Option<VerdictKind> {
    let tolerance = ToleranceClass::F16OutF32Acc.tolerance();
    together(std::slice::from_ref(facts), &tolerance).map(|verdict| verdict.kind())
}

#[test]
fn an_output_passes_only_if_every_rule_holds() {
    use VerdictKind::{IncorrectOutput, PrecisionDowngrade};
    type RepeatVariation = fn(&mut OutputComparison);
    let table: [(&str, RepeatVariation, Option<VerdictKind>); 11] = [
        ("close", |_| {}, None),
        (
            "no norm but every element near",
            |c| c.relative_l2 = None,
            None,
        ),
        (
            "nothing compared",
            |c| c.elements = 0,
            Some(IncorrectOutput),
        ),
        (
            "a NaN too many",
            |c| c.special_mismatches = 1,
            Some(IncorrectOutput),
        ),
        (
            "one element off",
            |c| c.beyond_bound = 1,
            Some(IncorrectOutput),
        ),
        (
            "a ratio that is NaN",
            |c| c.worst_ratio = Some(f64::NAN),
            Some(IncorrectOutput),
        ),
        (
            "a norm that is NaN",
            |c| c.relative_l2 = Some(f64::NAN),
            Some(IncorrectOutput),
        ),
        (
            "off as a whole, a little",
            |c| c.relative_l2 = Some(2.4e-3),
            Some(PrecisionDowngrade),
        ),
        (
            "off as a whole, far",
            |c| c.relative_l2 = Some(0.5),
            Some(IncorrectOutput),
        ),
        (
            "off as a whole and some elements beyond",
            |c| {
                c.relative_l2 = Some(2.4e-3);
                c.beyond_bound = 3;
                c.worst_ratio = Some(2.0);
            },
            Some(PrecisionDowngrade),
        ),
        (
            "off as a whole and an element far off",
            |c| {
                c.relative_l2 = Some(2.4e-3);
                c.beyond_bound = 1;
                c.worst_ratio = Some(300.0);
            },
            Some(IncorrectOutput),
        ),
    ];
    for (name, change, expected) in table {
        let mut facts = close();
        change(&mut facts);
        assert_eq!(compared(&facts), expected, "{name}");
    }
}

#[test]
fn the_next_lower_precision_of_f32_is_thirteen_bits_away() {
    let tolerance = ToleranceClass::F32.tolerance();
    let judged = |relative_l2, worst_ratio| {
        let facts = OutputComparison {
            relative_l2: Some(relative_l2),
            worst_ratio: Some(worst_ratio),
            beyond_bound: 30,
            ..close()
        };
        together(&[facts], &tolerance).unwrap().kind()
    };
    // Operands rounded to f16, and the last of eight terms dropped.
    assert_eq!(judged(2.9e-4, 900.0), VerdictKind::PrecisionDowngrade);
    assert_eq!(judged(0.35, 1e6), VerdictKind::IncorrectOutput);
}

#[test]
fn a_downgrade_is_told_by_all_outputs_together_and_not_by_the_draw_of_one_element() {
    let tolerance = ToleranceClass::F32.tolerance();
    let off = |elements, relative_l2, worst_ratio| OutputComparison {
        relative_l2: Some(relative_l2),
        worst_ratio: Some(worst_ratio),
        beyond_bound: elements,
        elements,
        ..close()
    };
    let product = off(4000, 2.9e-4, 900.0);
    // One product of two rounded operands: from far inside the norm to beyond what is called near.
    for error in [1e-6, 4.1e-5, 9e-4, 1.3e-3] {
        let single = off(1, error, 1400.0);
        let verdict = together(&[single, product.clone()], &tolerance).unwrap();
        let Verdict::PrecisionDowngrade(mismatch) = verdict else {
            panic!("{error}: {verdict}");
        };
        assert_eq!(mismatch.relative_l2, product.relative_l2, "the telling one");
    }
    let wrong = off(4000, 0.35, 1e6);
    let both = together(&[product, wrong], &tolerance).unwrap();
    assert_eq!(both.kind(), VerdictKind::IncorrectOutput);
}

proptest! {
    #[test]
    fn nothing_worse_than_the_tolerance_ever_passes(
        relative_l2 in proptest::option::of(proptest::num::f64::ANY),
        worst_ratio in proptest::option::of(proptest::num::f64::ANY),
        special_mismatches in 0_u64..3,
        beyond_bound in 0_u64..3,
    ) {
        let facts = OutputComparison {
            relative_l2,
            worst_ratio,
            special_mismatches,
            beyond_bound,
            ..close()
        };
        let acceptable = special_mismatches == 0
            && beyond_bound == 0
            && relative_l2.is_none_or(|error| error <= 5e-4)
            && worst_ratio.is_none_or(|ratio| ratio <= 1.0);
        prop_assert_eq!(compared(&facts).is_none(), acceptable);
    }
}

#[test]
fn an_image_must_have_the_plans_entries_arguments_and_resources() {
    type RepeatVariation = fn(&mut ResolvedPlan, &mut KernelResources);
    fn kernel(plan: &mut ResolvedPlan) -> &mut ResolvedLaunch {
        match &mut plan.steps[1] {
            ResolvedStep::Kernel(launch) => launch,
            ResolvedStep::Memset { .. } => unreachable!(),
        }
    }
    let table: [(RepeatVariation, &str); 6] = [
        (
            |plan, _| kernel(plan).kernel = "scal".to_owned(),
            "it defines scale",
        ),
        (
            |plan, _| kernel(plan).arguments.truncate(1),
            "passes 1 arguments, the kernel takes 2",
        ),
        (
            |plan, _| kernel(plan).arguments[1] = ResolvedArgument::I64(3),
            "argument 2 has 8 bytes, the kernel's parameter has 4",
        ),
        (
            |plan, kernels| {
                kernel(plan).block = [1024, 1, 1];
                kernels.registers = 72;
            },
            "registers of a block would be 73728, the device's limit is 65536",
        ),
        (
            |plan, _| kernel(plan).shared_bytes = 101_000,
            "shared memory of a block would be 102024, the device's limit is 101376",
        ),
        (
            |_, kernels| kernels.stack_bytes = 65_537,
            "the stack of a thread would be 65537 bytes, 65536 are allowed",
        ),
    ];
    assert_eq!(judge::judge_image(&plan(), &[resources()], &limits()), None);
    for (change, expected) in table {
        let (mut plan, mut kernels) = (plan(), resources());
        change(&mut plan, &mut kernels);
        match judge::judge_image(&plan, &[kernels], &limits()) {
            Some(Verdict::LaunchRejected { reason }) => {
                assert!(reason.contains(expected), "{reason}");
                assert!(reason.starts_with("launch 2"), "{reason}");
            }
            other => panic!("{expected}: {other:?}"),
        }
    }
}

#[test]
fn how_a_process_ended_becomes_a_verdict() {
    let died = Exit::Died { signal: 11 };
    let spent = Exit::OverCpu { seconds: 30 };
    assert_eq!(
        judge::judge_compiler_exit(&spent).unwrap(),
        Verdict::CompileTimeout { seconds: 30 }
    );
    assert_eq!(
        judge::judge_compiler_exit(&died).unwrap().to_string(),
        "the compiler crashed: ended by signal 11"
    );
    assert!(judge::judge_compiler_exit(&Exit::TimedOut).is_err());
    for device in [DeviceKind::Emulated, DeviceKind::Nvidia] {
        let kind = |exit: &Exit| judge::judge_runner_exit(exit, "smoke", device).map(|v| v.kind());
        assert_eq!(kind(&spent), Ok(VerdictKind::Timeout));
        assert_eq!(kind(&died), Ok(VerdictKind::RunnerCrash));
        // A machine that is too busy must not condemn a kernel.
        assert_eq!(
            kind(&Exit::TimedOut).is_ok(),
            device == DeviceKind::Nvidia,
            "{device:?}"
        );
    }
    let reply = CompileReply::OverResource {
        resource: "static shared memory".to_owned(),
        limit: 49152,
        found: Some(57376),
        message: "too much".to_owned(),
    };
    assert_eq!(
        judge::judge_compilation(&reply).unwrap().kind(),
        VerdictKind::CompileResource
    );
}

fn modelled(us: f64) -> Timing {
    Timing::Modelled {
        device: "L4".to_owned(),
        label: "uncalibrated".to_owned(),
        unscored: Vec::new(),
        cases: vec![ModelledTime {
            case: "one".to_owned(),
            cache: CacheState::Cold,
            us,
            launches: Vec::new(),
        }],
    }
}

fn measured(us: f64) -> Timing {
    Timing::Measured {
        unscored: Vec::new(),
        cases: vec![MeasuredTime {
            case: "one".to_owned(),
            cache: CacheState::Cold,
            median_us: us,
            quartiles_us: [us, us],
            samples: 32,
        }],
    }
}

fn warm(us: f64) -> Timing {
    let mut timing = modelled(us);
    if let Timing::Modelled { cases, .. } = &mut timing {
        cases[0].cache = CacheState::Warm;
    }
    timing
}

#[test]
fn an_acceptance_compares_only_what_can_be_compared() {
    let outcome = |timing: Timing, incumbent: Timing| {
        let verdict = judge::judge_times(timing, Some(&incumbent), false);
        let acceptance = verdict.acceptance().unwrap().clone();
        acceptance.comparison.map(|comparison| comparison.outcome)
    };
    let table = [
        (modelled(50.0), modelled(100.0), Some(Outcome::Faster)),
        (modelled(99.6), modelled(100.0), Some(Outcome::NotFaster)),
        (modelled(120.0), modelled(100.0), Some(Outcome::NotFaster)),
        (measured(50.0), measured(100.0), Some(Outcome::Unresolved)),
        (modelled(50.0), measured(100.0), None),
        (warm(50.0), warm(100.0), Some(Outcome::Faster)),
        (warm(50.0), modelled(100.0), None),
        (modelled(50.0), warm(100.0), None),
        (measured(50.0), modelled(100.0), None),
    ];
    for (timing, incumbent, expected) in table {
        let name = format!("{timing} against {incumbent}");
        assert_eq!(outcome(timing, incumbent), expected, "{name}");
    }
}

#[test]
fn a_time_that_is_none_is_never_accepted() {
    for us in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let verdict = judge::judge_times(modelled(us), None, false);
        assert_eq!(verdict.kind(), VerdictKind::InvalidRun, "{us}");
    }
    let empty = Timing::Measured {
        cases: Vec::new(),
        unscored: Vec::new(),
    };
    assert_eq!(
        judge::judge_times(empty, None, false).kind(),
        VerdictKind::Inconclusive
    );
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
