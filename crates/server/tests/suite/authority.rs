//! A certificate authority of a test.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use server::http::tls::Certificates;
use tempfile::TempDir;

/// An authority, and the files of the certificate that it signed.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub pem: Vec<u8>,
    folder: TempDir,
}

impl Authority {
    /// An authority that no system trusts.
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem().into_bytes();
        Self {
            issuer: Issuer::new(params, key),
            pem,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// The certificate's file.
    pub fn chain(&self) -> PathBuf {
        self.folder.path().join("service.pem")
    }

    /// The key's file.
    pub fn key(&self) -> PathBuf {
        self.folder.path().join("service.key")
    }

    /// Writes a certificate for a name, valid until a year.
    pub fn write(&self, name: &str, until: i32) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.chain(), certificate.pem()).unwrap();
        std::fs::write(self.key(), key.serialize_pem()).unwrap();
    }

    /// Both files as a listener uses them.
    pub fn load(&self) -> Arc<Certificates> {
        Certificates::load(&self.chain(), &self.key()).unwrap()
    }
}
