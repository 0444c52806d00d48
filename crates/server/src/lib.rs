//! The service and its command line: HTTP API, event stream, dashboard and every verb.
//!
//! This crate connects the others and holds the user interfaces. It decides nothing about a search
//! (`domain`), writes no SQL (`store`) and starts no role process itself (`worker`).

#![forbid(unsafe_code)]

pub mod bundle;
pub mod cli;
pub mod client;
pub mod commands;
mod controls;
pub mod credentials;
pub mod data;
pub mod evaluation_text;
pub mod git_host;
pub mod gpu_check;
pub mod http;
pub mod json_error;
pub mod local_worker;
pub mod logging;
pub mod mcp;
pub mod models;
pub mod outcome;
pub mod profile;
pub mod progress;
pub mod pull_request;
pub mod report;
pub mod run_export;
pub mod score;
pub mod shown_task;
pub mod terminal;
pub mod traces;
pub mod tree;
pub mod waiting_workers;
pub mod webhooks;
