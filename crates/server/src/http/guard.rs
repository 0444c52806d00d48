//! Protection while there is no authentication: only programs on this machine and pages that this
//! service served may send requests.
//!
//! Listening on loopback alone is not enough. A page of any site can make a browser send
//! requests to 127.0.0.1, and a name that resolves to 127.0.0.1 lets such a page read the
//! answers. The first is recognised by its `Origin` header, the second by its `Host` header.

use std::net::{IpAddr, SocketAddr};

use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Uri};
use axum::middleware::Next;
use axum::response::Response;

use super::error::ApiError;

/// An address that would let others in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "listen on {0}: this version has no authentication and serves loopback addresses only; listen on 127.0.0.1 and reach it from elsewhere through a tunnel, such as ssh -L 8787:127.0.0.1:8787 HOST"
)]
pub struct NotLoopback(SocketAddr);

/// Refuses addresses that others can reach.
///
/// # Errors
/// [`NotLoopback`] for anything but a loopback address.
pub fn require_loopback(address: SocketAddr) -> Result<SocketAddr, NotLoopback> {
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err(NotLoopback(address))
    }
}

/// Middleware: lets a request pass only if its host is loopback and its origin, if any, ours.
pub async fn local_only(request: Request, next: Next) -> Result<Response, ApiError> {
    check(request.uri(), request.headers())?;
    Ok(next.run(request).await)
}

fn check(uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
    let header = |name| {
        let value: Option<&HeaderValue> = headers.get(name);
        value.map(|value| value.to_str().unwrap_or("(not text)").to_owned())
    };
    let host = uri.authority().map(ToString::to_string);
    let host = host.or_else(|| header(HOST)).unwrap_or_default();
    if !is_loopback(&host) {
        return Err(ApiError::ForeignHost(host));
    }
    // A tunnel may map the service to another port, so the client's Host header defines our origin.
    match header(ORIGIN) {
        Some(origin) if origin != format!("http://{host}") => Err(ApiError::ForeignOrigin(origin)),
        _ => Ok(()),
    }
}

fn is_loopback(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    let name = authority.host();
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || bare
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_count_as_this_machine() {
        for host in [
            "127.0.0.1:8787",
            "localhost",
            "LOCALHOST:1",
            "[::1]:8787",
            "127.9.9.9",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil",
            "10.0.0.1",
            "a b",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn an_address_that_others_reach_is_refused_with_the_way_out() {
        let error = require_loopback("0.0.0.0:8787".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("ssh -L"), "{error}");
        assert!(require_loopback("[::1]:0".parse().unwrap()).is_ok());
    }
}
