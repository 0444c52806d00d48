//! Proof of a process that it is inside the walls that its supervisor claims, by trying the accesses that the walls
//! prevent.

use std::env;
use std::fs;
use std::io;
use std::net::UdpSocket;

use domain::role::walls::{Claims, GroupClaim, Namespace, WALLS_VARIABLE};

use crate::role_error::RoleError;

/// Proves the claims of this process's supervisor. Returns the parts that hold, in words; none if nothing was
/// claimed. It must be called before the process is confined further, because the checks are not possible afterwards.
///
/// # Errors
/// A [`RoleError`] if a claimed part does not hold.
pub fn prove() -> Result<Option<String>, RoleError> {
    let Ok(text) = env::var(WALLS_VARIABLE) else {
        return Ok(None);
    };
    let claims: Claims = serde_json::from_str(&text)
        .map_err(|error| broken(&format!("{WALLS_VARIABLE} does not read: {error}")))?;
    let mut holding = Vec::new();
    for (kind, outside) in &claims.outside {
        check_namespace_differs(*kind, outside)?;
        match kind {
            Namespace::User => check_no_privilege()?,
            Namespace::Pid => check_no_parent()?,
            Namespace::Mount => check_no_other_process()?,
            Namespace::Net => check_no_network()?,
            // The objects of another IPC namespace cannot be listed; comparing the identities is the only check.
            Namespace::Ipc => {}
        }
    }
    if !claims.outside.is_empty() {
        let kinds = claims.outside.keys().map(|kind| kind.as_str());
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        holding.push(format!("namespaces: {kinds}"));
    }
    if let Some(group) = &claims.group {
        check_group(group)?;
        let parts = [
            (group.memory_bytes.is_some(), "memory"),
            (group.tasks.is_some(), "tasks"),
            (group.kill, "kill"),
        ];
        let parts = parts.iter().filter(|(has, _)| *has).map(|(_, part)| *part);
        let parts = parts.collect::<Vec<_>>().join(", ");
        holding.push(format!("control group: {parts}"));
    }
    Ok(Some(holding.join("; ")))
}

fn broken(what: &str) -> RoleError {
    RoleError::Confinement(format!("prove the walls around it: {what}"))
}

fn read(path: &str) -> Result<String, RoleError> {
    fs::read_to_string(path).map_err(|error| broken(&format!("read {path}: {error}")))
}

fn check_namespace_differs(kind: Namespace, outside: &str) -> Result<(), RoleError> {
    let own = fs::read_link(kind.link())
        .map_err(|error| broken(&format!("read {}: {error}", kind.link())))?;
    if own.as_os_str() == outside {
        return Err(broken(&format!(
            "its {kind} namespace is its supervisor's, {outside}"
        )));
    }
    Ok(())
}

fn check_no_privilege() -> Result<(), RoleError> {
    let status = read("/proc/self/status")?;
    let privileges = status
        .lines()
        .find_map(|line| line.strip_prefix("CapPrm:"))
        .map(str::trim);
    match privileges {
        Some(none) if none.bytes().all(|digit| digit == b'0') => Ok(()),
        other => Err(broken(&format!("its privileges are {other:?}"))),
    }
}

fn check_no_parent() -> Result<(), RoleError> {
    match rustix::process::getppid() {
        None => Ok(()),
        Some(parent) => Err(broken(&format!(
            "it sees its parent, process {}",
            parent.as_raw_nonzero()
        ))),
    }
}

fn check_no_other_process() -> Result<(), RoleError> {
    let listed = fs::read_dir("/proc").map_err(|error| broken(&format!("list /proc: {error}")))?;
    let own = std::process::id().to_string();
    let others = listed.flatten().filter(|entry| {
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        name.iter().all(u8::is_ascii_digit) && name != own.as_bytes()
    });
    match others.count() {
        0 => Ok(()),
        count => Err(broken(&format!("it sees {count} other processes"))),
    }
}

/// Checks that no network is reachable, not even this host: a new namespace has a loopback interface that is down.
fn check_no_network() -> Result<(), RoleError> {
    // No byte is sent: the kernel looks for a route and finds none.
    let outcome = UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.connect("127.0.0.1:9"));
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NetworkUnreachable => Ok(()),
        other => Err(broken(&format!(
            "a way to the network must be missing, but the outcome was {other:?}"
        ))),
    }
}

fn check_group(group: &GroupClaim) -> Result<(), RoleError> {
    let file = |name: &str| {
        let path = group.folder.join(name);
        read(&path.to_string_lossy()).map(|text| text.trim().to_owned())
    };
    let inside = file("cgroup.procs")?;
    let own = std::process::id().to_string();
    if inside != own {
        return Err(broken(&format!(
            "in {} are the processes {inside:?} and not {own} alone",
            group.folder.display()
        )));
    }
    let limits = [
        ("memory.max", group.memory_bytes),
        ("pids.max", group.tasks),
    ];
    for (name, limit) in limits {
        let Some(limit) = limit else { continue };
        let found = file(name)?;
        // The kernel rounds memory limits to pages.
        let holds = found.parse::<u64>().is_ok_and(|found| found <= limit);
        if !holds {
            return Err(broken(&format!("{name} is {found} and not {limit}")));
        }
    }
    Ok(())
}
