//! The address of the service that a command uses, and what it needs to talk to it.

use crate::cli::{CredentialFiles, DEFAULT_LISTEN, ServiceAddress};
use crate::client::Client;
use crate::credentials::Credentials;
use crate::data::Data;
use crate::outcome::Failure;
use crate::profile::{self, Profile};

/// The service that was named, by its address or its profile; else the one that serves from the data
/// folder; else that of the default profile; else the one that listens where a service does by default.
pub(super) fn client(address: &ServiceAddress) -> Result<Client, Failure> {
    let in_folder = || {
        let root = address
            .folder
            .data
            .is_dir()
            .then_some(&address.folder.data)?;
        Data::open(root).ok()?.address()
    };
    let find = |name| profile::find(name).map_err(Failure::input);
    let at = |url| Profile {
        url,
        token_file: None,
        ca: None,
    };
    let service = match (&address.server, &address.profile) {
        (Some(url), _) => Some(at(url.clone())),
        (None, Some(name)) => find(Some(name))?,
        (None, None) => match in_folder() {
            Some(url) => Some(at(url)),
            None => find(None)?,
        },
    };
    let service = service.unwrap_or_else(|| at(format!("http://{DEFAULT_LISTEN}")));
    let given = &address.credentials;
    let files = CredentialFiles {
        token_file: given.token_file.clone().or(service.token_file),
        ca: given.ca.clone().or(service.ca),
    };
    Ok(Client::with(&service.url, &credentials(&files)?)?)
}

/// Reads the files with which a command identifies.
pub(super) fn credentials(files: &CredentialFiles) -> Result<Credentials, Failure> {
    Credentials::read(files.token_file.as_deref(), files.ca.as_deref()).map_err(Failure::input)
}
