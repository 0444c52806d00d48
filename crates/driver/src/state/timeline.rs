//! Streams, events and their modelled clocks.
//!
//! Times are modelled microseconds since the driver's start. Each stream has a clock that enqueued work advances. An
//! event copies a clock. The host's clock advances when the host waits, so that work that is enqueued after a wait
//! starts after it. Real time has no effect.

use std::collections::{BTreeMap, HashMap};
use std::thread::ThreadId;

use crate::code::Code;
use crate::fault::Tamper;
use crate::handle::{ContextHandle, EventHandle, NodeHandle, StreamHandle};

use super::{Driver, Work};

/// The flag of a stream that does not synchronise with the legacy default stream.
const STREAM_NON_BLOCKING: u32 = 1;
/// Highest priority (lowest number) and lowest priority of a stream.
const PRIORITIES: (i32, i32) = (-5, 0);

#[derive(Debug, Default)]
pub(super) struct Timeline {
    streams: BTreeMap<StreamHandle, Stream>,
    legacy: f64,
    per_thread: HashMap<ThreadId, f64>,
    host: f64,
}

#[derive(Debug)]
struct Stream {
    context: ContextHandle,
    flags: u32,
    priority: i32,
    clock: f64,
}

/// Flags of an event as the API numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventFlags(u32);

impl EventFlags {
    const BLOCKING_SYNC: u32 = 1;
    const DISABLE_TIMING: u32 = 2;

    /// Checks the flags of a call.
    ///
    /// # Errors
    /// For an unknown flag; and for events shared between processes, which this driver does not have.
    pub fn from_bits(bits: u32) -> Result<Self, Code> {
        match bits {
            bits if bits & !(Self::BLOCKING_SYNC | Self::DISABLE_TIMING) == 0 => Ok(Self(bits)),
            4..8 => Err(Code::NOT_SUPPORTED),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn timed(self) -> bool {
        self.0 & Self::DISABLE_TIMING == 0
    }
}

#[derive(Debug)]
pub(super) struct Event {
    pub(super) context: ContextHandle,
    flags: EventFlags,
    /// Modelled time of the last record.
    pub(super) recorded: Option<f64>,
    /// The capture that the last record was part of, and the dependencies that the event stands for.
    pub(super) captured: Option<(u64, Vec<NodeHandle>)>,
}

impl Timeline {
    pub(super) fn context_of(&self, stream: StreamHandle) -> Option<ContextHandle> {
        self.streams.get(&stream).map(|stream| stream.context)
    }

    /// Returns true if the legacy stream waits for this one.
    pub(super) fn is_blocking(&self, stream: StreamHandle) -> bool {
        self.streams
            .get(&stream)
            .is_none_or(|stream| stream.flags & STREAM_NON_BLOCKING == 0)
    }

    #[cfg(test)]
    pub(super) fn stream_count(&self) -> usize {
        self.streams.len()
    }

    pub(super) fn drop_streams_of(&mut self, context: ContextHandle) {
        self.streams.retain(|_, stream| stream.context != context);
    }

    /// The time at which work starts that is enqueued on this stream now.
    fn start(&self, thread: ThreadId, stream: StreamHandle) -> f64 {
        let own = match stream {
            StreamHandle::LEGACY | StreamHandle::LEGACY_NAMED => self
                .streams
                .values()
                .filter(|stream| stream.flags & STREAM_NON_BLOCKING == 0)
                .map(|stream| stream.clock)
                .chain(self.per_thread.values().copied())
                .fold(self.legacy, f64::max),
            StreamHandle::PER_THREAD => self
                .per_thread
                .get(&thread)
                .copied()
                .unwrap_or_default()
                .max(self.legacy),
            _ => self.streams.get(&stream).map_or(0.0, |stream| {
                if stream.flags & STREAM_NON_BLOCKING == 0 {
                    stream.clock.max(self.legacy)
                } else {
                    stream.clock
                }
            }),
        };
        own.max(self.host)
    }

    fn clock(&mut self, thread: ThreadId, stream: StreamHandle) -> &mut f64 {
        match stream {
            StreamHandle::PER_THREAD => self.per_thread.entry(thread).or_default(),
            _ => match self.streams.get_mut(&stream) {
                Some(stream) => &mut stream.clock,
                None => &mut self.legacy,
            },
        }
    }

    fn host_waits_until(&mut self, moment: f64) {
        self.host = self.host.max(moment);
    }

    pub(super) fn host_waits_for_all(&mut self) {
        let latest = self
            .streams
            .values()
            .map(|stream| stream.clock)
            .chain(self.per_thread.values().copied())
            .fold(self.legacy, f64::max);
        self.host_waits_until(latest);
    }
}

impl Driver {
    /// Advances a stream's clock by the modelled duration of work that is enqueued on it.
    pub(super) fn spend(&mut self, stream: StreamHandle, microseconds: f64) {
        let end = self.timeline.start(self.thread, stream) + microseconds;
        *self.timeline.clock(self.thread, stream) = end;
    }

    /// The time at which work starts that is enqueued on a stream now.
    pub(super) fn moment(&self, stream: StreamHandle) -> f64 {
        self.timeline.start(self.thread, stream)
    }

    /// Sets a stream's clock.
    pub(super) fn set_moment(&mut self, stream: StreamHandle, moment: f64) {
        *self.timeline.clock(self.thread, stream) = moment;
    }

    /// Creates a stream.
    ///
    /// # Errors
    /// Without a context, or for unknown flags.
    pub fn create_stream(&mut self, flags: u32, priority: i32) -> Result<StreamHandle, Code> {
        let context = self.usable_context()?;
        if flags & !STREAM_NON_BLOCKING != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let handle = StreamHandle::nth(self.next_serial());
        self.timeline.streams.insert(
            handle,
            Stream {
                context,
                flags,
                priority: priority.clamp(PRIORITIES.0, PRIORITIES.1),
                clock: 0.0,
            },
        );
        Ok(handle)
    }

    /// Destroys a stream.
    ///
    /// # Errors
    /// When the handle is stale, or names a default stream.
    pub fn destroy_stream(&mut self, stream: StreamHandle) -> Result<(), Code> {
        self.usable_context()?;
        match self.timeline.streams.remove(&stream) {
            Some(_) => {
                self.forget_captured(stream);
                Ok(())
            }
            None => Err(Code::INVALID_HANDLE),
        }
    }

    /// Checks a stream handle of a call.
    ///
    /// # Errors
    /// When it is stale or of another context.
    pub fn check_stream(&self, stream: StreamHandle) -> Result<ContextHandle, Code> {
        let context = self.usable_context()?;
        self.known_stream(context, stream)?;
        Ok(context)
    }

    /// Flags and priority of a stream.
    ///
    /// # Errors
    /// When the handle is stale or of another context.
    pub fn stream_properties(&self, stream: StreamHandle) -> Result<(u32, i32), Code> {
        self.check_stream(stream)?;
        Ok(self
            .timeline
            .streams
            .get(&stream)
            .map_or((0, 0), |stream| (stream.flags, stream.priority)))
    }

    /// Lowest and highest priority a stream can have.
    ///
    /// # Errors
    /// Without a context.
    pub fn stream_priorities(&self) -> Result<(i32, i32), Code> {
        self.usable_context()?;
        Ok((PRIORITIES.1, PRIORITIES.0))
    }

    /// Waits for a stream's work.
    ///
    /// # Errors
    /// When the handle is invalid or the stream is captured; a kernel's fault is reported here.
    pub fn synchronise_stream(&mut self, stream: StreamHandle) -> Result<(), Code> {
        self.check_waitable(stream)?;
        self.check_synchronising_call()?;
        self.host_waits_for(stream);
        Ok(())
    }

    /// Moves the host's clock to the end of a stream's work.
    pub(super) fn host_waits_for(&mut self, stream: StreamHandle) {
        let end = self.timeline.start(self.thread, stream);
        self.timeline.host_waits_until(end);
    }

    /// Makes later work of a stream wait for an event. Waiting for an event that was recorded in a capture adds the
    /// stream to the capture.
    ///
    /// # Errors
    /// When a handle is invalid, or the dependency would connect captured work with work that is not captured.
    pub fn wait_for_event(&mut self, stream: StreamHandle, event: EventHandle) -> Result<(), Code> {
        self.check_stream(stream)?;
        let recorded = self.event(event)?.recorded;
        if self.wait_captured(stream, event)? {
            return Ok(());
        }
        if let Some(moment) = recorded {
            let clock = self.timeline.clock(self.thread, stream);
            *clock = clock.max(moment);
        }
        Ok(())
    }

    /// Captures a wait for an event as a separate node, which is executed at each launch.
    ///
    /// # Errors
    /// When a handle is stale, or the stream is not being captured.
    pub fn capture_wait(&mut self, stream: StreamHandle, event: EventHandle) -> Result<(), Code> {
        self.captured_only(stream, event, Work::Wait(event))
    }

    /// Captures the recording of an event as a separate node, as [`Self::capture_wait`].
    ///
    /// # Errors
    /// When a handle is stale, or the stream is not being captured.
    pub fn capture_record(&mut self, stream: StreamHandle, event: EventHandle) -> Result<(), Code> {
        self.captured_only(stream, event, Work::Record(event))
    }

    fn captured_only(
        &mut self,
        stream: StreamHandle,
        event: EventHandle,
        work: Work,
    ) -> Result<(), Code> {
        self.check_stream(stream)?;
        self.check_event(event)?;
        if self.captured(stream, || work)? {
            Ok(())
        } else {
            Err(Code::INVALID_VALUE)
        }
    }

    /// Checks that a handle is an event.
    ///
    /// # Errors
    /// When it is not.
    pub fn check_event(&self, event: EventHandle) -> Result<(), Code> {
        self.usable_context()?;
        self.event(event).map(|_| ())
    }

    /// Creates an event.
    ///
    /// # Errors
    /// Without a context.
    pub fn create_event(&mut self, flags: EventFlags) -> Result<EventHandle, Code> {
        let context = self.usable_context()?;
        let handle = EventHandle::nth(self.next_serial());
        self.events.insert(
            handle,
            Event {
                context,
                flags,
                recorded: None,
                captured: None,
            },
        );
        Ok(handle)
    }

    /// Destroys an event.
    ///
    /// # Errors
    /// When the handle is stale.
    pub fn destroy_event(&mut self, event: EventHandle) -> Result<(), Code> {
        self.usable_context()?;
        match self.events.remove(&event) {
            Some(_) => Ok(()),
            None => Err(Code::INVALID_HANDLE),
        }
    }

    /// Records the stream's modelled time in an event.
    ///
    /// # Errors
    /// When a handle is stale, or event and stream are of different contexts.
    pub fn record_event(&mut self, event: EventHandle, stream: StreamHandle) -> Result<(), Code> {
        let context = self.check_stream(stream)?;
        if self.event(event)?.context != context {
            return Err(Code::INVALID_HANDLE);
        }
        let captured = self
            .route(stream)?
            .map(|stream_key| self.captured_dependencies(stream_key));
        let moment = self.timeline.start(self.thread, stream);
        if let Some(event) = self.events.get_mut(&event) {
            event.recorded = captured.is_none().then_some(moment);
            event.captured = captured;
        }
        Ok(())
    }

    /// Waits for an event. For an event that was never recorded this does nothing.
    ///
    /// # Errors
    /// When the handle is stale; a kernel's fault is reported here.
    pub fn synchronise_event(&mut self, event: EventHandle) -> Result<(), Code> {
        self.usable_context()?;
        let recorded = self.event(event)?.recorded;
        self.check_not_captured(event)?;
        self.check_synchronising_call()?;
        self.timeline.host_waits_until(recorded.unwrap_or_default());
        Ok(())
    }

    /// Modelled time between two recorded events in milliseconds.
    ///
    /// # Errors
    /// When a handle is stale, or an event was never recorded or has no timing.
    pub fn elapsed(&mut self, start: EventHandle, end: EventHandle) -> Result<f32, Code> {
        self.usable_context()?;
        let moment = |event: &Event| {
            event
                .recorded
                .filter(|_| event.flags.timed())
                .ok_or(Code::INVALID_HANDLE)
        };
        for event in [start, end] {
            self.event(event)?;
            self.check_not_captured(event)?;
        }
        let start = moment(self.event(start)?)?;
        let end = moment(self.event(end)?)?;
        self.report_pending_fault()?;
        match self.tamper.take() {
            Some(Tamper::ElapsedMilliseconds(lie)) => Ok(lie),
            _ => Ok(((end - start) * 1e-3) as f32),
        }
    }

    fn event(&self, handle: EventHandle) -> Result<&Event, Code> {
        self.events.get(&handle).ok_or(Code::INVALID_HANDLE)
    }
}
