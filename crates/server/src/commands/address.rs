//! The address of the service that a command uses, and what it needs to talk to it.

use crate::cli::{
    CredentialFiles, DEFAULT_LISTEN, PROFILE_VARIABLE, SERVER_VARIABLE, ServiceAddress,
};
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
    let service = match named(address)? {
        Named::Address(url) => Some(at(url.to_owned())),
        Named::Profile(name) => find(Some(name))?,
        Named::Nothing => match in_folder() {
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

/// The way in which a command names its service.
enum Named<'a> {
    Address(&'a str),
    Profile(&'a str),
    Nothing,
}

/// An option has precedence over a variable, so that one call may ask another service than the others of
/// a shell.
fn named(address: &ServiceAddress) -> Result<Named<'_>, Failure> {
    let (url, name) = match (&address.server, &address.profile) {
        (Some(url), Some(name)) => (url, name),
        (Some(url), None) => return Ok(Named::Address(url)),
        (None, Some(name)) => return Ok(Named::Profile(name)),
        (None, None) => return Ok(Named::Nothing),
    };
    let is_set_to = |variable, value: &str| std::env::var(variable).is_ok_and(|set| set == value);
    match (
        is_set_to(SERVER_VARIABLE, url),
        is_set_to(PROFILE_VARIABLE, name),
    ) {
        (false, true) => Ok(Named::Address(url)),
        (true, false) => Ok(Named::Profile(name)),
        _ => Err(Failure::input(anyhow::anyhow!(
            "choose the service: the address {url} and the profile {name:?} name two; leave out \
             --server ({SERVER_VARIABLE}) or --profile ({PROFILE_VARIABLE})"
        ))),
    }
}

/// Reads the files with which a command identifies.
pub(super) fn credentials(files: &CredentialFiles) -> Result<Credentials, Failure> {
    Credentials::read(files.token_file.as_deref(), files.ca.as_deref()).map_err(Failure::input)
}
