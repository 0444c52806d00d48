//! Limits on the disk space of evaluations. Of builds, reference answers and bundles the oldest are
//! removed first; everything that killed evaluations left behind is removed.

use std::fs::{self, Metadata};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::evidence;

/// The limit on keys of bundles, which are 64 bytes each, bytes.
const KEY_BYTES: u64 = 16 << 20;
/// The age from which on nothing that an evaluation left behind can still be in use, by this
/// process or another one with the same data folder.
const SAFE_AGE: Duration = Duration::from_secs(3600);
/// The age below which an entry may be in use by a role at this moment. Only such entries may
/// exceed a limit on disk space.
pub const IN_USE_AGE: Duration = Duration::from_secs(120);

/// A folder in the data folder whose oldest entries are removed beyond a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitedFolder {
    /// Its name.
    pub name: &'static str,
    /// The limit on everything in it, bytes.
    pub most_bytes: u64,
}

/// Every folder that has a limit, where `disk_bytes` are for all but the keys: reference answers
/// have four sevenths of it, evidence bundles two, builds one.
pub fn limited_folders(disk_bytes: u64) -> [LimitedFolder; 4] {
    let seventh = disk_bytes / 7;
    [
        ("builds", seventh),
        ("references", 4 * seventh),
        (evidence::BUNDLES, 2 * seventh),
        (evidence::KEYS, KEY_BYTES),
    ]
    .map(|(name, most_bytes)| LimitedFolder { name, most_bytes })
}

/// Removes the oldest entries of a folder until the rest has at most `most_bytes`, because an entry
/// that is missing is made again. Entries of the last two minutes stay. Errors are ignored; the
/// next call tries again.
pub fn trim(folder: &Path, most_bytes: u64, now: SystemTime) {
    let mut entries = entries_of(folder, now);
    entries.sort_by_key(|entry| entry.age);
    let mut kept = 0_u64;
    for entry in entries {
        kept = kept.saturating_add(entry.bytes);
        if kept > most_bytes && entry.age > IN_USE_AGE {
            let _ = fs::remove_dir_all(&entry.path);
        }
    }
}

/// Removes every entry of a folder whose name begins with `prefix` and that is too old to be in
/// use.
pub fn sweep(folder: &Path, prefix: &str, now: SystemTime) {
    for entry in entries_of(folder, now) {
        let matches = entry
            .path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(prefix));
        if matches && entry.age > SAFE_AGE {
            let _ = fs::remove_dir_all(&entry.path);
        }
    }
}

struct StoredEntry {
    path: std::path::PathBuf,
    age: Duration,
    bytes: u64,
}

fn entries_of(folder: &Path, now: SystemTime) -> Vec<StoredEntry> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let metadata = entry.metadata().ok()?;
            let modified = metadata.modified().ok()?;
            let path = entry.path();
            Some(StoredEntry {
                age: now.duration_since(modified).unwrap_or_default(),
                bytes: bytes(&path, &metadata),
                path,
            })
        })
        .collect()
}

/// The bytes of a file, or of everything below a folder.
fn bytes(path: &Path, metadata: &Metadata) -> u64 {
    if !metadata.is_dir() {
        return metadata.len();
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some(bytes(&entry.path(), &entry.metadata().ok()?)))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folders `names`, each with 1,000 bytes, made one hour after the other, the last one now.
    fn shelf(names: &[&str]) -> (tempfile::TempDir, SystemTime) {
        shelf_every(Duration::from_secs(3601), names)
    }

    /// Folders `names`, each with 1,000 bytes, made with this interval, the last one now.
    fn shelf_every(interval: Duration, names: &[&str]) -> (tempfile::TempDir, SystemTime) {
        let shelf = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        for (turn, name) in names.iter().rev().enumerate() {
            let folder = shelf.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("file"), [0; 1000]).unwrap();
            let modified = now - u32::try_from(turn).unwrap() * interval;
            fs::File::open(&folder)
                .unwrap()
                .set_modified(modified)
                .unwrap();
        }
        (shelf, now)
    }

    fn left(shelf: &tempfile::TempDir) -> Vec<String> {
        let mut names = fs::read_dir(shelf.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect::<Vec<_>>();
        names.sort();
        names
    }

    #[test]
    fn the_oldest_go_first_and_only_as_many_as_must() {
        let (shelf, now) = shelf(&["a", "b", "c", "d"]);
        trim(shelf.path(), 4000, now);
        assert_eq!(left(&shelf), ["a", "b", "c", "d"]);
        trim(shelf.path(), 2500, now);
        assert_eq!(left(&shelf), ["c", "d"]);
    }

    #[test]
    fn the_bound_holds_for_the_youngest_hour_as_well() {
        let (shelf, now) = shelf_every(Duration::from_secs(600), &["a", "b", "c", "d"]);
        trim(shelf.path(), 2000, now);
        assert_eq!(left(&shelf), ["c", "d"]);
    }

    #[test]
    fn an_entry_that_may_be_in_use_stays() {
        let (shelf, now) = shelf(&["a", "b"]);
        trim(shelf.path(), 0, now);
        assert_eq!(left(&shelf), ["b"]);
    }

    #[test]
    fn a_sweep_takes_only_what_was_left_behind() {
        let (shelf, now) = shelf(&["making-a", "build", "making-b"]);
        sweep(shelf.path(), "making-", now);
        assert_eq!(left(&shelf), ["build", "making-b"]);
    }
}
