//! The role `compile`: compiles a source to machine code and PTX, and reads the compiler's log into data.
//!
//! All options are fixed here; a candidate chooses none. Nothing is executed, and no GPU or driver is needed. The
//! caller must confine the process first, because the compiler opens any file that a source names.

mod log;
mod resources;
mod scan;

use std::ffi::{CStr, CString};
use std::fs;
use std::path::Path;

use cudarc::nvrtc::sys::nvrtcResult;
use domain::digest::Digest;
use domain::role::{CPP_STANDARD, CompileJob, CompileReply, Compiled, Image};

use crate::cubin;
use crate::nvrtc::{Images, Outcome, Source, Toolchain};
use crate::role_error::RoleError;
use log::SourceFiles;
use scan::ScanError;

/// Largest machine code in bytes.
const MAX_CUBIN_BYTES: usize = 16 << 20;
/// Largest PTX in bytes.
const MAX_PTX_BYTES: usize = 8 << 20;
/// A file that exists only in a header folder that was unpacked to the end.
const UNPACKED: &str = ".unpacked";
/// The name under which the compiler finds [`PRELUDE`].
const PRELUDE_NAME: &CStr = c"kernelwright/prelude.h";
/// Text that is included before every source.
const PRELUDE: &str = include_str!("compile/prelude.h");
/// Host headers that kernels often include. The parts that device code needs are built into the compiler or are in
/// the prelude, so these headers are empty.
const EMPTY_HEADERS: [&CStr; 13] = [
    c"assert.h",
    c"cassert",
    c"cfloat",
    c"climits",
    c"cmath",
    c"cstddef",
    c"cstdint",
    c"cuda_runtime.h",
    c"device_launch_parameters.h",
    c"float.h",
    c"math.h",
    c"stddef.h",
    c"stdint.h",
];

/// Unpacks the toolchain's headers to the folder that the job names, unless they are there. Opens no file of the job,
/// so it may run before the process is confined. Several processes may do so at once: the compiler's library lets one
/// unpack while the others wait.
///
/// # Errors
/// A [`RoleError`] that names what is missing and how to install it.
pub fn prepare(job: &CompileJob) -> Result<(), RoleError> {
    let folder = &job.toolchain_headers;
    let mark = folder.join(UNPACKED);
    if mark.is_file() {
        return Ok(());
    }
    fs::create_dir_all(folder).map_err(RoleError::file("create", folder))?;
    Toolchain::load()?.install_headers(folder)?;
    fs::write(&mark, "").map_err(RoleError::file("write", &mark))
}

/// Compiles one source for one architecture.
///
/// # Errors
/// A [`RoleError`] where the toolchain or a file fails; errors in the source are part of the reply.
pub fn compile(job: &CompileJob) -> Result<CompileReply, RoleError> {
    let toolchain = Toolchain::load()?;
    prepare(job)?;
    let name = source_name(job)?;
    let text = fs::read(&job.source).map_err(RoleError::file("read", &job.source))?;
    let Ok(text) = CString::new(text) else {
        return Ok(rejected(vec![log::own_error(
            "the source holds a zero byte".to_owned(),
        )]));
    };
    let prelude = CString::new(PRELUDE).expect("the prelude is a text of ours");
    let mut headers = vec![(PRELUDE_NAME, prelude.as_c_str())];
    headers.extend(EMPTY_HEADERS.map(|name| (name, c"")));

    let outcome = toolchain.compile(
        &Source {
            text: &text,
            name: &name,
            headers: &headers,
        },
        &options(job),
    )?;
    let name = name.to_string_lossy();
    let source = scan::SourceFile {
        name: &name,
        text: &text.to_string_lossy(),
    };
    interpret(job, source, &outcome, &toolchain.to_string())
}

fn source_name(job: &CompileJob) -> Result<CString, RoleError> {
    job.source
        .file_name()
        .and_then(|name| CString::new(name.as_encoded_bytes()).ok())
        .ok_or_else(|| RoleError::Job(format!("{} names no source file", job.source.display())))
}

/// The compiler's options for a job.
fn options(job: &CompileJob) -> Vec<String> {
    let mut options = vec![
        format!("-arch={}", job.architecture),
        format!("-std={CPP_STANDARD}"),
        "-default-device".to_owned(),
        "--device-int128".to_owned(),
        "-lineinfo".to_owned(),
        "--ptxas-options=-v".to_owned(),
        format!("--pre-include={}", PRELUDE_NAME.to_string_lossy()),
    ];
    let bundled = &job.toolchain_headers;
    let mut folders = Vec::new();
    folders.extend(job.headers.clone());
    folders.extend([bundled.clone(), bundled.join("cccl")]);
    options.extend(
        folders
            .iter()
            .map(|folder| format!("-I{}", folder.display())),
    );
    options.extend(
        job.defines
            .iter()
            .map(|(name, value)| format!("-D{name}={value}")),
    );
    options
}

/// Converts the compiler's outcome to the reply.
fn interpret(
    job: &CompileJob,
    source: scan::SourceFile<'_>,
    outcome: &Outcome,
    toolchain: &str,
) -> Result<CompileReply, RoleError> {
    let bundled = job.toolchain_headers.to_string_lossy();
    let own = job.headers.as_ref().map(|folder| folder.to_string_lossy());
    let headers: Vec<&str> = std::iter::once(bundled.as_ref())
        .chain(own.as_deref())
        .collect();
    let assembled = outcome.result.is_ok() || outcome.refused_ptx.is_some();
    let mut diagnostics = log::diagnostics(
        &outcome.log,
        &SourceFiles {
            source,
            headers: &headers,
            refused_ptx: outcome.refused_ptx.as_deref(),
        },
        assembled,
    );
    let assembler_messages = if assembled {
        log::assembler_part(&outcome.log)
    } else {
        ""
    };
    match &outcome.result {
        Ok(images) => {
            if let Some(reply) = over_size(images) {
                return Ok(reply);
            }
            let unreadable = || RoleError::Toolchain {
                action: format!("compile for {}", job.architecture),
                reason: "its machine code is not in the form this program reads".to_owned(),
            };
            let cubin = cubin::read(&images.cubin).ok_or_else(unreadable)?;
            let scan = match scan::scan(&images.cubin, &cubin, &images.ptx, source) {
                Ok(scan) => scan,
                Err(ScanError::MachineCode) => return Err(unreadable()),
                Err(ScanError::Ptx(reason)) => return Ok(rejected(vec![log::own_error(reason)])),
            };
            Ok(CompileReply::Compiled(Box::new(Compiled {
                image: write(&job.output, images, scan.code_digest)?,
                kernels: resources::with_spills(cubin.kernels, assembler_messages),
                contents: scan.contents,
                diagnostics,
                toolchain: toolchain.to_owned(),
            })))
        }
        Err(code) => {
            if let Some(excess) = resources::excess(assembler_messages) {
                return Ok(over_resource(excess));
            }
            match code {
                nvrtcResult::NVRTC_ERROR_COMPILATION => {
                    if diagnostics.is_empty() {
                        diagnostics.push(log::own_error(
                            "the compiler refused the source without a message".to_owned(),
                        ));
                    }
                    Ok(rejected(diagnostics))
                }
                nvrtcResult::NVRTC_ERROR_INTERNAL_ERROR => {
                    diagnostics.push(log::own_error(
                        "the compiler failed on this source with an internal error".to_owned(),
                    ));
                    Ok(rejected(diagnostics))
                }
                nvrtcResult::NVRTC_ERROR_OUT_OF_MEMORY => Ok(CompileReply::OverResource {
                    resource: "memory of the compiler".to_owned(),
                    limit: crate::confine::COMPILE_MEMORY_BYTES,
                    found: None,
                    message: "the compiler ran out of memory: unroll and instantiate less"
                        .to_owned(),
                }),
                other => Err(RoleError::Toolchain {
                    action: format!("compile for {}", job.architecture),
                    reason: format!("{other:?}: {}", head(&outcome.log, 400)),
                }),
            }
        }
    }
}

fn rejected(diagnostics: Vec<domain::verdict::Diagnostic>) -> CompileReply {
    CompileReply::Rejected { diagnostics }
}

fn over_resource(excess: resources::ResourceExcess) -> CompileReply {
    let resources::ResourceExcess {
        kernel,
        resource,
        limit,
        found,
    } = excess;
    let advice = if resource == "static shared memory" {
        "; a larger array must be dynamic: extern __shared__, with its size in the plan"
    } else {
        ""
    };
    CompileReply::OverResource {
        message: format!(
            "{kernel} needs {found} bytes of {resource}, the limit is {limit}{advice}"
        ),
        resource,
        limit,
        found: Some(found),
    }
}

fn over_size(images: &Images) -> Option<CompileReply> {
    let (resource, found, limit) = [
        ("machine code", images.cubin.len(), MAX_CUBIN_BYTES),
        ("PTX", images.ptx.len(), MAX_PTX_BYTES),
    ]
    .into_iter()
    .find(|(_, found, limit)| found > limit)?;
    Some(CompileReply::OverResource {
        resource: resource.to_owned(),
        limit: limit as u64,
        found: Some(found as u64),
        message: format!("{found} bytes of {resource}, the limit is {limit}: unroll less"),
    })
}

fn write(folder: &Path, images: &Images, code_digest: Digest) -> Result<Image, RoleError> {
    let image = Image {
        cubin: folder.join("image.cubin"),
        ptx: folder.join("image.ptx"),
        cubin_digest: Digest::of(&images.cubin),
        code_digest,
    };
    fs::write(&image.cubin, &images.cubin).map_err(RoleError::file("write", &image.cubin))?;
    fs::write(&image.ptx, &images.ptx).map_err(RoleError::file("write", &image.ptx))?;
    Ok(image)
}

/// At most `bytes` bytes from the start of a text.
fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}
