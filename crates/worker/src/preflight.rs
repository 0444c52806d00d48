//! Checks of the requirements for trustworthy evaluations on this machine, each with its fix.
//!
//! A check that cannot be carried out says so and never counts as passed.

mod isolation;

use std::path::Path;
use std::time::Duration;

use domain::device::DeviceKind;
use domain::lease::DeclinedWork;
use serde::Serialize;

use crate::cancel::Cancellation;
use crate::host::{Host, Prescreener};
use crate::python;
use crate::supervise::{self, Bounds, Limits, Program};
use crate::tools::{self, Tool};

const GIB: u64 = 1 << 30;
/// Free disk space without a warning: builds, reference answers and evidence take up to 7 GiB
/// unless the operator sets another limit.
const DISK_WANTED: u64 = 8 * GIB;
const DISK_NEEDED: u64 = GIB;
/// Free memory without a warning: enough for a compiler, a run and a verifier of large cases.
const MEMORY_WANTED: u64 = 8 * GIB;
const MEMORY_NEEDED: u64 = 2 * GIB;
/// Free device memory without a warning: enough for large cases with several sets of buffers.
const DEVICE_MEMORY_WANTED: u64 = 4 * GIB;
/// The oldest compute capability that NVRTC 13 compiles for.
const MIN_COMPUTE_CAPABILITY: (u32, u32) = (7, 5);
/// Wall time of one call of `nvidia-smi`.
const DEADLINE: Duration = Duration::from_secs(15);

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The checked property.
    pub name: &'static str,
    /// The result.
    pub status: Status,
    /// The observed state.
    pub found: String,
    /// The fix; `None` where nothing needs fixing.
    pub fix: Option<String>,
}

/// The status of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The requirement is met.
    Pass,
    /// Evaluations work, but something is missing.
    Warn,
    /// Evaluations will not work, or their results cannot be trusted.
    Fail,
    /// The check could not be carried out, or does not apply to this machine.
    NotRun,
}

impl Status {
    /// The status as a word of the report.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Warn => "warn",
            Self::Fail => "FAIL",
            Self::NotRun => "not run",
        }
    }
}

/// Runs every check.
pub fn run_checks(host: &Host, cancellation: &Cancellation) -> Vec<Check> {
    let (report, confinement) = (host.confinement_report(), host.confinement());
    let mut checks = vec![
        device(host),
        capability(host.device().compute_capability),
        match host.device().kind {
            DeviceKind::Nvidia => versions(host.device().driver_version, host.toolchain()),
            DeviceKind::Emulated => pass("driver_and_toolkit", host.toolchain().to_owned()),
        },
        isolation::isolated(report, confinement.open_files.as_ref()),
        isolation::walled(report, confinement.walls.gaps()),
        memory(read("/proc/meminfo").as_deref()),
        disk(host.data()),
    ];
    checks.extend(host.prescreener().map(prescreen));
    checks.push(python_references(host));
    if host.device().kind == DeviceKind::Nvidia {
        checks.extend(card(&query_nvidia_smi(host, cancellation, GPU_QUERY)));
        checks.push(other_processes(&query_nvidia_smi(
            host,
            cancellation,
            PROCESS_QUERY,
        )));
        checks.push(counters(
            read("/proc/driver/nvidia/params").as_deref(),
            is_root(),
        ));
        for (name, tool) in [("profiler", Tool::Profiler), ("sanitizer", Tool::Sanitizer)] {
            checks.push(match tools::find(tool) {
                Ok(path) => pass(name, path.display().to_string()),
                Err(reason) => warn(name, "missing".to_owned(), reason),
            });
        }
    } else {
        for name in [
            "device_memory",
            "clocks",
            "other_processes",
            "profiler_permission",
        ] {
            checks.push(not_run(name, "the device is emulated".to_owned()));
        }
    }
    checks
}

/// The work that this machine cannot do, according to its checks. Each kind is there once, with all reasons.
pub fn declined_work(checks: &[Check]) -> Vec<DeclinedWork> {
    let mut declined: Vec<DeclinedWork> = Vec::new();
    for check in checks {
        let work = match check.name {
            _ if !matches!(check.status, Status::Warn | Status::Fail) => continue,
            "device" => "measure times",
            "python" => "admit tasks with a reference in Python",
            "prescreen" => "examine candidates on an emulated device before the card",
            "profiler" | "profiler_permission" => "read counters with Nsight Compute",
            "sanitizer" => "run compute-sanitizer",
            _ => continue,
        };
        let reason = match &check.fix {
            Some(fix) => format!("{}; {fix}", check.found),
            None => check.found.clone(),
        };
        match declined.iter_mut().find(|known| known.work == work) {
            Some(known) => known.reason = format!("{}; {reason}", known.reason),
            None => declined.push(DeclinedWork {
                work: work.to_owned(),
                reason,
            }),
        }
    }
    declined
}

fn pass(name: &'static str, found: String) -> Check {
    Check {
        name,
        status: Status::Pass,
        found,
        fix: None,
    }
}

fn warn(name: &'static str, found: String, fix: impl Into<String>) -> Check {
    Check {
        name,
        status: Status::Warn,
        found,
        fix: Some(fix.into()),
    }
}

fn fail(name: &'static str, found: String, fix: impl Into<String>) -> Check {
    Check {
        status: Status::Fail,
        ..warn(name, found, fix)
    }
}

fn not_run(name: &'static str, found: String) -> Check {
    Check {
        status: Status::NotRun,
        ..pass(name, found)
    }
}

fn device(host: &Host) -> Check {
    let found = host.device().to_string();
    match host.device().kind {
        DeviceKind::Nvidia => pass("device", found),
        DeviceKind::Emulated => warn(
            "device",
            format!("{found}, emulated: times are modelled"),
            "for measured times: a GPU with NVIDIA's driver, and KERNELWRIGHT_EMULATE unset",
        ),
    }
}

/// Checks that candidates can be pre-screened on an emulated device.
fn prescreen(prescreener: &Prescreener) -> Check {
    let name = "prescreen";
    match &prescreener.device {
        Ok(first) => pass(name, first.device().to_string()),
        Err(reason) => warn(name, "no emulated device".to_owned(), reason),
    }
}

/// Checks that references in Python can be run.
fn python_references(host: &Host) -> Check {
    let name = "python";
    match python::find(host.python()) {
        Ok(interpreter) => {
            let versions = &interpreter.versions;
            let version = |package: &str| versions.get(package).map_or("", String::as_str);
            let python = version("python").split_whitespace().next();
            let found = format!(
                "Python {}, NumPy {}",
                python.unwrap_or_default(),
                version("numpy")
            );
            pass(name, found)
        }
        Err(reason) => warn(name, "missing".to_owned(), reason),
    }
}

fn capability(found: (u32, u32)) -> Check {
    let text = format!("{}.{}", found.0, found.1);
    if found >= MIN_COMPUTE_CAPABILITY {
        pass("compute_capability", text)
    } else {
        fail(
            "compute_capability",
            text,
            format!(
                "the compiler needs {}.{}: use a newer GPU, or KERNELWRIGHT_EMULATE=1",
                MIN_COMPUTE_CAPABILITY.0, MIN_COMPUTE_CAPABILITY.1
            ),
        )
    }
}

/// Compares the versions of driver and toolkit. Machine code of a toolkit runs on drivers of the
/// same major version and on newer ones.
fn versions(driver: u32, toolchain: &str) -> Check {
    let name = "driver_and_toolkit";
    let driver = (driver / 1000, driver % 1000 / 10);
    let found = format!("driver {}.{}, {toolchain}", driver.0, driver.1);
    let numbers = toolchain
        .split(|c: char| !c.is_ascii_digit() && c != '.')
        .find_map(|word| {
            let (major, minor) = word.split_once('.')?;
            let minor = minor.split('.').next()?;
            Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
        });
    match numbers {
        None => not_run(name, found),
        Some(toolkit) if driver >= toolkit => pass(name, found),
        Some(toolkit) if driver.0 == toolkit.0 => warn(
            name,
            found,
            "machine code of the same major version runs; PTX does not: update the driver",
        ),
        Some(_) => fail(
            name,
            found,
            "update the driver, or name an older compiler in KERNELWRIGHT_NVRTC",
        ),
    }
}

fn memory(info: Option<&str>) -> Check {
    let available = info.and_then(|text| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let kib = line.split_whitespace().next()?.parse::<u64>().ok()?;
        Some(kib << 10)
    });
    amount(
        "memory",
        available,
        MEMORY_WANTED,
        MEMORY_NEEDED,
        "end other programs, or evaluate on a larger machine",
    )
}

fn disk(data: &Path) -> Check {
    let free = rustix::fs::statvfs(data)
        .ok()
        .map(|facts| facts.f_bavail.saturating_mul(facts.f_frsize));
    amount(
        "disk",
        free,
        DISK_WANTED,
        DISK_NEEDED,
        "free some space, or name another folder with --data",
    )
}

#[expect(clippy::cast_precision_loss, reason = "gibibytes to read")]
fn amount(name: &'static str, free: Option<u64>, wanted: u64, needed: u64, fix: &str) -> Check {
    let Some(free) = free else {
        return not_run(name, "the system does not say".to_owned());
    };
    let found = format!("{:.1} GiB free", free as f64 / GIB as f64);
    if free < needed {
        fail(name, found, fix)
    } else if free < wanted {
        warn(name, found, fix)
    } else {
        pass(name, found)
    }
}

/// The option of `nvidia-smi` that asks for free memory and clocks.
const GPU_QUERY: &str =
    "--query-gpu=memory.free,clocks.current.sm,clocks.max.sm,clocks_event_reasons.active";
/// The option that asks for the processes on the cards.
const PROCESS_QUERY: &str = "--query-compute-apps=pid";

/// The non-empty lines that `nvidia-smi` prints; `Err` if it cannot be run.
fn query_nvidia_smi(
    host: &Host,
    cancellation: &Cancellation,
    query: &str,
) -> Result<Vec<String>, String> {
    let program = Program {
        executable: "nvidia-smi".into(),
        arguments: vec![query.into(), "--format=csv,noheader,nounits".into()],
        environment: vec![("PATH".into(), std::env::var_os("PATH").unwrap_or_default())],
        directory: host.data().to_owned(),
        walls: None,
    };
    let bounds = Bounds {
        limits: Limits::default(),
        readiness: None,
        deadline: DEADLINE,
    };
    let answer = supervise::ask::<_, ()>(&program, &(), bounds, cancellation)
        .map_err(|fault| fault.to_string())?;
    let lines = answer.stdout.text();
    let lines = lines.lines().map(|line| line.trim().to_owned());
    let lines = lines.filter(|line| !line.is_empty());
    Ok(lines.collect())
}

/// Checks free memory and clocks, from the first card's line.
fn card(output: &Result<Vec<String>, String>) -> [Check; 2] {
    let (memory, clocks) = ("device_memory", "clocks");
    let line = match output {
        Ok(lines) => lines.first().cloned().unwrap_or_default(),
        Err(reason) => return [memory, clocks].map(|name| not_run(name, reason.clone())),
    };
    let cells = line.split(',').map(str::trim).collect::<Vec<_>>();
    let number = |index: usize| cells.get(index).and_then(|cell| cell.parse::<u64>().ok());
    let free = number(0).map(|mib| mib << 20);
    let memory = amount(
        memory,
        free,
        DEVICE_MEMORY_WANTED,
        GIB,
        "end the other programs on this GPU",
    );
    let reasons = cells
        .get(3)
        .and_then(|mask| u64::from_str_radix(mask.trim_start_matches("0x"), 16).ok());
    let found = match (number(1), number(2)) {
        (Some(now), Some(most)) => format!("{now} of {most} MHz"),
        _ => return [memory, not_run(clocks, format!("nvidia-smi says {line:?}"))],
    };
    let held = reasons.map(|mask| mask & THROTTLE_REASONS != 0);
    let clocks = match held {
        Some(false) => pass(clocks, found),
        Some(true) => warn(
            clocks,
            format!("{found}, held back by heat or power"),
            "cool the card, or wait: times taken now are discarded",
        ),
        None => not_run(clocks, found),
    };
    [memory, clocks]
}

/// NVML's bits for reasons that hold a clock back: hardware slowdown 0x8, thermal 0x20 and 0x40,
/// power brake 0x80.
const THROTTLE_REASONS: u64 = 0x8 | 0x20 | 0x40 | 0x80;

fn other_processes(output: &Result<Vec<String>, String>) -> Check {
    let name = "other_processes";
    match output {
        Ok(lines) if lines.is_empty() => pass(name, "none on this GPU".to_owned()),
        Ok(lines) => warn(
            name,
            format!("{} on this GPU: {}", lines.len(), lines.join(", ")),
            "end them: what runs beside a measurement disturbs it",
        ),
        Err(reason) => not_run(name, reason.clone()),
    }
}

/// Checks that this user may read performance counters.
fn counters(params: Option<&str>, root: bool) -> Check {
    let name = "profiler_permission";
    let admin_only = params.and_then(|text| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("RmProfilingAdminOnly:"))?;
        Some(line.trim() != "0")
    });
    match admin_only {
        Some(false) => pass(name, "open to every user".to_owned()),
        Some(true) if root => pass(name, "for administrators, which this user is".to_owned()),
        Some(true) => warn(
            name,
            "for administrators only".to_owned(),
            "load the kernel module with NVreg_RestrictProfilingToAdminUsers=0, or profile as root",
        ),
        None => not_run(name, "the driver does not say".to_owned()),
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_held_against_what_is_wanted_and_needed() {
        let info = |kib: u64| format!("MemTotal: 99 kB\nMemAvailable:   {kib} kB\n");
        for (kib, expected) in [
            (16 << 20, Status::Pass),
            (4 << 20, Status::Warn),
            (1 << 20, Status::Fail),
        ] {
            assert_eq!(memory(Some(&info(kib))).status, expected);
        }
        assert_eq!(memory(Some("")).status, Status::NotRun);
        assert_eq!(memory(None).status, Status::NotRun);
    }

    #[test]
    fn a_driver_older_than_the_toolkit_is_told_apart_by_its_major_version() {
        for (driver, expected) in [
            (13_050, Status::Pass),
            (14_000, Status::Pass),
            (13_000, Status::Warn),
            (12_080, Status::Fail),
        ] {
            assert_eq!(versions(driver, "NVRTC 13.5").status, expected, "{driver}");
        }
        assert_eq!(versions(13_000, "a compiler").status, Status::NotRun);
    }

    #[test]
    fn a_value_that_nvidia_smi_lacks_is_not_passed() {
        let lines = |line: &str| Ok(vec![line.to_owned()]);
        let statuses =
            |output: &Result<Vec<String>, String>| card(output).map(|check| check.status);
        let good = lines("22000, 2040, 2040, 0x0000000000000001");
        assert_eq!(statuses(&good), [Status::Pass, Status::Pass]);
        let hot = lines("22000, 900, 2040, 0x0000000000000020");
        assert_eq!(statuses(&hot), [Status::Pass, Status::Warn]);
        let unknown = lines("[N/A], [N/A], [N/A], [N/A]");
        assert_eq!(statuses(&unknown), [Status::NotRun, Status::NotRun]);
        let missing = Err("no such program".to_owned());
        assert_eq!(statuses(&missing), [Status::NotRun, Status::NotRun]);
        assert_eq!(other_processes(&missing).status, Status::NotRun);
        assert_eq!(other_processes(&Ok(Vec::new())).status, Status::Pass);
        assert_eq!(other_processes(&lines("4711")).status, Status::Warn);
    }

    #[test]
    fn each_kind_of_declined_work_is_there_once_with_all_reasons() {
        let checks = [
            pass("device", "a card".to_owned()),
            warn(
                "profiler_permission",
                "for administrators only".to_owned(),
                "ask one",
            ),
            warn("disk", "1.0 GiB free".to_owned(), "free some"),
            warn("profiler", "missing".to_owned(), "install it"),
            not_run("python", "unknown".to_owned()),
        ];
        let declined = declined_work(&checks);
        let expected = DeclinedWork {
            work: "read counters with Nsight Compute".to_owned(),
            reason: "for administrators only; ask one; missing; install it".to_owned(),
        };
        assert_eq!(declined, [expected]);
    }

    #[test]
    fn counters_that_are_kept_from_users_have_a_fix() {
        let params = |value: u8| format!("Foo: 1\nRmProfilingAdminOnly: {value}\n");
        assert_eq!(counters(Some(&params(0)), false).status, Status::Pass);
        assert_eq!(counters(Some(&params(1)), true).status, Status::Pass);
        let kept = counters(Some(&params(1)), false);
        assert_eq!(kept.status, Status::Warn);
        assert!(
            kept.fix
                .unwrap()
                .contains("NVreg_RestrictProfilingToAdminUsers=0")
        );
        assert_eq!(counters(None, true).status, Status::NotRun);
    }
}
