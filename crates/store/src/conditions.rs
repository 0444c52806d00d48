//! Conditions that several statements share. Each is text for `concat!`, because statements are constants.

/// A job `j` of a run `r` that a worker may take at the time of the parameter `$now`. Of a run whose baseline is not
/// accepted yet, only the baseline's job is lent. Nothing of a paused run is lent. The plus keeps SQLite from an index of
/// times, so that it finds the oldest job of a run without reading all that wait.
macro_rules! lendable {
    ($now:literal) => {
        concat!(
            "j.state = 'queued' AND +j.not_before <= ",
            $now,
            " AND ((j.stage = 'baseline' AND r.state IN ('created', 'checking_baseline')) \
             OR (j.stage <> 'baseline' AND r.state = 'running') \
             OR (j.stage = 'confirmation' AND r.state = 'completed'))"
        )
    };
}

/// People with active runs as `p`: those who launched the run `r`, the number of devices that evaluate jobs of their runs,
/// and the time of their last turn. Absent where they have none.
macro_rules! join_people {
    () => {
        "LEFT JOIN (SELECT b.launched_by AS person, COUNT(l.id) AS devices, MAX(b.lent_at) AS lent_at \
         FROM runs b LEFT JOIN jobs l ON l.run = b.id AND l.state = 'leased' \
         WHERE b.state IN ('created', 'checking_baseline', 'running') GROUP BY b.launched_by) p \
         ON p.person = r.launched_by"
    };
}

/// A run `r` of a person `p` who uses fewer devices than the parameter `$most`, where that is given.
macro_rules! within_quota {
    ($most:literal) => {
        concat!(
            "COALESCE(p.devices, 0) < COALESCE(",
            $most,
            ", 9223372036854775807)"
        )
    };
}

/// A worker `w` that was seen since the time of the parameter `$since`, or waits for a job at a living service.
macro_rules! alive {
    ($since:literal) => {
        concat!(
            "(w.seen_at >= ",
            $since,
            " OR w.id IN (SELECT id FROM waiting_workers))"
        )
    };
}

/// A worker `w` that is alive and may take the job `$job` of a run `r`, as far as faults, device and health go. `$since` is
/// the time since which a worker counts as alive.
macro_rules! another_can_take {
    ($job:literal, $since:literal, $now:literal) => {
        concat!(
            alive!($since),
            " AND (w.suspended_until IS NULL OR w.suspended_until <= ",
            $now,
            ") AND (r.device IS NULL OR w.device_name = r.device) \
             AND NOT EXISTS (SELECT 1 FROM job_faults f WHERE f.job = ",
            $job,
            " AND f.worker = w.id) \
             AND NOT EXISTS (SELECT 1 FROM devices d WHERE d.worker = w.name \
             AND d.uuid = w.device_uuid AND d.state = 'quarantined')"
        )
    };
}
