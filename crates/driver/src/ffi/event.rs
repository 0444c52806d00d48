//! Events.

use crate::code::Code;
use crate::handle::EventHandle;
use crate::state::EventFlags;

use super::entries;
use super::pointer::{Host, Out};
use super::stream::named;

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

    /// Records an event. The one flag belongs to stream capture and is invalid outside of it.
    fn cuEventRecordWithFlags(event: Host, stream: Host, flags: u32) |driver| {
        driver.check_stream(named(stream))?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        driver.record_event(EventHandle(event.address()), named(stream))
    }

    /// Waits for an event.
    fn cuEventSynchronize(event: Host) |driver| {
        driver.synchronise_event(EventHandle(event.address()))
    }

    /// Whether an event is done: it always is, unless a fault waits.
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
