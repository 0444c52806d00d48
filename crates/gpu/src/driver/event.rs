//! Device time between two points of the stream.

use std::ptr;

use cudarc::driver::{result, sys};

use super::{DriverError, accepted, checked, missing, symbol};

/// Two events around some work.
#[derive(Debug)]
pub struct Stopwatch {
    start: Event,
    stop: Event,
}

#[derive(Debug)]
struct Event(sys::CUevent);

impl Stopwatch {
    /// Starts measuring behind everything launched so far.
    ///
    /// # Errors
    /// The driver's error.
    pub fn start() -> Result<Self, DriverError> {
        let watch = Self {
            start: Event::new()?,
            stop: Event::new()?,
        };
        watch.start.record()?;
        Ok(watch)
    }

    /// Marks the end behind everything launched so far, waits for it, and gives the time
    /// between the marks in microseconds.
    ///
    /// # Errors
    /// The driver's error, which may be the error of the work itself.
    pub fn stop(self) -> Result<f64, DriverError> {
        type Elapsed = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> u32;
        self.stop.record()?;
        // SAFETY: the event is alive until `self` goes.
        let waited = unsafe { result::event::synchronize(self.stop.0) };
        checked("cuEventSynchronize", waited)?;
        // Drivers under 570 lack the second generation.
        let (call, elapsed) = symbol::<Elapsed>("cuEventElapsedTime_v2")
            .or_else(|| symbol::<Elapsed>("cuEventElapsedTime"))
            .ok_or_else(|| missing("cuEventElapsedTime"))?;
        let mut milliseconds = 0.0;
        // SAFETY: `Elapsed` is the function's type in NVIDIA's header; both events are alive,
        // and the pointer is valid for a write.
        let code = unsafe { elapsed(&raw mut milliseconds, self.start.0, self.stop.0) };
        accepted(call, code)?;
        Ok(f64::from(milliseconds) * 1e3)
    }
}

impl Event {
    fn new() -> Result<Self, DriverError> {
        let flags = sys::CUevent_flags::CU_EVENT_DEFAULT;
        checked("cuEventCreate", result::event::create(flags)).map(Self)
    }

    fn record(&self) -> Result<(), DriverError> {
        // SAFETY: the event is alive, and the null stream is the context's own.
        let recorded = unsafe { result::event::record(self.0, ptr::null_mut()) };
        checked("cuEventRecord", recorded)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event is alive and used by nobody afterwards. A refusal means that the
        // context is broken, which takes the event with it.
        let _ = unsafe { result::event::destroy(self.0) };
    }
}
