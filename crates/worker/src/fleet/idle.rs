//! The time since a worker's last job, by which a rented machine decides to stop.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The time since a worker's last job; none passes while it has one.
#[derive(Debug)]
pub struct IdleTime {
    /// None while the worker has a job.
    since: Mutex<Option<Instant>>,
}

impl IdleTime {
    /// Begins now.
    pub fn new() -> Self {
        Self {
            since: Mutex::new(Some(Instant::now())),
        }
    }

    /// Notes that a job begins.
    pub fn begin_job(&self) {
        *self.since() = None;
    }

    /// Notes that the job has ended.
    pub fn end_job(&self) {
        *self.since() = Some(Instant::now());
    }

    /// Waits until the worker has had no job for this long.
    pub async fn reaches(&self, limit: Duration) {
        loop {
            let idle = self.since().map(|since| since.elapsed());
            match idle {
                Some(idle) if idle >= limit => return,
                Some(idle) => tokio::time::sleep(limit - idle).await,
                None => tokio::time::sleep(limit).await,
            }
        }
    }

    fn since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_time_without_a_job_counts() {
        let limit = Duration::from_millis(40);
        let began = Instant::now();
        let idle = IdleTime::new();
        let mut ended = began;
        tokio::join!(idle.reaches(limit), async {
            idle.begin_job();
            tokio::time::sleep(2 * limit).await;
            idle.end_job();
            ended = Instant::now();
        });
        assert!(
            ended.elapsed() >= limit,
            "{:?} after the job",
            ended.elapsed()
        );
        assert!(began.elapsed() >= 3 * limit);
    }
}
