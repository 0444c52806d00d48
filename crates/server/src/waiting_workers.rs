//! Requests of workers that wait for a job.
//!
//! One task looks for jobs on behalf of all of them, and wakes as many as there are jobs. It also records which workers
//! wait, so that none of their requests is a write.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::causes::with_causes;
use domain::id::WorkerId;
use engine::Engine;
use store::{COUNT_INTERVAL, StoreError, WaitingJobs};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The interval at which the queue is read without a notification: some jobs become available by time alone.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// The time after its last request at which a worker no longer counts as waiting. It asks again sooner.
const LEAVE_AFTER: Duration = Duration::from_secs(10);
/// The time for which a worker is not woken again that found no job for itself.
const REST: Duration = Duration::from_secs(1);

/// Requests that look for a job at a time. The others queue here and not for a connection to the database, so that
/// renewals and reports overtake them when many workers come at once.
const LOOKS: usize = 4;

/// The requests that wait at this service. Clones share them.
#[derive(Clone)]
pub struct WaitingWorkers {
    engine: Engine,
    looks: Arc<Semaphore>,
    state: Arc<Mutex<State>>,
    /// Tells the task that a woken worker found no job, so that another may have to be woken.
    again: Arc<Notify>,
}

#[derive(Default)]
struct State {
    /// By arrival: the longest waiting is woken first.
    requests: BTreeMap<u64, Entry>,
    arrivals: u64,
    workers: HashMap<WorkerId, Attendance>,
}

/// A request that waits.
struct Entry {
    worker: WorkerId,
    device: String,
    wake: Arc<Notify>,
    woken: bool,
    /// The time at which it was woken and found no job.
    failed: Option<Instant>,
}

/// A worker that waits, or did a moment ago.
struct Attendance {
    /// Its requests that wait: one, or none between two.
    requests: u32,
    left: (Instant, DateTime<Utc>),
    recorded: bool,
}

/// One request's place among those that wait. It leaves when it is dropped.
pub struct WaitingRequest<'a> {
    waiting: &'a WaitingWorkers,
    number: u64,
    wake: Arc<Notify>,
    /// It was woken and has not yet looked for a job.
    is_due: bool,
}

impl WaitingWorkers {
    /// Starts the task, which ends when `closing` is cancelled and the workers are recorded as having left.
    pub fn start(engine: Engine, closing: CancellationToken) -> (Self, JoinHandle<()>) {
        let waiting = Self {
            engine,
            looks: Arc::new(Semaphore::new(LOOKS)),
            state: Arc::default(),
            again: Arc::default(),
        };
        let serving = waiting.clone();
        let task = tokio::spawn(async move {
            closing.run_until_cancelled(serving.serve()).await;
            serving.record_all_as_left().await;
        });
        (waiting, task)
    }

    /// Lets a worker with a device of this name wait.
    pub fn enter(&self, worker: WorkerId, device: String) -> WaitingRequest<'_> {
        let wake = Arc::new(Notify::new());
        let mut state = self.state();
        let attendance = state.workers.entry(worker).or_insert(Attendance {
            requests: 0,
            left: (Instant::now(), self.engine.now()),
            recorded: false,
        });
        attendance.requests += 1;
        let entry = Entry {
            worker,
            device,
            wake: Arc::clone(&wake),
            woken: false,
            failed: None,
        };
        let number = state.add(entry);
        WaitingRequest {
            waiting: self,
            number,
            wake,
            is_due: false,
        }
    }

    /// Waits until a request may look for a job, which it may until the value is dropped. First come, first served.
    pub async fn turn(&self) -> SemaphorePermit<'_> {
        let turn = self.looks.acquire().await;
        turn.expect("the semaphore is never closed")
    }

    async fn serve(&self) {
        let mut jobs = self.engine.store().changed_jobs();
        let mut counted = Instant::now();
        let mut looked = Instant::now();
        loop {
            tokio::select! {
                _ = jobs.changed() => {}
                () = self.again.notified() => {}
                () = tokio::time::sleep_until(looked + LOOK_INTERVAL) => {}
            }
            if let Err(error) = self.wake_for_jobs().await {
                tracing::warn!("failed to {}", with_causes(&error));
            }
            if looked.elapsed() < LOOK_INTERVAL {
                continue;
            }
            looked = Instant::now();
            let is_count_due = COUNT_INTERVAL
                .to_std()
                .is_ok_and(|interval| counted.elapsed() >= interval);
            if is_count_due {
                counted = looked;
            }
            if let Err(error) = self.record(is_count_due).await {
                tracing::warn!("failed to {}", with_causes(&error));
            }
        }
    }

    /// Wakes as many requests as there are jobs for them.
    async fn wake_for_jobs(&self) -> Result<(), StoreError> {
        if self.state().requests.is_empty() {
            return Ok(());
        }
        let store = self.engine.store();
        let quota = self.engine.settings().devices_per_person;
        let jobs = store.waiting_jobs(quota, self.engine.now()).await?;
        self.state().wake(&jobs);
        Ok(())
    }

    /// Records workers that began to wait and workers that left; with `all`, also those that went on waiting. Wakes
    /// those that are to leave.
    async fn record(&self, all: bool) -> Result<(), StoreError> {
        let (waiting, left) = self.state().attendance(all);
        let store = self.engine.store();
        if !waiting.is_empty() || !left.is_empty() {
            let recorded = store.record_waiting(&waiting, &left, self.engine.now());
            if let Err(error) = recorded.await {
                self.state().forget_record(&waiting, &left);
                return Err(error);
            }
        }
        if self.state().requests.is_empty() {
            return Ok(());
        }
        let drained = store.waiting_and_drained().await?;
        self.state().wake_workers(&drained);
        Ok(())
    }

    async fn record_all_as_left(&self) {
        let now = self.engine.now();
        let left = mem::take(&mut self.state().workers);
        let left = left
            .into_iter()
            .filter(|(_, attendance)| attendance.recorded);
        let left = left.map(|(worker, _)| (worker, now)).collect::<Vec<_>>();
        if left.is_empty() {
            return;
        }
        if let Err(error) = self.engine.store().record_waiting(&[], &left, now).await {
            tracing::warn!("failed to {}", with_causes(&error));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, entry: Entry) -> u64 {
        let number = self.arrivals;
        self.arrivals += 1;
        self.requests.insert(number, entry);
        number
    }

    /// Wakes as many requests as there are jobs. One that was woken before and has not looked yet is one of them.
    fn wake(&mut self, jobs: &[WaitingJobs]) {
        let mut taken = HashSet::new();
        // Jobs for any device come last, so that they do not take the workers that another job needs.
        let (any, named): (Vec<_>, Vec<_>) = jobs.iter().partition(|jobs| jobs.device.is_none());
        for WaitingJobs { device, count } in named.into_iter().chain(any) {
            let fits = |number: &u64, entry: &Entry| {
                let rests = entry.failed.is_some_and(|at| at.elapsed() < REST);
                let suits = device.as_ref().is_none_or(|device| *device == entry.device);
                suits && !rests && !taken.contains(number)
            };
            let requests = self.requests.iter_mut();
            let fitting = requests.filter(|(number, entry)| fits(number, entry));
            let woken = fitting.take(*count).map(|(number, entry)| {
                entry.wake();
                *number
            });
            let woken = woken.collect::<Vec<_>>();
            taken.extend(woken);
        }
    }

    fn wake_workers(&mut self, workers: &[WorkerId]) {
        let requests = self.requests.values_mut();
        for entry in requests.filter(|entry| workers.contains(&entry.worker)) {
            entry.wake();
        }
    }

    /// The workers to record as waiting and as having left. The latter are forgotten.
    fn attendance(&mut self, all: bool) -> (Vec<WorkerId>, Vec<(WorkerId, DateTime<Utc>)>) {
        let (mut waiting, mut left) = (Vec::new(), Vec::new());
        self.workers.retain(|worker, attendance| {
            let (at, time) = attendance.left;
            if attendance.requests == 0 && at.elapsed() >= LEAVE_AFTER {
                left.extend(attendance.recorded.then_some((*worker, time)));
                return false;
            }
            if attendance.requests > 0 && (all || !attendance.recorded) {
                attendance.recorded = true;
                waiting.push(*worker);
            }
            true
        });
        (waiting, left)
    }

    /// Has the next call of [`State::attendance`] return the same workers, because they could not be recorded.
    fn forget_record(&mut self, waiting: &[WorkerId], left: &[(WorkerId, DateTime<Utc>)]) {
        for worker in waiting {
            if let Some(attendance) = self.workers.get_mut(worker) {
                attendance.recorded = false;
            }
        }
        for (worker, time) in left {
            self.workers.entry(*worker).or_insert(Attendance {
                requests: 0,
                left: (Instant::now(), *time),
                recorded: true,
            });
        }
    }
}

impl Entry {
    fn wake(&mut self) {
        if !mem::replace(&mut self.woken, true) {
            self.wake.notify_one();
        }
    }
}

impl WaitingRequest<'_> {
    /// Returns when there may be a job for the worker, or it is to leave.
    pub async fn woken(&mut self) {
        self.wake.notified().await;
        self.is_due = true;
    }

    /// Waits on after a look that found no job.
    pub fn wait_on(&mut self) {
        if !mem::take(&mut self.is_due) {
            return;
        }
        let mut state = self.waiting.state();
        if let Some(mut entry) = state.requests.remove(&self.number) {
            entry.woken = false;
            entry.failed = Some(Instant::now());
            self.number = state.add(entry);
        }
        drop(state);
        self.waiting.again.notify_one();
    }

    /// Leaves with a job.
    pub fn finish(mut self) {
        self.is_due = false;
    }
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        let mut state = self.waiting.state();
        let entry = state.requests.remove(&self.number);
        if let Some(attendance) = entry
            .as_ref()
            .and_then(|entry| state.workers.get_mut(&entry.worker))
        {
            attendance.requests = attendance.requests.saturating_sub(1);
            attendance.left = (Instant::now(), self.waiting.engine.now());
        }
        drop(state);
        // The job that it was woken for is for another.
        if self.is_due || entry.is_some_and(|entry| entry.woken) {
            self.waiting.again.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests of workers with these devices, in the order in which they came.
    fn waiting(devices: &[&str]) -> State {
        let mut state = State::default();
        for device in devices {
            state.add(Entry {
                worker: WorkerId::from(uuid::Uuid::nil()),
                device: (*device).to_owned(),
                wake: Arc::default(),
                woken: false,
                failed: None,
            });
        }
        state
    }

    fn jobs(device: Option<&str>, count: usize) -> WaitingJobs {
        let device = device.map(str::to_owned);
        WaitingJobs { device, count }
    }

    fn woken(state: &State) -> Vec<u64> {
        let woken = state.requests.iter().filter(|(_, entry)| entry.woken);
        woken.map(|(number, _)| *number).collect()
    }

    #[test]
    fn as_many_workers_are_woken_as_there_are_jobs_for_their_device() {
        let cases = [
            (vec![], vec![]),
            (vec![jobs(None, 2)], vec![0, 1]),
            (vec![jobs(None, 9)], vec![0, 1, 2, 3]),
            (vec![jobs(Some("L4"), 1)], vec![1]),
            (vec![jobs(Some("H200"), 3)], vec![]),
            // The worker that the second job needs is not woken for the first.
            (vec![jobs(None, 1), jobs(Some("T4"), 2)], vec![0, 1, 2]),
        ];
        for (jobs, expected) in cases {
            let mut state = waiting(&["T4", "L4", "T4", "L4"]);
            state.wake(&jobs);
            assert_eq!(woken(&state), expected, "{jobs:?}");
            // They have not looked yet, so that the same jobs wake nobody else.
            state.wake(&jobs);
            assert_eq!(woken(&state), expected, "{jobs:?}");
        }
    }

    #[test]
    fn a_worker_that_found_no_job_rests_while_another_is_woken() {
        let mut state = waiting(&["L4", "L4"]);
        if let Some(first) = state.requests.get_mut(&0) {
            first.failed = Some(Instant::now());
        }
        state.wake(&[jobs(None, 2)]);
        assert_eq!(woken(&state), [1]);
    }
}
