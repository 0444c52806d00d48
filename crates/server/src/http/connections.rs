//! The accept loop of the HTTP server. It closes connections that send no request, because each
//! open one holds a descriptor and memory.

use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

/// Pause after a failed `accept`, which usually means that the process has no descriptors left.
const ACCEPT_RETRY: Duration = Duration::from_secs(1);

/// Time limits of one connection.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// The longest time from the moment the server is ready for a request until the request's
    /// header has arrived completely. It bounds a slow header as well as an idle connection.
    pub header_timeout: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            header_timeout: Duration::from_secs(30),
        }
    }
}

/// Serves HTTP/1.1 on `listener` until `closing` is cancelled, then finishes the requests in
/// progress and returns. With `tls` every connection begins with a TLS handshake, which has the time
/// limit of a header.
pub async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    limits: ConnectionLimits,
    closing: CancellationToken,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout);
    // Giving the router its state once makes the copy for each connection a reference count.
    // `axum::serve` repeats this step for each connection and so copies every route.
    let router = router.with_state::<()>(());
    let connections = GracefulShutdown::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!("failed to accept a connection: {error}");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                    continue;
                }
            },
            () = closing.cancelled() => break,
        };
        let connection = Connection {
            http: http.clone(),
            router: router.clone(),
            watcher: connections.watcher(),
        };
        match tls.clone() {
            None => drop(tokio::spawn(connection.serve(stream))),
            Some(tls) => {
                let handshake = tokio::time::timeout(limits.header_timeout, tls.accept(stream));
                let closing = closing.clone();
                tokio::spawn(async move {
                    match closing.run_until_cancelled(handshake).await {
                        Some(Ok(Ok(stream))) => connection.serve(stream).await,
                        Some(Ok(Err(error))) => tracing::debug!("a TLS handshake failed: {error}"),
                        Some(Err(_)) | None => {}
                    }
                });
            }
        }
    }
    drop(listener);
    connections.shutdown().await;
}

/// A connection that was accepted.
struct Connection {
    http: http1::Builder,
    router: Router,
    watcher: Watcher,
}

impl Connection {
    async fn serve<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = self
            .router
            .map_request(|request: Request<Incoming>| request.map(axum::body::Body::new));
        let connection = self
            .http
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        if let Err(error) = self.watcher.watch(connection).await {
            tracing::debug!("a connection ended early: {error}");
        }
    }
}
