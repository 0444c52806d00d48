//! Models through their public face: the file that names them, the clients against a server
//! that answers as scripted over real sockets, and recordings.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a broken fixture should end the test")]

mod answers;
mod asking;
mod cassettes;
mod commands;
mod config;
mod fixture;
mod limits;
mod trouble;
