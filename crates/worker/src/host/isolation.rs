//! How far role processes are kept from the machine: what the operator and the machine allow, and
//! what a role says that it reached.

use std::sync::Arc;

use gpu::walls::{Gap, Walls};
use serde::Serialize;

use super::Settings;

/// How far role processes are kept from the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Less than every supported kernel grants.
    Open,
    /// System calls are restricted, files are not.
    Reduced,
    /// Files by Landlock, system calls by a filter, amounts by limits, each tried at start. The filter
    /// lists what is left; around NVIDIA's driver, whose calls nobody can list, what is not.
    Standard,
    /// Beside that, namespaces of all kinds and a limited control group for each process.
    Strict,
}

impl Isolation {
    /// All levels, the least first.
    pub const ALL: [Self; 4] = [Self::Open, Self::Reduced, Self::Standard, Self::Strict];

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
        let says = |what: &str| said.confined.contains(what);
        let filtered = says("system calls: allow-list") || says("system calls: deny-list");
        let walled = EVERY_WALL.iter().all(|part| said.walled.contains(part));
        // What an older Landlock does not know, the filter of system calls refuses.
        match (filtered, says("files: Landlock"), walled) {
            (true, true, true) => Self::Strict,
            (true, true, false) => Self::Standard,
            (true, false, _) => Self::Reduced,
            (false, ..) => Self::Open,
        }
    }
}

/// What is put around roles, and what roles that open a device are told to give up.
#[derive(Debug, Clone)]
pub struct Barriers {
    /// What is put around them.
    pub walls: Arc<Walls>,
    /// Why they may reach any file; none where they may not.
    pub open_files: Option<Gap>,
}

impl Barriers {
    /// As much as the operator wants and the machine grants.
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

    /// What to try where a probe inside all of it failed, with the word for what is given up: the
    /// least first.
    pub(super) fn fewer(&self, why: &str) -> Vec<(&'static str, Self)> {
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
        match (self.open_files.is_none(), self.walls.are_there()) {
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

/// What a role says of walls that are all there.
const EVERY_WALL: [&str; 2] = [
    "namespaces: user, pid, mount, net, ipc",
    "control group: memory, tasks, kill",
];

/// What a role said before it worked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// Of what it gave up itself.
    pub confined: String,
    /// Of what it proved to be around it.
    pub walled: String,
}

impl Said {
    /// The level that this is.
    pub fn level(&self) -> Isolation {
        Isolation::read(self)
    }

    /// What is in a role's standard error.
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
            assert_eq!(Said::read(&said).level(), expected, "{said}");
        }
    }
}
