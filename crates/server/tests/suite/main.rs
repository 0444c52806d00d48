//! The service and its command line through their public faces.

#![forbid(unsafe_code)]

mod api;
mod bundle;
mod command_line;
mod fixtures;
mod progress;
mod stream;
mod tree;
