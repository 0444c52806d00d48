//! Spares: role processes that are started before there is a job for them, at most one for each
//! role.
//!
//! A spare has done the slow work that needs no job: it has loaded its libraries, opened the device
//! and confined itself. It has its own folder, gets one job and ends after it; no spare is used
//! twice. The module does not know the purpose of a role, nor when one is needed.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use crate::cancel::Cancellation;
use crate::supervise::{Answer, Bounds, Limits, Program, Standby, SuperviseError};

/// The longest time that a spare waits. The driver may have been replaced meanwhile, and an idle
/// worker should not hold a device's memory.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// The program, limits and folder of a process to start.
#[derive(Debug)]
pub struct SpareSpec {
    /// The program; its working directory may be `home`.
    pub program: Program,
    /// The limits that apply from its start.
    pub limits: Limits,
    /// Its own folder, which is removed with it.
    pub home: TempDir,
}

/// A process without a job, with its folder.
#[derive(Debug)]
pub struct Spare {
    // Declared first, so that the process ends before its folder is removed.
    standby: Standby,
    /// Its folder.
    pub home: TempDir,
}

impl Spare {
    /// Starts a process.
    ///
    /// # Errors
    /// [`SuperviseError::Start`].
    pub fn start(recipe: SpareSpec) -> Result<Self, SuperviseError> {
        let standby = Standby::start(&recipe.program, recipe.limits)?;
        Ok(Self {
            standby,
            home: recipe.home,
        })
    }

    /// Sends the process its one job. The folder is returned, so that it lasts until the caller
    /// drops it.
    ///
    /// # Errors
    /// As of [`Standby::ask`].
    pub fn ask<J: Serialize, R: DeserializeOwned>(
        self,
        job: &J,
        bounds: Bounds,
        cancellation: &Cancellation,
    ) -> Result<(Answer<R>, TempDir), SuperviseError> {
        let answer = self.standby.ask(job, bounds, cancellation)?;
        Ok((answer, self.home))
    }

    /// Sends the process one job after another. The folder is returned, so that it lasts until the
    /// caller drops it.
    ///
    /// # Errors
    /// As of [`Standby::converse`].
    pub fn converse<J: Serialize, R: DeserializeOwned, N: Serialize>(
        self,
        job: &J,
        bounds: Bounds,
        cancellation: &Cancellation,
        next: impl FnMut(R, &[Instant]) -> Option<N>,
    ) -> Result<(Answer<()>, TempDir), SuperviseError> {
        let answer = self.standby.converse(job, bounds, cancellation, next)?;
        Ok((answer, self.home))
    }

    fn is_usable(&self) -> bool {
        !self.standby.has_ended() && self.standby.age() < LONGEST_WAIT
    }
}

/// A message to the thread that starts spares.
enum SpareRequest {
    /// Start a spare of the role with this name.
    Start(&'static str, SpareSpec),
    /// End all spares, and confirm that on the channel.
    EndAll(Sender<()>),
}

type Waiting = Arc<Mutex<BTreeMap<&'static str, Spare>>>;

/// The spares of one machine. They end when this value is dropped.
#[derive(Debug)]
pub struct Spares {
    waiting: Waiting,
    requests: Option<Sender<SpareRequest>>,
    starter: Option<JoinHandle<()>>,
}

impl Spares {
    /// No spares yet, and the thread that will start them. It must be a thread that lasts, because
    /// a child dies with the thread that started it.
    pub fn start() -> Self {
        let waiting = Waiting::default();
        let (requests, incoming) = channel();
        let starter = Builder::new().name("spares".to_owned()).spawn({
            let waiting = Arc::clone(&waiting);
            move || serve_requests(&waiting, &incoming)
        });
        match starter {
            Ok(starter) => Self {
                waiting,
                requests: Some(requests),
                starter: Some(starter),
            },
            // Every process is then started when it is needed.
            Err(error) => {
                tracing::warn!("failed to prepare for spare processes: {error}");
                Self {
                    waiting,
                    requests: None,
                    starter: None,
                }
            }
        }
    }

    /// Takes the spare of this role, if one waits and can still be used.
    pub fn take(&self, place: &'static str) -> Option<Spare> {
        let spare = lock(&self.waiting).remove(place)?;
        if spare.is_usable() {
            return Some(spare);
        }
        tracing::debug!("a spare {place} process ended or waited too long, and is replaced");
        None
    }

    /// Starts a spare in the background; it replaces one that waits for the same role.
    pub fn start_in_background(&self, place: &'static str, recipe: SpareSpec) {
        if let Some(requests) = &self.requests {
            // Without the thread there are no spares, which costs time and nothing else.
            let _ = requests.send(SpareRequest::Start(place, recipe));
        }
    }

    /// Ends all spares, including those that are being started. None is left when this returns.
    pub fn end_all(&self) {
        let (done, told) = channel();
        let asked = self
            .requests
            .as_ref()
            .is_some_and(|requests| requests.send(SpareRequest::EndAll(done)).is_ok());
        if asked {
            // An error means that the thread has ended, and the spares with it.
            let _ = told.recv();
        }
        lock(&self.waiting).clear();
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(starter) = self.starter.take() {
            let _ = starter.join();
        }
    }
}

fn serve_requests(waiting: &Waiting, incoming: &Receiver<SpareRequest>) {
    loop {
        match incoming.recv_timeout(LONGEST_WAIT) {
            Ok(SpareRequest::Start(place, recipe)) => match Spare::start(recipe) {
                Ok(spare) => drop(lock(waiting).insert(place, spare)),
                // The caller that needs the process starts it then, and gets the error.
                Err(fault) => tracing::debug!("failed to {fault}"),
            },
            Ok(SpareRequest::EndAll(done)) => {
                lock(waiting).clear();
                let _ = done.send(());
            }
            Err(RecvTimeoutError::Timeout) => {
                lock(waiting).retain(|_, spare| spare.is_usable());
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    lock(waiting).clear();
}

fn lock(waiting: &Waiting) -> MutexGuard<'_, BTreeMap<&'static str, Spare>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
