//! A server of the Model Context Protocol, through which an agent proposes candidates.
//!
//! It is a client of the service: its tools send the requests of the command line, so that a token's
//! scope holds for an agent as for anybody. Answers are built from what prompts may hold
//! ([`domain::brief::feedback()`]) and never from the verdict's own sentence, which is for people.

mod answer;
mod arguments;
mod resources;
mod tools;

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::anyhow;
use domain::cleaning;
use domain::id::RunId;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities,
    ServerConfig,
};
use rmcp::service::{RequestContext, ServerInitializeError};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler, ServiceExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::client::Client;

/// The path of the server over HTTP.
pub const HTTP_PATH: &str = "/mcp";

/// The longest name of a proposer, characters; the service takes 200 bytes.
const MAX_PROPOSER: usize = 50;

const INSTRUCTIONS: &str = "Kernelwright optimises a CUDA kernel by search. You propose candidates \
    into a run, beside models and people. Call `brief` first: it has the task, the form of a \
    candidate's file, the best kernel so far with its time and bottleneck, and the trials left. \
    Then change one thing for a reason, `submit` it with the reason as hypothesis, and read the \
    verdict. Every element of the output is compared with a reference on inputs that change each \
    time, and only a kernel that is right is timed. Call `brief` with part `state` before each \
    further attempt, since others propose too. Do not submit the same code twice, and do not try to \
    find the test's inputs: both cost trials and win nothing.";

/// One agent's connection.
#[derive(Debug)]
pub struct Session {
    client: Client,
    /// The run that tools use where a call names none.
    run: Mutex<Option<RunId>>,
    proposer: Option<String>,
}

impl Session {
    /// A session with a service. Submissions are recorded under `proposer`, or else under the name
    /// and version that the agent's program gives.
    pub fn new(client: Client, run: Option<RunId>, proposer: Option<String>) -> Self {
        Self {
            client,
            run: Mutex::new(run),
            proposer,
        }
    }

    /// Answers requests, a JSON text on each line, until the reader ends.
    ///
    /// # Errors
    /// The agent's program does not speak the protocol, or the connection breaks.
    pub async fn serve<R, W>(self, reader: R, writer: W) -> anyhow::Result<()>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let running = match ServiceExt::serve(self, (reader, writer)).await {
            Ok(running) => running,
            // Closed before the first request: nothing was asked.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        running.waiting().await?;
        Ok(())
    }

    /// Answers requests over HTTP at the path [`HTTP_PATH`] until `shutdown`. Each agent that connects gets a session
    /// like this one. Only requests to a loopback host and from no web page are answered: whoever reaches the
    /// address proposes with our token.
    ///
    /// # Errors
    /// The listener fails.
    pub async fn serve_http(
        self,
        listener: TcpListener,
        shutdown: CancellationToken,
    ) -> std::io::Result<()> {
        let config = StreamableHttpServerConfig::default()
            .with_cancellation_token(shutdown.child_token())
            .enforce_origin_validation();
        let sessions = Arc::new(LocalSessionManager::default());
        let service =
            StreamableHttpService::new(move || Ok(self.for_another_agent()), sessions, config);
        let router = axum::Router::new().route_service(HTTP_PATH, service);
        axum::serve(listener, router)
            .with_graceful_shutdown(shutdown.cancelled_owned())
            .await
    }

    fn for_another_agent(&self) -> Self {
        let run = *self.run.lock().unwrap_or_else(PoisonError::into_inner);
        Self::new(self.client.clone(), run, self.proposer.clone())
    }

    /// The run that a call names, or that of the session.
    fn run(&self, named: Option<RunId>) -> anyhow::Result<RunId> {
        let own = *self.run.lock().unwrap_or_else(PoisonError::into_inner);
        named.or(own).ok_or_else(|| {
            anyhow!(
                "choose a run: the call names none and the session has none; pass `run` from `list_runs`, or call `start_run`"
            )
        })
    }

    fn set_run(&self, run: RunId) {
        *self.run.lock().unwrap_or_else(PoisonError::into_inner) = Some(run);
    }

    /// The name under which a submission is recorded.
    fn proposer(&self, client: Option<&Implementation>) -> Option<String> {
        let named = || client.map(|client| format!("{} {}", client.name, client.version));
        let name = self.proposer.clone().or_else(named)?;
        Some(cleaning::clean_line(&name, MAX_PROPOSER)).filter(|name| !name.is_empty())
    }
}

impl ServerHandler for Session {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_resources()
            .enable_tools()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(
                "kernelwright",
                env!("CARGO_PKG_VERSION"),
            ))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(arguments::tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let client = context.client_info();
        let arguments = request.arguments.unwrap_or_default();
        let answered = tokio::select! {
            answered = self.answer(&request.name, arguments, client.as_ref()) => answered,
            () = context.ct.cancelled() => Err(anyhow!("answer: the request was cancelled")),
        };
        // A tool's error is a result that the agent reads; an error of the protocol is often hidden
        // from it.
        Ok(match answered {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(error) => {
                CallToolResult::error(vec![ContentBlock::text(format!("failed to {error:#}"))])
            }
        }
        .into())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let listed = resources::list(&self.client, self.run(None).ok()).await;
        let listed = listed.map_err(|error| internal(&error))?;
        Ok(ListResourcesResult::with_all_items(listed))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(
            resources::templates(),
        ))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let read = resources::read(&self.client, &request.uri).await;
        let contents = read
            .map_err(|error| ErrorData::resource_not_found(format!("failed to {error:#}"), None))?;
        Ok(contents.into())
    }
}

fn internal(error: &anyhow::Error) -> ErrorData {
    ErrorData::internal_error(format!("failed to {error:#}"), None)
}
