//! Processor time and memory of this process, as Linux counts them.

use std::fs;
use std::io;

/// Usage of this process since its start.
pub struct Usage {
    nanoseconds: u64,
    /// Resident memory.
    pub resident_mib: f64,
}

impl Usage {
    pub fn now() -> io::Result<Self> {
        let mut nanoseconds = 0;
        for task in fs::read_dir("/proc/self/task")? {
            // A thread that ends meanwhile is no longer there.
            let counted = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
            let own = counted.split_whitespace().next();
            nanoseconds += own.and_then(|own| own.parse::<u64>().ok()).unwrap_or(0);
        }
        let status = fs::read_to_string("/proc/self/status")?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = resident.and_then(|line| line.split_whitespace().next());
        Ok(Self {
            nanoseconds,
            resident_mib: resident.and_then(|kib| kib.parse().ok()).unwrap_or(0.0) / 1024.0,
        })
    }

    /// Processor time since an earlier moment. That of threads that have ended is not in it.
    pub fn milliseconds_since(&self, before: &Self) -> f64 {
        self.nanoseconds.saturating_sub(before.nanoseconds) as f64 / 1e6
    }
}
