//! Health checks of the device: whether it takes work, when it is probed, and when it is
//! quarantined.

use std::path::Path;
use std::time::Duration;

use domain::device::{Device, DeviceKind};
use domain::digest::Digest;
use domain::health::{Condition, HealthReadings};
use domain::judge::Exit;
use domain::role::{ProbeJob, ProbeReply};
use domain::statistics::Rates;

use super::isolation::{Barriers, Said};
use super::program::program;
use super::roles::WALL_FACTOR;
use super::{Host, HostError, Role, Settings, threads};
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
    pub fn is_fit(&self) -> Result<(), HostError> {
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
    /// [`HostError::Quarantined`], [`HostError::Poison`], or the errors of [`Self::check`].
    pub fn admit(
        &self,
        candidate: &Digest,
        relied_upon: bool,
        cancellation: &Cancellation,
    ) -> Result<(), HostError> {
        self.is_fit()?;
        let (poison, due) = self
            .health
            .change(|record| (record.is_quarantined(candidate), record.is_due()));
        if poison {
            return Err(HostError::Poison {
                candidate: candidate.short(),
            });
        }
        if due || relied_upon {
            self.check(cancellation)?;
        }
        Ok(())
    }

    /// Records that the device failed its health check after it had run a candidate.
    pub fn blame(&self, candidate: Digest) {
        self.health.change(|record| record.record_break(candidate));
    }

    /// Probes the device. A device that fails is probed again at once, a card a third time after a
    /// pause; a device that fails every time is quarantined.
    ///
    /// # Errors
    /// [`HostError::Unusable`] if an emulated device gives no answer, [`HostError::Quarantined`] if
    /// its answers are wrong, or if a card fails in any way.
    pub fn check(&self, cancellation: &Cancellation) -> Result<(), HostError> {
        // The memory that spares hold would be missing.
        self.clear_the_device();
        let real = self.device.kind == DeviceKind::Nvidia;
        let pauses: &[Duration] = if real {
            &[Duration::ZERO, Duration::ZERO, RECOVERY]
        } else {
            &[Duration::ZERO; 2]
        };
        let mut ailment = None;
        for pause in pauses {
            if !pause.is_zero() && cancellation.wait(*pause) {
                return Err(supervise::SuperviseError::Cancelled.into());
            }
            match self.ask_how_it_is(cancellation)? {
                Ok(vitals) => {
                    self.health
                        .change(|record| record.record_healthy_probe(&vitals));
                    return Ok(());
                }
                Err(found) => {
                    tracing::warn!("the device is unwell: {}", found.reason);
                    ailment = Some(found);
                }
            }
        }
        let Some(Ailment {
            reason, answered, ..
        }) = ailment
        else {
            return Ok(());
        };
        // A machine under load keeps an emulated device from answering; a card has no such excuse.
        if real || answered {
            self.health.change(|record| record.quarantine(&reason));
            self.withdraw_spares();
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
            self.clear_the_device();
            let program = self.program(Role::Probe, &self.settings.data);
            let job = ProbeJob {
                measure_rates: true,
            };
            let found = self.probe_with(&program, &job, cancellation)?;
            if let Ok(Some(measured)) = found.map(|found| found.measured_rates) {
                self.health.change(|record| record.record_rates(&measured));
            }
        }
        Ok(self.rates())
    }

    fn probe_with(
        &self,
        program: &Program,
        job: &ProbeJob,
        cancellation: &Cancellation,
    ) -> Result<Result<Found, Ailment>, HostError> {
        let mut bounds = probe_bounds(self.device.kind);
        if let Some(backstop) = self.rehearsal.wall_limit() {
            let patience = backstop.max(PROBE_ALLOWANCE);
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
    fn ask_how_it_is(
        &self,
        cancellation: &Cancellation,
    ) -> Result<Result<HealthReadings, Ailment>, HostError> {
        let program = self.program(Role::Probe, &self.settings.data);
        let found = self.probe_with(&program, &ProbeJob::default(), cancellation)?;
        Ok(found.and_then(|found| {
            let wrong = |reason| Ailment {
                reason,
                answered: true,
                late: false,
            };
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
        }))
    }
}

/// The properties of a device that works.
pub(super) struct Found {
    pub(super) device: Device,
    pub(super) toolchain: String,
    pub(super) rates: Option<Rates>,
    pub(super) measured_rates: Option<Rates>,
    /// The confinement that the probe reported.
    pub(super) said: Said,
    vitals: HealthReadings,
}

/// The fault of a device, or of the attempt to probe it.
struct Ailment {
    reason: String,
    /// True if the probe itself reported the fault; false if the probe ended without an answer.
    answered: bool,
    /// True if the probe ran out of time.
    late: bool,
}

/// The bounds of a probe. An emulated device computes on the processor, so that a busy machine
/// makes it late without making it faulty. A card that does not answer in time is faulty.
fn probe_bounds(device: DeviceKind) -> Bounds {
    let (cpu_seconds, patience) = match device {
        DeviceKind::Nvidia => (None, PROBE_ALLOWANCE),
        DeviceKind::Emulated => (
            Some(PROBE_ALLOWANCE.as_secs() * u64::from(threads())),
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
/// confinement works, `barriers` becomes that confinement.
pub(super) fn probe(
    settings: &Settings,
    nvrtc: &Path,
    driver: Option<&Path>,
    barriers: &mut Barriers,
    cancellation: &Cancellation,
) -> Result<Result<Found, String>, HostError> {
    let inside = probe_inside(settings, nvrtc, driver, barriers, cancellation);
    let why = match &inside {
        Ok(Ok(_)) => None,
        // A probe that ran out of time found nothing out about confinement.
        Ok(Err(ailment)) if ailment.late => None,
        Ok(Err(ailment)) => Some(ailment.reason.clone()),
        Err(HostError::Supervise(fault @ supervise::SuperviseError::Start { .. })) => {
            Some(with_cause(fault))
        }
        Err(_) => None,
    };
    if let Some(why) = why {
        for (given_up, fewer) in barriers.fewer(&why) {
            let outside = probe_inside(settings, nvrtc, driver, &fewer, cancellation);
            if let Ok(Ok(found)) = outside {
                // A fault that has gone on a repeat is no reason to weaken the confinement.
                let again = probe_inside(settings, nvrtc, driver, barriers, cancellation);
                if let Ok(Ok(found)) = again {
                    return Ok(Ok(found));
                }
                tracing::warn!(
                    "roles go without {given_up}: a probe with all barriers failed: {why}"
                );
                *barriers = fewer;
                return Ok(Ok(found));
            }
        }
    }
    Ok(inside?.map_err(|ailment| ailment.reason))
}

fn with_cause(fault: &supervise::SuperviseError) -> String {
    let cause = std::error::Error::source(fault);
    let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{fault}{cause}")
}

fn probe_inside(
    settings: &Settings,
    nvrtc: &Path,
    driver: Option<&Path>,
    barriers: &Barriers,
    cancellation: &Cancellation,
) -> Result<Result<Found, Ailment>, HostError> {
    let program = program(
        settings,
        Role::Probe,
        nvrtc,
        driver,
        &settings.data,
        barriers,
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
) -> Result<Result<Found, Ailment>, HostError> {
    let ailing = |reason, answered| {
        Err(Ailment {
            reason,
            answered,
            late: false,
        })
    };
    let late = |reason| {
        Err(Ailment {
            reason,
            answered: false,
            late: true,
        })
    };
    let answer = match supervise::ask::<_, ProbeReply>(program, job, bounds, cancellation) {
        Ok(answer) => answer,
        Err(supervise::SuperviseError::Surroundings { reason }) => {
            return Ok(ailing(reason, false));
        }
        Err(supervise::SuperviseError::Unready { how, late: true }) => {
            return Ok(late(format!("the probe {how}")));
        }
        Err(supervise::SuperviseError::Unready { how, late: false }) => {
            return Ok(ailing(format!("the probe {how}"), false));
        }
        Err(fault) => return Err(fault.into()),
    };
    Ok(match answer.reply {
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
                Some(toolchain) => Ok(Found {
                    device,
                    toolchain,
                    rates,
                    measured_rates,
                    said: Said::read(&answer.stderr.text()),
                    vitals,
                }),
                None => ailing(
                    format!("the compiler in {} does not load", nvrtc.display()),
                    false,
                ),
            }
        }
        Ok(ProbeReply::Unusable { reason }) => ailing(reason, true),
        Err(Exit::TimedOut) => late(died(&Exit::TimedOut, answer.stderr.last_line())),
        Err(exit) => ailing(died(&exit, answer.stderr.last_line()), false),
    })
}

fn died(exit: &Exit, last_line: Option<String>) -> String {
    let said = last_line
        .map(|line| format!(": {line}"))
        .unwrap_or_default();
    format!("the probe {exit}{said}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_makes_an_emulated_device_late_and_not_unwell() {
        let emulated = probe_bounds(DeviceKind::Emulated);
        let card = probe_bounds(DeviceKind::Nvidia);
        assert_eq!(card.deadline, PROBE_ALLOWANCE);
        // Its processor time is bounded; its wall time has to allow for a loaded machine.
        assert!(emulated.limits.cpu_seconds.is_some());
        assert!(emulated.deadline >= 4 * PROBE_ALLOWANCE);
        assert!(emulated.readiness >= Some(4 * PROBE_ALLOWANCE));
    }
}
