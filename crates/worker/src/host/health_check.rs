//! Health checks of the device: whether it takes work, when it is probed, and when it is
//! quarantined.

use std::path::Path;
use std::time::Duration;

use domain::causes::with_causes;
use domain::device::{Device, DeviceKind};
use domain::digest::Digest;
use domain::health::{Condition, HealthReadings};
use domain::judge::Exit;
use domain::role::{ProbeJob, ProbeReply};
use domain::statistics::Rates;

use super::isolation::{Confinement, ConfinementReport};
use super::program::role_program;
use super::roles::WALL_FACTOR;
use super::{Host, HostError, Role, Settings, available_threads};
use crate::cancel::Cancellation;
use crate::supervise::{self, Bounds, Limits, Program};

/// The time of a probe: wall time on a card, processor time where the device is emulated.
const PROBE_ALLOWANCE: Duration = Duration::from_secs(15);
/// Time in which a card that failed two checks in a row can recover before its last check.
const RECOVERY: Duration = Duration::from_secs(30);

impl Host {
    /// Checks that the device is not quarantined.
    ///
    /// # Errors
    /// [`HostError::Quarantined`] if it is.
    pub fn ensure_not_quarantined(&self) -> Result<(), HostError> {
        match self.health.record().condition {
            Condition::Well => Ok(()),
            Condition::Quarantined { reason } => Err(self.quarantined(reason)),
        }
    }

    /// Checks that neither the device nor the candidate is quarantined; then probes the device if a
    /// probe is due or the verdict on the candidate is `relied_upon`. `candidate` is the digest of
    /// its text and configuration.
    ///
    /// # Errors
    /// [`HostError::Quarantined`], [`HostError::QuarantinedCandidate`], or the errors of [`Self::check_health`].
    pub fn ensure_fit_for(
        &self,
        candidate: &Digest,
        relied_upon: bool,
        cancellation: &Cancellation,
    ) -> Result<(), HostError> {
        self.ensure_not_quarantined()?;
        let (is_quarantined, due) = self
            .health
            .change(|record| (record.is_quarantined(candidate), record.is_due()));
        if is_quarantined {
            return Err(HostError::QuarantinedCandidate {
                candidate: candidate.short(),
            });
        }
        if due || relied_upon {
            self.check_health(cancellation)?;
        }
        Ok(())
    }

    /// Records that the device failed its health check after it had run a candidate.
    pub fn record_failed_check_after(&self, candidate: Digest) {
        self.health.change(|record| record.record_break(candidate));
    }

    /// Probes the device. A device that fails is probed again at once, a card a third time after a
    /// pause; a device that fails every time is quarantined.
    ///
    /// # Errors
    /// [`HostError::Unusable`] if an emulated device gives no answer, [`HostError::Quarantined`] if
    /// its answers are wrong, or if a card fails in any way.
    pub fn check_health(&self, cancellation: &Cancellation) -> Result<(), HostError> {
        // The memory that spares hold would be missing.
        self.end_spares_on_card();
        let real = self.device.kind == DeviceKind::Nvidia;
        let pauses: &[Duration] = if real {
            &[Duration::ZERO, Duration::ZERO, RECOVERY]
        } else {
            &[Duration::ZERO; 2]
        };
        let mut fault = None;
        for pause in pauses {
            if !pause.is_zero() && cancellation.wait(*pause) {
                return Err(supervise::SuperviseError::Cancelled.into());
            }
            match self.probe_and_compare(cancellation) {
                Ok(vitals) => {
                    self.health
                        .change(|record| record.record_healthy_probe(&vitals));
                    return Ok(());
                }
                Err(ProbeError::Device(found)) => {
                    tracing::warn!("the device is unwell: {}", found.reason);
                    fault = Some(found);
                }
                Err(ProbeError::Host(error)) => return Err(error),
            }
        }
        let Some(DeviceFault { reason, cause }) = fault else {
            return Ok(());
        };
        // A machine under load keeps an emulated device from answering; a card has no such excuse.
        if real || cause == FaultCause::Reported {
            self.health.change(|record| record.quarantine(&reason));
            self.end_spares();
            return Err(self.quarantined(reason));
        }
        Err(HostError::Unusable { reason })
    }

    /// Measures a card's peak rates once more and returns them. The rates seen in evaluations are
    /// too low, because the card was busy with other work.
    ///
    /// # Errors
    /// A [`HostError`] if the probe cannot be run.
    pub fn measure_rates(&self, cancellation: &Cancellation) -> Result<Option<Rates>, HostError> {
        if self.device.kind == DeviceKind::Nvidia {
            self.end_spares_on_card();
            let program = self.program(Role::Probe, &self.settings.data);
            let job = ProbeJob {
                measure_rates: true,
            };
            match self.probe_with(&program, &job, cancellation) {
                Ok(found) => {
                    if let Some(measured) = &found.measured_rates {
                        self.health.change(|record| record.record_rates(measured));
                    }
                }
                // The rates of earlier measurements stand.
                Err(ProbeError::Device(_)) => {}
                Err(ProbeError::Host(error)) => return Err(error),
            }
        }
        Ok(self.rates())
    }

    pub(super) fn probe_with(
        &self,
        program: &Program,
        job: &ProbeJob,
        cancellation: &Cancellation,
    ) -> Result<WorkingDevice, ProbeError> {
        let mut bounds = probe_bounds(self.device.kind);
        if let Some(limit) = self.rehearsal.wall_limit() {
            // A busy machine may be late with a probe that is to answer.
            let patience = if self.rehearsal.plans_faults_of(Role::Probe) {
                limit
            } else {
                limit.max(PROBE_ALLOWANCE)
            };
            bounds.readiness = Some(patience);
            bounds.deadline = patience;
        }
        let settings = &self.settings;
        probe_with(settings, program, &self.nvrtc, job, bounds, cancellation)
    }

    fn quarantined(&self, reason: String) -> HostError {
        HostError::Quarantined {
            reason,
            record: self.health.path().display().to_string(),
        }
    }

    /// Runs one probe and compares its answers with the device's record.
    fn probe_and_compare(&self, cancellation: &Cancellation) -> Result<HealthReadings, ProbeError> {
        let program = self.program(Role::Probe, &self.settings.data);
        let found = self.probe_with(&program, &ProbeJob::default(), cancellation)?;
        let wrong = |reason| ProbeError::device(reason, FaultCause::Reported);
        if found.device != self.device {
            return Err(wrong(format!(
                "it was {} and is now {}",
                self.device, found.device
            )));
        }
        // An emulated device's memory and copies are those of a model, so that there is nothing
        // to compare.
        if self.device.kind == DeviceKind::Nvidia {
            let record = self.health.record();
            record.examine(&found.vitals).map_err(wrong)?;
        }
        Ok(found.vitals)
    }
}

/// The properties of a device that works.
pub(super) struct WorkingDevice {
    pub(super) device: Device,
    pub(super) toolchain: String,
    pub(super) rates: Option<Rates>,
    pub(super) measured_rates: Option<Rates>,
    /// The confinement that the probe reported.
    pub(super) confinement_report: ConfinementReport,
    pub(super) vitals: HealthReadings,
}

/// The reason why a probe did not find a device that works.
pub(super) enum ProbeError {
    /// The device, its driver or the compiler does not work, or the probe ended without an answer.
    Device(DeviceFault),
    /// The probe could not be run.
    Host(HostError),
}

impl ProbeError {
    fn device(reason: String, cause: FaultCause) -> Self {
        Self::Device(DeviceFault { reason, cause })
    }
}

impl From<HostError> for ProbeError {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}

impl From<ProbeError> for HostError {
    fn from(error: ProbeError) -> Self {
        match error {
            ProbeError::Device(DeviceFault { reason, .. }) => Self::Unusable { reason },
            ProbeError::Host(error) => error,
        }
    }
}

/// The fault of a device.
pub(super) struct DeviceFault {
    /// Its description.
    pub(super) reason: String,
    cause: FaultCause,
}

/// The observation from which a device's fault is concluded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FaultCause {
    /// The probe reported it.
    Reported,
    /// The probe ended without an answer.
    Ended,
    /// The probe ran out of time.
    Late,
}

/// The bounds of a probe. An emulated device computes on the processor, so that a busy machine
/// makes it late without making it faulty. A card that does not answer in time is faulty.
fn probe_bounds(device: DeviceKind) -> Bounds {
    let (cpu_seconds, patience) = match device {
        DeviceKind::Nvidia => (None, PROBE_ALLOWANCE),
        DeviceKind::Emulated => (
            Some(PROBE_ALLOWANCE.as_secs() * u64::from(available_threads())),
            PROBE_ALLOWANCE * WALL_FACTOR,
        ),
    };
    Bounds {
        limits: Limits {
            cpu_seconds,
            ..Limits::default()
        },
        readiness: Some(patience),
        deadline: patience,
    }
}

/// Probes the device and the compiler; `Err` holds the fault. If only a probe with weaker
/// confinement works, `confinement` becomes that confinement.
pub(super) fn probe(
    settings: &Settings,
    nvrtc: &Path,
    driver: Option<&Path>,
    confinement: &mut Confinement,
    cancellation: &Cancellation,
) -> Result<WorkingDevice, ProbeError> {
    let first = run_first_probe(settings, nvrtc, driver, confinement, cancellation);
    let why = match &first {
        // A probe that ran out of time found nothing out about confinement.
        Err(ProbeError::Device(fault)) if fault.cause != FaultCause::Late => fault.reason.clone(),
        Err(ProbeError::Host(HostError::Supervise(
            fault @ supervise::SuperviseError::Start { .. },
        ))) => with_causes(fault),
        Ok(_) | Err(_) => return first,
    };
    for (given_up, weaker) in confinement.weaker(&why) {
        let outside = run_first_probe(settings, nvrtc, driver, &weaker, cancellation);
        if let Ok(found) = outside {
            // A fault that has gone on a repeat is no reason to weaken the confinement.
            let again = run_first_probe(settings, nvrtc, driver, confinement, cancellation);
            if let Ok(found) = again {
                return Ok(found);
            }
            tracing::warn!("roles go without {given_up}: a probe with all barriers failed: {why}");
            *confinement = weaker;
            return Ok(found);
        }
    }
    first
}

/// Runs a probe before the machine is known.
fn run_first_probe(
    settings: &Settings,
    nvrtc: &Path,
    driver: Option<&Path>,
    confinement: &Confinement,
    cancellation: &Cancellation,
) -> Result<WorkingDevice, ProbeError> {
    let program = role_program(
        settings,
        Role::Probe,
        nvrtc,
        driver,
        &settings.data,
        confinement,
    );
    let job = ProbeJob {
        // An emulated device states its rates.
        measure_rates: driver.is_none(),
    };
    let bounds = probe_bounds(match driver {
        Some(_) => DeviceKind::Emulated,
        None => DeviceKind::Nvidia,
    });
    probe_with(settings, &program, nvrtc, &job, bounds, cancellation)
}

fn probe_with(
    settings: &Settings,
    program: &Program,
    nvrtc: &Path,
    job: &ProbeJob,
    bounds: Bounds,
    cancellation: &Cancellation,
) -> Result<WorkingDevice, ProbeError> {
    let answer = match supervise::ask::<_, ProbeReply>(program, job, bounds, cancellation) {
        Ok(answer) => answer,
        Err(supervise::SuperviseError::UnsupportedMachine { reason }) => {
            return Err(ProbeError::device(reason, FaultCause::Ended));
        }
        Err(supervise::SuperviseError::Unready { how, late }) => {
            let cause = if late {
                FaultCause::Late
            } else {
                FaultCause::Ended
            };
            return Err(ProbeError::device(format!("the probe {how}"), cause));
        }
        Err(error) => return Err(HostError::from(error).into()),
    };
    match answer.reply {
        Ok(ProbeReply::Ready {
            device,
            toolchain,
            rates,
            measured_rates,
            vitals,
        }) => {
            if !vitals.computed {
                tracing::warn!(
                    "the device was not asked for the known matrix product: its driver compiles no PTX; install the \
                     driver's just-in-time compiler (libnvidia-ptxjitcompiler)"
                );
            }
            let prebuilt = settings.prebuilt.as_ref();
            match prebuilt.map(|made| made.toolchain.clone()).or(toolchain) {
                Some(toolchain) => Ok(WorkingDevice {
                    device,
                    toolchain,
                    rates,
                    measured_rates,
                    confinement_report: ConfinementReport::read(&answer.stderr.text()),
                    vitals,
                }),
                None => Err(ProbeError::device(
                    format!("the compiler in {} does not load", nvrtc.display()),
                    FaultCause::Ended,
                )),
            }
        }
        Ok(ProbeReply::Unusable { reason }) => {
            Err(ProbeError::device(reason, FaultCause::Reported))
        }
        Err(exit) => {
            let cause = match exit {
                Exit::TimedOut => FaultCause::Late,
                _ => FaultCause::Ended,
            };
            let reason = describe_end(&exit, answer.stderr.last_line());
            Err(ProbeError::device(reason, cause))
        }
    }
}

fn describe_end(exit: &Exit, last_line: Option<String>) -> String {
    let last_line = last_line
        .map(|line| format!(": {line}"))
        .unwrap_or_default();
    format!("the probe {exit}{last_line}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_makes_an_emulated_device_late_and_not_faulty() {
        let emulated = probe_bounds(DeviceKind::Emulated);
        let card = probe_bounds(DeviceKind::Nvidia);
        assert_eq!(card.deadline, PROBE_ALLOWANCE);
        // Its processor time is bounded; its wall time has to allow for a loaded machine.
        assert!(emulated.limits.cpu_seconds.is_some());
        assert!(emulated.deadline >= 4 * PROBE_ALLOWANCE);
        assert!(emulated.readiness >= Some(4 * PROBE_ALLOWANCE));
    }
}
