//! The health of a device: the class of errors and kernel messages, the thresholds of the health
//! check, and the rules by which a device or a candidate is quarantined.
//!
//! These functions are pure. The probe, the reader of the kernel's log and the keeper of the record are in the worker. No
//! verdict is made here: this module only attributes an error to candidate or device, and decides whether the device may
//! continue.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::digest::Digest;
use crate::plan::Configuration;
use crate::statistics::Rates;

/// The class of an error or a kernel message for the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// The program that ran caused it; the device continues once a probe succeeds.
    Candidate,
    /// The device caused it: no verdict, and no further work until a person has cleared its record.
    Drain,
    /// The cause is unknown: the health check decides.
    Suspicious,
}

/// The class of an Xid, the number of an NVIDIA driver's message in the kernel's log, when it
/// names the process that ran a candidate. Numbers as NVIDIA's "Xid errors" guide describes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Xid {
    /// The number.
    pub number: u32,
    /// The event in a few words.
    pub event: &'static str,
    /// The cause that it points to.
    pub class: ErrorClass,
}

const fn xid(number: u32, event: &'static str, class: ErrorClass) -> Xid {
    Xid {
        number,
        event,
        class,
    }
}

/// The messages with a class of their own.
pub const XIDS: [Xid; 20] = [
    xid(13, "graphics engine exception", ErrorClass::Candidate),
    xid(31, "memory page fault", ErrorClass::Candidate),
    xid(43, "GPU stopped processing", ErrorClass::Candidate),
    xid(
        45,
        "channels removed before their end",
        ErrorClass::Candidate,
    ),
    xid(46, "GPU stopped processing for good", ErrorClass::Drain),
    xid(48, "double-bit memory error", ErrorClass::Drain),
    xid(
        61,
        "internal micro-controller breakpoint",
        ErrorClass::Drain,
    ),
    xid(62, "internal micro-controller halt", ErrorClass::Drain),
    xid(63, "memory page retired or row remapped", ErrorClass::Drain),
    xid(
        64,
        "memory page or row that could not be replaced",
        ErrorClass::Drain,
    ),
    xid(69, "graphics engine class error", ErrorClass::Candidate),
    xid(74, "NVLink error", ErrorClass::Drain),
    xid(79, "GPU has fallen off the bus", ErrorClass::Drain),
    xid(92, "many single-bit memory errors", ErrorClass::Drain),
    xid(94, "contained memory error", ErrorClass::Drain),
    xid(95, "uncontained memory error", ErrorClass::Drain),
    xid(109, "context switch timed out", ErrorClass::Suspicious),
    xid(119, "GPU system processor timed out", ErrorClass::Drain),
    xid(120, "GPU system processor error", ErrorClass::Drain),
    xid(154, "recovery action changed", ErrorClass::Drain),
];

/// The class of an Xid that names the process of a candidate's runner. One that names another process, or none, is
/// never a candidate's.
#[must_use]
pub fn classify_xid(number: u32, names_the_runner: bool) -> ErrorClass {
    let known = XIDS.iter().find(|xid| xid.number == number);
    match known.map_or(ErrorClass::Suspicious, |xid| xid.class) {
        ErrorClass::Candidate if !names_the_runner => ErrorClass::Suspicious,
        class => class,
    }
}

/// The class of a driver's error (a `CUresult`) for the device, apart from its class for the
/// candidate.
#[must_use]
pub fn classify_driver_error(code: u32) -> ErrorClass {
    match code {
        // Invalid value, out of memory, too many resources, cooperative launch too large: the call was refused and
        // nothing happened.
        1 | 2 | 701 | 720 => ErrorClass::Candidate,
        // Errors that a kernel causes: illegal address, timeout, assertion, stack, illegal instruction, misaligned
        // address, address space, program counter, launch failure.
        700 | 702 | 710 | 714..=719 => ErrorClass::Candidate,
        // Uncorrectable memory error, and the newer kinds of it; NVLink; the device is lost.
        214 | 220 | 226 => ErrorClass::Drain,
        _ => ErrorClass::Suspicious,
    }
}

/// The values that one health check measured on a device that works.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Vitals)]
pub struct HealthReadings {
    /// Device memory that was free, bytes.
    pub free_bytes: u64,
    /// Copies to the device and back, gigabytes per second; modelled on the emulated device.
    pub copy_gigabytes_per_second: f64,
    /// True if a matrix product was computed and was the known one to the bit. Not asked of a card
    /// whose driver compiles no PTX.
    pub computed: bool,
}

/// Free memory may be this much less than it was when the device was clean, bytes.
pub const FREE_SLACK: u64 = 64 << 20;
/// Copies may be slower than they usually are by this share.
pub const COPY_SLACK: f64 = 0.05;
/// Number of probes whose median is the usual speed of copies.
const COPY_HISTORY: usize = 31;
/// Number of probes before the speed of copies is judged.
const MIN_COPY_HISTORY: usize = 5;
/// Evaluations between two probes of a device that gives no reason for one.
pub const JOBS_BETWEEN_PROBES: u32 = 100;
/// Devices a candidate must break to be set aside itself: one may have been about to fail anyway.
pub const QUARANTINE_BREAKS: usize = 2;

/// The condition of a device: it takes work, or the reason why it does not.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Condition {
    /// The device takes work.
    #[default]
    Well,
    /// The device takes no work until a person has looked at it and cleared the record.
    Quarantined {
        /// The finding.
        reason: String,
    },
}

/// A worker's report on its device and on the candidates that broke it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HealthReport {
    /// The device's condition.
    pub condition: Condition,
    /// The devices that each candidate broke, by the digest of its text and configuration.
    pub breaks: BTreeMap<Digest, BTreeSet<String>>,
}

/// The identity of a candidate before it is parsed: the digest of its text and of the values it was
/// given.
#[must_use]
pub fn submission_digest(source: &str, configuration: &Configuration) -> Digest {
    let configuration = serde_json::to_vec(configuration).expect("only names and numbers");
    Digest::of_parts([source.as_bytes(), configuration.as_slice()])
}

/// Everything remembered of one device. It outlives the process that keeps it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct DeviceRecord {
    /// The device's identity; a record of another device says nothing of this one.
    pub device: String,
    /// The device's condition.
    pub condition: Condition,
    /// The most memory that was ever free, bytes: as much as a clean device has.
    pub clean_bytes: u64,
    /// Speeds of the last probes' copies, oldest first.
    pub copies: Vec<f64>,
    /// Evaluations since the last probe.
    pub jobs: u32,
    /// The devices that each candidate broke, by the digest of its text and configuration.
    pub breaks: BTreeMap<Digest, BTreeSet<String>>,
    /// The number of times that a person cleared this device's record; a break after that counts as
    /// another device's. Records on disk name it `life`.
    #[serde(rename = "life")]
    pub clearings: u32,
    /// The best rates it ever showed; none of an emulated device, which knows its own.
    #[serde(default)]
    pub rates: Option<Rates>,
}

impl DeviceRecord {
    /// A record of a device of which nothing is known.
    #[must_use]
    pub fn new(device: &str) -> Self {
        Self {
            device: device.to_owned(),
            ..Self::default()
        }
    }

    /// Remembers rates as far as they are the best so far.
    pub fn record_rates(&mut self, measured: &Rates) {
        self.rates = Some(match self.rates.take() {
            Some(known) => known.best(measured),
            None => measured.clone(),
        });
    }

    /// Checks that the values of a health check are this device's usual ones; otherwise says which
    /// are not.
    ///
    /// # Errors
    /// The reason in words.
    pub fn examine(&self, vitals: &HealthReadings) -> Result<(), String> {
        let missing = self.clean_bytes.saturating_sub(vitals.free_bytes);
        if missing > FREE_SLACK {
            return Err(format!(
                "{} MiB of device memory are missing although nobody should be using it: an earlier process may still hold them",
                missing >> 20
            ));
        }
        let usual = self.usual_copy();
        let speed = vitals.copy_gigabytes_per_second;
        match usual {
            Some(usual) if speed.is_nan() || speed < usual * (1.0 - COPY_SLACK) => Err(format!(
                "copies run at {speed:.2} GB/s instead of the usual {usual:.2}: the device or its bus is throttled, shared or damaged"
            )),
            _ => Ok(()),
        }
    }

    /// Returns true if there were enough probes to judge the next by.
    pub fn is_calibrated(&self) -> bool {
        self.copies.len() >= MIN_COPY_HISTORY
    }

    /// The middle of the remembered speeds, once there are enough.
    fn usual_copy(&self) -> Option<f64> {
        let mut sorted = self.copies.clone();
        sorted.sort_by(f64::total_cmp);
        self.is_calibrated().then(|| sorted[sorted.len() / 2])
    }

    /// Notes a probe that found the device well.
    pub fn record_healthy_probe(&mut self, vitals: &HealthReadings) {
        self.clean_bytes = self.clean_bytes.max(vitals.free_bytes);
        self.copies.push(vitals.copy_gigabytes_per_second);
        let surplus = self.copies.len().saturating_sub(COPY_HISTORY);
        self.copies.drain(..surplus);
        self.jobs = 0;
    }

    /// Sets the device aside. The first reason stays.
    pub fn quarantine(&mut self, reason: &str) {
        if self.condition == Condition::Well {
            self.condition = Condition::Quarantined {
                reason: reason.to_owned(),
            };
        }
    }

    /// Ends the quarantine after a person has checked the device. Its earlier measurements are discarded.
    pub fn clear(&mut self) {
        self.condition = Condition::Well;
        self.clean_bytes = 0;
        self.copies.clear();
        self.jobs = 0;
        self.clearings += 1;
    }

    /// Counts an evaluation; true if the device is due for a probe before it.
    pub fn is_due(&mut self) -> bool {
        self.jobs = self.jobs.saturating_add(1);
        self.jobs >= JOBS_BETWEEN_PROBES
    }

    /// The report to the service.
    #[must_use]
    pub fn report(&self) -> HealthReport {
        HealthReport {
            condition: self.condition.clone(),
            breaks: self.breaks.clone(),
        }
    }

    /// Notes that a device was unwell after it ran this candidate.
    pub fn record_break(&mut self, candidate: Digest) {
        let device = format!("{} ({})", self.device, self.clearings);
        self.breaks.entry(candidate).or_default().insert(device);
    }

    /// Returns true if a candidate has broken so many devices that no other may run it.
    #[must_use]
    pub fn is_quarantined(&self, candidate: &Digest) -> bool {
        self.breaks
            .get(candidate)
            .is_some_and(|devices| devices.len() >= QUARANTINE_BREAKS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: HealthReadings = HealthReadings {
        free_bytes: 20 << 30,
        copy_gigabytes_per_second: 12.0,
        computed: true,
    };

    fn known() -> DeviceRecord {
        let mut record = DeviceRecord::new("GPU-1");
        for _ in 0..MIN_COPY_HISTORY {
            record.examine(&USUAL).expect("nothing is unusual yet");
            record.record_healthy_probe(&USUAL);
        }
        record
    }

    #[test]
    fn messages_have_the_class_of_their_number() {
        for number in [13, 31, 43, 45] {
            assert_eq!(
                classify_xid(number, true),
                ErrorClass::Candidate,
                "{number}"
            );
            assert_eq!(
                classify_xid(number, false),
                ErrorClass::Suspicious,
                "{number}"
            );
        }
        for number in [46, 48, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120, 154] {
            assert_eq!(classify_xid(number, true), ErrorClass::Drain, "{number}");
            assert_eq!(classify_xid(number, false), ErrorClass::Drain, "{number}");
        }
        assert_eq!(classify_xid(9999, true), ErrorClass::Suspicious);
        assert!(XIDS.is_sorted_by(|left, right| left.number < right.number));
    }

    #[test]
    fn a_kernels_errors_are_a_candidates_and_memory_errors_never() {
        for code in [700, 702, 710, 714, 715, 716, 717, 718, 719, 701, 720, 2] {
            assert_eq!(classify_driver_error(code), ErrorClass::Candidate, "{code}");
        }
        assert_eq!(classify_driver_error(214), ErrorClass::Drain);
        for code in [46, 100, 201, 400, 802, 999] {
            assert_eq!(
                classify_driver_error(code),
                ErrorClass::Suspicious,
                "{code}"
            );
        }
    }

    #[test]
    fn a_device_is_held_against_its_own_history() {
        let record = known();
        assert_eq!(record.examine(&USUAL), Ok(()));
        let slack = HealthReadings {
            free_bytes: USUAL.free_bytes - FREE_SLACK,
            copy_gigabytes_per_second: 11.5,
            ..USUAL
        };
        assert_eq!(record.examine(&slack), Ok(()));
        let held = HealthReadings {
            free_bytes: USUAL.free_bytes - FREE_SLACK - (1 << 20),
            ..USUAL
        };
        assert!(
            record
                .examine(&held)
                .is_err_and(|why| why.contains("65 MiB"))
        );
        for speed in [11.3, 0.0, f64::NAN] {
            let slow = HealthReadings {
                copy_gigabytes_per_second: speed,
                ..USUAL
            };
            assert!(record.examine(&slow).is_err(), "{speed}");
        }
        assert!(DeviceRecord::new("GPU-1").examine(&USUAL).is_ok());
    }

    #[test]
    fn history_is_bounded_and_one_slow_probe_does_not_move_it() {
        let mut record = known();
        for _ in 0..100 {
            record.record_healthy_probe(&USUAL);
        }
        assert_eq!(record.copies.len(), COPY_HISTORY);
        record.record_healthy_probe(&HealthReadings {
            copy_gigabytes_per_second: 1.0,
            ..USUAL
        });
        assert_eq!(record.usual_copy(), Some(12.0));
    }

    #[test]
    fn a_probe_is_due_after_so_many_jobs_and_a_quarantine_keeps_its_first_reason() {
        let mut record = known();
        let due = (1..=JOBS_BETWEEN_PROBES).find(|_| record.is_due());
        assert_eq!(due, Some(JOBS_BETWEEN_PROBES));
        record.record_healthy_probe(&USUAL);
        assert!(!record.is_due());
        record.quarantine("first");
        record.quarantine("second");
        let Condition::Quarantined { reason } = &record.condition else {
            panic!("{record:?}");
        };
        assert_eq!(reason, "first");
        record.clear();
        assert_eq!(record.condition, Condition::Well);
        assert!(record.copies.is_empty());
    }

    #[test]
    fn two_broken_devices_quarantine_a_candidate_and_one_broken_twice_does_not() {
        let (bad, other) = (Digest::of("bad"), Digest::of("other"));
        let mut record = known();
        record.record_break(bad);
        record.record_break(bad);
        assert!(
            !record.is_quarantined(&bad),
            "the same device, not yet mended"
        );
        record.clear();
        record.record_break(bad);
        assert!(record.is_quarantined(&bad));
        assert!(!record.is_quarantined(&other));
        let text = serde_json::to_string(&record).expect("plain data");
        let back: DeviceRecord = serde_json::from_str(&text).expect("what was written");
        assert_eq!(back, record);
    }
}
