//! Streams.

use std::ffi::c_void;

use crate::code::Code;
use crate::handle::{EventHandle, StreamHandle};
use crate::state::{HostWork, Work};

use super::entries;
use super::pointer::{Host, Out};

/// The flag that makes a wait for an event, or its recording, a node of the captured graph.
pub const EXTERNAL: u32 = 1;

/// A host function that runs in stream order.
pub type HostFunction = Option<unsafe extern "C" fn(*mut c_void)>;

/// The stream with a caller's handle.
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

    /// Reports whether a stream's work is complete: it always is, unless a kernel's fault is pending.
    fn cuStreamQuery(stream: Host) |driver| { driver.synchronise_stream(named(stream)) }

    /// Makes a stream wait for an event.
    fn cuStreamWaitEvent(stream: Host, event: Host, flags: u32) |driver| {
        let (event, stream) = (EventHandle(event.address()), named(stream));
        driver.check_stream(stream)?;
        match flags {
            0 => driver.wait_for_event(stream, event),
            EXTERNAL => driver.capture_wait(stream, event),
            _ => Err(Code::INVALID_VALUE),
        }
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

    /// A stream's identifier.
    fn cuStreamGetId(stream: Host, id: Out<u64>) |driver| {
        driver.check_stream(named(stream))?;
        id.set(stream.address() & 0xffff_ffff)
    }
}

/// Runs a host function after the stream's earlier work, which is complete already.
#[unsafe(no_mangle)]
pub extern "C" fn cuLaunchHostFunc(stream: Host, function: HostFunction, data: *mut c_void) -> u32 {
    let mut captured = false;
    let checked = super::process::call("cuLaunchHostFunc", |driver| {
        driver.check_stream(named(stream))?;
        let function = function.ok_or(Code::INVALID_VALUE)?;
        captured = driver.captured(named(stream), || {
            Work::Host(HostWork {
                function: function as usize as u64,
                data: data.expose_provenance() as u64,
            })
        })?;
        Ok(())
    });
    // Called without the driver's lock, because the function may wait for another thread that calls the driver.
    if let (0, false, Some(function)) = (checked, captured, function) {
        // SAFETY: the caller passed the function to be called with this pointer.
        unsafe { function(data) };
    }
    checked
}
