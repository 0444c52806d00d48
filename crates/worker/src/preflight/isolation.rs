//! How far role processes are kept from the machine: what one says of itself, and what is missing.

use std::time::Duration;

use domain::device::DeviceKind;
use domain::role::{ProbeJob, ProbeReply};
use gpu::walls::Gap;
use serde::Serialize;

use super::{Check, fail, pass, warn};
use crate::cancel::Cancellation;
use crate::host::{Host, Role};
use crate::supervise;

/// How far role processes are kept from the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Less than every supported kernel grants.
    Open,
    /// System calls are restricted; files only partly or not.
    Reduced,
    /// Files by Landlock, system calls by an allow-list, amounts by limits, each tried at start.
    Standard,
    /// Beside that, namespaces of all kinds and a limited control group for each process.
    Strict,
}

impl Isolation {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Reduced => "reduced",
            Self::Standard => "standard",
            Self::Strict => "strict",
        }
    }

    /// What a role said of its own confinement and of the walls around it.
    fn read(said: &Said) -> Self {
        let restricted = said.confined.contains("system calls: allow-list");
        let said_to_be = |parts: &[&str]| {
            let mut parts = parts.iter();
            parts.all(|part| said.walled.contains(part))
        };
        if restricted && said.confined.contains("Landlock, fully enforced") {
            if said_to_be(&EVERY_WALL) {
                Self::Strict
            } else {
                Self::Standard
            }
        } else if restricted || said.confined.contains("system calls: deny-list") {
            Self::Reduced
        } else {
            Self::Open
        }
    }
}

/// What a role says of walls that are all there.
const EVERY_WALL: [&str; 2] = [
    "namespaces: user, pid, mount, net, ipc",
    "control group: memory, tasks, kill",
];

/// What a role said before it worked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// Of what it gave up itself.
    confined: String,
    /// Of what it proved to be around it.
    walled: String,
}

impl Said {
    /// What is in a role's standard error.
    fn read(text: &str) -> Self {
        let within = |word: &str| {
            let mut lines = text.lines();
            let line = lines.find_map(|line| line.strip_prefix(word)?.strip_prefix(" ("));
            line.map(|line| line.trim_end_matches(')').to_owned())
        };
        Self {
            confined: within("confined").unwrap_or_default(),
            walled: within("walled").unwrap_or_default(),
        }
    }
}

pub(super) fn isolated(level: Isolation, said: &Said, kind: DeviceKind) -> Check {
    let confined = match said.confined.as_str() {
        "" => "the probe did not say",
        confined => confined,
    };
    let found = format!("{}: {confined}", level.as_str());
    match (level, kind) {
        (Isolation::Strict | Isolation::Standard, _) => pass("isolation", found),
        (Isolation::Reduced, DeviceKind::Nvidia) => warn(
            "isolation",
            found,
            "GPU drivers open files as they go: run the worker as a user of its own, in a container without secrets",
        ),
        (Isolation::Reduced, DeviceKind::Emulated) => warn(
            "isolation",
            found,
            "for standard: a kernel with Landlock (5.13 or newer, `lsm=landlock` among its parameters)",
        ),
        (Isolation::Open, _) => fail(
            "isolation",
            found,
            "for reduced: a kernel and a container that allow seccomp filters",
        ),
    }
}

/// What is around roles, and what an operator can do about the rest. None of it is needed.
pub(super) fn walled(said: &Said, gaps: &[Gap]) -> Check {
    let there = match said.walled.as_str() {
        "" => "none",
        walls => walls,
    };
    if gaps.is_empty() {
        return pass("walls", there.to_owned());
    }
    let missing = gaps
        .iter()
        .map(|gap| format!("{}: {}", gap.part, gap.reason));
    let missing = missing.collect::<Vec<_>>().join("; ");
    let mut fixes = gaps.iter().map(|gap| gap.fix.as_str()).collect::<Vec<_>>();
    fixes.dedup();
    warn(
        "walls",
        format!("{there}; missing for strict: {missing}"),
        fixes.join("; "),
    )
}

/// What a probe says of its own confinement.
pub(super) fn isolation(
    host: &Host,
    deadline: Duration,
    cancellation: &Cancellation,
) -> (Isolation, Said) {
    let program = host.program(Role::Probe, host.data());
    let bounds = host.bounds(Role::Probe, deadline);
    let job = ProbeJob::default();
    let answer = supervise::ask::<_, ProbeReply>(&program, &job, bounds, cancellation);
    let said = answer.map_or_else(
        |_| Said::default(),
        |answer| Said::read(&answer.stderr.text()),
    );
    (Isolation::read(&said), said)
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn isolation_is_read_from_what_a_role_says() {
        const FULL: &str = "confined (files: Landlock, fully enforced; system calls: allow-list)";
        const NAMESPACES: &str = "namespaces: user, pid, mount, net, ipc";
        for (said, expected) in [
            (
                format!(
                    "walled ({NAMESPACES}; control group: memory, tasks, kill)\n{FULL}\nmore\n"
                ),
                Isolation::Strict,
            ),
            (
                format!("walled ({NAMESPACES}; control group: kill)\n{FULL}\n"),
                Isolation::Standard,
            ),
            (
                format!("walled (namespaces: net)\n{FULL}\n"),
                Isolation::Standard,
            ),
            (format!("{FULL}\n"), Isolation::Standard),
            (
                format!(
                    "walled ({NAMESPACES}; control group: memory, tasks, kill)\n{}\n",
                    FULL.replace("fully", "partially")
                ),
                Isolation::Reduced,
            ),
            (
                "confined (files: open, as the GPU driver needs; system calls: deny-list)"
                    .to_owned(),
                Isolation::Reduced,
            ),
            (String::new(), Isolation::Open),
        ] {
            assert_eq!(Isolation::read(&Said::read(&said)), expected, "{said}");
        }
    }

    #[test]
    fn what_is_missing_of_the_walls_has_its_fix() {
        let said = Said::read("walled (namespaces: user)");
        assert_eq!(walled(&said, &[]).status, Status::Pass);
        let gap = |part, fix: &str| Gap {
            part,
            reason: "refused".to_owned(),
            fix: fix.to_owned(),
        };
        let gaps = [gap("pid", "allow it"), gap("net", "allow it")];
        let check = walled(&said, &gaps);
        assert_eq!(check.status, Status::Warn);
        assert_eq!(check.fix.as_deref(), Some("allow it"));
        assert!(
            check.found.contains("pid: refused; net: refused"),
            "{}",
            check.found
        );
    }
}
