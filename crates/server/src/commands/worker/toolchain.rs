//! The installation of NVIDIA's compiler on a machine that joins without one.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// The repository's set-up program, which names the compiler's package with version and digest.
const SET_UP: &str = include_str!("../../../../../kw");

/// Installs the compiler and the disassembler into the cache folder with Python's package installer.
///
/// # Errors
/// An error with the output of the set-up program, such as that Python is missing or the package index cannot be reached.
pub(super) async fn install(cache: &Path) -> Result<()> {
    let mut child = Command::new("sh")
        .args(["-s", "toolchain"])
        .env("KERNELWRIGHT_CACHE", cache)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("start sh")?;
    if let Some(mut input) = child.stdin.take() {
        // A shell that ended early has printed why.
        let _ = input.write_all(SET_UP.as_bytes()).await;
    }
    let output = child.wait_with_output().await.context("wait for sh")?;
    if output.status.success() {
        return Ok(());
    }
    let printed = String::from_utf8_lossy(&output.stderr);
    let printed = printed.trim();
    bail!("{}: {printed}", output.status)
}
