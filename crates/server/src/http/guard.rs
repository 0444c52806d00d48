//! Checks of the sender of a request that need no token: which pages of which sites it may come from.
//!
//! A page of any site can make a browser send requests to this service. Such a page is recognised by
//! the headers `Origin` and `Sec-Fetch-Site`, and its requests are refused. Where no token is asked
//! for, listening on loopback is not enough either: a name that resolves to 127.0.0.1 lets a page
//! read the answers. It is recognised by the header `Host`, which browsers always send; simple probes
//! of a load balancer may not. With tokens such a page is harmless, because it has none, and browsers
//! send it no cookie of ours.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, Uri};
use axum::middleware::Next;
use axum::response::Response;

use super::access::Access;
use super::error::ApiError;
use super::session;

/// Set by browsers on every request of theirs: where the page is from that sends it.
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// An address that would let others in without protection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unprotected {
    /// Requests would cross a network as plain text.
    #[error(
        "listen on {0}: others reach this address, so requests to it must be encrypted; give --tls-cert FILE and --tls-key FILE, or --behind-proxy if a reverse proxy in front terminates TLS; or listen on 127.0.0.1 and reach it from elsewhere through a tunnel, such as ssh -L 8787:127.0.0.1:8787 HOST"
    )]
    Plain(SocketAddr),
    /// No usable token exists, so that no caller could identify.
    #[error(
        "listen on {0}: others reach this address, so requests to it need tokens, and no usable one exists; create one first: kernelwright token create --name NAME --scope admin"
    )]
    NoToken(SocketAddr),
    /// A service of a command that has no tokens.
    #[error("listen on {0}: this command serves loopback addresses only; use 127.0.0.1")]
    NotLoopback(SocketAddr),
}

/// Refuses addresses that others can reach.
///
/// # Errors
/// [`Unprotected::NotLoopback`] for anything but a loopback address.
pub fn require_loopback(address: SocketAddr) -> Result<SocketAddr, Unprotected> {
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err(Unprotected::NotLoopback(address))
    }
}

/// Middleware: lets a request pass only if its origin, if any, is ours. Where no token is asked for,
/// its host must also be loopback.
pub async fn check_sender(
    State(access): State<Access>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    check(request.method(), request.uri(), request.headers(), &access)?;
    Ok(next.run(request).await)
}

fn check(method: &Method, uri: &Uri, headers: &HeaderMap, access: &Access) -> Result<(), ApiError> {
    let header = |name| {
        let value: Option<&HeaderValue> = headers.get(name);
        value.map(|value| value.to_str().unwrap_or("(not text)").to_owned())
    };
    let host = uri.authority().map(ToString::to_string);
    let host = host.or_else(|| header(HOST));
    if let Some(host) = host.as_ref().filter(|host| !is_loopback(host))
        && !access.is_required()
    {
        return Err(ApiError::ForeignHost(host.clone()));
    }
    let host = host.unwrap_or_default();
    // A tunnel may map the service to another port, so the client's Host header defines our origin.
    let origin = header(ORIGIN);
    let ours = format!("{}://{host}", access.scheme());
    if let Some(origin) = origin.clone().filter(|origin| *origin != ours) {
        return Err(ApiError::ForeignOrigin(origin));
    }
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    match headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes) {
        Some(b"same-origin" | b"none") => Ok(()),
        Some(site) => Err(ApiError::ForeignOrigin(
            String::from_utf8_lossy(site).into_owned(),
        )),
        // Every browser sends at least one of the two headers with a change.
        None if origin.is_none() && session::presented(headers, access).is_some() => Err(
            ApiError::ForeignOrigin("nowhere, since it names no origin".to_owned()),
        ),
        None => Ok(()),
    }
}

/// Returns true if the authority of a URL, or a `Host` header, names this machine.
pub fn is_loopback(host: &str) -> bool {
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
        assert!(error.to_string().contains("127.0.0.1"), "{error}");
        assert!(require_loopback("[::1]:0".parse().unwrap()).is_ok());
    }
}
