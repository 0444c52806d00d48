//! The device's health record on disk, so that one process's findings hold for the next.
//!
//! `domain::health` defines the meaning of the record. Several processes of one machine may write
//! it: each reads it afresh, and a write replaces the whole file atomically. Of two concurrent
//! changes one may be lost, which the next probe repairs.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use domain::digest::Digest;
use domain::health::{DeviceRecord, HealthReport};

/// Reads and writes the health record of one device.
#[derive(Debug, Clone)]
pub struct HealthRecordFile {
    device: String,
    path: PathBuf,
    lock: Arc<Mutex<()>>,
}

impl HealthRecordFile {
    /// The keeper of a device's record in a data folder.
    pub fn new(data: &Path, device: &str) -> Self {
        let name = format!("health/{}.json", Digest::of(device).short());
        Self {
            device: device.to_owned(),
            path: data.join(name),
            lock: Arc::default(),
        }
    }

    /// The record's path. An operator removes the file to end a quarantine.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the record. A file that cannot be parsed counts as none, because it was cut short or
    /// is of another version.
    pub fn record(&self) -> DeviceRecord {
        std::fs::read(&self.path)
            .ok()
            .and_then(|text| serde_json::from_slice::<DeviceRecord>(&text).ok())
            .filter(|record| record.device == self.device)
            .unwrap_or_else(|| DeviceRecord::new(&self.device))
    }

    /// The part of the record that a service is told.
    pub fn report(&self) -> HealthReport {
        self.record().report()
    }

    /// Changes the record. A failed write is only logged, because the next probe finds the same
    /// again.
    pub fn change<R>(&self, change: impl FnOnce(&mut DeviceRecord) -> R) -> R {
        let _lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let mut record = self.record();
        let answer = change(&mut record);
        if let Err(error) = self.write(&record) {
            tracing::warn!("failed to write {}: {error}", self.path.display());
        }
        answer
    }

    fn write(&self, record: &DeviceRecord) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.persist(&self.path)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use domain::health::Condition;

    use super::*;

    #[test]
    fn a_record_persists_and_belongs_to_one_device() {
        let folder = tempfile::tempdir().expect("a folder");
        let keeper = HealthRecordFile::new(folder.path(), "GPU-1");
        assert_eq!(keeper.record(), DeviceRecord::new("GPU-1"));
        keeper.change(|record| record.quarantine("it forgets"));
        let again = HealthRecordFile::new(folder.path(), "GPU-1").record();
        assert!(matches!(again.condition, Condition::Quarantined { .. }));
        let other = HealthRecordFile::new(folder.path(), "GPU-2").record();
        assert_eq!(other.condition, Condition::Well);
    }

    #[test]
    fn a_file_that_does_not_read_is_as_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let keeper = HealthRecordFile::new(folder.path(), "GPU-1");
        keeper.change(|record| record.quarantine("it forgets"));
        std::fs::write(keeper.path(), "{\"device\":").expect("writes");
        assert_eq!(keeper.record(), DeviceRecord::new("GPU-1"));
    }
}
