//! Streams.

use std::ffi::c_void;

use crate::code::Code;
use crate::handle::{EventHandle, StreamHandle};

use super::entries;
use super::pointer::{Host, Out};

/// A function the host runs in stream order.
pub type HostFunction = Option<unsafe extern "C" fn(*mut c_void)>;

/// The stream a caller names.
pub fn named(stream: Host) -> StreamHandle {
    StreamHandle(stream.address())
}

entries! {
    /// Creates a stream.
    fn cuStreamCreate(stream: Out<u64>, flags: u32) |driver| {
        let stream = stream.required()?;
        stream.set(driver.create_stream(flags, 0)?.0)
    }

    /// Creates a stream with a priority.
    fn cuStreamCreateWithPriority(stream: Out<u64>, flags: u32, priority: i32) |driver| {
        let stream = stream.required()?;
        stream.set(driver.create_stream(flags, priority)?.0)
    }

    /// Destroys a stream.
    fn cuStreamDestroy_v2(stream: Host) |driver| { driver.destroy_stream(named(stream)) }

    /// Waits for a stream.
    fn cuStreamSynchronize(stream: Host) |driver| { driver.synchronise_stream(named(stream)) }

    /// Whether a stream's work is done: it always is, unless a fault waits.
    fn cuStreamQuery(stream: Host) |driver| { driver.synchronise_stream(named(stream)) }

    /// Makes a stream wait for an event.
    fn cuStreamWaitEvent(stream: Host, event: Host, flags: u32) |driver| {
        driver.wait_for_event(named(stream), EventHandle(event.address()), flags)
    }

    /// A stream's flags.
    fn cuStreamGetFlags(stream: Host, flags: Out<u32>) |driver| {
        flags.set(driver.stream_properties(named(stream))?.0)
    }

    /// A stream's priority.
    fn cuStreamGetPriority(stream: Host, priority: Out<i32>) |driver| {
        priority.set(driver.stream_properties(named(stream))?.1)
    }

    /// A stream's context.
    fn cuStreamGetCtx(stream: Host, context: Out<u64>) |driver| {
        context.set(driver.check_stream(named(stream))?.0)
    }

    /// A stream's number.
    fn cuStreamGetId(stream: Host, id: Out<u64>) |driver| {
        driver.check_stream(named(stream))?;
        id.set(stream.address() & 0xffff_ffff)
    }

    /// Whether a stream records a graph: graphs are not supported, so never.
    fn cuStreamIsCapturing(stream: Host, status: Out<u32>) |driver| {
        driver.check_stream(named(stream))?;
        status.set(0)
    }

    /// The capture a stream takes part in: none, so that there is nothing more to say.
    fn cuStreamGetCaptureInfo_v2(stream: Host, status: Out<u32>, _id: Host, _graph: Host, _dependencies: Host, _count: Host) |driver| {
        driver.check_stream(named(stream))?;
        status.set(0)
    }

    /// As before, with what lies between the dependencies.
    fn cuStreamGetCaptureInfo_v3(stream: Host, status: Out<u32>, _id: Host, _graph: Host, _dependencies: Host, _edges: Host, _count: Host) |driver| {
        driver.check_stream(named(stream))?;
        status.set(0)
    }

    /// Graphs are not supported.
    fn cuStreamBeginCapture_v2(stream: Host, _mode: u32) |driver| {
        driver.check_stream(named(stream))?;
        Err(Code::NOT_SUPPORTED)
    }

    /// Graphs are not supported.
    fn cuStreamEndCapture(stream: Host, graph: Out<u64>) |driver| {
        driver.check_stream(named(stream))?;
        graph.offer(0);
        Err(Code::ILLEGAL_STATE)
    }
}

/// Runs a function of the host once the stream's earlier work is done, which it is.
#[unsafe(no_mangle)]
pub extern "C" fn cuLaunchHostFunc(stream: Host, function: HostFunction, data: *mut c_void) -> u32 {
    let checked = super::process::call("cuLaunchHostFunc", |driver| {
        driver.check_stream(named(stream))?;
        function.map(|_| ()).ok_or(Code::INVALID_VALUE)
    });
    // Outside the driver's lock: the function may wait for another thread that calls the driver.
    if let (0, Some(function)) = (checked, function) {
        // SAFETY: the caller gave the function to be called with this pointer.
        unsafe { function(data) };
    }
    checked
}
