//! Events.

use crate::code::Code;
use crate::handle::EventHandle;
use crate::state::EventFlags;

use super::entries;
use super::pointer::{Host, Out};
use super::stream::{EXTERNAL, named};

entries! {
    /// Creates an event.
    fn cuEventCreate(event: Out<u64>, flags: u32) |driver| {
        let event = event.required()?;
        event.set(driver.create_event(EventFlags::from_bits(flags)?)?.0)
    }

    /// Records an event.
    fn cuEventRecord(event: Host, stream: Host) |driver| {
        driver.record_event(EventHandle(event.address()), named(stream))
    }

    /// Records an event. The only flag is for stream capture and is invalid outside of a capture.
    fn cuEventRecordWithFlags(event: Host, stream: Host, flags: u32) |driver| {
        let (event, stream) = (EventHandle(event.address()), named(stream));
        driver.check_stream(stream)?;
        match flags {
            0 => driver.record_event(event, stream),
            EXTERNAL => driver.capture_record(stream, event),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    /// Waits for an event.
    fn cuEventSynchronize(event: Host) |driver| {
        driver.synchronise_event(EventHandle(event.address()))
    }

    /// Reports whether an event is complete: it always is, unless a kernel's fault is pending.
    fn cuEventQuery(event: Host) |driver| {
        driver.synchronise_event(EventHandle(event.address()))
    }

    /// Destroys an event.
    fn cuEventDestroy_v2(event: Host) |driver| {
        driver.destroy_event(EventHandle(event.address()))
    }

    /// Modelled milliseconds between two events.
    fn cuEventElapsedTime(milliseconds: Out<f32>, start: Host, end: Host) |driver| {
        let milliseconds = milliseconds.required()?;
        milliseconds.set(driver.elapsed(EventHandle(start.address()), EventHandle(end.address()))?)
    }

    /// Modelled milliseconds between two events.
    fn cuEventElapsedTime_v2(milliseconds: Out<f32>, start: Host, end: Host) |driver| {
        let milliseconds = milliseconds.required()?;
        milliseconds.set(driver.elapsed(EventHandle(start.address()), EventHandle(end.address()))?)
    }
}
