//! The launches of a file that become the plan, and the kernel of a file without launches.

use std::collections::{BTreeMap, BTreeSet};

use domain::problem::Problem;

use crate::init::Work;
use crate::init::source::{Kernel, Launch, Source};

/// The launches that become the plan.
pub(super) fn choose_launches<'s>(
    work: &mut Work<'_>,
    source: &'s Source<'_>,
    kernels: &[Kernel<'_>],
) -> Result<Vec<Launch<'s>>, Problem> {
    let wanted = work.request.answers.kernel.clone();
    let defined = |name: &str| kernels.iter().any(|kernel| kernel.name == name);
    if let Some(wanted) = wanted.as_deref().filter(|wanted| !defined(wanted)) {
        let message = format!("there is no kernel {wanted:?} in the file");
        return Err(work.problem(0, message, format!("it defines: {}", names(kernels))));
    }
    let mut launches = source
        .launches()
        .into_iter()
        .filter(|launch| defined(&launch.kernel))
        .filter(|launch| {
            wanted
                .as_deref()
                .is_none_or(|wanted| launch.kernel == wanted)
        })
        .collect::<Vec<_>>();
    let hosts = launches
        .iter()
        .filter_map(|launch| launch.host)
        .map(|host| (host.id(), source.function_name(host)))
        .collect::<BTreeMap<_, _>>();
    if hosts.len() > 1 && wanted.is_none() {
        let hosts = hosts.into_values().collect::<Vec<_>>().join(", ");
        let message = format!("kernels are launched from several functions: {hosts}");
        let fix = format!("choose one with --kernel: {}", names(kernels));
        return Err(work.problem(launches[0].line, message, fix));
    }
    let first = launches
        .first()
        .and_then(|launch| launch.host.map(|host| host.id()));
    launches.retain(|launch| launch.host.map(|host| host.id()) == first);
    let mut seen = BTreeSet::new();
    let mut kept = Vec::new();
    for launch in launches {
        if seen.insert(launch.kernel.clone()) {
            kept.push(launch);
        } else {
            work.guess(
                launch.line,
                format!("a further launch of {} is left out", launch.kernel),
            );
        }
    }
    Ok(kept)
}

fn names(kernels: &[Kernel<'_>]) -> String {
    let names = kernels.iter().map(|kernel| kernel.name.as_str());
    names.collect::<Vec<_>>().join(", ")
}

/// The only kernel of the file, or the one that the request names.
pub(super) fn choose_kernel<'k, 's>(
    work: &Work<'_>,
    kernels: &'k [Kernel<'s>],
) -> Result<&'k Kernel<'s>, Problem> {
    let wanted = work.request.answers.kernel.as_deref();
    match (wanted, kernels) {
        (None, [kernel]) => Ok(kernel),
        (None, _) => {
            let message = "the file has several kernels and launches none of them";
            let fix = format!("choose one with --kernel: {}", names(kernels));
            Err(work.problem(0, message, fix))
        }
        (Some(wanted), _) => Ok(kernels
            .iter()
            .find(|kernel| kernel.name == wanted)
            .expect("its existence was checked")),
    }
}
