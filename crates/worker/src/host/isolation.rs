//! The confinement of role processes: as much as the operator and the machine allow, and the level
//! that a role reports.

use std::sync::Arc;

use gpu::walls::{Gap, Walls};
use serde::Serialize;

use super::Settings;

/// The level of confinement of role processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Less than every supported kernel grants.
    Open,
    /// System calls are restricted, files are not.
    Reduced,
    /// Files are restricted by Landlock, system calls by a filter, amounts by limits; each is
    /// tested at start. The filter is an allow-list, except around NVIDIA's driver, whose system
    /// calls are not documented: there it is a deny-list.
    Standard,
    /// Also namespaces of all kinds, and a limited control group for each process.
    Strict,
}

impl Isolation {
    /// All levels, the weakest first.
    pub const ALL: [Self; 4] = [Self::Open, Self::Reduced, Self::Standard, Self::Strict];

    /// The level's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Reduced => "reduced",
            Self::Standard => "standard",
            Self::Strict => "strict",
        }
    }

    /// The level that a role's reports of its confinement and its walls amount to.
    fn of_report(report: &ConfinementReport) -> Self {
        let says = |what: &str| report.confined.contains(what);
        let filtered = says("system calls: allow-list") || says("system calls: deny-list");
        let walled = EVERY_WALL.iter().all(|part| report.walled.contains(part));
        // A partly enforced Landlock counts, because the filter refuses the system calls that an
        // older Landlock does not cover.
        match (filtered, says("files: Landlock"), walled) {
            (true, true, true) => Self::Strict,
            (true, true, false) => Self::Standard,
            (true, false, _) => Self::Reduced,
            (false, ..) => Self::Open,
        }
    }
}

/// The confinement of roles: walls around them, and the file access of roles that open a device.
#[derive(Debug, Clone)]
pub struct Confinement {
    /// Namespaces and control groups.
    pub walls: Arc<Walls>,
    /// The reason why these roles may access any file; `None` if they may not.
    pub open_files: Option<Gap>,
}

impl Confinement {
    /// Finds the strongest confinement that the operator wants and the machine grants.
    pub(super) fn find(settings: &Settings) -> Self {
        let walls = if settings.walls {
            Walls::find()
        } else {
            Walls::none(
                "set aside by KERNELWRIGHT_WALLS",
                "unset KERNELWRIGHT_WALLS",
            )
        };
        let open_files = settings.open_files.then(|| {
            files_open(
                "set aside by KERNELWRIGHT_DEVICE_FILES",
                "unset KERNELWRIGHT_DEVICE_FILES",
            )
        });
        Self {
            walls: Arc::new(walls),
            open_files,
        }
    }

    /// Weaker confinements to try after a probe failed for the reason `why`, each with the name of
    /// what is given up; the smallest concession first.
    pub(super) fn weaker(&self, why: &str) -> Vec<(&'static str, Self)> {
        let open_files = files_open(
            &format!("a probe with restricted files failed: {why}"),
            "report it with the driver's version: a probe with open files works here",
        );
        let no_walls = Walls::none(
            &format!("a probe inside walls failed: {why}"),
            "report it: a probe without walls works here",
        );
        let open = |from: &Self| Self {
            open_files: Some(open_files.clone()),
            ..from.clone()
        };
        let bare = Self {
            walls: Arc::new(no_walls),
            ..self.clone()
        };
        match (self.open_files.is_none(), self.walls.exist()) {
            (true, true) => vec![
                ("restricted files", open(self)),
                ("walls", bare.clone()),
                ("walls and restricted files", open(&bare)),
            ],
            (true, false) => vec![("restricted files", open(self))],
            (false, true) => vec![("walls", bare)],
            (false, false) => Vec::new(),
        }
    }
}

fn files_open(reason: &str, fix: &str) -> Gap {
    Gap {
        part: "files",
        reason: reason.to_owned(),
        fix: fix.to_owned(),
    }
}

/// The parts that a role with complete walls reports.
const EVERY_WALL: [&str; 2] = [
    "namespaces: user, pid, mount, net, ipc",
    "control group: memory, tasks, kill",
];

/// The confinement that a role reported before it worked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfinementReport {
    /// The restrictions that it put on itself.
    pub confined: String,
    /// The walls that it found around itself.
    pub walled: String,
}

impl ConfinementReport {
    /// The level that this amounts to.
    pub fn level(&self) -> Isolation {
        Isolation::of_report(self)
    }

    /// Reads the reports from a role's standard error.
    pub fn read(text: &str) -> Self {
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

#[cfg(test)]
mod tests {
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
                Isolation::Strict,
            ),
            (FULL.replace("allow-list", "deny-list"), Isolation::Standard),
            (
                "confined (files: open, as the worker wants it; system calls: deny-list)"
                    .to_owned(),
                Isolation::Reduced,
            ),
            (String::new(), Isolation::Open),
        ] {
            assert_eq!(ConfinementReport::read(&said).level(), expected, "{said}");
        }
    }
}
