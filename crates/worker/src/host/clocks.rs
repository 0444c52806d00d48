//! The operator's policy for a device's clocks, and the lock on them with its recovery.
//!
//! A clock lock is set in the card and survives the process that set it. So before it is set, a
//! file in the data folder records it, and the worker's process holds an advisory lock on that
//! file. A file that records a clock lock and that no process holds was left by a process that
//! died; the next start unlocks the clocks.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use domain::digest::Digest;
use domain::role::{Clocks, ClocksJob, ClocksReply};

use super::{Host, Role};
use crate::cancel::Cancellation;
use crate::supervise;

/// Wall time that the management library gets.
const DEADLINE: Duration = Duration::from_secs(10);
/// The file's content while clocks are locked.
const LOCKED: &[u8] = b"locked\n";

/// The policy for a device's clocks while kernels are timed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClockPolicy {
    /// Clocks are watched and never changed, because others may use the device too.
    #[default]
    Observe,
    /// Clocks are locked for each comparison, to a rate that the device holds under any load. Only
    /// for a device that nobody else uses, because the unlock afterwards also ends a lock that
    /// somebody else has set.
    Lock,
}

impl ClockPolicy {
    /// Parses the policy's name; an empty name means to observe.
    ///
    /// # Errors
    /// The name is unknown; the text lists the valid ones.
    pub fn parse(name: &str) -> Result<Self, String> {
        match name {
            "" | "observe" => Ok(Self::Observe),
            "lock" => Ok(Self::Lock),
            other => Err(format!("{other:?} is neither observe nor lock")),
        }
    }
}

/// A lock on the device's clocks, which ends when this value is dropped.
#[derive(Debug)]
pub struct LockedClocks<'h> {
    host: &'h Host,
    record: LockRecord,
}

impl Drop for LockedClocks<'_> {
    fn drop(&mut self) {
        self.host.unlock_clocks(&mut self.record);
    }
}

/// The file that records a device's clock lock, under this process's advisory lock.
#[derive(Debug)]
struct LockRecord {
    path: PathBuf,
    file: File,
}

impl LockRecord {
    /// Opens and locks the file for the host's device; `None` if another process holds it.
    fn hold(host: &Host) -> io::Result<Option<Self>> {
        let path = host.clocks_record();
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { path, file })),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }

    fn says_locked(&mut self) -> io::Result<bool> {
        let mut text = Vec::new();
        self.file.rewind()?;
        self.file.read_to_end(&mut text)?;
        Ok(!text.is_empty())
    }

    /// Overwrites the file. It is never removed, because a process that has it open would then hold
    /// a lock on a file that no other process finds.
    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(text)?;
        self.file.sync_all()
    }
}

impl Host {
    /// The same machine with another clock policy.
    #[must_use]
    pub fn with_clocks(mut self, policy: ClockPolicy) -> Self {
        self.settings.clocks = policy;
        self
    }

    /// The path of the file that records this device's clock lock.
    pub fn clocks_record(&self) -> PathBuf {
        let name = Digest::of(self.device().uuid.as_str()).short();
        self.data().join(format!("clocks/{name}"))
    }

    /// Locks the device's clocks if the policy asks for it. Returns `None` if they stay unlocked,
    /// and warns if that is against the policy.
    pub fn lock_clocks(&self) -> Option<LockedClocks<'_>> {
        if self.settings.clocks == ClockPolicy::Observe {
            return None;
        }
        let record = match LockRecord::hold(self) {
            Ok(Some(record)) => record,
            Ok(None) => {
                tracing::warn!("another process has locked the clocks of {}", self.device());
                return None;
            }
            Err(error) => {
                let path = self.clocks_record();
                tracing::warn!("failed to lock clocks: open {}: {error}", path.display());
                return None;
            }
        };
        // From here on every error path unlocks the clocks when it drops `locked`.
        let mut locked = LockedClocks { host: self, record };
        if let Err(error) = locked.record.write(LOCKED) {
            let path = locked.record.path.display();
            tracing::warn!("failed to lock clocks: write {path}: {error}");
            return None;
        }
        match self.set_clocks(Clocks::Locked) {
            Ok(ClocksReply::Set) => Some(locked),
            Ok(ClocksReply::Forbidden) => {
                tracing::warn!(
                    "failed to lock the clocks of {}: that takes the rights of root, in a container also the capability SYS_ADMIN; start the worker with them, or lock the clocks yourself with `nvidia-smi --lock-gpu-clocks=tdp,tdp` and set KERNELWRIGHT_CLOCKS=observe. They are watched meanwhile",
                    self.device()
                );
                locked.record.forget();
                None
            }
            Ok(ClocksReply::Impossible { reason }) => {
                tracing::warn!("failed to lock the clocks of {}: {reason}", self.device());
                locked.record.forget();
                None
            }
            Err(how) => {
                tracing::warn!("failed to lock the clocks of {}: {how}", self.device());
                None
            }
        }
    }

    /// Unlocks the clocks if a process that died left them locked.
    pub(super) fn unlock_abandoned_clocks(&self) {
        // Most machines have never locked any clocks.
        if !self.clocks_record().exists() {
            return;
        }
        // A file that another process holds records a lock that is in use.
        if let Ok(Some(mut record)) = LockRecord::hold(self) {
            self.unlock_clocks(&mut record);
        }
    }

    /// Unlocks the clocks if the file records a lock. The file keeps the record until that has
    /// succeeded.
    fn unlock_clocks(&self, record: &mut LockRecord) {
        if !record.says_locked().unwrap_or(true) {
            return;
        }
        let how = match self.set_clocks(Clocks::Free) {
            Ok(ClocksReply::Set) => return record.forget(),
            Ok(ClocksReply::Forbidden) => "that takes the rights of root".to_owned(),
            Ok(ClocksReply::Impossible { reason }) => reason,
            Err(how) => how,
        };
        tracing::warn!(
            "failed to give the clocks of {} free: {how}; the next start tries again, and `nvidia-smi --reset-gpu-clocks` does it by hand",
            self.device()
        );
    }

    /// Sets the clocks in a process of its own, because the management library can hang. It ignores
    /// the caller's cancellation, because clocks must be unlocked even if the work was cancelled.
    fn set_clocks(&self, clocks: Clocks) -> Result<ClocksReply, String> {
        let cancellation = Cancellation::new().map_err(|error| error.to_string())?;
        let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
        let job = ClocksJob {
            uuid: self.device().uuid.clone(),
            clocks,
        };
        let program = self.program(Role::Clocks, scratch.path());
        let bounds = self.bounds(Role::Clocks, DEADLINE);
        let answer = supervise::ask::<_, ClocksReply>(&program, &job, bounds, &cancellation);
        let answer = answer.map_err(|fault| fault.to_string())?;
        answer.reply.map_err(|exit| exit.to_string())
    }
}

impl LockRecord {
    /// Records that the clocks are unlocked.
    fn forget(&mut self) {
        if let Err(error) = self.write(b"") {
            tracing::warn!("failed to write {}: {error}", self.path.display());
        }
    }
}
