//! The accept loop of the HTTP server. It closes connections that send no request, because each
//! open one holds a descriptor and memory.

use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
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
/// progress and returns.
pub async fn serve(
    listener: TcpListener,
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
        let service = router
            .clone()
            .map_request(|request: Request<Incoming>| request.map(axum::body::Body::new));
        let connection =
            http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        let connection = connections.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("a connection ended early: {error}");
            }
        });
    }
    drop(listener);
    connections.shutdown().await;
}
