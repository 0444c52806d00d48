//! Tests of cudarc's safe layer: contexts, streams, modules, launches, downloads.

use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaContext, result, sys};
use cudarc::nvrtc::Ptx;

use crate::axpy;
use crate::child::in_child;

#[test]
fn a_whole_cycle_with_the_safe_layer() {
    in_child("safe::a_whole_cycle_with_the_safe_layer", &[], || {
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
fn the_device_variable_selects_the_device() {
    let environment = [("KERNELWRIGHT_EMULATED_DEVICE", "h200")];
    in_child(
        "safe::the_device_variable_selects_the_device",
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
fn an_unknown_device_is_reported_as_no_device() {
    let environment = [("KERNELWRIGHT_EMULATED_DEVICE", "riva128")];
    in_child(
        "safe::an_unknown_device_is_reported_as_no_device",
        &environment,
        || {
            let error = result::init().expect_err("no such device");
            assert_eq!(error.0, CUresult::CUDA_ERROR_NO_DEVICE);
        },
    );
}

#[test]
fn machine_code_is_refused() {
    in_child("safe::machine_code_is_refused", &[], || {
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

/// Calls the emulator's symbol, as a program that knows the emulator finds it.
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
fn the_emulator_symbol_answers_and_loses_no_launch() {
    in_child(
        "safe::the_emulator_symbol_answers_and_loses_no_launch",
        &[],
        || {
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
        },
    );
}
