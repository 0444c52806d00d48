//! The service and its command line through their public faces.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a broken fixture should end the test")]

mod access_commands;
mod api;
mod authority;
mod bundle;
mod command_line;
mod command_reference;
mod data_folder;
mod evidence_store;
mod fixtures;
mod progress;
mod pull_request;
mod stream;
mod sweep;
mod tree;
mod winner;
