//! Sign-in of browsers: a token is exchanged for a cookie that scripts cannot read and that browsers
//! send from this service's own pages only.

use axum::Json;
use axum::extract::State;
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{AppendHeaders, IntoResponse};
use domain::access::{Secret, SecretKind, SessionView, SignIn};
use store::{NewChange, SESSION_DURATION};

use super::App;
use super::access::{self, Access, Identity};
use super::error::{AnyProblem, ApiError};
use super::extract::Body;
use super::sso::SingleSignOn;

/// Reports whether the service asks for tokens, and as whom the browser is signed in.
#[utoipa::path(get, path = "/session", tag = "service", security(()), responses((status = 200, body = SessionView), AnyProblem))]
pub async fn get(
    State(app): State<App>,
    headers: HeaderMap,
) -> Result<Json<SessionView>, ApiError> {
    let identity = match presented(&headers, &app.access) {
        None => None,
        Some(secret) => match access::authenticate(&app, &secret).await {
            Ok(identity) => Some(identity),
            Err(ApiError::WrongToken(_)) => None,
            Err(error) => return Err(error),
        },
    };
    Ok(Json(view(&app, identity)))
}

/// Signs a browser in: exchanges a token for a cookie that lasts 12 hours, and no longer than the
/// token.
#[utoipa::path(
    post,
    path = "/session",
    tag = "service",
    security(()),
    request_body = SignIn,
    responses((status = 200, body = SessionView, headers(("Set-Cookie" = String, description = "The session"))), AnyProblem)
)]
pub async fn sign_in(
    State(app): State<App>,
    Body(given): Body<SignIn>,
) -> Result<impl IntoResponse, ApiError> {
    let secret = Secret::parse(SecretKind::Token, &given.token)
        .map_err(|error| ApiError::WrongToken(format!("failed to {error}")))?;
    let identity = access::authenticate(&app, &secret).await?;
    let Some(token) = identity.token else {
        return Err(ApiError::WrongToken(
            "only a token of `kernelwright token create` signs in".to_owned(),
        ));
    };
    let (store, now) = (app.engine.store(), app.engine.now());
    let change = NewChange {
        token: Some(token),
        actor: &identity.name,
        request: "POST /api/v1/session",
        subject: "a browser",
    };
    let id = store.record_change(&change, now).await?;
    let session = store.open_session(token, now).await?;
    store.settle_change(id, 200, None).await?;
    let cookie = cookie(
        &app.access,
        session.reveal(),
        SESSION_DURATION.num_seconds(),
    );
    Ok((
        AppendHeaders([(SET_COOKIE, cookie)]),
        Json(view(&app, Some(identity))),
    ))
}

/// Signs a browser out.
#[utoipa::path(delete, path = "/session", tag = "service", security(()), responses((status = 204, description = "Signed out"), AnyProblem))]
pub async fn sign_out(
    State(app): State<App>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, ApiError> {
    if let Some(secret) = presented(&headers, &app.access) {
        app.engine.store().close_session(&secret).await?;
    }
    let gone = cookie(&app.access, "", 0);
    Ok((StatusCode::NO_CONTENT, AppendHeaders([(SET_COOKIE, gone)])))
}

fn view(app: &App, identity: Option<Identity>) -> SessionView {
    SessionView {
        required: app.access.is_required(),
        scope: identity.as_ref().map(|identity| identity.scope),
        name: identity.map(|identity| identity.name),
        sso: app.sso.as_ref().map(SingleSignOn::provider),
    }
}

/// Name of the cookie. Browsers take the prefix `__Host-` only from this very host over TLS, so that no
/// other name of its domain can set the cookie.
fn name(access: &Access) -> &'static str {
    if access.is_encrypted() {
        "__Host-kernelwright"
    } else {
        "kernelwright"
    }
}

/// The cookie of a session.
pub fn cookie(access: &Access, value: &str, seconds: i64) -> String {
    let secure = if access.is_encrypted() {
        "; Secure"
    } else {
        ""
    };
    format!(
        "{}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}",
        name(access)
    )
}

/// The session of a request's cookie, if it carries one.
pub fn presented(headers: &HeaderMap, access: &Access) -> Option<Secret> {
    let cookies = headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|header| header.to_str().ok());
    cookies
        .flat_map(|header| header.split(';'))
        .filter_map(|cookie| cookie.trim().split_once('='))
        .filter(|(key, _)| *key == name(access))
        .find_map(|(_, value)| Secret::parse(SecretKind::Session, value).ok())
}
