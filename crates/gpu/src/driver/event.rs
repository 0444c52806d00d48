//! Device time between two points of a stream.

use std::ptr;

use cudarc::driver::{result, sys};

use super::{DriverError, check_code, checked, symbol, unsupported_error};

/// Two events around some work.
#[derive(Debug)]
pub struct Stopwatch {
    start: Event,
    stop: Event,
}

#[derive(Debug)]
struct Event(sys::CUevent);

impl Stopwatch {
    /// Records the start after everything launched so far.
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

    /// Records the end after everything launched so far, waits for it, and returns the time between the two events in
    /// microseconds.
    ///
    /// # Errors
    /// The driver's error, which may be the error of the work itself.
    pub fn stop(self) -> Result<f64, DriverError> {
        type Elapsed = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> u32;
        self.stop.record()?;
        // SAFETY: the event exists until `self` is dropped.
        let waited = unsafe { result::event::synchronize(self.stop.0) };
        checked("cuEventSynchronize", waited)?;
        // Drivers before 570 lack the second version.
        let (call, elapsed) = symbol::<Elapsed>("cuEventElapsedTime_v2")
            .or_else(|| symbol::<Elapsed>("cuEventElapsedTime"))
            .ok_or_else(|| unsupported_error("cuEventElapsedTime"))?;
        let mut milliseconds = 0.0;
        // SAFETY: `Elapsed` is the function's type in NVIDIA's header; both events exist, and the pointer is valid
        // for a write.
        let code = unsafe { elapsed(&raw mut milliseconds, self.start.0, self.stop.0) };
        check_code(call, code)?;
        Ok(f64::from(milliseconds) * 1e3)
    }
}

impl Event {
    fn new() -> Result<Self, DriverError> {
        let flags = sys::CUevent_flags::CU_EVENT_DEFAULT;
        checked("cuEventCreate", result::event::create(flags)).map(Self)
    }

    fn record(&self) -> Result<(), DriverError> {
        // SAFETY: the event exists, and the null stream is the context's own.
        let recorded = unsafe { result::event::record(self.0, ptr::null_mut()) };
        checked("cuEventRecord", recorded)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event exists and is not used afterwards. A refusal means that the context is broken; the event
        // is then destroyed with it.
        let _ = unsafe { result::event::destroy(self.0) };
    }
}
