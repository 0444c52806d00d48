//! The operator's choice about a device's clocks, and how a lock on them ends whatever happens.
//!
//! A lock is set in the card and outlives whoever set it. Before it is set a file in the data folder
//! says so, which is held by an advisory lock of the worker's process: a file that says so and that
//! nobody holds was left by a process that died, and the next start gives the clocks free.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use domain::digest::Digest;
use domain::role::{Clocks, ClocksJob, ClocksReply};

use super::{Host, Role};
use crate::cancel::Cancellation;
use crate::supervise;

/// How long the management library may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// What the file says while clocks are locked.
const LOCKED: &[u8] = b"locked\n";

/// What is done about a device's clocks while times are taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClockPolicy {
    /// They are watched. The device may be somebody else's, too.
    #[default]
    Observe,
    /// They are locked for each comparison, to what the device holds under any load. Only for a device
    /// of one's own: a lock that somebody else has set is lost.
    Lock,
}

impl ClockPolicy {
    /// The policy of this name; none is to observe.
    ///
    /// # Errors
    /// Says which names there are.
    pub fn parse(name: &str) -> Result<Self, String> {
        match name {
            "" | "observe" => Ok(Self::Observe),
            "lock" => Ok(Self::Lock),
            other => Err(format!("{other:?} is neither observe nor lock")),
        }
    }
}

/// Clocks that are locked as long as this value lives.
#[derive(Debug)]
pub struct LockedClocks<'h> {
    host: &'h Host,
    record: Record,
}

impl Drop for LockedClocks<'_> {
    fn drop(&mut self) {
        self.host.free_clocks(&mut self.record);
    }
}

/// The file of a device, held by this process.
#[derive(Debug)]
struct Record {
    path: PathBuf,
    file: File,
}

impl Record {
    /// The file of the host's device; none where another process holds it.
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

    /// Never removed: a file that another process has opened would be one that nobody finds.
    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(text)?;
        self.file.sync_all()
    }
}

impl Host {
    /// The same machine under another policy.
    #[must_use]
    pub fn with_clocks(mut self, policy: ClockPolicy) -> Self {
        self.settings.clocks = policy;
        self
    }

    /// The file that says whether the device's clocks were locked by us.
    pub fn clocks_record(&self) -> PathBuf {
        let name = Digest::of(self.device().uuid.as_str()).short();
        self.data().join(format!("clocks/{name}"))
    }

    /// Locks the device's clocks if the operator wants that. None where they stay free, with a warning
    /// if they were not to.
    pub fn lock_clocks(&self) -> Option<LockedClocks<'_>> {
        if self.settings.clocks == ClockPolicy::Observe {
            return None;
        }
        let record = match Record::hold(self) {
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
        // From here on whatever goes wrong gives them free.
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

    /// Gives clocks free that a process locked which is no more.
    pub(super) fn restore_clocks(&self) {
        // Most machines have never locked any.
        if !self.clocks_record().exists() {
            return;
        }
        // A file that another process holds is that process's business.
        if let Ok(Some(mut record)) = Record::hold(self) {
            self.free_clocks(&mut record);
        }
    }

    /// Gives the clocks free if the file says that they are locked. It says so until they are free.
    fn free_clocks(&self, record: &mut Record) {
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

    /// Has a process of its own set the clocks, since the library can hang. That is done even where
    /// the work around it is called off.
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

impl Record {
    /// Says that clocks are free.
    fn forget(&mut self) {
        if let Err(error) = self.write(b"") {
            tracing::warn!("failed to write {}: {error}", self.path.display());
        }
    }
}
