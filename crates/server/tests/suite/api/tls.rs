//! TLS over real sockets, with certificates made here.

use std::net::SocketAddr;
use std::sync::Arc;

use domain::access::Scope;
use server::client::Client;
use server::credentials::Credentials;
use server::http::access::{Access, OwnSecrets};
use server::http::connections::{self, ConnectionLimits};
use server::http::tls::{Certificates, TlsError};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::service::Service;
use crate::authority::Authority;

async fn listen(service: &Service, certificates: &Arc<Certificates>) -> (SocketAddr, DropGuard) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let closing = CancellationToken::new();
    let serving = connections::serve(
        listener,
        Some(certificates.acceptor().unwrap()),
        service.router.clone(),
        ConnectionLimits::default(),
        closing.clone(),
    );
    tokio::spawn(serving);
    (address, closing.drop_guard())
}

/// A client of its own, so that it opens a connection of its own.
async fn health(address: SocketAddr, authority: &[u8]) -> Result<(), String> {
    let credentials = Credentials {
        token: None,
        authority: Some(authority.to_owned()),
    };
    let client = Client::with(&format!("https://{address}"), &credentials).unwrap();
    let asked = client.health().await;
    asked
        .map(drop)
        .map_err(|error| format!("{:#}", anyhow::Error::new(error)))
}

#[tokio::test]
async fn a_client_trusts_the_given_authority_and_says_what_is_wrong_with_others() {
    let service = Service::new().await;
    let authority = Authority::new();
    authority.write("127.0.0.1", 2100);
    let (address, _closes) = listen(&service, &authority.load()).await;
    health(address, &authority.pem).await.unwrap();
    let error = health(address, &Authority::new().pem).await.unwrap_err();
    assert!(error.contains("--ca FILE"), "{error}");
    // Plain HTTP is not answered.
    let plain = Client::new(&format!("http://{address}")).unwrap();
    assert!(plain.health().await.is_err());
}

#[tokio::test]
async fn a_renewed_certificate_counts_from_the_next_connection_on() {
    let service = Service::new().await;
    let authority = Authority::new();
    authority.write("127.0.0.1", 2021);
    let certificates = authority.load();
    let (address, _closes) = listen(&service, &certificates).await;
    let error = health(address, &authority.pem).await.unwrap_err();
    assert!(error.contains("renew the service's certificate"), "{error}");
    // Half of a renewal: the new key does not belong to the old certificate, which stays in use.
    let old = std::fs::read(authority.chain()).unwrap();
    authority.write("127.0.0.1", 2100);
    let new = std::fs::read(authority.chain()).unwrap();
    std::fs::write(authority.chain(), old).unwrap();
    let error = health(address, &authority.pem).await.unwrap_err();
    assert!(error.contains("certificate expired"), "{error}");
    std::fs::write(authority.chain(), new).unwrap();
    health(address, &authority.pem).await.unwrap();
    // Without its files the service goes on with what it has.
    std::fs::remove_file(authority.key()).unwrap();
    health(address, &authority.pem).await.unwrap();
}

#[tokio::test]
async fn a_certificate_of_another_name_is_refused_with_the_remedy() {
    let service = Service::new().await;
    let authority = Authority::new();
    authority.write("kernels.example", 2100);
    let (address, _closes) = listen(&service, &authority.load()).await;
    let error = health(address, &authority.pem).await.unwrap_err();
    assert!(error.contains("use a name in the address"), "{error}");
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let authority = Authority::new();
    let load = || Certificates::load(&authority.chain(), &authority.key());
    let error = load().unwrap_err();
    assert!(matches!(error, TlsError::File { .. }), "{error}");
    authority.write("127.0.0.1", 2100);
    std::fs::write(authority.chain(), &authority.pem).unwrap();
    let error = load().unwrap_err();
    assert!(matches!(error, TlsError::Pair { .. }), "{error}");
    std::fs::write(authority.chain(), "no certificate").unwrap();
    let error = load().unwrap_err();
    assert!(error.to_string().contains("service.pem"), "{error}");
}

#[tokio::test]
async fn a_worker_joins_over_tls_with_its_token_and_leaves_when_drained() {
    let own = OwnSecrets::draw().unwrap();
    let service = Service::with_access(Access::required(&own).encrypted()).await;
    let authority = Authority::new();
    authority.write("127.0.0.1", 2100);
    let (address, _closes) = listen(&service, &authority.load()).await;
    let token = service.token("machine", Scope::Worker).await;
    let admin = service.token("ada", Scope::Admin).await;
    let server = format!("https://{address}");
    let folder = tempfile::tempdir().unwrap();
    let join = |token, authority| worker::fleet::Join {
        server: server.clone(),
        token,
        authority,
        registration: super::service::registration(),
        health: worker::health_record::HealthRecordFile::new(folder.path(), "0"),
        data: folder.path().to_owned(),
        pace: worker::fleet::Pace::default(),
        idle_limit: None,
    };
    let work = |join| {
        let evaluate = |_: &_, _: &dyn Fn(&str), _: &_| {
            Err::<worker::evaluate::SearchEvaluation, _>(std::io::Error::other("nothing to do"))
        };
        worker::fleet::join(join, evaluate, CancellationToken::new())
    };
    let pem = Some(authority.pem.clone());
    let refused = work(join(None, pem.clone())).await.unwrap_err().to_string();
    assert!(refused.contains("asks for a token"), "{refused}");
    let refused = work(join(Some(admin.clone()), pem.clone())).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("scope worker"), "{refused}");

    let joined = tokio::spawn(work(join(Some(token), pem.clone())));
    let credentials = Credentials {
        token: Some(admin),
        authority: pem,
    };
    let client = Client::with(&server, &credentials).unwrap();
    let mut changed = service.engine.store().changed();
    let id = loop {
        changed.borrow_and_update();
        match client.workers().await.unwrap().first() {
            Some(worker) => break worker.id,
            None => changed.changed().await.unwrap(),
        }
    };
    client.drain(id).await.unwrap();
    joined.await.unwrap().unwrap();
}
