//! The calibration of a device that this machine has not probed often enough to judge its later probes by.

use domain::role::ProbeJob;

use super::{Host, HostError, Role};
use crate::cancel::Cancellation;

/// The results of a calibration, in the order of its probes.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// Speed of copies to the device and back, gigabytes per second.
    pub copies: Vec<f64>,
    /// Speed of a kernel that reads and writes device memory, gigabytes per second; empty where the device's rates are
    /// those of a model.
    pub memory: Vec<f64>,
}

impl Calibration {
    /// The difference between the fastest and the slowest probe as a share of the fastest: how much times of the same
    /// work vary on this device. None without a measured value.
    pub fn variation(&self) -> Option<f64> {
        let values = if self.memory.is_empty() {
            &self.copies
        } else {
            &self.memory
        };
        let fastest = values.iter().copied().reduce(f64::max)?;
        let slowest = values.iter().copied().reduce(f64::min)?;
        (fastest > 0.0).then(|| 1.0 - slowest / fastest)
    }
}

impl Host {
    /// Probes the device until its record holds enough probes to judge later ones by, and measures its best rates each
    /// time. Returns none if the record held enough before.
    ///
    /// # Errors
    /// [`HostError::Unusable`] if a probe finds the device defective, or the errors of starting a probe.
    pub fn calibrate(&self, cancellation: &Cancellation) -> Result<Option<Calibration>, HostError> {
        if self.health.record().is_calibrated() {
            return Ok(None);
        }
        self.end_spares_on_card();
        let program = self.program(Role::Probe, &self.settings.data);
        let job = ProbeJob {
            measure_rates: true,
        };
        let (mut copies, mut memory) = (Vec::new(), Vec::new());
        while !self.health.record().is_calibrated() {
            let found = self.probe_with(&program, &job, cancellation)?;
            copies.push(found.vitals.copy_gigabytes_per_second);
            self.health.change(|record| {
                record.record_healthy_probe(&found.vitals);
                if let Some(rates) = &found.measured_rates {
                    record.record_rates(rates);
                }
            });
            // Bytes per microsecond are megabytes per second.
            memory.extend(found.measured_rates.map(|rates| rates.bytes_per_us / 1e3));
        }
        Ok(Some(Calibration { copies, memory }))
    }
}

#[cfg(test)]
mod tests {
    use super::Calibration;

    #[test]
    fn the_variation_is_that_of_the_kernel_where_one_was_timed() {
        let cases = [
            (vec![10.0, 9.0], vec![200.0, 198.0, 199.0], Some(0.01)),
            (vec![10.0, 9.0], vec![], Some(0.1)),
            (vec![8.0], vec![], Some(0.0)),
            (vec![], vec![], None),
        ];
        for (copies, memory, expected) in cases {
            let found = Calibration { copies, memory }.variation();
            let differs = found
                .zip(expected)
                .is_some_and(|(found, expected)| (found - expected).abs() > 1e-12);
            assert!(
                !differs && found.is_some() == expected.is_some(),
                "{found:?} instead of {expected:?}"
            );
        }
    }
}
