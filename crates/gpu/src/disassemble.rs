//! The role `disassemble`: reads machine code back into instructions with NVIDIA's disassembler.
//!
//! PTX is the assembler's input; this is its output. The disassembler is a separate program, so the role may start
//! programs. They run under the role's own confinement.

mod listing;

use std::path::Path;
use std::process::{Command, Stdio};

use domain::role::{DisassembleJob, Disassembly};

use crate::role_error::RoleError;

/// Most bytes of a listing that are read. A listing of the largest image is longer; such an image is judged by the
/// part that was read and by its PTX.
const MAX_LISTING_BYTES: usize = 64 << 20;

/// Disassembles one image.
///
/// # Errors
/// A [`RoleError`] if the program does not run, or cannot read the compiler's output.
pub fn disassemble(job: &DisassembleJob) -> Result<Disassembly, RoleError> {
    let listing = run(&job.program, &[&"-c", &"-gi", &job.cubin])?;
    let tool = run(&job.program, &[&"--version"])?;
    let listing = &listing[..listing.floor_char_boundary(MAX_LISTING_BYTES)];
    let listing::Listing {
        kernels,
        uses,
        sass,
    } = listing::read(listing, &job.source);
    if kernels.is_empty() {
        return Err(failed(&job.program, "it lists no function"));
    }
    Ok(Disassembly {
        tool: listing::release(&tool),
        kernels,
        uses,
        sass,
    })
}

fn run(program: &Path, arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> Result<String, RoleError> {
    #[expect(
        clippy::disallowed_methods,
        reason = "it inherits this role's confinement, process group and limits"
    )]
    let output = Command::new(program)
        .args(arguments.iter().map(AsRef::as_ref))
        .stdin(Stdio::null())
        .output()
        .map_err(RoleError::file("start", program))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().next().unwrap_or("it says nothing");
        return Err(failed(program, &format!("{}: {said}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn failed(program: &Path, reason: &str) -> RoleError {
    RoleError::Toolchain {
        action: format!("disassemble with {}", program.display()),
        reason: reason.to_owned(),
    }
}
