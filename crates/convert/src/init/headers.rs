//! Headers of the file's own project, as files of the task that its kernels include.

use std::collections::BTreeMap;

use domain::problem::Problem;

use super::{Request, Work};

/// Headers of device code that NVRTC has; all others of libraries are left out.
const KEPT: [&str; 8] = [
    "cuda_fp16.h",
    "cuda_bf16.h",
    "cuda_fp8.h",
    "mma.h",
    "cooperative_groups.h",
    "cooperative_groups/",
    "cuda_pipeline.h",
    "cuda/",
];

/// Beginnings of the names of libraries' headers, which some files include in quotes.
const LIBRARIES: [&str; 9] = [
    "cuda",
    "torch/",
    "ATen/",
    "c10/",
    "std",
    "math",
    "cublas",
    "nvToolsExt",
    "assert",
];

/// Returns true if device code may include a header of this name.
pub(super) fn is_kept(request: &Request<'_>, name: &str) -> bool {
    KEPT.iter().any(|kept| name.starts_with(kept)) || request.headers.contains_key(name)
}

/// The name of the header that a line includes, and whether it stands in quotes.
pub fn included_header(line: &str) -> Option<(&str, bool)> {
    let rest = line.trim().strip_prefix('#')?.trim_start();
    let rest = rest.strip_prefix("include")?.trim_start();
    let quoted = rest.strip_prefix('"').and_then(|rest| rest.split_once('"'));
    let angled = rest.strip_prefix('<').and_then(|rest| rest.split_once('>'));
    let name = quoted.or(angled)?.0;
    Some((name, quoted.is_some()))
}

/// The problem of an include line whose header was not found: one in quotes that is no library's.
pub(super) fn missing(name: &str, is_quoted: bool, file: &str, line: u32) -> Option<Problem> {
    if !is_quoted || LIBRARIES.iter().any(|known| name.starts_with(known)) {
        return None;
    }
    let message = format!("the file includes \"{name}\", which is a file of its own project");
    let is_place = |part: &str| matches!(part, "" | "." | "..");
    let fix = if name.split('/').any(is_place) {
        "write its path without . and .., and name the folder that it starts from with --include"
    } else {
        "name the folder that it is in with --include, or copy what the kernel needs into this file and remove \
         the line"
    };
    let mut problem = Problem::whole(file, message, fix);
    problem.line = line;
    Some(problem)
}

/// Puts the headers into the task's folder `include`, without lines that include host code's headers.
///
/// # Errors
/// A header includes a file of the project that was not found.
pub(super) fn put(
    files: &mut BTreeMap<String, String>,
    work: &mut Work<'_>,
) -> Result<(), Problem> {
    let request = work.request;
    for (name, text) in request.headers {
        let mut kept = String::new();
        for (number, line) in (1..).zip(text.split_inclusive('\n')) {
            let other = included_header(line).filter(|(other, _)| !is_kept(request, other));
            let Some((other, is_quoted)) = other else {
                kept.push_str(line);
                continue;
            };
            if let Some(problem) = missing(other, is_quoted, name, number) {
                return Err(problem);
            }
            work.guess(
                0,
                format!("{other} is left out of include/{name}: host code's header"),
            );
        }
        files.insert(format!("include/{name}"), kept);
    }
    Ok(())
}
