//! What no kernel can beat: the bytes that must move, the operations that must be done, and the
//! launch itself.

/// Below this share of the floor a time is impossible; the rest allows for the error of peaks.
const SLACK: f64 = 0.95;
/// Within this factor of an empty launch, launching is most of the time.
const LAUNCH_FACTOR: f64 = 1.5;

/// The essential work of one case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Bytes that must be read or written at least once.
    pub bytes: f64,
    /// Operations that must be done; zero where algebra might avoid them.
    pub operations: f64,
}

/// The best a device has shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peak {
    /// Bytes per microsecond.
    pub bytes_per_us: f64,
    /// Operations per microsecond at the task's precision.
    pub operations_per_us: f64,
    /// An empty launch, microseconds.
    pub launch_us: f64,
}

/// The least time in which a device can do the work, microseconds.
pub fn floor_us(work: Work, peak: Peak) -> f64 {
    (work.bytes / peak.bytes_per_us)
        .max(work.operations / peak.operations_per_us)
        .max(peak.launch_us)
}

/// Whether a time is too short to be true. Also for a time that is none.
pub fn is_impossible(us: f64, floor_us: f64) -> bool {
    let possible = us >= SLACK * floor_us;
    !possible
}

/// Whether a time is little more than that of an empty launch, so that small differences are
/// those of launching.
pub fn is_launch_bound(us: f64, launch_us: f64) -> bool {
    us <= LAUNCH_FACTOR * launch_us
}
