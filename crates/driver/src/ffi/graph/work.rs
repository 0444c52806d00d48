//! Execution of the work of graph nodes.

use crate::code::Code;
use crate::ffi::memory;
use crate::ffi::process;
use crate::ffi::stream::HostFunction;
use crate::handle::StreamHandle;
use crate::state::{Driver, GraphLaunch, HostWork, Work};

/// Executes work on a stream. [`launch`] makes the host calls, because it does not hold the lock then.
fn execute(driver: &mut Driver, work: &Work, stream: StreamHandle) -> Result<(), Code> {
    match work {
        Work::Empty | Work::Host(_) | Work::Child(_) => Ok(()),
        Work::Kernel(kernel) => driver.launch(&kernel.on(stream)),
        Work::Copy(plan) => memory::copy_rows(driver, plan, Some(stream)),
        Work::Fill(fill) => memory::fill_rows(driver, fill, Some(stream)),
        Work::Record(event) => driver.record_event(*event, stream),
        Work::Wait(event) => driver.wait_for_event(stream, *event),
    }
}

/// Executes the steps of a launch up to the next host call, which it returns, or to the end.
fn execute_until_host_call(
    driver: &mut Driver,
    run: &mut GraphLaunch,
) -> Result<Option<HostWork>, Code> {
    driver.without_capture(|driver| {
        while let Some(work) = driver.next_step(run) {
            let done = execute(driver, &work, run.stream());
            driver.end_step(run);
            done?;
            if let Work::Host(call) = work {
                return Ok(Some(call));
            }
        }
        Ok(None)
    })
}

/// Executes a graph launch to its end.
pub fn launch(mut run: GraphLaunch) -> u32 {
    loop {
        let mut call = None;
        let code = process::continue_call(|driver| {
            call = execute_until_host_call(driver, &mut run)?;
            Ok(())
        });
        match call {
            Some(call) => call_host(call),
            None => return code,
        }
    }
}

/// Calls a host function. The caller must not hold the driver's lock, because the function may wait for a thread that
/// calls the driver.
pub fn call_host(HostWork { function, data }: HostWork) {
    // SAFETY: the caller of the API passed the function to be called with this pointer, and null was refused.
    let function: HostFunction = unsafe { std::mem::transmute::<usize, _>(function as usize) };
    if let Some(function) = function {
        // SAFETY: as above.
        unsafe { function(std::ptr::with_exposed_provenance_mut(data as usize)) };
    }
}
