//! The data folder: its files, its lock, and the address of its service.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use store::{Store, StoreError};
use tempfile::{NamedTempFile, TempDir};
use uuid::Uuid;

/// File that tells git what it leaves out of commits.
pub(crate) const GIT_IGNORE: &str = ".gitignore";
/// Text of a [`GIT_IGNORE`] that leaves out everything beside it.
pub(crate) const IGNORE_ALL: &str = "*\n";

/// A folder for a command that keeps nothing: the data folder where there is one, so that its
/// builds are used again, else a temporary folder that goes when this is dropped.
#[derive(Debug)]
pub struct WorkFolder {
    data: Data,
    _temporary: Option<TempDir>,
}

/// Errors of a data folder.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The operating system refused an operation.
    #[error("{doing} {path}")]
    Io {
        /// The operation, such as "make the data folder".
        doing: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// There is no such folder, and the command only reads.
    #[error(
        "find the data folder {0}: nothing is there; name the folder with --data DIR or KERNELWRIGHT_DATA"
    )]
    Missing(PathBuf),
    /// Another service uses the folder.
    #[error(
        "lock the data folder {folder}: another service works in it{}; stop that one, or give this one a folder of its own with --data DIR",
        .address.as_ref().map(|address| format!(", at {address}")).unwrap_or_default()
    )]
    Taken {
        /// The folder.
        folder: PathBuf,
        /// Address of the other service, if it is known.
        address: Option<String>,
    },
}

/// A data folder that exists.
#[derive(Debug, Clone)]
pub struct Data {
    root: PathBuf,
}

/// The lock that a service holds on its folder. The operating system releases it when the process
/// ends, also after a crash.
#[derive(Debug)]
#[must_use = "the folder is free for others as soon as this is dropped"]
pub struct Lock {
    _file: File,
    address: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Address {
    url: String,
    pid: u32,
}

impl Data {
    /// The folder at `root`, made when missing. An empty one gets a `.gitignore` that ignores all of it: git leaves it
    /// out of commits, and [`crate::bundle::read`] out of a task.
    ///
    /// # Errors
    /// [`DataError::Io`] when it cannot be made.
    pub fn open(root: &Path) -> Result<Self, DataError> {
        let io = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| DataError::Io {
                doing,
                path,
                source,
            }
        };
        fs::create_dir_all(root).map_err(io("make the data folder", root))?;
        let root = root
            .canonicalize()
            .map_err(io("find the data folder", root))?;
        let mut entries = fs::read_dir(&root).map_err(io("read the data folder", &root))?;
        if entries.next().is_none() {
            let ignored = root.join(GIT_IGNORE);
            fs::write(&ignored, IGNORE_ALL).map_err(io("write", &ignored))?;
        }
        Ok(Self { root })
    }

    /// The folder at `root`, for a command that only reads what others wrote.
    ///
    /// # Errors
    /// [`DataError::Missing`] when there is none.
    pub fn existing(root: &Path) -> Result<Self, DataError> {
        if !root.is_dir() {
            return Err(DataError::Missing(root.to_owned()));
        }
        let found = root.canonicalize().map_err(|source| DataError::Io {
            doing: "find the data folder",
            path: root.to_owned(),
            source,
        });
        found.map(|root| Self { root })
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The database.
    pub fn database(&self) -> PathBuf {
        self.root.join("kernelwright.db")
    }

    /// Opens the Postgres database with this URL, or the folder's own without one.
    ///
    /// # Errors
    /// The database cannot be used.
    pub async fn open_store(&self, url: Option<&str>) -> Result<Store, StoreError> {
        match url {
            Some(url) => Store::connect(url).await,
            None => Store::open(self.database()).await,
        }
    }

    /// The bare repository that winners go to where a run names no other.
    pub fn promotions(&self) -> PathBuf {
        self.root.join("promotions.git")
    }

    /// Identity of this installation: drawn at random by the first call and kept in the folder, so
    /// that a worker has the same one after a restart. Host name and path would not do, because
    /// cloned machines share them.
    ///
    /// # Errors
    /// [`DataError::Io`] when it can be neither read nor written.
    pub fn installation(&self) -> Result<String, DataError> {
        let path = self.root.join("installation");
        let io = |source| DataError::Io {
            doing: "keep the identity of this installation in",
            path: path.clone(),
            source,
        };
        if !path.exists() {
            let mut fresh = NamedTempFile::new_in(&self.root).map_err(io)?;
            fresh
                .write_all(Uuid::now_v7().to_string().as_bytes())
                .and_then(|()| fresh.as_file().sync_all())
                .map_err(io)?;
            // Another worker on this folder may have been faster: then its identity counts.
            if let Err(error) = fresh.persist_noclobber(&path)
                && error.error.kind() != io::ErrorKind::AlreadyExists
            {
                return Err(io(error.error));
            }
        }
        fs::read_to_string(&path).map_err(io)
    }

    fn address_file(&self) -> PathBuf {
        self.root.join("server.json")
    }

    /// Takes the folder for one service.
    ///
    /// # Errors
    /// [`DataError::Taken`] while another one has it.
    pub fn lock(&self) -> Result<Lock, DataError> {
        let path = self.root.join("lock");
        let io = |source| DataError::Io {
            doing: "open the lock file",
            path: path.clone(),
            source,
        };
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(io)?;
        match file.try_lock() {
            Ok(()) => Ok(Lock {
                _file: file,
                address: self.address_file(),
            }),
            Err(TryLockError::WouldBlock) => Err(DataError::Taken {
                folder: self.root.clone(),
                address: self.address(),
            }),
            Err(TryLockError::Error(source)) => Err(io(source)),
        }
    }

    /// Address of the folder's service as it was announced. The service may have stopped since.
    pub fn address(&self) -> Option<String> {
        let text = fs::read_to_string(self.address_file()).ok()?;
        let address: Address = serde_json::from_str(&text).ok()?;
        Some(address.url)
    }
}

impl WorkFolder {
    /// The folder at `root` where it exists, else a temporary one.
    ///
    /// # Errors
    /// [`DataError::Io`] when neither can be used.
    pub fn open(root: &Path) -> Result<Self, DataError> {
        if root.is_dir() {
            return Ok(Self {
                data: Data::open(root)?,
                _temporary: None,
            });
        }
        let parent = std::env::temp_dir();
        let temporary = tempfile::Builder::new()
            .prefix("kernelwright.")
            .tempdir_in(&parent)
            .map_err(|source| DataError::Io {
                doing: "make a temporary folder in",
                path: parent,
                source,
            })?;
        Ok(Self {
            data: Data::open(temporary.path())?,
            _temporary: Some(temporary),
        })
    }

    /// The folder as the rest of the program takes it.
    pub fn data(&self) -> &Data {
        &self.data
    }
}

impl Lock {
    /// Writes the address of the service into the folder.
    ///
    /// # Errors
    /// [`DataError::Io`] when the file cannot be written.
    pub fn announce(&self, url: &str) -> Result<(), DataError> {
        let address = Address {
            url: url.to_owned(),
            pid: std::process::id(),
        };
        let text = serde_json::to_string(&address).expect("two plain fields always serialise");
        let fresh = self.address.with_extension("json.new");
        // Renamed into place, so that a reader sees the old address or the new one.
        File::create(&fresh)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| fs::rename(&fresh, &self.address))
            .map_err(|source| DataError::Io {
                doing: "write",
                path: self.address.clone(),
                source,
            })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The address is a hint: one that stays behind costs a client one refused connection.
        drop(fs::remove_file(&self.address));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installation_keeps_its_identity_and_a_new_folder_at_its_path_has_another() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("data");
        let identity = || Data::open(&folder).unwrap().installation().unwrap();
        let first = identity();
        assert_eq!(identity(), first);
        fs::remove_dir_all(&folder).unwrap();
        assert_ne!(identity(), first);
    }

    #[test]
    fn a_folder_serves_one_service_at_a_time_and_says_where_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let data = Data::open(&folder.path().join("deep/er")).unwrap();
        let lock = data.lock().unwrap();
        lock.announce("http://127.0.0.1:1").unwrap();
        let error = data.lock().unwrap_err();
        assert!(
            error.to_string().contains("at http://127.0.0.1:1"),
            "{error}"
        );
        drop(lock);
        assert_eq!(data.address(), None);
        assert!(data.lock().is_ok());
    }
}
