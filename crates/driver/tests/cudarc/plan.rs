//! Tests of fault plans, as a program experiences them.

use std::time::Duration;
use std::{env, fs};

use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaContext, result, sys};

use crate::axpy;
use crate::child::{CHILD, DEADLINE, again, in_child};

/// Runs the body in a child whose fault plan consists of this rule.
fn with_plan(test: &str, rule: &str, body: impl FnOnce()) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("plan.toml");
    fs::write(&path, format!("[[fault]]\n{rule}")).expect("writes");
    let path = path.to_str().expect("UTF-8");
    in_child(test, &[("KERNELWRIGHT_FAULT_PLAN", path)], body);
}

#[test]
fn a_plan_makes_a_call_fail() {
    let rule = "call = \"cuMemcpyDtoHAsync_v2\"\nnth = 2\ndo = { error = 700 }";
    with_plan("plan::a_plan_makes_a_call_fail", rule, || {
        let context = CudaContext::new(0).expect("a context");
        axpy(&context).expect("the first download is fine");
        let error = axpy(&context).expect_err("the second is not");
        assert_eq!(error.0, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    });
}

#[test]
fn a_plan_corrupts_a_download() {
    let rule = "call = \"cuMemcpyDtoHAsync_v2\"\nnth = \"every\"\ndo = { corrupt = { bytes = 1 } }";
    with_plan("plan::a_plan_corrupts_a_download", rule, || {
        let context = CudaContext::new(0).expect("a context");
        let output = axpy(&context).expect("computes");
        assert_ne!(output[0], 0.0);
        assert_eq!(output[1..3], [2.0, 4.0]);
    });
}

#[test]
fn a_plan_falsifies_event_times() {
    let rule = "call = \"cuEventElapsedTime_v2\"\nnth = \"every\"\ndo = { elapsed_ms = 0.25 }";
    with_plan("plan::a_plan_falsifies_event_times", rule, || {
        let context = CudaContext::new(0).expect("a context");
        let timed = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let stream = context.default_stream();
        let before = stream.record_event(timed).expect("records");
        let after = stream.record_event(timed).expect("records");
        assert_eq!(before.elapsed_ms(&after), Ok(0.25));
    });
}

#[test]
fn a_malformed_plan_makes_every_call_fail() {
    with_plan(
        "plan::a_malformed_plan_makes_every_call_fail",
        "call = 3",
        || {
            let error = result::init().expect_err("the plan is broken");
            assert_eq!(error.0, CUresult::CUDA_ERROR_OPERATING_SYSTEM);
        },
    );
}

/// Plans that end or stop the child process, observed from the parent.
#[test]
fn a_plan_ends_or_hangs_the_process() {
    const NAME: &str = "plan::a_plan_ends_or_hangs_the_process";
    if env::var_os(CHILD).is_some() {
        // A plan without effect would let the child's test succeed, so the child must not reach this line.
        result::init().expect("the plan strikes before any answer");
        panic!("the plan did not action_for_call");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("plan.toml");
    let run = |action: &str, deadline| {
        fs::write(
            &path,
            format!("[[fault]]\ncall = \"cuInit\"\nnth = 1\ndo = \"{action}\""),
        )
        .expect("writes");
        let path = path.to_str().expect("UTF-8");
        again(NAME, &[("KERNELWRIGHT_FAULT_PLAN", path)], deadline)
    };
    let exited = run("exit", DEADLINE).expect("ends in time");
    assert!(exited.status.success(), "{}", exited.stderr);
    let aborted = run("abort", DEADLINE).expect("ends in time");
    assert_eq!(aborted.status.code(), None, "ended by a signal");
    assert!(run("hang", Duration::from_millis(500)).is_none());
}
