//! Conditions that several statements share. Each is text for `concat!`, because statements are constants.

/// A job `j` of a run `r` that a worker may take at the time of the parameter `$now`. Of a run whose baseline is not
/// accepted yet, only the baseline's job is lent. Nothing of a paused run is lent.
macro_rules! lendable {
    ($now:literal) => {
        concat!(
            "j.state = 'queued' AND j.not_before <= ",
            $now,
            " AND ((j.stage = 'baseline' AND r.state IN ('created', 'checking_baseline')) \
             OR (j.stage <> 'baseline' AND r.state = 'running') \
             OR (j.stage = 'confirmation' AND r.state = 'completed'))"
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
