//! Headers of the file's own project, as files of the task that its kernels include.

use std::collections::BTreeMap;

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

/// Puts the headers into the task's folder `include`, without lines that include host code's headers.
pub(super) fn put(files: &mut BTreeMap<String, String>, work: &mut Work<'_>) {
    let request = work.request;
    for (name, text) in request.headers {
        let mut kept = String::new();
        for line in text.split_inclusive('\n') {
            let other = included_header(line).filter(|(other, _)| !is_kept(request, other));
            match other {
                Some((other, _)) => work.guess(
                    0,
                    format!("{other} is left out of include/{name}: host code's header"),
                ),
                None => kept.push_str(line),
            }
        }
        files.insert(format!("include/{name}"), kept);
    }
}
