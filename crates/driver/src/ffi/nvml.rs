//! The functions of NVIDIA's management library that a watcher asks, and those that lock clocks, over the emulated GPU:
//! it is always cool, alone and at its clock, unless the fault plan says otherwise.
//!
//! Their answers are numbers of `nvml.h`, not of CUDA, and they come before CUDA is initialised, too.

use crate::code::Code;

use super::entries;
use super::pointer::{Host, Out, Text};

/// `NVML_ERROR_INVALID_ARGUMENT`.
const INVALID_ARGUMENT: Code = Code(2);
/// `NVML_ERROR_NOT_FOUND`.
const NOT_FOUND: Code = Code(6);
/// `NVML_ERROR_TIMEOUT`.
const NOTHING_CAME: Code = Code(10);
/// The only card, and the only set of events.
const HANDLE: usize = 1;
/// Degrees Celsius of a GPU that no work heats.
const COOL: u64 = 40;
/// `nvmlEventTypeXidCriticalError`.
const XID_EVENT: u64 = 8;
/// The process that a plan puts on the card: it is there on every system, and nobody's child.
const SOMEBODY: u32 = 1;
/// Bytes of `nvmlProcessInfo_t`.
const PROCESS_BYTES: usize = 24;

/// A number as wide as its place.
fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

entries! {
    anytime
    /// Makes the library usable.
    fn nvmlInit_v2() |_driver| { Ok(()) }

    /// Gives it back.
    fn nvmlShutdown() |_driver| { Ok(()) }

    /// The card of an identity.
    fn nvmlDeviceGetHandleByUUID(uuid: Text, card: Out<usize>) |driver| {
        let wanted: String = uuid.str()?.chars().filter(char::is_ascii_hexdigit).collect();
        let own: String = driver.device_uuid().iter().map(|byte| format!("{byte:02x}")).collect();
        if !wanted.to_ascii_lowercase().ends_with(&own) {
            return Err(NOT_FOUND);
        }
        card.set(HANDLE)
    }

    /// The clock that modelled times use.
    fn nvmlDeviceGetClockInfo(_card: usize, _which: u32, megahertz: Out<u32>) |driver| {
        let clock = u64::from(driver.device().clocks.core_mhz);
        megahertz.set(narrow(driver.told(clock)))
    }

    /// Keeps the clock where it is in any case.
    fn nvmlDeviceSetGpuLockedClocks(_card: usize, least: u32, most: u32) |_driver| {
        if least > most { Err(INVALID_ARGUMENT) } else { Ok(()) }
    }

    /// Lets the driver choose the clock.
    fn nvmlDeviceResetGpuLockedClocks(_card: usize) |_driver| { Ok(()) }

    /// Why the clock is lower than it could be: it is not.
    fn nvmlDeviceGetCurrentClocksEventReasons(_card: usize, reasons: Out<u64>) |driver| {
        reasons.set(driver.told(0))
    }

    /// The temperature.
    fn nvmlDeviceGetTemperature(_card: usize, _sensor: u32, celsius: Out<u32>) |driver| {
        celsius.set(narrow(driver.told(COOL)))
    }

    /// Memory errors: there are none.
    fn nvmlDeviceGetTotalEccErrors(_card: usize, _kind: u32, _since: u32, count: Out<u64>) |driver| {
        count.set(driver.told(0))
    }

    /// Processes on the card. An emulated one is its process's own.
    fn nvmlDeviceGetComputeRunningProcesses_v3(_card: usize, count: Out<u32>, processes: Host) |driver| {
        let others = narrow(driver.told(0)).min(8) as usize;
        for record in processes.bytes_mut(others * PROCESS_BYTES)?.chunks_exact_mut(PROCESS_BYTES) {
            record.fill(0);
            record[..4].copy_from_slice(&SOMEBODY.to_ne_bytes());
        }
        count.set(others as u32)
    }

    /// A set of events.
    fn nvmlEventSetCreate(set: Out<usize>) |_driver| { set.set(HANDLE) }

    /// Asks to be told of faults.
    fn nvmlDeviceRegisterEvents(_card: usize, _kinds: u64, _set: usize) |_driver| { Ok(()) }

    /// A fault that was logged: none, unless the plan logs one.
    fn nvmlEventSetWait_v2(_set: usize, event: Host, _milliseconds: u32) |driver| {
        let xid = driver.told(0);
        if xid == 0 {
            return Err(NOTHING_CAME);
        }
        // `nvmlEventData_t`: the card, the kind, the number of the fault.
        let record = event.bytes_mut(24)?;
        record[..8].copy_from_slice(&HANDLE.to_ne_bytes());
        record[8..16].copy_from_slice(&XID_EVENT.to_ne_bytes());
        record[16..24].copy_from_slice(&xid.to_ne_bytes());
        Ok(())
    }
}
