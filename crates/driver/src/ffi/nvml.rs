//! The functions of NVIDIA's management library (NVML) that the watch and clock roles call, over the emulated GPU.
//! The reported state is constant unless the fault plan changes it: cool, without other processes, and at its nominal
//! clock.
//!
//! Return values are numbers of `nvml.h`, not of CUDA. The functions also work before CUDA is initialised.

use crate::code::Code;

use super::entries;
use super::pointer::{CallerString, Host, Out};

/// `NVML_ERROR_INVALID_ARGUMENT`.
const INVALID_ARGUMENT: Code = Code(2);
/// `NVML_ERROR_NOT_FOUND`.
const NOT_FOUND: Code = Code(6);
/// `NVML_ERROR_TIMEOUT`.
const TIMEOUT: Code = Code(10);
/// The handle of the only card, and of the only event set.
const HANDLE: usize = 1;
/// Temperature of an idle GPU in degrees Celsius.
const IDLE_CELSIUS: u64 = 40;
/// `nvmlEventTypeXidCriticalError`.
const XID_EVENT: u64 = 8;
/// The process that a fault plan adds to the card: process 1, which exists on every system and is not a child of the
/// caller.
const OTHER_PROCESS: u32 = 1;
/// Bytes of `nvmlProcessInfo_t`.
const PROCESS_BYTES: usize = 24;

/// Converts to 32 bits, with saturation.
fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

entries! {
    anytime
    /// Initialises the library.
    fn nvmlInit_v2() |_driver| { Ok(()) }

    /// Shuts the library down.
    fn nvmlShutdown() |_driver| { Ok(()) }

    /// The card with a UUID.
    fn nvmlDeviceGetHandleByUUID(uuid: CallerString, card: Out<usize>) |driver| {
        let wanted: String = uuid.str()?.chars().filter(char::is_ascii_hexdigit).collect();
        let own: String = driver.device_uuid().iter().map(|byte| format!("{byte:02x}")).collect();
        if !wanted.to_ascii_lowercase().ends_with(&own) {
            return Err(NOT_FOUND);
        }
        card.set(HANDLE)
    }

    /// The clock that modelled times assume, in megahertz.
    fn nvmlDeviceGetClockInfo(_card: usize, _which: u32, megahertz: Out<u32>) |driver| {
        let clock = u64::from(driver.device().clocks.core_mhz);
        megahertz.set(narrow(driver.answer_or_planned(clock)))
    }

    /// Locks the clock; accepted, although the emulated clock never changes.
    fn nvmlDeviceSetGpuLockedClocks(_card: usize, least: u32, most: u32) |_driver| {
        if least > most { Err(INVALID_ARGUMENT) } else { Ok(()) }
    }

    /// Unlocks the clock.
    fn nvmlDeviceResetGpuLockedClocks(_card: usize) |_driver| { Ok(()) }

    /// Reasons for a reduced clock: none.
    fn nvmlDeviceGetCurrentClocksEventReasons(_card: usize, reasons: Out<u64>) |driver| {
        reasons.set(driver.answer_or_planned(0))
    }

    /// The temperature in degrees Celsius.
    fn nvmlDeviceGetTemperature(_card: usize, _sensor: u32, celsius: Out<u32>) |driver| {
        celsius.set(narrow(driver.answer_or_planned(IDLE_CELSIUS)))
    }

    /// Number of memory errors: none.
    fn nvmlDeviceGetTotalEccErrors(_card: usize, _kind: u32, _since: u32, count: Out<u64>) |driver| {
        count.set(driver.answer_or_planned(0))
    }

    /// Processes on the card besides the caller: none, because each process has its own emulated device.
    fn nvmlDeviceGetComputeRunningProcesses_v3(_card: usize, count: Out<u32>, processes: Host) |driver| {
        let others = narrow(driver.answer_or_planned(0)).min(8) as usize;
        for record in processes.bytes_mut(others * PROCESS_BYTES)?.chunks_exact_mut(PROCESS_BYTES) {
            record.fill(0);
            record[..4].copy_from_slice(&OTHER_PROCESS.to_ne_bytes());
        }
        count.set(others as u32)
    }

    /// Creates an event set.
    fn nvmlEventSetCreate(set: Out<usize>) |_driver| { set.set(HANDLE) }

    /// Registers for fault events.
    fn nvmlDeviceRegisterEvents(_card: usize, _kinds: u64, _set: usize) |_driver| { Ok(()) }

    /// Waits for a fault event: there is none unless the fault plan reports one.
    fn nvmlEventSetWait_v2(_set: usize, event: Host, _milliseconds: u32) |driver| {
        let xid = driver.answer_or_planned(0);
        if xid == 0 {
            return Err(TIMEOUT);
        }
        // `nvmlEventData_t`: the card, the kind, and the number of the fault.
        let record = event.bytes_mut(24)?;
        record[..8].copy_from_slice(&HANDLE.to_ne_bytes());
        record[8..16].copy_from_slice(&XID_EVENT.to_ne_bytes());
        record[16..24].copy_from_slice(&xid.to_ne_bytes());
        Ok(())
    }
}
