//! Access of callers to routes: one middleware compares the scope that a route declares in its OpenAPI
//! documentation with the scope of the caller's token.
//!
//! A service that listens on loopback and has no tokens asks for none. Requests from pages of other
//! sites are refused by `guard` before they come here.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::header::{AUTHORIZATION, LOCATION};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use domain::access::{SECRET_BYTES, Scope, Secret, SecretKind};
use domain::digest::Digest;
use domain::id::TokenId;
use rand::TryRng as _;
use rand::rngs::{SysError, SysRng};
use serde_json::Value;
use store::{Authentication, NewChange};

use super::error::ApiError;
use super::{App, session};

/// Name of the security scheme in the OpenAPI document.
pub const SCHEME: &str = "token";
/// Owner of the service's own worker.
const LOCAL_WORKER: &str = "local";

/// The rules of one listener: whether it asks for tokens, whether browsers reach it over TLS, and the
/// secrets of the service's own processes. By default it asks for none, over plain HTTP.
#[derive(Debug, Clone, Default)]
pub struct Access {
    required: bool,
    encrypted: bool,
    own: Arc<[(Digest, Identity)]>,
}

/// Secrets that a service makes at its start for its own processes. They end with the service.
#[derive(Debug, Clone)]
pub struct OwnSecrets {
    /// For the worker that the service starts.
    pub worker: Secret,
    /// For a command that runs the service in its own process.
    pub command: Secret,
}

/// The token of a request.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The stored token; absent for the service's own processes.
    pub token: Option<TokenId>,
    /// Its name.
    pub name: String,
    /// The requests that it may send.
    pub scope: Scope,
}

/// The sender of a request.
#[derive(Debug, Clone)]
pub enum Caller {
    /// Any program on this machine, because the service asks for no token.
    Anyone,
    /// The holder of a token.
    Holder(Identity),
}

impl OwnSecrets {
    /// Draws both.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn draw() -> Result<Self, SysError> {
        let draw = || {
            let mut bytes = [0; SECRET_BYTES];
            SysRng.try_fill_bytes(&mut bytes)?;
            Ok(Secret::new(SecretKind::Token, bytes))
        };
        Ok(Self {
            worker: draw()?,
            command: draw()?,
        })
    }
}

impl Access {
    /// Asks for tokens, and accepts the secrets of the service's own processes.
    pub fn required(own: &OwnSecrets) -> Self {
        let identity = |name: &str, scope| Identity {
            token: None,
            name: name.to_owned(),
            scope,
        };
        Self {
            required: true,
            encrypted: false,
            own: Arc::new([
                (own.worker.digest(), identity(LOCAL_WORKER, Scope::Worker)),
                (
                    own.command.digest(),
                    identity("the service's own command", Scope::User),
                ),
            ]),
        }
    }

    /// These rules for a listener that browsers reach over TLS.
    pub fn encrypted(mut self) -> Self {
        self.encrypted = true;
        self
    }

    /// True if browsers reach the listener over TLS.
    pub fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// The scheme of the listener's addresses, as browsers see them.
    pub fn scheme(&self) -> &'static str {
        if self.encrypted { "https" } else { "http" }
    }

    /// True if every request needs a token.
    pub fn is_required(&self) -> bool {
        self.required
    }
}

impl Caller {
    /// The owner under which workers are registered; absent where no token is asked for.
    pub fn owner(&self) -> Option<String> {
        match self {
            Self::Anyone => None,
            Self::Holder(identity) => Some(match identity.token {
                Some(token) => token.to_string(),
                None => identity.name.clone(),
            }),
        }
    }

    /// The name in the list of changes.
    pub fn actor(&self) -> &str {
        match self {
            Self::Anyone => "a program on the service's machine, without a token",
            Self::Holder(identity) => &identity.name,
        }
    }

    fn token(&self) -> Option<TokenId> {
        match self {
            Self::Anyone => None,
            Self::Holder(identity) => identity.token,
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let caller = parts.extensions.get::<Self>();
        caller
            .cloned()
            .ok_or_else(|| ApiError::internal(anyhow::anyhow!("find the caller of a request")))
    }
}

/// The scope that each route asks for; none for a public route.
#[derive(Debug)]
pub struct Requirements(HashMap<(Method, String), Option<Scope>>);

impl Requirements {
    /// Reads the scopes from the OpenAPI document.
    ///
    /// # Panics
    /// A route declares no scope. `security(("token" = ["viewer"]))` declares one, and `security(())`
    /// makes a route public.
    pub fn of(description: &Value) -> Self {
        let mut requirements = HashMap::new();
        let paths = description["paths"].as_object().into_iter().flatten();
        for (path, operations) in paths {
            for (method, operation) in operations.as_object().into_iter().flatten() {
                let Ok(method) = method.to_uppercase().parse::<Method>() else {
                    continue;
                };
                let scope = declared(operation)
                    .unwrap_or_else(|| panic!("{method} {path} declares no scope of its own"));
                requirements.insert((method, path.clone()), scope);
            }
        }
        Self(requirements)
    }

    fn find(&self, method: &Method, path: &str) -> Option<Option<Scope>> {
        let method = match *method {
            Method::HEAD => Method::GET,
            ref other => other.clone(),
        };
        self.0.get(&(method, path.to_owned())).copied()
    }
}

/// The scope that an operation declares; `Some(None)` if it is public.
fn declared(operation: &Value) -> Option<Option<Scope>> {
    let [requirement] = operation["security"].as_array()?.as_slice() else {
        return None;
    };
    let requirement = requirement.as_object()?;
    if requirement.is_empty() {
        return Some(None);
    }
    let [scope] = requirement.get(SCHEME)?.as_array()?.as_slice() else {
        return None;
    };
    scope.as_str()?.parse().ok().map(Some)
}

/// State of the middleware [`authorize`].
#[derive(Clone)]
pub struct AccessState {
    /// The service.
    pub app: App,
    /// The scopes of its routes.
    pub requirements: Arc<Requirements>,
}

/// Middleware: lets a request pass whose caller has the scope of the route, and records the changes
/// that people ask for.
pub async fn authorize(
    State(state): State<AccessState>,
    path: MatchedPath,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let Some(needed) = state.requirements.find(request.method(), path.as_str()) else {
        // Only documented methods have a handler.
        return Err(ApiError::MethodNotAllowed);
    };
    let Some(needed) = needed else {
        return Ok(next.run(request).await);
    };
    // Boxed, so that a request which waits does not hold the memory of these statements.
    let caller = Box::pin(identify(&state.app, request.headers())).await?;
    if let Caller::Holder(identity) = &caller
        && !identity.scope.covers(needed)
    {
        return Err(ApiError::ScopeTooNarrow {
            needed,
            name: identity.name.clone(),
            scope: identity.scope,
        });
    }
    let is_change = matches!(needed, Scope::User | Scope::Admin)
        && !matches!(*request.method(), Method::GET | Method::HEAD);
    request.extensions_mut().insert(caller.clone());
    if !is_change {
        return Ok(next.run(request).await);
    }
    let method = request.method().as_str();
    let subject = request.uri().path().to_owned();
    let kind = format!("{method} {}", path.as_str());
    let change = NewChange {
        token: caller.token(),
        actor: caller.actor(),
        request: &kind,
        subject: &subject,
    };
    let (store, now) = (state.app.engine.store(), state.app.engine.now());
    let id = Box::pin(store.record_change(&change, now)).await?;
    let response = next.run(request).await;
    let made = response.headers().get(LOCATION);
    let made = made.and_then(|made| made.to_str().ok());
    let settled = store.settle_change(id, response.status().as_u16(), made);
    if let Err(error) = Box::pin(settled).await {
        // The change itself is made and its record exists.
        tracing::error!("failed to {error}");
    }
    Ok(response)
}

async fn identify(app: &App, headers: &HeaderMap) -> Result<Caller, ApiError> {
    if !app.access.is_required() {
        return Ok(Caller::Anyone);
    }
    let secret = match headers.get(AUTHORIZATION) {
        Some(header) => bearer(header)?,
        None => session::presented(headers, &app.access).ok_or(ApiError::NoToken)?,
    };
    let own = app.access.own.iter();
    let digest = secret.digest();
    if let Some((_, identity)) = own.clone().find(|(known, _)| *known == digest) {
        return Ok(Caller::Holder(identity.clone()));
    }
    authenticate(app, &secret).await.map(Caller::Holder)
}

/// Looks up a stored token.
pub async fn authenticate(app: &App, secret: &Secret) -> Result<Identity, ApiError> {
    let store = app.engine.store();
    match store.authenticate(secret, app.engine.now()).await? {
        Authentication::Usable(token) => Ok(Identity {
            token: Some(token.id),
            name: token.name,
            scope: token.scope,
        }),
        Authentication::Unknown => Err(ApiError::WrongToken(
            "no token of this service has this secret".to_owned(),
        )),
        Authentication::Expired(at) => Err(ApiError::WrongToken(format!(
            "the token or its session expired at {}",
            at.format("%Y-%m-%d %H:%M UTC")
        ))),
        Authentication::Revoked(at) => Err(ApiError::WrongToken(format!(
            "the token was revoked at {}",
            at.format("%Y-%m-%d %H:%M UTC")
        ))),
    }
}

/// The secret of a header `Authorization`.
fn bearer(header: &HeaderValue) -> Result<Secret, ApiError> {
    let text = header.to_str().unwrap_or_default();
    let secret = match text.split_once(' ') {
        Some((scheme, secret)) if scheme.eq_ignore_ascii_case("bearer") => secret,
        _ => {
            return Err(ApiError::WrongToken(
                "the header Authorization must be `Bearer` and a token".to_owned(),
            ));
        }
    };
    Secret::parse(SecretKind::Token, secret)
        .map_err(|error| ApiError::WrongToken(format!("failed to {error}")))
}
