//! The HTTP API over a real store and engine; only the clock is ours and the worker scripted.

mod access;
mod connections;
mod edge;
mod events;
pub mod evidence;
mod fleet;
mod hostile;
mod mcp;
mod metrics;
mod pack;
mod run_export;
mod runs;
mod service;
mod sso;
mod tls;
mod views;
mod webhooks;
