//! Single sign-on by `OpenID` Connect: people sign in with an account of their team's provider.
//!
//! The flow is that with a code and PKCE. What the callback has to compare is in a cookie of the browser that began,
//! so that any service of a database can finish what another began. A person's sessions belong to a token of their
//! own without a known secret, so that the list of changes names them and `token revoke` signs them out.

mod settings;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::future::BoxFuture;
use openidconnect::core::{
    CoreAuthenticationFlow, CoreClient, CoreGenderClaim, CoreProviderMetadata,
};
use openidconnect::{
    AdditionalClaims, AsyncHttpClient, AuthorizationCode, CsrfToken, HttpRequest, HttpResponse,
    Nonce, OAuth2TokenResponse as _, PkceCodeChallenge, PkceCodeVerifier, TokenResponse as _,
    UserInfoClaims,
};
use serde::{Deserialize, Serialize};
use store::{NewChange, SESSION_DURATION};

use super::App;
use super::access::Access;
use super::error::{AnyProblem, ApiError};
use super::session;

pub use settings::{Person, Settings, SettingsError};

/// The time that a person has for signing in at the provider.
const PATIENCE: Duration = Duration::from_secs(600);
/// The longest address of a person, bytes (RFC 5321, section 4.5.3.1.3).
const MAX_EMAIL_BYTES: usize = 254;
/// The longest time of one request to the provider.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Single sign-on with one provider.
#[derive(Debug, Clone)]
pub struct SingleSignOn {
    settings: Arc<Settings>,
    http: ProviderClient,
}

/// Sends requests to the provider.
#[derive(Debug, Clone)]
struct ProviderClient(reqwest::Client);

impl<'c> AsyncHttpClient<'c> for ProviderClient {
    type Error = reqwest::Error;
    type Future = BoxFuture<'c, Result<HttpResponse, reqwest::Error>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let request = self.0.request(parts.method, parts.uri.to_string());
            let answer = request.headers(parts.headers).body(body).send().await?;
            let (status, headers) = (answer.status(), answer.headers().clone());
            let mut response = HttpResponse::new(answer.bytes().await?.to_vec());
            *response.status_mut() = status;
            *response.headers_mut() = headers;
            Ok(response)
        })
    }
}

/// The claim with a person's groups, which is no part of the standard.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
struct Groups {
    #[serde(default)]
    groups: Vec<String>,
}

impl AdditionalClaims for Groups {}

/// The values that the callback compares, which the browser keeps in a cookie.
struct Pending {
    state: String,
    nonce: String,
    verifier: String,
}

/// The parameters with which the provider sends a browser back.
#[derive(Debug, Deserialize)]
pub struct Answer {
    code: Option<String>,
    state: Option<String>,
    error: Option<String>,
}

/// A sign-in that failed, as the sign-in page names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// No rule of the settings holds for the person.
    NotAllowed,
    /// It took too long, began in another browser, or the person gave up.
    Interrupted,
    /// The provider cannot be used, or its answer is wrong.
    Provider,
}

impl Failure {
    fn page(self) -> Redirect {
        Redirect::to(match self {
            Self::NotAllowed => "/?sso=not-allowed",
            Self::Interrupted => "/?sso=interrupted",
            Self::Provider => "/?sso=provider",
        })
    }
}

impl SingleSignOn {
    /// Single sign-on with these settings. The provider is asked when someone signs in.
    pub fn new(settings: Settings) -> Self {
        let http = reqwest::Client::builder()
            .timeout(TIMEOUT)
            // A provider that redirects could have the service send requests anywhere.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .expect("the system's TLS is there");
        Self {
            settings: Arc::new(settings),
            http: ProviderClient(http),
        }
    }

    /// The provider's host.
    pub fn provider(&self) -> String {
        self.settings.provider()
    }

    /// The provider's description with its keys, as of now.
    async fn metadata(&self) -> anyhow::Result<CoreProviderMetadata> {
        let issuer = self.settings.issuer.clone();
        Ok(CoreProviderMetadata::discover_async(issuer, &self.http).await?)
    }

    /// The address at the provider to which a browser is sent, with what it keeps.
    async fn begin(&self) -> anyhow::Result<(String, Pending)> {
        let settings = &self.settings;
        let client = CoreClient::from_provider_metadata(
            self.metadata().await?,
            settings.client_id.clone(),
            settings.client_secret.clone(),
        )
        .set_redirect_uri(settings.redirect.clone());
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let (url, state, nonce) = client
            .authorize_url(
                CoreAuthenticationFlow::AuthorizationCode,
                CsrfToken::new_random,
                Nonce::new_random,
            )
            .add_scope(openidconnect::Scope::new("email".to_owned()))
            .set_pkce_challenge(challenge)
            .url();
        let pending = Pending {
            state: state.secret().clone(),
            nonce: nonce.secret().clone(),
            verifier: verifier.secret().clone(),
        };
        Ok((url.to_string(), pending))
    }

    /// The person who signed in at the provider.
    async fn finish(&self, code: String, pending: Pending) -> anyhow::Result<Person> {
        let settings = &self.settings;
        let client = CoreClient::from_provider_metadata(
            self.metadata().await?,
            settings.client_id.clone(),
            settings.client_secret.clone(),
        )
        .set_redirect_uri(settings.redirect.clone());
        let tokens = client
            .exchange_code(AuthorizationCode::new(code))?
            .set_pkce_verifier(PkceCodeVerifier::new(pending.verifier))
            .request_async(&self.http)
            .await?;
        let identity = tokens
            .id_token()
            .ok_or_else(|| anyhow::anyhow!("read the provider's answer: it has no ID token"))?;
        let nonce = Nonce::new(pending.nonce);
        // Signature, issuer, audience, time and nonce.
        let claims = identity.claims(&client.id_token_verifier(), &nonce)?;
        let mut person = Person {
            email: verified(claims.email(), claims.email_verified()),
            groups: groups_of(&identity.to_string()),
        };
        // Providers may keep what they know of a person for this request.
        if let Ok(request) = client.user_info(
            tokens.access_token().clone(),
            Some(claims.subject().clone()),
        ) {
            let known: UserInfoClaims<Groups, CoreGenderClaim> =
                request.request_async(&self.http).await?;
            if person.email.is_empty() {
                person.email = verified(known.email(), known.email_verified());
            }
            person
                .groups
                .extend(known.additional_claims().groups.iter().cloned());
        }
        Ok(person)
    }
}

/// An address that the provider has verified; empty otherwise.
fn verified(email: Option<&openidconnect::EndUserEmail>, verified: Option<bool>) -> String {
    let email = email.filter(|_| verified == Some(true));
    email
        .map(|email| email.as_str().to_owned())
        .unwrap_or_default()
}

/// The claim `groups` of an ID token whose signature was checked.
fn groups_of(token: &str) -> Vec<String> {
    let claims = token.split('.').nth(1);
    let claims = claims.and_then(|claims| URL_SAFE_NO_PAD.decode(claims).ok());
    let claims = claims.and_then(|claims| serde_json::from_slice::<Groups>(&claims).ok());
    claims.unwrap_or_default().groups
}

/// Sends a browser to the provider to sign in.
#[utoipa::path(
    get,
    path = "/session/sso",
    tag = "service",
    security(()),
    responses((status = 303, description = "To the provider, or back to the sign-in page"), AnyProblem)
)]
pub async fn begin(State(app): State<App>) -> Result<Response, ApiError> {
    let sso = configured(&app)?;
    match sso.begin().await {
        Ok((url, pending)) => {
            let Pending {
                state,
                nonce,
                verifier,
            } = pending;
            let kept = format!("{state}.{nonce}.{verifier}");
            let cookie = cookie(&app.access, &kept, PATIENCE.as_secs());
            Ok((AppendHeaders([(SET_COOKIE, cookie)]), Redirect::to(&url)).into_response())
        }
        Err(error) => {
            tracing::warn!(
                "failed to begin a single sign-on with {}: {error:#}",
                sso.provider()
            );
            Ok(Failure::Provider.page().into_response())
        }
    }
}

/// Takes a browser back from the provider, and signs it in.
#[utoipa::path(
    get,
    path = "/session/sso/callback",
    tag = "service",
    security(()),
    params(
        ("code" = Option<String>, Query, description = "The provider's code"),
        ("state" = Option<String>, Query, description = "The state that the sign-in began with"),
        ("error" = Option<String>, Query, description = "The provider's reason why there is no code")
    ),
    responses((status = 303, description = "To the dashboard or the sign-in page"), AnyProblem)
)]
pub async fn finish(
    State(app): State<App>,
    headers: HeaderMap,
    Query(answer): Query<Answer>,
) -> Result<Response, ApiError> {
    let sso = configured(&app)?;
    let gone = (SET_COOKIE, cookie(&app.access, "", 0));
    let failed =
        |failure: Failure| Ok((AppendHeaders([gone.clone()]), failure.page()).into_response());
    let pending = pending(&headers, &app.access)
        .filter(|pending| Some(&pending.state) == answer.state.as_ref());
    let (Some(pending), Some(code)) = (pending, answer.code) else {
        if let Some(error) = answer.error {
            tracing::info!("a single sign-on ended with {error:?}");
        }
        return failed(Failure::Interrupted);
    };
    let person = match sso.finish(code, pending).await {
        Ok(person) => person,
        Err(error) => {
            tracing::warn!(
                "failed to finish a single sign-on with {}: {error:#}",
                sso.provider()
            );
            return failed(Failure::Provider);
        }
    };
    let scope = sso.settings.scope(&person);
    let has_name = (1..=MAX_EMAIL_BYTES).contains(&person.email.len());
    let Some(scope) = scope.filter(|_| has_name) else {
        tracing::warn!(
            "refused the single sign-on of {:?}, groups {:?}: no rule of sso.toml allows it, or the provider has not verified the address",
            person.email,
            person.groups
        );
        return failed(Failure::NotAllowed);
    };
    let (store, now) = (app.engine.store(), app.engine.now());
    let token = store.token_of_person(&person.email, scope, now).await?;
    let change = NewChange {
        token: Some(token),
        actor: &person.email,
        request: "GET /api/v1/session/sso/callback",
        subject: "a browser",
    };
    let id = store.record_change(&change, now).await?;
    let session = store.open_session(token, now).await?;
    store
        .settle_change(id, StatusCode::SEE_OTHER.as_u16(), None)
        .await?;
    let opened = session::cookie(
        &app.access,
        session.reveal(),
        SESSION_DURATION.num_seconds(),
    );
    let cookies = AppendHeaders([gone, (SET_COOKIE, opened)]);
    Ok((cookies, Redirect::to("/")).into_response())
}

fn configured(app: &App) -> Result<SingleSignOn, ApiError> {
    app.sso.clone().ok_or_else(|| ApiError::Unknown {
        subject: "single sign-on",
        id: "sso.toml".to_owned(),
    })
}

/// Name of the cookie of a browser between the two steps; the prefix is that of a session's cookie.
fn name(access: &Access) -> &'static str {
    if access.is_encrypted() {
        "__Host-kernelwright-sso"
    } else {
        "kernelwright-sso"
    }
}

/// The cookie that a browser sends when the provider sends it back, which is a request from another site.
fn cookie(access: &Access, value: &str, seconds: u64) -> String {
    let secure = if access.is_encrypted() {
        "; Secure"
    } else {
        ""
    };
    format!(
        "{}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}",
        name(access)
    )
}

/// The values of a request's cookie, if it carries one.
fn pending(headers: &HeaderMap, access: &Access) -> Option<Pending> {
    let cookies = headers.get_all(COOKIE).iter();
    let cookies = cookies.filter_map(|header| header.to_str().ok());
    let value = cookies
        .flat_map(|header| header.split(';'))
        .filter_map(|cookie| cookie.trim().split_once('='))
        .find(|(key, _)| *key == name(access))?
        .1;
    let mut parts = value.split('.').map(str::to_owned);
    let (state, nonce, verifier) = (parts.next()?, parts.next()?, parts.next()?);
    (parts.next().is_none() && !state.is_empty()).then_some(Pending {
        state,
        nonce,
        verifier,
    })
}
