//! Doing what nodes say.

use crate::code::Code;
use crate::ffi::memory;
use crate::ffi::process;
use crate::ffi::stream::HostFunction;
use crate::handle::StreamHandle;
use crate::state::{Driver, HostWork, Run, Work};

/// Does work on a stream. Calls of the host's are made by [`launch`], which holds no lock then.
fn perform(driver: &mut Driver, work: &Work, stream: StreamHandle) -> Result<(), Code> {
    match work {
        Work::Empty | Work::Host(_) | Work::Child(_) => Ok(()),
        Work::Kernel(kernel) => driver.launch(&kernel.on(stream)),
        Work::Copy(plan) => memory::copy_rows(driver, plan, Some(stream)),
        Work::Fill(fill) => memory::fill_rows(driver, fill, Some(stream)),
        Work::Record(event) => driver.record_event(*event, stream),
        Work::Wait(event) => driver.wait_for_event(stream, *event),
    }
}

/// Does the steps of a launch until the host has something to do, or the end.
fn proceed(driver: &mut Driver, run: &mut Run) -> Result<Option<HostWork>, Code> {
    driver.replay(|driver| {
        while let Some(work) = driver.next_step(run) {
            let done = perform(driver, &work, run.stream());
            driver.end_step(run);
            done?;
            if let Work::Host(call) = work {
                return Ok(Some(call));
            }
        }
        Ok(None)
    })
}

/// Launches a graph to its end.
pub fn launch(mut run: Run) -> u32 {
    loop {
        let mut call = None;
        let code = process::resume(|driver| {
            call = proceed(driver, &mut run)?;
            Ok(())
        });
        match call {
            Some(call) => call_host(call),
            None => return code,
        }
    }
}

/// Calls a function of the host's. Nobody may hold the driver's lock: the function may wait for a thread that calls
/// the driver.
pub fn call_host(HostWork { function, data }: HostWork) {
    // SAFETY: the caller gave the function to be called with this pointer, and null was refused.
    let function: HostFunction = unsafe { std::mem::transmute::<usize, _>(function as usize) };
    if let Some(function) = function {
        // SAFETY: as above.
        unsafe { function(std::ptr::with_exposed_provenance_mut(data as usize)) };
    }
}
