//! Code for what bounds a kernel's time, offered in prompts to authors whose kernel does not do it yet. The
//! evaluator accepts kernels made of it in a test (`crates/worker/tests/evaluate/snippets`).

use domain::brief::{DeviceBrief, TaskBrief};
use serde::Serialize;

use super::templates::CODE;

/// The most snippets of one prompt.
const MAX_OFFERED: usize = 2;

/// A piece of device code with the cases in which it helps.
struct Snippet {
    /// The file with the code, in `prompts/`.
    file: &'static str,
    title: &'static str,
    /// The terms of the time model that it shortens.
    shortens: &'static [&'static str],
    /// Words of code, in lower case, that show that a kernel does it already.
    signs: &'static [&'static str],
    /// Least compute capability, as ten times the major number and the minor number.
    since: u32,
    /// True if it multiplies f16 on tensor cores.
    tensor_cores: bool,
}

/// All snippets. Of those that fit a bottleneck the first are offered.
const SNIPPETS: [Snippet; 5] = [
    Snippet {
        file: "snippets/matrix_units.cuh",
        title: "f16 tiles on tensor cores, swizzled in shared memory",
        shortens: &["fp32", "fp16", "issue", "shared_wavefronts"],
        signs: &["mma.sync", "wmma::", "ldmatrix", "multiply_add"],
        since: 80,
        tensor_cores: true,
    },
    Snippet {
        file: "snippets/vector_loads.cuh",
        title: "16-byte loads of rows of any length",
        shortens: &["issue", "load_store", "l1_sectors", "dram_bytes"],
        signs: &["float4", "uint4", "int4", "float2", "half2", "copy_async"],
        since: 50,
        tensor_cores: false,
    },
    Snippet {
        file: "snippets/async_copies.cuh",
        title: "loads of the next tiles under the work on this one",
        shortens: &["critical_path", "l2_bytes", "tensor"],
        signs: &["cp.async", "memcpy_async", "copy_async"],
        since: 80,
        tensor_cores: false,
    },
    Snippet {
        file: "snippets/warp_reduction.cuh",
        title: "sums over a block by shuffles",
        shortens: &["shared_wavefronts", "atomic_contention", "critical_path"],
        signs: &["__shfl_", "__reduce_"],
        since: 50,
        tensor_cores: false,
    },
    Snippet {
        file: "snippets/split_reduction.cuh",
        title: "a long reduction cut over blocks and joined in the same launch",
        shortens: &["critical_path", "launch", "atomic_contention"],
        signs: &["__threadfence", "memory_order"],
        since: 50,
        tensor_cores: false,
    },
];

/// A snippet as a prompt shows it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct OfferedSnippet {
    /// The file with the code, part of the prompt's version.
    #[serde(skip)]
    pub file: &'static str,
    title: &'static str,
    code: &'static str,
}

/// The snippets for a kernel whose time has this bottleneck, at most two.
pub(super) fn offer(
    bottleneck: &str,
    code: &str,
    task: &TaskBrief,
    device: Option<&DeviceBrief>,
) -> Vec<OfferedSnippet> {
    let code = code.to_lowercase();
    let capability = device.and_then(|device| device.architecture.strip_prefix("sm_"));
    let capability = capability.and_then(|number| number.parse::<u32>().ok());
    let multiplies_f16 = task.tensor_cores
        && task
            .arguments
            .iter()
            .any(|argument| argument.parameter.contains("__half"));
    let fits = |snippet: &&Snippet| {
        snippet.shortens.contains(&bottleneck)
            && !snippet.signs.iter().any(|sign| code.contains(sign))
            && capability.is_some_and(|capability| capability >= snippet.since)
            && (multiplies_f16 || !snippet.tensor_cores)
    };
    SNIPPETS
        .iter()
        .filter(fits)
        .take(MAX_OFFERED)
        .filter_map(|snippet| {
            let (file, code) = CODE.iter().find(|(file, _)| *file == snippet.file)?;
            Some(OfferedSnippet {
                file,
                title: snippet.title,
                code,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_snippet_has_a_file_and_every_file_is_a_snippet() {
        let mut listed = SNIPPETS.map(|snippet| snippet.file);
        listed.sort_unstable();
        let known = CODE.iter().map(|(file, _)| *file);
        assert_eq!(known.collect::<Vec<_>>(), listed);
        for snippet in &SNIPPETS {
            let (file, code) = CODE.iter().find(|(file, _)| *file == snippet.file).unwrap();
            let code = code.to_lowercase();
            let shown = snippet.signs.iter().any(|sign| code.contains(sign));
            assert!(shown, "a kernel with {file} is offered it again");
        }
    }
}
