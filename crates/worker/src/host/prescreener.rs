//! Who looks at a candidate before a device that proves nothing: the emulated device that resembles it
//! most, asked in a process of its own for a bounded time.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use domain::device::Device;
use domain::role::{Next, RunJob, RunReply};

use super::isolation::Barriers;
use super::program::EMULATED_DEVICE;
use super::roles::brought_in;
use super::{Host, HostError, Role};
use crate::cancel::Cancellation;
use crate::supervise::{self, Answer};

/// Wall time of one pre-screen, from when its process is ready, and the most that this may take. It
/// bounds what an evaluation waits for; nothing is decided by its end, so that a busy machine sees
/// less there and errs no more.
pub const CAP: Duration = Duration::from_secs(2);

/// Who looks first.
#[derive(Debug, Clone)]
pub struct Prescreener {
    /// The machine with an emulated device, or why there is none.
    pub device: Result<Arc<Host>, String>,
    /// Wall time for one candidate.
    pub cap: Duration,
}

impl Prescreener {
    /// The emulated device beside a card, behind barriers that nothing was taken from for the card's
    /// driver.
    ///
    /// # Errors
    /// [`HostError`] if the work was called off. A machine that cannot emulate says so.
    pub(super) fn beside(
        card: &Host,
        barriers: Barriers,
        cancellation: &Cancellation,
    ) -> Result<Self, HostError> {
        let mut settings = card.settings.clone();
        let chosen =
            settings.emulated_device.is_some() || std::env::var_os(EMULATED_DEVICE).is_some();
        if !chosen {
            settings.emulated_device = Some(stand_in(&card.device).to_owned());
        }
        let why = "NVIDIA's driver judges after it".to_owned();
        let device =
            match Host::emulating(settings, card.nvrtc.clone(), barriers, why, cancellation) {
                Ok(host) => Ok(Arc::new(host)),
                Err(HostError::Supervise(supervise::SuperviseError::Cancelled)) => {
                    return Err(supervise::SuperviseError::Cancelled.into());
                }
                Err(fault) => {
                    tracing::warn!(
                        "candidates are not pre-screened on an emulated device: {fault}"
                    );
                    Err(fault.to_string())
                }
            };
        Ok(Self { device, cap: CAP })
    }
}

impl Host {
    /// The same machine with another one, or none, to look first.
    #[must_use]
    pub fn prescreened_by(mut self, prescreener: Prescreener) -> Self {
        self.prescreener = Some(prescreener);
        self
    }

    /// The same machine with nobody to look first, so that its device's own word can be heard.
    #[must_use]
    pub fn without_prescreen(mut self) -> Self {
        self.prescreener = None;
        self
    }

    /// Who looks at candidates first; none where the device proves enough by itself.
    pub fn prescreener(&self) -> Option<&Prescreener> {
        self.prescreener.as_ref().filter(|_| self.is_unproved())
    }

    /// Runs a candidate on the emulated device, execution by execution, with what [`Host::run`] puts
    /// around it: `hear` is told of each as it ends, and says whether another is wanted. All of it has
    /// `within`, and so has getting ready.
    ///
    /// # Errors
    /// As of [`Host::run`].
    pub fn run_one_by_one(
        &self,
        job: &RunJob,
        within: Duration,
        cancellation: &Cancellation,
        mut hear: impl FnMut(RunReply) -> Next,
    ) -> Result<Answer<()>, supervise::SuperviseError> {
        let process = self.process(Role::Run)?;
        self.prepare_next(Role::Run);
        let mut inside =
            brought_in(job, process.home.path()).map_err(supervise::SuperviseError::Folder)?;
        inside.one_by_one = true;
        retarget(&inside.image.ptx, self.device.compute_capability)
            .map_err(supervise::SuperviseError::Folder)?;
        let mut bounds = self.bounds_of_running(job, within);
        bounds.readiness = Some(within);
        bounds.deadline = within;
        let (answer, _home) =
            process.converse(&inside, bounds, cancellation, |reply: RunReply, _| {
                (!reply.executions.is_empty()).then(|| hear(reply))
            })?;
        Ok(answer)
    }
}

/// The emulated device that stands for a real one by its name; none of the others are modelled.
pub fn emulation_of(name: &str) -> Option<&'static str> {
    // The longer name first where one contains another.
    const KNOWN: [(&str, &str); 7] = [
        ("RTX A4000", "a4000"),
        ("RTX A6000", "a6000"),
        ("RTX 4090", "rtx4090"),
        ("A100", "a100"),
        ("H100", "h100"),
        ("H200", "h200"),
        ("L4", "l4"),
    ];
    // "L40" is no L4.
    let words: Vec<&str> = name.split([' ', '-']).collect();
    KNOWN
        .iter()
        .find(|(known, _)| {
            let known: Vec<&str> = known.split(' ').collect();
            words.windows(known.len()).any(|window| window == known)
        })
        .map(|(_, id)| *id)
}

/// The emulated device that resembles a card most: of its model, else of its architecture, else of
/// the next newer one, whose limits on a launch are no narrower.
fn stand_in(card: &Device) -> &'static str {
    let by_name = emulation_of(&card.name);
    by_name.unwrap_or(match card.compute_capability {
        (..=7, _) | (8, 0) => "a100",
        (8, ..=7) => "a6000",
        (8, _) => "rtx4090",
        _ => "h200",
    })
}

/// Lets a device take PTX that was made for a newer one, by its directive alone: what is executed is
/// what the machine code was assembled from, and an instruction that the device does not know is
/// refused when it is met. A second compilation for the older architecture could be another program,
/// since a source may ask for which one it is compiled.
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
            assert_eq!(stand_in(&card), id, "{name}");
        }
    }

    #[test]
    fn only_what_is_too_new_is_given_another_target() {
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
