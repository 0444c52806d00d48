//! `mcp`: a service's runs for an agent, over the Model Context Protocol.

use super::address;
use crate::cli::McpArgs;
use crate::mcp::Session;
use crate::outcome::{Ending, Failure, Outcome};

/// Answers an agent's requests until it closes standard input.
pub(super) async fn mcp(args: McpArgs) -> Ending {
    let client = address::client(&args.service)?;
    let session = Session::new(client, args.run, args.proposer);
    let served = session.serve(tokio::io::stdin(), tokio::io::stdout()).await;
    served.map_err(|error| Failure::input(error.context("speak the Model Context Protocol")))?;
    Ok(Outcome::Accepted)
}
