//! Processes that are started before there is anything for them to do, at most one for each role.
//!
//! A spare has done what costs time and needs no job: it has loaded its libraries, opened the
//! device and confined itself. It has a folder of its own, is given one job, and is gone after it;
//! none is ever used twice. The module does not know what a role is for, nor when one is wanted.

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

/// A spare that has waited for so long is given up: the driver under it may have been replaced, and
/// a worker without work should not hold a device's memory.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// How to start a process of one role.
#[derive(Debug)]
pub struct Recipe {
    /// What to start; its working directory may be `home`.
    pub program: Program,
    /// What holds it from the start.
    pub limits: Limits,
    /// A folder of its own, which goes with it.
    pub home: TempDir,
}

/// A process that has been told nothing yet, with its folder.
#[derive(Debug)]
pub struct Spare {
    // Ends before its folder goes.
    standby: Standby,
    /// Its folder.
    pub home: TempDir,
}

impl Spare {
    /// Starts one.
    ///
    /// # Errors
    /// [`SuperviseError::Start`].
    pub fn start(recipe: Recipe) -> Result<Self, SuperviseError> {
        let standby = Standby::start(&recipe.program, recipe.limits)?;
        Ok(Self {
            standby,
            home: recipe.home,
        })
    }

    /// Gives it its one job. Its folder stays until the caller is done with it.
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

    /// Asks it one thing after another. Its folder stays until the caller is done with it.
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

    fn is_of_use(&self) -> bool {
        !self.standby.has_ended() && self.standby.age() < LONGEST_WAIT
    }
}

/// What the starting thread is asked for.
enum Order {
    /// A spare in the place of this name.
    Start(&'static str, Recipe),
    /// Nothing left waiting; whoever asks is told when that is so.
    Withdraw(Sender<()>),
}

type Shelf = Arc<Mutex<BTreeMap<&'static str, Spare>>>;

/// The spares of one machine. They go with this value.
#[derive(Debug)]
pub struct Spares {
    shelf: Shelf,
    orders: Option<Sender<Order>>,
    starter: Option<JoinHandle<()>>,
}

impl Spares {
    /// No spares yet, and a thread that starts them. A child dies with the thread that started it,
    /// so that this must be one that stays.
    pub fn start() -> Self {
        let shelf = Shelf::default();
        let (orders, wanted) = channel();
        let starter = Builder::new().name("spares".to_owned()).spawn({
            let shelf = Arc::clone(&shelf);
            move || start_what_is_wanted(&shelf, &wanted)
        });
        match starter {
            Ok(starter) => Self {
                shelf,
                orders: Some(orders),
                starter: Some(starter),
            },
            // Whoever wants a process starts it then.
            Err(error) => {
                tracing::warn!("failed to prepare for spare processes: {error}");
                Self {
                    shelf,
                    orders: None,
                    starter: None,
                }
            }
        }
    }

    /// The spare of a place, if one waits there and is still of use.
    pub fn take(&self, place: &'static str) -> Option<Spare> {
        let spare = locked(&self.shelf).remove(place)?;
        if spare.is_of_use() {
            return Some(spare);
        }
        tracing::debug!("a spare {place} process ended or waited too long, and is replaced");
        None
    }

    /// Has a spare started, in place of whatever waits there. Returns at once.
    pub fn order(&self, place: &'static str, recipe: Recipe) {
        if let Some(orders) = &self.orders {
            // Without the thread there are no spares, and nothing is lost but time.
            let _ = orders.send(Order::Start(place, recipe));
        }
    }

    /// Ends all that wait or are about to. None is left when this returns.
    pub fn withdraw(&self) {
        let (done, told) = channel();
        let asked = self
            .orders
            .as_ref()
            .is_some_and(|orders| orders.send(Order::Withdraw(done)).is_ok());
        if asked {
            // An error means that the thread is gone, and the spares with it.
            let _ = told.recv();
        }
        locked(&self.shelf).clear();
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        drop(self.orders.take());
        if let Some(starter) = self.starter.take() {
            let _ = starter.join();
        }
    }
}

fn start_what_is_wanted(shelf: &Shelf, wanted: &Receiver<Order>) {
    loop {
        match wanted.recv_timeout(LONGEST_WAIT) {
            Ok(Order::Start(place, recipe)) => match Spare::start(recipe) {
                Ok(spare) => drop(locked(shelf).insert(place, spare)),
                // Whoever needs the process starts it then, and learns why it does not start.
                Err(fault) => tracing::debug!("failed to {fault}"),
            },
            Ok(Order::Withdraw(done)) => {
                locked(shelf).clear();
                let _ = done.send(());
            }
            Err(RecvTimeoutError::Timeout) => {
                locked(shelf).retain(|_, spare| spare.is_of_use());
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    locked(shelf).clear();
}

fn locked(shelf: &Shelf) -> MutexGuard<'_, BTreeMap<&'static str, Spare>> {
    shelf.lock().unwrap_or_else(PoisonError::into_inner)
}
