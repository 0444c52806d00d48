//! Checks of the confinement of role processes, with the fix for each part that is missing.

use gpu::walls::Gap;

use super::{Check, fail, pass, warn};
use crate::host::{ConfinementReport, Isolation};

/// Checks the confinement that roles put on themselves.
pub(super) fn isolated(report: &ConfinementReport, open_files: Option<&Gap>) -> Check {
    let confined = match report.confined.as_str() {
        "" => "the probe did not say",
        confined => confined,
    };
    let level = report.level();
    let found = format!("{}: {confined}", level.as_str());
    match level {
        Isolation::Strict | Isolation::Standard => pass("isolation", found),
        Isolation::Reduced => {
            let found = open_files.map_or(found.clone(), |gap| format!("{found}: {}", gap.reason));
            warn("isolation", found, fix(open_files))
        }
        Isolation::Open => fail(
            "isolation",
            found,
            "for reduced: a kernel and a container that allow seccomp filters",
        ),
    }
}

/// The fix that raises the level from *reduced* to *standard*.
fn fix(open_files: Option<&Gap>) -> String {
    let kernel = "a kernel with Landlock (5.13 or newer, `lsm=landlock` among its parameters)";
    let fix = open_files.map_or(kernel, |gap| gap.fix.as_str());
    format!(
        "for standard: {fix}; until then give the worker a user of its own, in a container without secrets"
    )
}

/// Checks the walls around roles. A missing wall is a warning, because no level but *strict* needs
/// them.
pub(super) fn walled(report: &ConfinementReport, gaps: &[Gap]) -> Check {
    let there = match report.walled.as_str() {
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

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn files_that_stay_open_have_their_reason_and_their_fix() {
        let said = |files: &str| {
            ConfinementReport::read(&format!(
                "confined (files: {files}; system calls: deny-list)"
            ))
        };
        let restricted = isolated(&said("Landlock, partially enforced"), None);
        assert_eq!(restricted.status, Status::Pass);

        let old = isolated(&said("open, since this kernel has no Landlock"), None);
        assert_eq!(old.status, Status::Warn);
        assert!(old.fix.unwrap().contains("a kernel with Landlock"));

        let gap = Gap {
            part: "files",
            reason: "the driver failed".to_owned(),
            fix: "report it".to_owned(),
        };
        let given_up = isolated(&said("open, as the worker wants it"), Some(&gap));
        assert!(
            given_up.found.ends_with(": the driver failed"),
            "{}",
            given_up.found
        );
        assert!(given_up.fix.unwrap().contains("report it"));
        assert_eq!(
            isolated(&ConfinementReport::default(), None).status,
            Status::Fail
        );
    }

    #[test]
    fn each_missing_wall_has_its_fix() {
        let said = ConfinementReport::read("walled (namespaces: user)");
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
