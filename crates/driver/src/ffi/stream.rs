//! Streams.

use std::ffi::c_void;

use crate::code::Code;
use crate::handle::{EventHandle, StreamHandle};
use crate::state::{HostWork, Work};

use super::entries;
use super::pointer::{Host, Out};

/// The flag that makes waiting for an event, or recording one, a node of a captured graph.
pub const EXTERNAL: u32 = 1;

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

    /// A stream's number.
    fn cuStreamGetId(stream: Host, id: Out<u64>) |driver| {
        driver.check_stream(named(stream))?;
        id.set(stream.address() & 0xffff_ffff)
    }
}

/// Runs a function of the host once the stream's earlier work is done, which it is.
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
    // Outside the driver's lock: the function may wait for another thread that calls the driver.
    if let (0, false, Some(function)) = (checked, captured, function) {
        // SAFETY: the caller gave the function to be called with this pointer.
        unsafe { function(data) };
    }
    checked
}
