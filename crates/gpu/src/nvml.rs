//! NVIDIA's management library, to the extent that timing needs it, if it can be loaded. The only thing it changes is
//! the lock of a card's clocks.
//!
//! The library can hang, and its answers describe the whole card. It is therefore used only in a separate process. A
//! query that a card does not answer is `None`.

use std::ffi::{CString, c_char, c_int, c_uint, c_ulonglong, c_void};

use libloading::Library;

/// Name of the library on every Linux system.
const LIBRARY: &str = "libnvidia-ml.so.1";
/// `NVML_SUCCESS`.
const SUCCESS: c_int = 0;
/// `NVML_ERROR_NO_PERMISSION`.
const NO_PERMISSION: c_int = 4;
/// `NVML_CLOCK_LIMIT_ID_TDP`: the clock that a card sustains within its power limit under any load.
const SUSTAINED: c_uint = 0xffff_ff01;
/// `NVML_ERROR_INSUFFICIENT_SIZE`: there are more processes than the array has room for.
const TOO_SMALL: c_int = 7;
/// `NVML_ERROR_TIMEOUT`: no event occurred.
const TIMEOUT: c_int = 10;
/// `NVML_CLOCK_SM`.
const SM_CLOCK: c_uint = 1;
/// `NVML_TEMPERATURE_GPU`.
const CORE_TEMPERATURE: c_uint = 0;
/// `NVML_MEMORY_ERROR_TYPE_UNCORRECTED`.
const UNCORRECTED: c_uint = 1;
/// `NVML_VOLATILE_ECC`: since the driver was loaded.
const SINCE_LOADED: c_uint = 0;
/// `nvmlEventTypeXidCriticalError`.
const XID_EVENT: c_ulonglong = 8;
/// Most faults that one query counts.
const MAX_EVENTS: u32 = 1000;
/// First capacity of the array of processes.
const ROOM: usize = 64;

type Device = *mut c_void;
type Events = *mut c_void;

/// `nvmlProcessInfo_t` of the third generation of the call.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Process {
    pid: c_uint,
    memory: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// `nvmlEventData_t`.
#[repr(C)]
struct Event {
    device: Device,
    kind: c_ulonglong,
    data: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// One card.
pub struct Card {
    library: Library,
    device: Device,
    /// Event set for faults, on cards that report them.
    events: Option<Events>,
}

/// The reason why clocks were not changed.
#[derive(Debug, PartialEq, Eq)]
pub enum ClockError {
    /// The process lacks the permission.
    Forbidden,
    /// The card or its library does not support it.
    Impossible(String),
}

impl Card {
    /// Opens the library and finds the card with this UUID.
    ///
    /// # Errors
    /// The reason why that is impossible, as a sentence fragment.
    pub fn open(uuid: &str) -> Result<Self, String> {
        // SAFETY: loading NVIDIA's library runs its initialisers, which have no preconditions.
        let library = unsafe { Library::new(LIBRARY) }
            .map_err(|_| format!("{LIBRARY} is not installed or does not load"))?;
        let mut card = Self {
            library,
            device: std::ptr::null_mut(),
            events: None,
        };
        card.initialise()?;
        let name = CString::new(uuid).map_err(|_| "the device's identity is no text".to_owned())?;
        type Find = unsafe extern "C" fn(*const c_char, *mut Device) -> c_int;
        let mut device = std::ptr::null_mut();
        let find = card.function::<Find>("nvmlDeviceGetHandleByUUID")?;
        // SAFETY: `Find` is the function's type in nvml.h, and both pointers are valid.
        let code = unsafe { find(name.as_ptr(), &raw mut device) };
        if code != SUCCESS {
            return Err(format!(
                "nvmlDeviceGetHandleByUUID returned {code} for {uuid}"
            ));
        }
        card.device = device;
        card.events = card.subscribe_to_faults();
        Ok(card)
    }

    fn initialise(&self) -> Result<(), String> {
        let start = self.function::<unsafe extern "C" fn() -> c_int>("nvmlInit_v2")?;
        // SAFETY: the function takes nothing.
        match unsafe { start() } {
            SUCCESS => Ok(()),
            code => Err(format!("nvmlInit_v2 returned {code}")),
        }
    }

    /// Subscribes to faults; none on a card that does not report them.
    fn subscribe_to_faults(&self) -> Option<Events> {
        type Create = unsafe extern "C" fn(*mut Events) -> c_int;
        type Register = unsafe extern "C" fn(Device, c_ulonglong, Events) -> c_int;
        let create = self.function::<Create>("nvmlEventSetCreate").ok()?;
        let register = self.function::<Register>("nvmlDeviceRegisterEvents").ok()?;
        let mut events = std::ptr::null_mut();
        // SAFETY: `Create` is the function's type in nvml.h, and the pointer is valid for a write.
        let created = unsafe { create(&raw mut events) };
        if created != SUCCESS {
            return None;
        }
        // SAFETY: the card and the set were created by the library.
        let registered = unsafe { register(self.device, XID_EVENT, events) };
        (registered == SUCCESS).then_some(events)
    }

    /// Clock of the multiprocessors, MHz.
    pub fn sm_mhz(&self) -> Option<u32> {
        self.query_with_argument("nvmlDeviceGetClockInfo", SM_CLOCK)
    }

    /// Locks the multiprocessors to the clock that the card sustains under any load, until the clocks are unlocked,
    /// the driver is unloaded or the system restarts.
    ///
    /// # Errors
    /// [`ClockError`].
    pub fn lock_clocks(&self) -> Result<(), ClockError> {
        type Lock = unsafe extern "C" fn(Device, c_uint, c_uint) -> c_int;
        let name = "nvmlDeviceSetGpuLockedClocks";
        let lock = self
            .function::<Lock>(name)
            .map_err(ClockError::Impossible)?;
        // SAFETY: `Lock` is the function's type in nvml.h, and the card was created by the library.
        clock_result(name, unsafe { lock(self.device, SUSTAINED, SUSTAINED) })
    }

    /// Unlocks the clocks.
    ///
    /// # Errors
    /// [`ClockError`].
    pub fn unlock_clocks(&self) -> Result<(), ClockError> {
        type Free = unsafe extern "C" fn(Device) -> c_int;
        let name = "nvmlDeviceResetGpuLockedClocks";
        let free = self
            .function::<Free>(name)
            .map_err(ClockError::Impossible)?;
        // SAFETY: `Free` is the function's type in nvml.h, and the card was created by the library.
        clock_result(name, unsafe { free(self.device) })
    }

    /// Temperature in degrees Celsius.
    pub fn celsius(&self) -> Option<u32> {
        self.query_with_argument("nvmlDeviceGetTemperature", CORE_TEMPERATURE)
    }

    /// Bit mask of reasons for a reduced clock. Drivers before 530 have the function under an older name.
    pub fn clock_events(&self) -> Option<u64> {
        type Ask = unsafe extern "C" fn(Device, *mut c_ulonglong) -> c_int;
        let ask = self
            .function::<Ask>("nvmlDeviceGetCurrentClocksEventReasons")
            .or_else(|_| self.function::<Ask>("nvmlDeviceGetCurrentClocksThrottleReasons"))
            .ok()?;
        let mut mask = 0;
        // SAFETY: `Ask` is the type of both in nvml.h, and the pointer is valid for a write.
        let code = unsafe { ask(self.device, &raw mut mask) };
        (code == SUCCESS).then_some(mask)
    }

    /// Number of uncorrectable memory errors since the driver was loaded.
    pub fn ecc_errors(&self) -> Option<u64> {
        type Ask = unsafe extern "C" fn(Device, c_uint, c_uint, *mut c_ulonglong) -> c_int;
        let ask = self.function::<Ask>("nvmlDeviceGetTotalEccErrors").ok()?;
        let mut count = 0;
        // SAFETY: `Ask` is the function's type in nvml.h, and the pointer is valid for a write.
        let code = unsafe { ask(self.device, UNCORRECTED, SINCE_LOADED, &raw mut count) };
        (code == SUCCESS).then_some(count)
    }

    /// Process numbers of all processes that compute on the card.
    pub fn processes(&self) -> Option<Vec<u32>> {
        type Ask = unsafe extern "C" fn(Device, *mut c_uint, *mut Process) -> c_int;
        let ask = self
            .function::<Ask>("nvmlDeviceGetComputeRunningProcesses_v3")
            .ok()?;
        let mut found = vec![Process::default(); ROOM];
        loop {
            let mut count = c_uint::try_from(found.len()).ok()?;
            // SAFETY: `Ask` is the function's type in nvml.h; `count` says how many elements it may write.
            let code = unsafe { ask(self.device, &raw mut count, found.as_mut_ptr()) };
            let count = count as usize;
            match code {
                SUCCESS => {
                    let seen = found.iter().take(count);
                    return Some(seen.map(|process| process.pid).collect());
                }
                TOO_SMALL if count > found.len() => found.resize(count + ROOM, Process::default()),
                _ => return None,
            }
        }
    }

    /// Number of faults that were logged and not reported yet; none if the card does not report them.
    pub fn xids(&self) -> Option<u32> {
        type Wait = unsafe extern "C" fn(Events, *mut Event, c_uint) -> c_int;
        let events = self.events?;
        let wait = self.function::<Wait>("nvmlEventSetWait_v2").ok()?;
        let mut count = 0;
        loop {
            let mut event = Event {
                device: std::ptr::null_mut(),
                kind: 0,
                data: 0,
                gpu_instance: 0,
                compute_instance: 0,
            };
            // SAFETY: `Wait` is the function's type in nvml.h, the set was created by the library, and the pointer is
            // valid for a write.
            match unsafe { wait(events, &raw mut event, 0) } {
                SUCCESS if count < MAX_EVENTS => {
                    count += u32::from(event.kind & XID_EVENT != 0);
                }
                SUCCESS | TIMEOUT => return Some(count),
                _ => return None,
            }
        }
    }

    /// A numeric query with one further argument.
    fn query_with_argument(&self, name: &str, which: c_uint) -> Option<u32> {
        type Ask = unsafe extern "C" fn(Device, c_uint, *mut c_uint) -> c_int;
        let ask = self.function::<Ask>(name).ok()?;
        let mut value = 0;
        // SAFETY: `Ask` is the type in nvml.h of both functions that are called in this way, and the pointer is valid
        // for a write.
        let code = unsafe { ask(self.device, which, &raw mut value) };
        (code == SUCCESS).then_some(value)
    }

    /// A function by name. Its type is the responsibility of the caller.
    fn function<T: Copy>(&self, name: &str) -> Result<T, String> {
        // SAFETY: the symbol is only read as a pointer here; calling it needs the caller's own unsafe block.
        let symbol = unsafe { self.library.get::<T>(name.as_bytes()) };
        symbol
            .map(|symbol| *symbol)
            .map_err(|_| format!("{LIBRARY} has no {name}"))
    }
}

/// Converts the return code of a change of clocks.
fn clock_result(name: &str, code: c_int) -> Result<(), ClockError> {
    match code {
        SUCCESS => Ok(()),
        NO_PERMISSION => Err(ClockError::Forbidden),
        code => Err(ClockError::Impossible(format!("{name} returned {code}"))),
    }
}
