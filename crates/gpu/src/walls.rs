//! Walls around a role process: namespaces and a control group, as far as this machine grants them.
//!
//! The process that starts a role creates the walls before the role executes its first instruction; the role
//! [proves](prove) them before it does anything else. The rights that a role gives up itself are in
//! [`crate::confine`]. If this machine does not grant one part, the others are still used. The module knows no role.

mod group;
mod proof;
#[expect(
    unsafe_code,
    reason = "the standard library starts no process inside namespaces"
)]
mod start;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use domain::role::walls::{Claims, Namespace, WALLS_VARIABLE};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};

use group::GroupParent;
use start::{ExecImage, ProcessOptions, StartError, Step};

pub use group::{Group, PREFIX};
pub use proof::prove;
pub use start::{handle_signals, signal_from_status};

/// Most processes and threads of one role, besides as many of each kind as the machine has processors, because the
/// emulated device, a compiler and a driver start threads by that number.
const TASKS: u64 = 64;

/// A part of the walls that this machine does not grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// Name of the part.
    pub part: &'static str,
    /// The reason.
    pub reason: String,
    /// An action of the operator that would help.
    pub fix: String,
}

/// The walls that this machine grants.
#[derive(Debug, Clone)]
pub struct Walls {
    outside: BTreeMap<Namespace, String>,
    base: Option<GroupParent>,
    gaps: Vec<Gap>,
}

/// A program to start inside walls.
#[derive(Debug, Clone, Copy)]
pub struct WalledProgram<'a> {
    /// The executable, with its absolute path.
    pub executable: &'a Path,
    /// Its arguments.
    pub arguments: &'a [OsString],
    /// Its environment, to which the claims are added.
    pub environment: &'a [(OsString, OsString)],
    /// Its working directory.
    pub directory: &'a Path,
    /// Limit of the memory of all its processes together, bytes.
    pub memory_bytes: Option<u64>,
}

/// A process inside walls. The owner of this value must kill the process and collect its exit status.
#[derive(Debug)]
pub struct WalledProcess {
    /// Its process number outside.
    pub pid: Pid,
    /// A descriptor that becomes readable when it has ended.
    pub ended: OwnedFd,
    /// Its control group.
    pub group: Option<Group>,
}

impl Walls {
    /// No walls, with a reason and an action of the operator that would help.
    pub fn none(reason: &str, fix: &str) -> Self {
        Self {
            outside: BTreeMap::new(),
            base: None,
            gaps: vec![Gap {
                part: "walls",
                reason: reason.to_owned(),
                fix: fix.to_owned(),
            }],
        }
    }

    /// Tests which walls this machine grants, part by part if it does not grant all of them.
    pub fn find() -> Self {
        let (granted, mut gaps) = namespaces(try_namespaces);
        let mut outside = BTreeMap::new();
        for kind in granted {
            // On a system without these links a namespace cannot be checked, so it is not claimed.
            if let Ok(own) = fs::read_link(kind.link()) {
                outside.insert(kind, own.to_string_lossy().into_owned());
            }
        }
        let base = match GroupParent::find() {
            Ok((base, lacking)) => {
                gaps.extend(lacking);
                Some(base)
            }
            Err(gap) => {
                gaps.push(gap);
                None
            }
        };
        Self {
            outside,
            base,
            gaps,
        }
    }

    /// Returns true if there is any.
    pub fn exist(&self) -> bool {
        !self.outside.is_empty() || self.base.is_some()
    }

    /// Returns true if a process inside cannot see processes outside, and is process 1 of its own namespace.
    pub fn hide_processes(&self) -> bool {
        self.outside.contains_key(&Namespace::Pid)
    }

    /// Returns true if all parts are granted.
    pub fn are_complete(&self) -> bool {
        let group = self.base.as_ref().is_some_and(GroupParent::is_complete);
        self.outside.len() == Namespace::ALL.len() && group
    }

    /// The parts that are not granted.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// Starts a program inside.
    ///
    /// # Errors
    /// The system's error, with the step that it refused.
    pub fn start(
        &self,
        inside: WalledProgram<'_>,
        streams: [OwnedFd; 3],
    ) -> io::Result<WalledProcess> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let tasks = TASKS + 4 * processors as u64;
        let group = match &self.base {
            Some(base) => Some(base.make(inside.memory_bytes, tasks).map_err(|error| {
                io::Error::new(error.kind(), format!("make its control group: {error}"))
            })?),
            None => None,
        };
        let claims = Claims {
            outside: self.outside.clone(),
            group: self
                .base
                .as_ref()
                .zip(group.as_ref())
                .map(|(base, group)| base.claim(group, inside.memory_bytes, tasks)),
        };
        let claims = serde_json::to_string(&claims).expect("text and numbers serialise");
        let mut environment = inside.environment.to_vec();
        environment.push((WALLS_VARIABLE.into(), claims.into()));
        let image = ExecImage::new(
            inside.executable,
            inside.arguments,
            &environment,
            inside.directory,
        )?;
        // Duplicated to numbers above the standard streams, to which they are copied later.
        let mut high = Vec::new();
        for stream in streams {
            high.push(rustix::io::fcntl_dupfd_cloexec(&stream, 3)?);
        }
        let options = ProcessOptions {
            namespaces: &self.outside.keys().copied().collect::<Vec<_>>(),
            group: group.as_ref().map(|group| group.as_fd()),
            streams: Some([high[0].as_fd(), high[1].as_fd(), high[2].as_fd()]),
            image: Some(&image),
        };
        let (pid, ended) = start::start(&options).map_err(|refusal| {
            io::Error::new(io::Error::from(refusal.errno).kind(), refusal.to_string())
        })?;
        Ok(WalledProcess { pid, ended, group })
    }
}

/// The kinds that `attempt` grants together, and the reasons for the others.
fn namespaces(
    attempt: impl Fn(&[Namespace]) -> Result<(), StartError>,
) -> (Vec<Namespace>, Vec<Gap>) {
    let Err(all) = attempt(&Namespace::ALL) else {
        return (Namespace::ALL.to_vec(), Vec::new());
    };
    let mut granted = Vec::new();
    let mut refused: Vec<(Namespace, StartError)> = Vec::new();
    // The first kind, the user namespace, gives the right to create the others.
    for kind in Namespace::ALL {
        let pid = refused.iter().find(|(kind, _)| *kind == Namespace::Pid);
        if let (Namespace::Mount, Some((_, refusal))) = (kind, pid) {
            // Its own /proc would list the same processes.
            refused.push((kind, *refusal));
            continue;
        }
        granted.push(kind);
        if let Err(refusal) = attempt(&granted) {
            granted.pop();
            refused.push((kind, refusal));
        }
    }
    if refused.is_empty() {
        // Each kind works, although they did not work together a moment ago: the machine lacks some resource.
        let gap = Gap {
            part: "namespaces",
            reason: format!("they were refused at first: {all}"),
            fix: "start the worker again when the machine is less busy".to_owned(),
        };
        return (granted, vec![gap]);
    }
    let gaps = refused.into_iter().map(|(kind, refusal)| Gap {
        part: kind.as_str(),
        reason: refusal.to_string(),
        fix: fix(refusal, |path| fs::read_to_string(path).ok()),
    });
    (granted, gaps.collect())
}

fn try_namespaces(kinds: &[Namespace]) -> Result<(), StartError> {
    let streams = File::open("/dev/null").ok();
    let options = ProcessOptions {
        namespaces: kinds,
        group: None,
        streams: streams.as_ref().map(|null| [null.as_fd(); 3]),
        image: None,
    };
    let (pid, _) = start::start(&options)?;
    // The process has done all of its work, or would have reported an error.
    let _ = waitpid(Some(pid), WaitOptions::empty());
    Ok(())
}

/// An action of the operator against a refusal. `setting` reads the kernel's settings.
fn fix(refusal: StartError, setting: impl Fn(&str) -> Option<String>) -> String {
    let is = |path: &str, value: &str| setting(path).is_some_and(|text| text.trim() == value);
    if is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        return "sysctl kernel.unprivileged_userns_clone=1".to_owned();
    }
    if is(
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
    ) {
        return "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile that allows the worker `userns`".to_owned();
    }
    if is("/proc/sys/user/max_user_namespaces", "0") {
        return "sysctl user.max_user_namespaces=10000".to_owned();
    }
    match (refusal.step, refusal.errno) {
        (Step::Clone, Errno::NOSPC) => {
            "raise the limits in /proc/sys/user, which are used up".to_owned()
        }
        (Step::Clone, Errno::INVAL) => "a kernel that has this kind of namespace".to_owned(),
        (Step::Mounts, _) => {
            "in a container, let its own /proc be seen whole: `--security-opt systempaths=unconfined`".to_owned()
        }
        _ => "in a container, allow namespaces: `--security-opt seccomp=unconfined --security-opt apparmor=unconfined`, or a profile that allows clone3, mount and setns".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(step: Step, errno: Errno) -> StartError {
        StartError { step, errno }
    }

    #[test]
    fn a_missing_namespace_does_not_disable_the_others() {
        let refusing = |never: &'static [Namespace]| {
            move |kinds: &[Namespace]| {
                if kinds.iter().any(|kind| never.contains(kind)) {
                    Err(refusal(Step::Clone, Errno::PERM))
                } else {
                    Ok(())
                }
            }
        };
        for never in [
            &[][..],
            &[Namespace::User],
            &[Namespace::Mount],
            &[Namespace::Pid, Namespace::Mount],
            &[Namespace::Net, Namespace::Ipc],
            &Namespace::ALL,
        ] {
            let (granted, gaps) = namespaces(refusing(never));
            let expected = Namespace::ALL
                .into_iter()
                .filter(|kind| !never.contains(kind));
            assert_eq!(granted, expected.collect::<Vec<_>>());
            let missing = gaps.iter().map(|gap| gap.part).collect::<Vec<_>>();
            let expected = never.iter().map(|kind| kind.as_str());
            assert_eq!(missing, expected.collect::<Vec<_>>());
            assert!(gaps.iter().all(|gap| !gap.fix.is_empty()));
        }
    }

    #[test]
    fn no_process_list_is_mounted_without_a_pid_namespace() {
        let (granted, gaps) = namespaces(|kinds| {
            if kinds.contains(&Namespace::Pid) {
                Err(refusal(Step::Clone, Errno::PERM))
            } else {
                Ok(())
            }
        });
        assert!(!granted.contains(&Namespace::Mount), "{granted:?}");
        assert_eq!(gaps.len(), 2, "{gaps:?}");
    }

    #[test]
    fn each_refusal_suggests_a_fix_for_its_cause() {
        let denied = refusal(Step::Clone, Errno::PERM);
        let cases = [
            (
                "/proc/sys/kernel/unprivileged_userns_clone",
                "0",
                "userns_clone=1",
            ),
            (
                "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
                "1",
                "apparmor_restrict_unprivileged_userns=0",
            ),
            (
                "/proc/sys/user/max_user_namespaces",
                "0",
                "max_user_namespaces=",
            ),
        ];
        for (path, value, expected) in cases {
            let found = fix(denied, |asked| {
                (asked == path).then(|| format!("{value}\n"))
            });
            assert!(found.contains(expected), "{path}: {found}");
        }
        assert!(fix(denied, |_| None).contains("seccomp=unconfined"));
        let masked = refusal(Step::Mounts, Errno::PERM);
        assert!(fix(masked, |_| None).contains("systempaths=unconfined"));
    }
}
