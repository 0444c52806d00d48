//! The role `watch`: samples a device's state while another process times on it. It runs no kernel and makes no
//! context, so that it does not disturb the device.

use std::path::Path;
use std::thread;
use std::time::Duration;

use domain::role::{DeviceSample, NextWatch, WatchJob, WatchReply};
use rustix::process::getppid;
use rustix::time::{ClockId, clock_gettime};

use crate::connection::Connection;
use crate::nvml::Card;
use crate::role_error::RoleError;

/// Samples until told to stop, repeats this as often as requested, and returns the last reply.
///
/// # Errors
/// [`RoleError::Socket`] if the supervisor has ended.
pub fn watch(job: &WatchJob, connection: &mut Connection) -> Result<WatchReply, RoleError> {
    let card = match Card::open(&job.uuid) {
        Ok(card) => card,
        Err(reason) => return Ok(WatchReply::Unavailable { reason }),
    };
    let mut xids = Some(0);
    let mut stop = Some(job.stop.clone());
    while let Some(file) = stop {
        let device_samples = until(&file, job, &card, &mut xids);
        let next: NextWatch = connection.ask(&WatchReply::Samples { device_samples })?;
        stop = next.stop;
    }
    let device_samples = Vec::new();
    Ok(WatchReply::Samples { device_samples })
}

/// Samples until the file `stop` exists or the job's largest number of samples is reached.
fn until(stop: &Path, job: &WatchJob, card: &Card, xids: &mut Option<u32>) -> Vec<DeviceSample> {
    let mut device_samples = Vec::new();
    loop {
        // Checked before the sample, so that the last sample is taken after everything that was timed.
        let last = stop.exists() || device_samples.len() + 1 >= job.max_samples as usize;
        *xids = xids.zip(card.xids()).map(|(all, new)| all + new);
        device_samples.push(DeviceSample {
            at_ns: now(),
            sm_mhz: card.sm_mhz(),
            clock_events: card.clock_events(),
            celsius: card.celsius(),
            foreign_processes: card.processes().and_then(|pids| foreign(&pids)),
            ecc_errors: card.ecc_errors(),
            xids: *xids,
        });
        if last {
            return device_samples;
        }
        thread::sleep(Duration::from_millis(u64::from(job.interval_ms)));
    }
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or_default();
    seconds * 1_000_000_000 + nanoseconds
}

/// Number of these processes that are not children of this process's parent. None if process numbers are not
/// comparable, as in a container that does not see the system's numbers.
fn foreign(pids: &[u32]) -> Option<u32> {
    let ours = getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs())?;
    let mut count = 0;
    for pid in pids {
        let parent = parent(*pid)?;
        count += u32::from(parent != ours && *pid != ours);
    }
    Some(count)
}

/// The parent of a process, from `/proc`.
fn parent(pid: u32) -> Option<u32> {
    let account = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain any characters; the last bracket ends it.
    let (_, rest) = account.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}
