//! Misuse of captures, and calls that captures refuse.

use std::ptr::null_mut;

use cudarc::driver::CudaContext;
use cudarc::driver::sys::{self, CUresult, CUstream};

use crate::child::in_child;

use super::{GLOBAL, RELAXED, SUCCESS, buffer, event, stream};

/// Calls that a capture refuses, their errors, and the end of the capture.
#[test]
fn a_misused_capture_gets_the_documented_errors() {
    in_child(
        "graphs::capture::a_misused_capture_gets_the_documented_errors",
        &[],
        || {
            let _context = CudaContext::new(0).expect("a context");
            let memory = buffer();
            let (one, two) = (stream(1), stream(1));
            let (first, second) = (event(), event());
            let mut graph = null_mut();
            let begin = |stream, mode| ok!(sys::cuStreamBeginCapture_v2(stream, mode));

            refused!(
                sys::cuStreamEndCapture(one, &raw mut graph),
                CUDA_ERROR_ILLEGAL_STATE
            );
            begin(one, RELAXED);
            refused!(
                sys::cuStreamBeginCapture_v2(one, RELAXED),
                CUDA_ERROR_ILLEGAL_STATE
            );
            refused!(
                sys::cuStreamSynchronize(one),
                CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
            );
            let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
            ok!(sys::cuStreamIsCapturing(one, &raw mut status));
            assert_eq!(
                status,
                sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_INVALIDATED
            );
            refused!(
                sys::cuMemsetD8Async(memory, 0, 4, one),
                CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
            );
            refused!(
                sys::cuStreamEndCapture(one, &raw mut graph),
                CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
            );
            assert!(graph.is_null());
            ok!(sys::cuStreamSynchronize(one));

            // Queries whose results are unknown until the capture ends.
            for ask in [
                // SAFETY: it takes nothing.
                (|_| unsafe { sys::cuCtxSynchronize() }) as fn(CUstream) -> CUresult,
                // SAFETY: the stream is alive.
                |stream| unsafe { sys::cuStreamQuery(stream) },
            ] {
                begin(one, RELAXED);
                assert_eq!(ask(one), CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
                refused!(
                    sys::cuStreamEndCapture(one, &raw mut graph),
                    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                );
            }
            begin(one, RELAXED);
            ok!(sys::cuEventRecord(first, one));
            refused!(sys::cuEventQuery(first), CUDA_ERROR_CAPTURED_EVENT);
            refused!(
                sys::cuStreamEndCapture(one, &raw mut graph),
                CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
            );

            // A stream that joined cannot end the capture, and must be joined back.
            begin(one, RELAXED);
            ok!(sys::cuEventRecord(first, one));
            ok!(sys::cuStreamWaitEvent(two, first, 0));
            ok!(sys::cuMemsetD8Async(memory, 0, 4, two));
            refused!(
                sys::cuStreamEndCapture(one, &raw mut graph),
                CUDA_ERROR_STREAM_CAPTURE_UNJOINED
            );
            begin(one, RELAXED);
            ok!(sys::cuEventRecord(first, one));
            ok!(sys::cuStreamWaitEvent(two, first, 0));
            refused!(
                sys::cuStreamEndCapture(two, &raw mut graph),
                CUDA_ERROR_STREAM_CAPTURE_UNMATCHED
            );
            refused!(
                sys::cuStreamEndCapture(one, &raw mut graph),
                CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
            );

            // Two captures cannot be merged, and work outside a capture cannot be waited for.
            begin(one, RELAXED);
            begin(two, RELAXED);
            ok!(sys::cuEventRecord(first, one));
            refused!(
                sys::cuStreamWaitEvent(two, first, 0),
                CUDA_ERROR_STREAM_CAPTURE_MERGE
            );
            for stream in [one, two] {
                refused!(
                    sys::cuStreamEndCapture(stream, &raw mut graph),
                    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                );
            }
            ok!(sys::cuEventRecord(second, two));
            begin(one, RELAXED);
            refused!(
                sys::cuStreamWaitEvent(one, second, 0),
                CUDA_ERROR_STREAM_CAPTURE_ISOLATION
            );
            refused!(
                sys::cuStreamEndCapture(one, &raw mut graph),
                CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
            );

            // The legacy stream waits for blocking streams.
            let blocking = stream(0);
            begin(blocking, RELAXED);
            refused!(
                sys::cuStreamIsCapturing(null_mut(), &raw mut status),
                CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
            );
            refused!(
                sys::cuMemsetD8_v2(memory, 0, 4),
                CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
            );
            refused!(
                sys::cuStreamEndCapture(blocking, &raw mut graph),
                CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
            );
        },
    );
}

/// Calls that a capture cannot record are refused depending on the modes of the capture and of the thread.
#[test]
fn capture_modes_decide_which_calls_are_refused() {
    in_child(
        "graphs::capture::capture_modes_decide_which_calls_are_refused",
        &[],
        || {
            let context = CudaContext::new(0).expect("a context");
            let (one, mut graph, mut address) = (stream(1), null_mut(), 0);
            ok!(sys::cuStreamBeginCapture_v2(one, RELAXED));
            ok!(sys::cuMemAlloc_v2(&raw mut address, 16));
            ok!(sys::cuStreamEndCapture(one, &raw mut graph));

            ok!(sys::cuStreamBeginCapture_v2(one, GLOBAL));
            let mut mode = RELAXED;
            ok!(sys::cuThreadExchangeStreamCaptureMode(&raw mut mode));
            assert_eq!(mode, GLOBAL, "what it was");
            ok!(sys::cuMemAlloc_v2(&raw mut address, 16));
            ok!(sys::cuThreadExchangeStreamCaptureMode(&raw mut mode));
            assert_eq!(mode, RELAXED);
            let number = one as usize;
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    context.bind_to_thread().expect("a context");
                    let (mut address, mut graph) = (0, null_mut());
                    refused!(
                        sys::cuStreamEndCapture(number as CUstream, &raw mut graph),
                        CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD
                    );
                    refused!(
                        sys::cuMemAlloc_v2(&raw mut address, 16),
                        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                    );
                });
            });
            refused!(
                sys::cuStreamEndCapture(one, &raw mut graph),
                CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
            );
            ok!(sys::cuMemAlloc_v2(&raw mut address, 16));
        },
    );
}
