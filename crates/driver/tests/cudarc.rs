//! The library as programs meet it: unmodified cudarc finds `libcuda.so.1` on the library path and goes through
//! whole cycles.
//!
//! A process cannot change its own library path, so each test starts itself again as a child with the path set.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use std::{env, fs, thread};

use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaContext, DriverError, LaunchConfig, PushKernelArg, result, sys};
use cudarc::nvrtc::Ptx;

const PTX: &str = include_str!("ptx/basics.ptx");
/// Tells a child from its parent.
const CHILD: &str = "DRIVER_TEST_CHILD";
/// Far above what any child needs.
const DEADLINE: Duration = Duration::from_secs(60);

/// What a child left behind.
struct Ended {
    status: ExitStatus,
    stderr: String,
}

/// Starts one test of this file again with our library first on the path, and waits for its end.
/// None if it had to be killed.
fn again(test: &str, environment: &[(&str, &str)], deadline: Duration) -> Option<Ended> {
    let program = env::current_exe().expect("a test knows its program");
    let library = program
        .parent()
        .expect("in a folder")
        .join("libkernelwright_driver.so");
    let folder = tempfile::tempdir().expect("a folder");
    link(&library, &folder.path().join("libcuda.so.1"));
    #[expect(
        clippy::disallowed_methods,
        reason = "the test program starts itself, and waits with a deadline"
    )]
    let mut command = Command::new(program);
    command
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env("LD_LIBRARY_PATH", folder.path())
        .env(CHILD, "1")
        .envs(environment.iter().copied())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let child = command.spawn().expect("starts");
    ended(child, deadline)
}

fn link(library: &Path, name: &Path) {
    assert!(library.exists(), "{} was not built", library.display());
    std::os::unix::fs::symlink(library, name).expect("links");
}

/// A child's end shows as the end of its standard error, which only it holds.
fn ended(mut child: Child, deadline: Duration) -> Option<Ended> {
    let mut pipe = child.stderr.take().expect("was asked for");
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut text = String::new();
        // A child that writes no UTF-8 has nothing we look for.
        let _ = pipe.read_to_string(&mut text);
        // Nobody waits any more if the deadline has passed.
        let _ = sender.send(text);
    });
    let stderr = receiver.recv_timeout(deadline).ok();
    if stderr.is_none() {
        child.kill().expect("our own child");
    }
    let status = child.wait().expect("our own child");
    stderr.map(|stderr| Ended { status, stderr })
}

/// Runs the body in a child that has our library; here if this is the child.
fn in_child(test: &str, environment: &[(&str, &str)], body: impl FnOnce()) {
    if env::var_os(CHILD).is_some() {
        body();
        return;
    }
    let ended = again(test, environment, DEADLINE).expect("ends in time");
    assert!(ended.status.success(), "{test}: {}", ended.stderr);
}

/// Doubles and adds on the device through cudarc's safe layer; answers with the result.
fn axpy(context: &std::sync::Arc<CudaContext>) -> Result<Vec<f32>, DriverError> {
    let stream = context.default_stream();
    let module = context.load_module(Ptx::from_src(PTX))?;
    let function = module.load_function("axpy")?;
    let input: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let x = stream.clone_htod(&input)?;
    let mut y = stream.alloc_zeros::<f32>(1000)?;
    let (a, n) = (2.0_f32, 1000_u32);
    let mut launch = stream.launch_builder(&function);
    launch.arg(&x).arg(&mut y).arg(&a).arg(&n);
    // SAFETY: the arguments are the kernel's parameters in order, and the buffers hold 1000 floats.
    unsafe { launch.launch(LaunchConfig::for_num_elems(n)) }?;
    stream.clone_dtoh(&y)
}

#[test]
fn a_whole_cycle_with_the_safe_layer() {
    in_child("a_whole_cycle_with_the_safe_layer", &[], || {
        let context = CudaContext::new(0).expect("a context");
        assert_eq!(context.name().expect("a name"), "Kernelwright emulated L4");
        assert_eq!(context.compute_capability().expect("a capability"), (8, 9));
        let stream = context.new_stream().expect("a stream");
        let timed = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let before = stream.record_event(timed).expect("records");
        let output = axpy(&context).expect("computes");
        let expected: Vec<f32> = (0..1000).map(|i| 2.0 * i as f32).collect();
        assert_eq!(output, expected);
        let after = context
            .default_stream()
            .record_event(timed)
            .expect("records");
        let elapsed = before.elapsed_ms(&after).expect("timed");
        assert!(elapsed > 0.0 && elapsed < 1.0, "{elapsed} ms");
        context.synchronize().expect("nothing went wrong");
        assert_eq!(context.uuid().expect("a uuid").bytes.len(), 16);
    });
}

#[test]
fn another_device_file_is_another_device() {
    let environment = [("KERNELWRIGHT_EMULATED_DEVICE", "h200")];
    in_child(
        "another_device_file_is_another_device",
        &environment,
        || {
            let context = CudaContext::new(0).expect("a context");
            assert_eq!(
                context.name().expect("a name"),
                "Kernelwright emulated H200"
            );
            assert_eq!(context.compute_capability().expect("a capability"), (9, 0));
            let multiprocessors = context
                .attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
                .expect("an attribute");
            assert_eq!(multiprocessors, 132);
        },
    );
}

#[test]
fn an_unknown_device_is_no_device() {
    let environment = [("KERNELWRIGHT_EMULATED_DEVICE", "riva128")];
    in_child("an_unknown_device_is_no_device", &environment, || {
        let error = result::init().expect_err("no such device");
        assert_eq!(error.0, CUresult::CUDA_ERROR_NO_DEVICE);
    });
}

#[test]
fn machine_code_is_refused() {
    in_child("machine_code_is_refused", &[], || {
        let context = CudaContext::new(0).expect("a context");
        let image = Ptx::from_binary(b"\x7fELF\x02\x01\x01 and so on".to_vec());
        let error = context.load_module(image).expect_err("no PTX");
        assert_eq!(error.0, CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
        assert_eq!(
            error.error_name().expect("a name").to_str(),
            Ok("CUDA_ERROR_NO_BINARY_FOR_GPU")
        );
    });
}

/// The extra symbol, as a program that knows the emulator finds it.
fn ask(request: &str, capacity: usize) -> (i32, usize, String) {
    type Emulator = unsafe extern "C" fn(*const u8, usize, *mut u8, usize, *mut usize) -> i32;
    // SAFETY: the library is on the path, and the symbol has this signature.
    unsafe {
        let library = sys::culib();
        let emulator = library
            .get::<Emulator>(b"kernelwrightEmulator")
            .expect("the symbol");
        let mut reply = vec![0; capacity];
        let mut needed = 0;
        let code = emulator(
            request.as_ptr(),
            request.len(),
            reply.as_mut_ptr(),
            capacity,
            &raw mut needed,
        );
        reply.truncate(needed);
        (code, needed, String::from_utf8_lossy(&reply).into_owned())
    }
}

#[test]
fn the_extra_symbol_answers_and_loses_nothing() {
    in_child("the_extra_symbol_answers_and_loses_nothing", &[], || {
        let context = CudaContext::new(0).expect("a context");
        axpy(&context).expect("computes");
        let take = r#"{"do":"take"}"#;
        let (code, needed, _) = ask(take, 4);
        assert_eq!(code, 1);
        let (code, _, reply) = ask(take, needed);
        assert_eq!(code, 0);
        assert_eq!(reply.len(), needed);
        assert!(reply.contains(r#""kernel":"axpy""#), "{reply}");
        assert!(reply.contains(r#""modelled":{"device":"l4""#), "{reply}");
        let (code, _, reply) = ask("{}", 1000);
        assert_eq!(code, 2);
        assert!(reply.starts_with(r#"{"error":"#), "{reply}");
    });
}

/// What one strike does: the plan's rule, and what the child finds.
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
    with_plan("a_plan_makes_a_call_fail", rule, || {
        let context = CudaContext::new(0).expect("a context");
        axpy(&context).expect("the first download is fine");
        let error = axpy(&context).expect_err("the second is not");
        assert_eq!(error.0, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    });
}

#[test]
fn a_plan_corrupts_a_download() {
    let rule = "call = \"cuMemcpyDtoHAsync_v2\"\nnth = \"every\"\ndo = { corrupt = { bytes = 1 } }";
    with_plan("a_plan_corrupts_a_download", rule, || {
        let context = CudaContext::new(0).expect("a context");
        let output = axpy(&context).expect("computes");
        assert_ne!(output[0], 0.0);
        assert_eq!(output[1..3], [2.0, 4.0]);
    });
}

#[test]
fn a_plan_lies_about_time() {
    let rule = "call = \"cuEventElapsedTime_v2\"\nnth = \"every\"\ndo = { elapsed_ms = 0.25 }";
    with_plan("a_plan_lies_about_time", rule, || {
        let context = CudaContext::new(0).expect("a context");
        let timed = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let stream = context.default_stream();
        let before = stream.record_event(timed).expect("records");
        let after = stream.record_event(timed).expect("records");
        assert_eq!(before.elapsed_ms(&after), Ok(0.25));
    });
}

#[test]
fn a_broken_plan_stops_everything() {
    with_plan("a_broken_plan_stops_everything", "call = 3", || {
        let error = result::init().expect_err("the plan is broken");
        assert_eq!(error.0, CUresult::CUDA_ERROR_OPERATING_SYSTEM);
    });
}

/// The ways a plan ends or stops the child: observed from outside.
#[test]
fn a_plan_ends_or_hangs_the_process() {
    const NAME: &str = "a_plan_ends_or_hangs_the_process";
    if env::var_os(CHILD).is_some() {
        // A plan that does nothing would let this test of the child succeed, so it must not get here.
        result::init().expect("the plan strikes before any answer");
        panic!("the plan did not strike");
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
