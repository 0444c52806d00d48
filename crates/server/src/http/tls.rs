//! TLS of the listener: certificate and key from files, which are read again when they change.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, ServerConfig};

/// Errors of certificate and key. Messages read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or holds nothing of its kind.
    #[error("read {what} {path}: it must be a file in PEM that this program may read")]
    File {
        /// "the certificate" or "the key".
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: pem::Error,
    },
    /// Certificate and key cannot be used, or do not belong together.
    #[error(
        "use the certificate {chain} with the key {key}: the first certificate of the file must be the one of this key",
        chain = chain.display(), key = key.display()
    )]
    Pair {
        /// The certificate's file.
        chain: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// The cause.
        source: rustls::Error,
    },
    /// The TLS library refuses its own defaults.
    #[error("prepare TLS")]
    Setup(#[source] rustls::Error),
}

/// The service's certificate with its key. Each connection compares the files' times with those of the
/// last reading, so that a renewed certificate counts from the next connection on. No signal and no
/// timer is needed.
#[derive(Debug)]
pub struct Certificates {
    chain: PathBuf,
    key: PathBuf,
    provider: Arc<CryptoProvider>,
    current: Mutex<Loaded>,
}

struct Loaded {
    stamps: Stamps,
    certified: Arc<CertifiedKey>,
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the key.
        f.debug_struct("Loaded")
            .field("stamps", &self.stamps)
            .finish_non_exhaustive()
    }
}

/// Modification time in seconds and nanoseconds, inode and size of both files; absent where a file
/// cannot be found.
type Stamps = [Option<(i64, i64, u64, u64)>; 2];

impl Certificates {
    /// Reads both files.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn load(chain: &Path, key: &Path) -> Result<Arc<Self>, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        // Before the files are read: a change in between is then seen by the next connection.
        let stamps = stamps(chain, key);
        let certified = read(chain, key, &provider)?;
        Ok(Arc::new(Self {
            chain: chain.to_owned(),
            key: key.to_owned(),
            provider,
            current: Mutex::new(Loaded { stamps, certified }),
        }))
    }

    /// Accepts TLS 1.2 and 1.3 with the newest certificate.
    ///
    /// # Errors
    /// [`TlsError::Setup`].
    pub fn acceptor(self: &Arc<Self>) -> Result<TlsAcceptor, TlsError> {
        let resolver: Arc<Self> = Arc::clone(self);
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Setup)?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    fn newest(&self) -> Arc<CertifiedKey> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = stamps(&self.chain, &self.key);
        if stamps != current.stamps {
            // The stamps are stored after a failure too, so that each state of the files is reported once.
            current.stamps = stamps;
            match read(&self.chain, &self.key, &self.provider) {
                Ok(certified) => {
                    tracing::info!("read the certificate {} again", self.chain.display());
                    current.certified = certified;
                }
                // One of two files may have been replaced so far.
                Err(error) => {
                    let error = anyhow::Error::new(error);
                    tracing::warn!("failed to {error:#}; the certificate read before stays in use");
                }
            }
        }
        Arc::clone(&current.certified)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.newest())
    }
}

fn stamps(chain: &Path, key: &Path) -> Stamps {
    [chain, key].map(|path| {
        let found = fs::metadata(path).ok()?;
        Some((found.mtime(), found.mtime_nsec(), found.ino(), found.size()))
    })
}

fn read(
    chain: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, TlsError> {
    let file = |what, path: &Path| {
        let path = path.to_owned();
        move |source| TlsError::File { what, path, source }
    };
    let certificates = CertificateDer::pem_file_iter(chain)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(file("the certificate", chain))?;
    if certificates.is_empty() {
        return Err(file("the certificate", chain)(pem::Error::NoItemsFound));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(file("the key", key))?;
    let certified = CertifiedKey::from_der(certificates, private, provider).map_err(|source| {
        TlsError::Pair {
            chain: chain.to_owned(),
            key: key.to_owned(),
            source,
        }
    })?;
    Ok(Arc::new(certified))
}
