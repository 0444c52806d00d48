//! The address of the service that a command uses.

use crate::cli::{DEFAULT_LISTEN, ServiceAddress};
use crate::client::{Client, ClientError};
use crate::data::Data;

/// The service that was named; else the one that serves from the data folder; else the one that
/// listens where a service does by default.
pub(super) fn client(address: &ServiceAddress) -> Result<Client, ClientError> {
    let in_folder = || {
        let root = address
            .folder
            .data
            .is_dir()
            .then_some(&address.folder.data)?;
        Data::open(root).ok()?.address()
    };
    let url = address
        .server
        .clone()
        .or_else(in_folder)
        .unwrap_or_else(|| format!("http://{DEFAULT_LISTEN}"));
    Client::new(&url)
}
