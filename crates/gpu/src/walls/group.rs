//! A control group (cgroup v2) for each role process: it limits the resources of the process and its descendants
//! together, and kills all of them at once.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::role::walls::GroupClaim;

use super::Gap;

/// Prefix of the names of all groups that workers create.
pub const PREFIX: &str = "kernelwright-";
/// Suffix of the group into which a worker moves that is alone in its group, because a group with processes cannot
/// have child groups with limits.
const WORKER_SUFFIX: &str = "worker";
const DELEGATE: &str = "run the worker in a control group of its own: `systemd-run --user --scope -p Delegate=yes kernelwright worker join ...`, or Delegate=yes in its unit";
/// Number of attempts to remove a group whose processes are still ending.
const REMOVALS: u32 = 100;
const BETWEEN_REMOVALS: Duration = Duration::from_millis(2);

/// A folder in which groups can be created, and the features of such groups.
#[derive(Debug, Clone)]
pub(super) struct GroupParent {
    folder: PathBuf,
    memory: bool,
    tasks: bool,
    kill: bool,
}

impl GroupParent {
    /// The group of this process, if child groups can be created in it, and the features that those lack.
    pub(super) fn find() -> Result<(Self, Vec<Gap>), Gap> {
        let folder = own_folder().map_err(|reason| gap(reason, "mount cgroup v2 at /sys/fs/cgroup (`systemd.unified_cgroup_hierarchy=1` among the kernel's parameters)"))?;
        remove_stale(&folder);
        let refused = |error: io::Error| {
            let reason = format!("no group can be made in {}: {error}", folder.display());
            gap(reason, DELEGATE)
        };
        let trial = Group::make(&folder).map_err(refused)?;
        let kill = trial.folder.join("cgroup.kill").exists();
        drop(trial);
        let mut gaps = Vec::new();
        if !kill {
            gaps.push(gap(
                "groups are not killed as one".to_owned(),
                "a kernel of 5.14 or newer",
            ));
        }
        let mut enabled = |controller: &str| match enable(&folder, controller) {
            Ok(()) => true,
            Err((reason, fix)) => {
                gaps.push(gap(
                    format!("groups have no limit of {controller}: {reason}"),
                    fix,
                ));
                false
            }
        };
        let (memory, tasks) = (enabled("memory"), enabled("pids"));
        let base = Self {
            folder,
            memory,
            tasks,
            kill,
        };
        Ok((base, gaps))
    }

    /// Returns true if groups here have all required features.
    pub(super) fn is_complete(&self) -> bool {
        self.memory && self.tasks && self.kill
    }

    /// Creates a group for one process.
    pub(super) fn make(&self, memory_bytes: Option<u64>, tasks: u64) -> io::Result<Group> {
        let mut group = Group::make(&self.folder)?;
        group.limits_memory = self.memory;
        group.kills = self.kill;
        if self.tasks {
            group.write("pids.max", &tasks.to_string())?;
        }
        if let Some(bytes) = memory_bytes {
            group.limit_memory(bytes)?;
        }
        if self.memory {
            // If the kernel killed only one process of the group, a role that waits for it would never end.
            group.write("memory.oom.group", "1")?;
        }
        Ok(group)
    }

    /// The limits of a group, as they are reported to the process inside it.
    pub(super) fn claim(&self, group: &Group, memory: Option<u64>, tasks: u64) -> GroupClaim {
        GroupClaim {
            folder: group.folder.clone(),
            memory_bytes: memory.filter(|_| self.memory),
            tasks: self.tasks.then_some(tasks),
            kill: self.kill,
        }
    }
}

/// The control group of one process. It is removed when this value is dropped, which must be after the end of the
/// process.
#[derive(Debug)]
pub struct Group {
    folder: PathBuf,
    handle: File,
    limits_memory: bool,
    kills: bool,
}

impl Group {
    fn make(base: &Path) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = base.join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&folder)?;
        let opened = File::open(&folder);
        let handle = opened.inspect_err(|_| drop(fs::remove_dir(&folder)))?;
        Ok(Self {
            folder,
            handle,
            limits_memory: false,
            kills: false,
        })
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        // Without `create`: either the file exists or the kernel has no such limit.
        let mut file = OpenOptions::new()
            .write(true)
            .open(self.folder.join(file))?;
        file.write_all(text.as_bytes())
    }

    /// Limits the memory of all processes in the group, if the group supports it.
    ///
    /// # Errors
    /// The system's error.
    pub fn limit_memory(&self, bytes: u64) -> io::Result<()> {
        if !self.limits_memory {
            return Ok(());
        }
        // Swapped-out memory counts as used, too. A kernel without swap has no such file.
        drop(self.write("memory.swap.max", "0"));
        self.write("memory.max", &bytes.to_string())
    }

    /// Returns true if the group limits the memory of its processes.
    pub fn limits_memory(&self) -> bool {
        self.limits_memory
    }

    /// Kills all processes in the group at once, if the kernel supports it.
    pub fn kill(&self) {
        if self.kills {
            // If this fails, no process is left, or the signal to the process group kills them.
            drop(self.write("cgroup.kill", "1"));
        }
    }

    /// Returns true if a process in the group was killed because the group exceeded its memory limit.
    pub fn ran_out_of_memory(&self) -> bool {
        let events = fs::read_to_string(self.folder.join("memory.events")).unwrap_or_default();
        let mut lines = events.lines();
        lines.any(|line| {
            let count = line.strip_prefix("oom_kill ");
            count.is_some_and(|count| count.trim() != "0")
        })
    }
}

impl AsFd for Group {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..REMOVALS {
            match fs::remove_dir(&self.folder) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(BETWEEN_REMOVALS);
                }
                // The next worker removes a group that remains.
                _ => return,
            }
        }
    }
}

fn gap(reason: String, fix: &str) -> Gap {
    Gap {
        part: "control group",
        reason,
        fix: fix.to_owned(),
    }
}

/// The folder of this process's own group, or its parent if the worker has moved into a child group.
fn own_folder() -> Result<PathBuf, String> {
    let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|error| error.to_string())?;
    let folder = mount_folder(&own, &mounts)?;
    let is_ours = folder.file_name().is_some_and(|name| {
        name.to_str()
            .is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(WORKER_SUFFIX))
    });
    Ok(match folder.parent() {
        Some(above) if is_ours => above.to_owned(),
        _ => folder,
    })
}

/// The folder in which the group of a line of `/proc/self/cgroup` is mounted.
fn mount_folder(own: &str, mounts: &str) -> Result<PathBuf, String> {
    let own = own
        .lines()
        .find_map(|line| line.strip_prefix("0::"))
        .ok_or("this process is in no group of cgroup v2")?;
    let mut mounted = mounts.lines().filter_map(|line| {
        let (fields, system) = line.split_once(" - ")?;
        let mut fields = fields.split(' ').skip(3);
        let (root, place) = (fields.next()?, fields.next()?);
        let below = Path::new(own).strip_prefix(root).ok()?;
        system
            .starts_with("cgroup2 ")
            .then(|| Path::new(place).join(below))
    });
    mounted
        .next()
        .ok_or_else(|| format!("cgroup v2 is not mounted where {own} can be seen"))
}

/// Enables a controller for the groups below `base`.
fn enable(base: &Path, controller: &str) -> Result<(), (String, &'static str)> {
    let has = |file: &str| {
        let words = fs::read_to_string(base.join(file)).unwrap_or_default();
        words.split_whitespace().any(|word| word == controller)
    };
    let switch = "cgroup.subtree_control";
    if has(switch) {
        return Ok(());
    }
    if !has("cgroup.controllers") {
        return Err((
            format!("{} does not have it to give", base.display()),
            "boot with `systemd.unified_cgroup_hierarchy=1`, since cgroup v1 holds it; or have it delegated with Delegate=yes in the worker's unit",
        ));
    }
    let ask = || fs::write(base.join(switch), format!("+{controller}"));
    match ask() {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            move_to_child_group(base).map_err(|reason| (reason, DELEGATE))?;
            ask().map_err(|error| (error.to_string(), DELEGATE))
        }
        other => other.map_err(|error| (error.to_string(), DELEGATE)),
    }
}

/// Moves this process into a child group, if it is the only process in its group.
fn move_to_child_group(base: &Path) -> Result<(), String> {
    let inside = fs::read_to_string(base.join("cgroup.procs")).map_err(|e| e.to_string())?;
    let me = std::process::id().to_string();
    if inside.lines().any(|line| line != me) {
        return Err("other processes are in the worker's group".to_owned());
    }
    let below = base.join(format!("{PREFIX}{me}-{WORKER_SUFFIX}"));
    match fs::create_dir(&below) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.to_string()),
        _ => fs::write(below.join("cgroup.procs"), me).map_err(|error| error.to_string()),
    }
}

/// Removes groups of workers that have ended. A group that is in use cannot be removed.
fn remove_stale(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
        if let Some((owner, _)) = owner
            && !Path::new("/proc").join(owner).exists()
        {
            drop(fs::remove_dir(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "9:memory:/jobs\n1:cpu:/\n0::/user.slice/job\n";
    const MOUNTS: &str = "30 20 0:24 /jobs /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        31 20 0:25 / /sys/fs/cgroup/unified rw,relatime shared:3 - cgroup2 cgroup2 rw\n";

    #[test]
    fn a_group_is_found_where_it_is_mounted() {
        assert_eq!(
            mount_folder(HYBRID, MOUNTS),
            Ok(PathBuf::from("/sys/fs/cgroup/unified/user.slice/job"))
        );
        let container = MOUNTS.replace("0:25 / ", "0:25 /user.slice ");
        assert_eq!(
            mount_folder(HYBRID, &container),
            Ok(PathBuf::from("/sys/fs/cgroup/unified/job"))
        );
        let elsewhere = MOUNTS.replace("0:25 / ", "0:25 /system.slice ");
        assert!(mount_folder(HYBRID, &elsewhere).is_err());
        assert!(mount_folder("9:memory:/\n", MOUNTS).is_err());
        assert!(mount_folder(HYBRID, "").is_err());
    }
}
