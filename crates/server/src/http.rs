//! The HTTP API, version 1: routes, their limits, and their OpenAPI description.
//!
//! A handler turns a request into one call of the engine or the store, and the result into an
//! answer. It holds no state and no rules.

pub mod access;
pub mod connections;
pub mod dashboard;
pub mod error;
pub mod guard;

mod candidates;
mod compare;
pub mod event_feeds;
mod events;
mod evidence;
mod extract;
mod failures;
pub mod metrics;
mod models;
mod promotions;
mod run_export;
mod runs;
mod service;
mod session;
pub mod sso;
mod steering;
mod tasks;
pub mod tls;
mod webhooks;
mod workers;

use std::sync::Arc;
use std::time::Duration;

use self::sso::SingleSignOn;
use crate::waiting_workers::WaitingWorkers;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use domain::api::{CandidateOrder, ProblemDocument, PromotionStateName, RunStateName};
use domain::task::MAX_BUNDLE_BYTES;
use engine::Engine;
use tokio_util::sync::CancellationToken;
use tower_http::compression::CompressionLayer;
use tower_http::trace::TraceLayer;
use tracing::field::Empty;
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use utoipa_axum::routes;
use worker::evaluate::evidence::store::EvidenceStore;

use access::{Access, AccessState, Requirements};
use error::ApiError;
use event_feeds::EventFeeds;
use metrics::Metrics;

/// The longest a request may take that neither streams nor waits by design.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest body of an ordinary request, bytes.
const BODY_LIMIT: usize = 1 << 20;
/// The largest task upload: its texts, each byte of which JSON may escape to two.
const TASK_LIMIT: usize = 2 * MAX_BUNDLE_BYTES;
/// The largest report of a worker, bytes: an evaluation with all its evidence.
const REPORT_LIMIT: usize = 8 << 20;

/// The largest file of a bundle of evidence, bytes.
const EVIDENCE_LIMIT: usize = 64 << 20;

/// State that the handlers share.
#[derive(Clone)]
pub struct App {
    /// Runs, tasks and the store.
    pub engine: Engine,
    /// The bundles of evidence.
    pub evidence: EvidenceStore,
    /// Single sign-on, if it is set up.
    pub sso: Option<SingleSignOn>,
    /// The rule that decides if requests need tokens.
    pub access: Access,
    /// Counts of requests and reports.
    pub metrics: Metrics,
    /// The workers that wait for jobs.
    pub waiting: WaitingWorkers,
    /// The new events of the runs that clients follow.
    pub feeds: EventFeeds,
    /// Cancelled when the service stops, so that streams and long polls end.
    pub closing: CancellationToken,
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Kernelwright",
        description = "Evolves CUDA kernels and proves what it claims. Ids are accepted with or without their prefix; lists are bounded and paged by cursor; errors are problem documents (RFC 9457) with a stable code.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    components(schemas(ProblemDocument, CandidateOrder, PromotionStateName, RunStateName, crate::run_export::RunExportFormat)),
    modifiers(&TokenScheme),
    tags(
        (name = "tasks", description = "Tasks: the function to optimise"),
        (name = "runs", description = "Runs: searches for a faster kernel"),
        (name = "steering", description = "Directions for a run while it goes on"),
        (name = "candidates", description = "Kernels with their verdicts"),
        (name = "models", description = "Language models that write candidates"),
        (name = "fleet", description = "Workers and their leases"),
        (name = "service", description = "The service itself")
    )
)]
struct Description;

/// Describes the tokens of the API.
struct TokenScheme;

impl utoipa::Modify for TokenScheme {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let mut bearer = Http::new(HttpAuthScheme::Bearer);
        bearer.description = Some(
            "A token of `kernelwright token create`, of the named scope or one that includes it: admin \
             includes user, user includes viewer. The dashboard sends a cookie instead. A service on \
             loopback that has no tokens asks for none."
                .to_owned(),
        );
        let components = description.components.get_or_insert_default();
        components.add_security_scheme(access::SCHEME, SecurityScheme::Http(bearer));
    }
}

/// The service's routes with everything around them.
pub fn router(app: App) -> Router {
    let (routes, description) = described();
    let description =
        serde_json::to_value(&description).expect("an API description always serialises");
    let access_state = AccessState {
        app: app.clone(),
        requirements: Arc::new(Requirements::of(&description)),
    };
    // Serialised once: the value has tens of thousands of parts, and axum copies what a handler
    // holds for each request.
    let description = Bytes::from(
        serde_json::to_vec(&description).expect("an API description always serialises"),
    );
    let described = move || {
        let json = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        std::future::ready((json, description.clone()))
    };
    let access = app.access.clone();
    let metrics = app.metrics.clone();
    routes
        .with_state(app)
        .route_layer(middleware::from_fn_with_state(
            access_state,
            access::authorize,
        ))
        .route_layer(middleware::from_fn_with_state(
            metrics,
            metrics::measure_request,
        ))
        .route("/api/openapi.json", axum::routing::get(described))
        .method_not_allowed_fallback(async || ApiError::MethodNotAllowed)
        .fallback(dashboard::serve)
        .layer(middleware::from_fn_with_state(access, guard::check_sender))
        .layer(CompressionLayer::new())
        .layer(
            TraceLayer::new_for_http()
                .make_span_with(span)
                .on_request(())
                .on_failure(()),
        )
}

/// The description of the API that is committed as `openapi.json`.
pub fn description() -> utoipa::openapi::OpenApi {
    described().1
}

/// The routes with their description. Generators of clients need ids of operations that are unique, and
/// the names of handlers are not: here an id is the method and the path, such as `get_runs_id_export`.
fn described() -> (Router<App>, utoipa::openapi::OpenApi) {
    let (routes, mut description) = api().split_for_parts();
    for (path, item) in &mut description.paths.paths {
        let words = path.split(|c: char| !c.is_ascii_alphanumeric());
        let words = words.filter(|word| !["", "api", "v1"].contains(word));
        let name = words.collect::<Vec<_>>().join("_");
        let operations = [
            ("get", &mut item.get),
            ("put", &mut item.put),
            ("post", &mut item.post),
            ("delete", &mut item.delete),
        ];
        for (method, operation) in operations {
            if let Some(operation) = operation {
                operation.operation_id = Some(format!("{method}_{name}"));
            }
        }
    }
    (routes, description)
}

fn api() -> OpenApiRouter<App> {
    let prompt = OpenApiRouter::new()
        .routes(routes!(service::health))
        .routes(routes!(service::changes))
        .routes(routes!(webhooks::undelivered))
        .routes(routes!(session::get, session::sign_in, session::sign_out))
        .routes(routes!(sso::begin))
        .routes(routes!(sso::finish))
        .routes(routes!(tasks::get))
        .routes(routes!(tasks::definition))
        .routes(routes!(tasks::file))
        .routes(routes!(tasks::runs))
        .routes(routes!(tasks::versions))
        .routes(routes!(tasks::admissions))
        .routes(routes!(tasks::leaderboards))
        .routes(routes!(tasks::all_leaderboards))
        .routes(routes!(compare::candidates))
        .routes(routes!(compare::runs))
        .routes(routes!(failures::list))
        .routes(routes!(failures::members))
        .routes(routes!(runs::list, runs::create))
        .routes(routes!(runs::get))
        .routes(routes!(runs::set_tags))
        .routes(routes!(runs::pause))
        .routes(routes!(runs::resume))
        .routes(routes!(runs::cancel))
        .routes(routes!(runs::finish))
        .routes(routes!(runs::recheck))
        .routes(routes!(steering::list))
        .routes(routes!(steering::hint))
        .routes(routes!(steering::pin))
        .routes(routes!(steering::ban))
        .routes(routes!(steering::insight))
        .routes(routes!(steering::withdraw))
        .routes(routes!(steering::budget))
        .routes(routes!(steering::model))
        .routes(routes!(steering::fork))
        .routes(routes!(steering::reevaluate))
        .routes(routes!(steering::promote))
        .routes(routes!(runs::brief))
        .routes(routes!(runs::lineage))
        .routes(routes!(runs::lineage_columns))
        .routes(routes!(runs::lineage_generations))
        .routes(routes!(runs::curve))
        .routes(routes!(run_export::export))
        .routes(routes!(promotions::list))
        .routes(routes!(models::list))
        .routes(routes!(models::preview))
        .routes(routes!(models::estimate))
        .routes(routes!(models::insights))
        .routes(routes!(models::lessons))
        .routes(routes!(models::recording))
        .routes(routes!(candidates::list, candidates::submit))
        .routes(routes!(candidates::get))
        .routes(routes!(candidates::source))
        .routes(routes!(workers::list, workers::register))
        .routes(routes!(workers::tell_health))
        .routes(routes!(workers::drain))
        .routes(routes!(workers::fleet))
        .routes(routes!(workers::hours))
        .routes(routes!(workers::devices))
        .routes(routes!(workers::renew))
        .merge(with_limit(TASK_LIMIT, routes!(tasks::list, tasks::upload)))
        .merge(with_limit(REPORT_LIMIT, routes!(workers::report)))
        .merge(with_limit(
            REPORT_LIMIT,
            routes!(evidence::put_manifest, evidence::get_manifest),
        ))
        .merge(with_limit(
            EVIDENCE_LIMIT,
            routes!(evidence::put_file, evidence::get_file),
        ))
        .layer(middleware::from_fn(in_time));
    let waiting = OpenApiRouter::new()
        .routes(routes!(events::stream_events))
        .routes(routes!(workers::lease));
    let all = prompt
        .merge(waiting)
        .layer(DefaultBodyLimit::max(BODY_LIMIT));
    // Outside the API's version, where supervisors and Prometheus look by default.
    let watched = OpenApiRouter::new()
        .routes(routes!(service::live))
        .routes(routes!(service::ready))
        .routes(routes!(metrics::metrics))
        .layer(middleware::from_fn(in_time));
    OpenApiRouter::with_openapi(Description::openapi())
        .nest("/api/v1", all)
        .merge(watched)
}

/// Routes whose bodies may be larger than others'.
fn with_limit(bytes: usize, routes: UtoipaMethodRouter<App>) -> OpenApiRouter<App> {
    let limited = OpenApiRouter::new().routes(routes);
    limited.layer(DefaultBodyLimit::max(bytes))
}

async fn in_time(request: Request, next: Next) -> Response {
    tokio::time::timeout(REQUEST_TIMEOUT, next.run(request))
        .await
        .unwrap_or_else(|_| ApiError::TimedOut.into_response())
}

fn span(request: &Request) -> tracing::Span {
    tracing::info_span!(
        "request",
        http.method = %request.method(),
        http.path = request.uri().path(),
        run.id = Empty,
        candidate.id = Empty,
        worker.id = Empty,
        lease.job = Empty,
    )
}
