//! Pre-screening on an emulated device before a candidate reaches a device without proofs. The
//! emulated device is the one that resembles the card most; it runs in a process of its own for a
//! bounded time.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use domain::device::Device;
use domain::role::{Next, RunJob, RunReply};

use super::isolation::Confinement;
use super::program::EMULATED_DEVICE;
use super::roles::copy_into_home;
use super::{Host, HostError, Role};
use crate::cancel::Cancellation;
use crate::supervise::{self, Answer};

/// Wall time of one pre-screen once its process is ready, and the longest wait for that. It bounds
/// the delay of an evaluation. Running out of time decides nothing, so that a busy machine checks
/// fewer executions and rejects nothing wrongly.
pub const CAP: Duration = Duration::from_secs(2);

/// The emulated device that pre-screens, with its time limit.
#[derive(Debug, Clone)]
pub struct Prescreener {
    /// The machine with an emulated device, or the reason why there is none.
    pub device: Result<Arc<Host>, String>,
    /// Wall time for one candidate.
    pub cap: Duration,
}

impl Prescreener {
    /// Finds the emulated device beside a card. `confinement` are the machine's full confinement,
    /// because the card's driver may have needed a weaker one.
    ///
    /// # Errors
    /// [`HostError`] if the work was cancelled. A machine that cannot emulate gives a pre-screener
    /// that holds the reason.
    pub(super) fn find_beside(
        card: &Host,
        confinement: Confinement,
        cancellation: &Cancellation,
    ) -> Result<Self, HostError> {
        let mut settings = card.settings.clone();
        let chosen =
            settings.emulated_device.is_some() || std::env::var_os(EMULATED_DEVICE).is_some();
        if !chosen {
            settings.emulated_device = Some(nearest_emulation(&card.device).to_owned());
        }
        let why = "NVIDIA's driver judges after it".to_owned();
        let device = match Host::with_emulated_driver(
            settings,
            card.nvrtc.clone(),
            confinement,
            why,
            cancellation,
        ) {
            Ok(host) => Ok(Arc::new(host)),
            Err(HostError::Supervise(supervise::SuperviseError::Cancelled)) => {
                return Err(supervise::SuperviseError::Cancelled.into());
            }
            Err(fault) => {
                tracing::warn!("candidates are not pre-screened on an emulated device: {fault}");
                Err(fault.to_string())
            }
        };
        Ok(Self { device, cap: CAP })
    }
}

impl Host {
    /// The same machine with another pre-screener.
    #[must_use]
    pub fn prescreened_by(mut self, prescreener: Prescreener) -> Self {
        self.prescreener = Some(prescreener);
        self
    }

    /// The same machine without a pre-screener, so that the findings are those of its own device.
    #[must_use]
    pub fn without_prescreen(mut self) -> Self {
        self.prescreener = None;
        self
    }

    /// The pre-screener; `None` where the device itself proves enough.
    pub fn prescreener(&self) -> Option<&Prescreener> {
        self.prescreener.as_ref().filter(|_| self.is_unproved())
    }

    /// Runs a candidate on the emulated device, execution by execution, confined as by
    /// [`Host::run`]. `on_reply` gets the result of each execution and returns whether another one
    /// is wanted. Both getting ready and all executions together are limited to `within`.
    ///
    /// # Errors
    /// As of [`Host::run`].
    pub fn run_one_by_one(
        &self,
        job: &RunJob,
        within: Duration,
        cancellation: &Cancellation,
        mut on_reply: impl FnMut(RunReply) -> Next,
    ) -> Result<Answer<()>, supervise::SuperviseError> {
        let process = self.process(Role::Run)?;
        self.prepare_next(Role::Run);
        let mut inside =
            copy_into_home(job, process.home.path()).map_err(supervise::SuperviseError::Folder)?;
        inside.one_by_one = true;
        retarget(&inside.image.ptx, self.device.compute_capability)
            .map_err(supervise::SuperviseError::Folder)?;
        let mut bounds = self.run_bounds(job, within);
        bounds.readiness = Some(within);
        bounds.deadline = within;
        let (answer, _home) =
            process.converse(&inside, bounds, cancellation, |reply: RunReply, _| {
                (!reply.executions.is_empty()).then(|| on_reply(reply))
            })?;
        Ok(answer)
    }
}

/// The id of the emulated device that models a card of this name; `None` for a card without a
/// model.
pub fn emulation_of(name: &str) -> Option<&'static str> {
    // A longer name stands before one that it contains.
    const KNOWN: [(&str, &str); 8] = [
        ("RTX A4000", "a4000"),
        ("RTX A6000", "a6000"),
        ("RTX 4090", "rtx4090"),
        ("RTX PRO 6000", "rtxpro6000"),
        ("A100", "a100"),
        ("H100", "h100"),
        ("H200", "h200"),
        ("L4", "l4"),
    ];
    // Whole words are compared, because an "L40" is not an "L4".
    let words: Vec<&str> = name.split([' ', '-']).collect();
    KNOWN
        .iter()
        .find(|(known, _)| {
            let known: Vec<&str> = known.split(' ').collect();
            words.windows(known.len()).any(|window| window == known)
        })
        .map(|(_, id)| *id)
}

/// The id of the emulated device that resembles a card most: the same product, else the same
/// architecture, else the next newer one, whose launch limits are no narrower.
fn nearest_emulation(card: &Device) -> &'static str {
    let by_name = emulation_of(&card.name);
    by_name.unwrap_or(match card.compute_capability {
        (..=7, _) | (8, 0) => "a100",
        (8, ..=7) => "a6000",
        (8, _) => "rtx4090",
        (12.., _) => "rtxpro6000",
        _ => "h200",
    })
}

/// Makes PTX for a newer architecture loadable on an older device by changing its `.target`
/// directive alone. The device then executes the text from which the machine code was assembled,
/// and rejects an instruction that it does not know when it meets it. A second compilation for the
/// older architecture could be another program, because a source can test the architecture it is
/// compiled for.
fn retarget(ptx: &Path, capability: (u32, u32)) -> io::Result<()> {
    let text = std::fs::read_to_string(ptx)?;
    match retargeted(&text, capability) {
        Some(text) => std::fs::write(ptx, text),
        None => Ok(()),
    }
}

fn retargeted(text: &str, (major, minor): (u32, u32)) -> Option<String> {
    const DIRECTIVE: &str = ".target sm_";
    let at = text.find(DIRECTIVE)? + DIRECTIVE.len();
    let rest = &text[at..];
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric())?;
    let digits = rest[..end].trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let wanted: u32 = digits.parse().ok()?;
    let able = major * 10 + minor;
    (wanted > able).then(|| format!("{}{able}{}", &text[..at], &rest[end..]))
}

#[cfg(test)]
mod tests {
    use domain::device::{DeviceKind, Limits};

    use super::*;

    #[test]
    fn devices_are_emulated_by_their_whole_name() {
        for (name, id) in [
            ("NVIDIA H200", Some("h200")),
            ("NVIDIA A100-SXM4-80GB", Some("a100")),
            ("NVIDIA RTX A6000", Some("a6000")),
            ("NVIDIA GeForce RTX 4090", Some("rtx4090")),
            (
                "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
                Some("rtxpro6000"),
            ),
            ("NVIDIA L4", Some("l4")),
            ("NVIDIA L40S", None),
            ("NVIDIA RTX 6000 Ada Generation", None),
        ] {
            assert_eq!(emulation_of(name), id, "{name}");
        }
    }

    #[test]
    fn a_card_that_is_not_modelled_is_pre_screened_by_its_nearest_relative() {
        for (name, compute_capability, id) in [
            ("NVIDIA H100 80GB HBM3", (9, 0), "h100"),
            ("NVIDIA H20", (9, 0), "h200"),
            ("NVIDIA L40S", (8, 9), "rtx4090"),
            ("NVIDIA A10", (8, 6), "a6000"),
            ("NVIDIA A30", (8, 0), "a100"),
            ("Tesla T4", (7, 5), "a100"),
            ("NVIDIA B200", (10, 0), "h200"),
            ("NVIDIA GeForce RTX 5090", (12, 0), "rtxpro6000"),
        ] {
            let card = Device {
                name: name.to_owned(),
                kind: DeviceKind::Nvidia,
                uuid: String::new(),
                compute_capability,
                driver_version: 13000,
                memory_bytes: 1 << 34,
                l2_bytes: 1 << 25,
                limits: Limits {
                    sm_count: 40,
                    threads_per_block: 1024,
                    block: [1024, 1024, 64],
                    grid: [u32::MAX >> 1, 65535, 65535],
                    shared_per_block: 48 << 10,
                    shared_per_block_optin: 64 << 10,
                    shared_per_sm: 64 << 10,
                    registers_per_block: 1 << 16,
                    registers_per_sm: 1 << 16,
                    threads_per_sm: 1024,
                    blocks_per_sm: 16,
                },
            };
            assert_eq!(nearest_emulation(&card), id, "{name}");
        }
    }

    #[test]
    fn only_ptx_that_is_too_new_gets_another_target() {
        let text = |target: &str| {
            format!("// .target\n.version 9.0\n.target {target}\n.address_size 64\n")
        };
        for (target, capability, expected) in [
            ("sm_100", (9, 0), Some("sm_90")),
            ("sm_100a, debug", (9, 0), Some("sm_90, debug")),
            ("sm_89", (8, 0), Some("sm_80")),
            ("sm_90a", (9, 0), None),
            ("sm_75", (8, 9), None),
        ] {
            let found = retargeted(&text(target), capability);
            assert_eq!(found, expected.map(text), "{target}");
        }
        assert_eq!(retargeted("no directive", (8, 9)), None);
    }
}
