//! Primary contexts, created contexts, and the calling thread's current context.

use std::ffi::c_void;

use crate::code::Code;
use crate::handle::ContextHandle;
use crate::state::{ContextFlags, ORDINAL};

use super::entries;
use super::pointer::{Host, Out};

/// The API version that contexts of this driver report (`cuCtxGetApiVersion`).
const API_VERSION: u32 = 3020;

/// Checks the number of a bank width of shared memory: default (0), four bytes (1) or eight (2).
pub fn check_bank_width(width: u32) -> Result<(), Code> {
    if width > 2 {
        Err(Code::INVALID_VALUE)
    } else {
        Ok(())
    }
}

/// The context handle that a caller passed; none for null.
fn given(context: Host) -> Option<ContextHandle> {
    match context.address() {
        0 => None,
        address => Some(ContextHandle(address)),
    }
}

entries! {
    /// Retains the primary context.
    fn cuDevicePrimaryCtxRetain(context: Out<u64>, device: i32) |driver| {
        let context = context.required()?;
        context.set(driver.primary_retain(device)?.0)
    }

    /// Releases the primary context.
    fn cuDevicePrimaryCtxRelease(device: i32) |driver| { driver.primary_release(device) }

    /// Releases the primary context.
    fn cuDevicePrimaryCtxRelease_v2(device: i32) |driver| { driver.primary_release(device) }

    /// Destroys the resources of the primary context.
    fn cuDevicePrimaryCtxReset(device: i32) |driver| { driver.primary_reset(device) }

    /// Destroys the resources of the primary context.
    fn cuDevicePrimaryCtxReset_v2(device: i32) |driver| { driver.primary_reset(device) }

    /// Flags of the primary context, and whether it is active.
    fn cuDevicePrimaryCtxGetState(device: i32, flags: Out<u32>, active: Out<i32>) |driver| {
        let (found, is_active) = driver.primary_state(device)?;
        flags.set(found.bits())?;
        active.set(i32::from(is_active))
    }

    /// Sets the primary context's flags.
    fn cuDevicePrimaryCtxSetFlags(device: i32, flags: u32) |driver| {
        driver.primary_set_flags(device, ContextFlags::from_bits(flags)?)
    }

    /// Sets the primary context's flags.
    fn cuDevicePrimaryCtxSetFlags_v2(device: i32, flags: u32) |driver| {
        driver.primary_set_flags(device, ContextFlags::from_bits(flags)?)
    }

    /// Creates a context and makes it current.
    fn cuCtxCreate_v2(context: Out<u64>, flags: u32, device: i32) |driver| {
        let context = context.required()?;
        context.set(driver.create_context(device, ContextFlags::from_bits(flags)?)?.0)
    }

    /// Creates a context and makes it current. Execution affinities are not supported.
    fn cuCtxCreate_v3(context: Out<u64>, shares: Host, share_count: i32, flags: u32, device: i32) |driver| {
        let context = context.required()?;
        if share_count != 0 && shares.address() != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        context.set(driver.create_context(device, ContextFlags::from_bits(flags)?)?.0)
    }

    /// Creates a context and makes it current. Its parameters would describe execution affinities, which are not
    /// supported.
    fn cuCtxCreate_v4(context: Out<u64>, parameters: Host, flags: u32, device: i32) |driver| {
        let context = context.required()?;
        if parameters.address() != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        context.set(driver.create_context(device, ContextFlags::from_bits(flags)?)?.0)
    }

    /// Destroys a context.
    fn cuCtxDestroy_v2(context: Host) |driver| {
        driver.destroy_context(given(context).ok_or(Code::INVALID_CONTEXT)?)
    }

    /// Adds a reference to the current context.
    fn cuCtxAttach(context: Out<u64>, flags: u32) |driver| {
        let context = context.required()?;
        driver.check_context()?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        context.set(driver.attach_context()?.0)
    }

    /// Removes a reference to the current context.
    fn cuCtxDetach(context: Host) |driver| { driver.detach_context(ContextHandle(context.address())) }

    /// The calling thread's context, or null.
    fn cuCtxGetCurrent(context: Out<u64>) |driver| {
        context.set(driver.current_context().map_or(0, |handle| handle.0))
    }

    /// Makes a context current.
    fn cuCtxSetCurrent(context: Host) |driver| { driver.set_current_context(given(context)) }

    /// Puts a context on the calling thread's stack.
    fn cuCtxPushCurrent_v2(context: Host) |driver| {
        driver.push_context(given(context).ok_or(Code::INVALID_CONTEXT)?)
    }

    /// Takes the top of the calling thread's stack.
    fn cuCtxPopCurrent_v2(context: Out<u64>) |driver| {
        let popped = driver.pop_context()?;
        context.set_if_given(popped.0);
        Ok(())
    }

    /// The current context's device.
    fn cuCtxGetDevice(device: Out<i32>) |driver| {
        driver.check_context()?;
        device.set(ORDINAL)
    }

    /// The current context's number.
    fn cuCtxGetId(context: Host, id: Out<u64>) |driver| {
        let handle = given(context).or(driver.current_context()).ok_or(Code::INVALID_CONTEXT)?;
        driver.known_context(handle)?;
        id.set(handle.0 & 0xffff_ffff)
    }

    /// The API version of a context.
    fn cuCtxGetApiVersion(context: Host, version: Out<u32>) |driver| {
        let handle = given(context).or(driver.current_context()).ok_or(Code::INVALID_CONTEXT)?;
        driver.known_context(handle)?;
        version.set(API_VERSION)
    }

    /// Waits for the current context's work.
    fn cuCtxSynchronize() |driver| { driver.synchronise_context() }

    /// The current context's flags.
    fn cuCtxGetFlags(flags: Out<u32>) |driver| { flags.set(driver.context_flags()?.bits()) }

    /// Sets the current context's flags.
    fn cuCtxSetFlags(flags: u32) |driver| {
        driver.set_context_flags(ContextFlags::from_bits(flags)?)
    }

    /// A limit of the current context.
    fn cuCtxGetLimit(value: Out<usize>, limit: u32) |driver| { value.set(driver.context_limit(limit)?) }

    /// Sets a limit of the current context.
    fn cuCtxSetLimit(limit: u32, value: usize) |driver| { driver.set_context_limit(limit, value) }

    /// Resets persisting lines in the L2 cache to normal.
    fn cuCtxResetPersistingL2Cache() |driver| { driver.reset_persisting() }

    /// The preferred split between cache and shared memory.
    fn cuCtxGetCacheConfig(preference: Out<u32>) |driver| { preference.set(driver.cache_preference()?) }

    /// Sets the preferred split between cache and shared memory.
    fn cuCtxSetCacheConfig(preference: u32) |driver| { driver.set_cache_preference(preference) }

    /// Bank width of shared memory: four bytes.
    fn cuCtxGetSharedMemConfig(width: Out<u32>) |driver| {
        driver.check_context()?;
        width.set(1)
    }

    /// Accepted without effect, as on every current device.
    fn cuCtxSetSharedMemConfig(width: u32) |driver| {
        driver.check_context()?;
        check_bank_width(width)
    }

    /// Lowest and highest priority of streams.
    fn cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) |driver| {
        let (lowest, highest) = driver.stream_priorities()?;
        least.set_if_given(lowest);
        greatest.set_if_given(highest);
        Ok(())
    }

    /// Starts the profiler; does nothing, because there is none.
    fn cuProfilerStart() |driver| { driver.check_context() }

    /// Stops the profiler; does nothing, because there is none.
    fn cuProfilerStop() |driver| { driver.check_context() }
}

entries! { anytime
    /// Looks up one of the driver's private tables; this driver has none.
    fn cuGetExportTable(table: Out<*const c_void>, _id: Host) |_driver| {
        table.set(std::ptr::null())?;
        Err(Code::NOT_SUPPORTED)
    }
}
