//! Verdicts on compiled images, and on the ends of processes.

use domain::device::DeviceKind;
use domain::judge::{self, Exit};
use domain::plan::{ResolvedArgument, ResolvedLaunch, ResolvedPlan, ResolvedStep};
use domain::role::{CompileReply, KernelResources};
use domain::verdict::{Verdict, VerdictKind};

use super::{limits, plan, resources};

#[test]
fn an_image_must_have_the_plans_entries_arguments_and_resources() {
    type Change = fn(&mut ResolvedPlan, &mut KernelResources);
    fn kernel(plan: &mut ResolvedPlan) -> &mut ResolvedLaunch {
        match &mut plan.steps[1] {
            ResolvedStep::Kernel(launch) => launch,
            ResolvedStep::Memset { .. } => unreachable!(),
        }
    }
    let table: [(Change, &str); 6] = [
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
