//! `mcp`: a service's runs for agents, over the Model Context Protocol.

use std::net::SocketAddr;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::follow::print;
use super::{address, serve};
use crate::cli::McpArgs;
use crate::http::guard;
use crate::mcp::{HTTP_PATH, Session};
use crate::outcome::{Ending, Failure, Outcome};

/// Answers the requests of one agent until it closes standard input, or those of all agents that connect
/// over HTTP until the program is stopped.
pub(super) async fn mcp(args: McpArgs) -> Ending {
    let client = address::client(&args.service)?;
    let session = Session::new(client, args.run, args.proposer);
    if let Some(listen) = args.listen {
        return over_http(session, listen).await;
    }
    let served = session.serve(tokio::io::stdin(), tokio::io::stdout()).await;
    served.map_err(|error| Failure::input(error.context("speak the Model Context Protocol")))?;
    Ok(Outcome::Accepted)
}

async fn over_http(session: Session, listen: SocketAddr) -> Ending {
    let listen = guard::require_loopback(listen).map_err(Failure::input)?;
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("listen on {listen}"))
        .map_err(Failure::input)?;
    let address = listener
        .local_addr()
        .context("find out the address")
        .map_err(Failure::infrastructure)?;
    print(&format!("agents connect to http://{address}{HTTP_PATH}\n"))?;
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        if serve::stop_requested().await.is_ok() {
            stop.cancel();
        }
    });
    let served = session.serve_http(listener, shutdown).await;
    served
        .context("speak the Model Context Protocol over HTTP")
        .map_err(Failure::infrastructure)?;
    Ok(Outcome::Accepted)
}
