//! Checks that a compiled image can run the plan: entries, argument lists and resources.

use crate::device::Limits;
use crate::occupancy::registers_of_block;
use crate::plan::{ResolvedLaunch, ResolvedPlan, ResolvedStep};
use crate::role::{KernelResources, MOST_STACK_BYTES};
use crate::verdict::Verdict;

/// The verdict on an image that cannot run a plan, such as an entry that does not exist, an
/// argument of the wrong size, or a block that needs more than a multiprocessor has.
pub fn judge_image(
    plan: &ResolvedPlan,
    kernels: &[KernelResources],
    limits: &Limits,
) -> Option<Verdict> {
    plan.steps
        .iter()
        .enumerate()
        .find_map(|(index, step)| match step {
            ResolvedStep::Kernel(launch) => one_launch(index, launch, kernels, limits),
            ResolvedStep::Memset { .. } => None,
        })
}

fn one_launch(
    index: usize,
    launch: &ResolvedLaunch,
    kernels: &[KernelResources],
    limits: &Limits,
) -> Option<Verdict> {
    let place = format!("launch {} ({})", index + 1, launch.kernel);
    let Some(kernel) = kernels.iter().find(|kernel| kernel.kernel == launch.kernel) else {
        let known = kernels
            .iter()
            .map(|kernel| kernel.kernel.as_str())
            .collect::<Vec<_>>()
            .join(", ");
        let known = if known.is_empty() { "none" } else { &known };
        return rejected(format!(
            "{place}: the source defines no extern \"C\" __global__ function of that name; it defines {known}"
        ));
    };
    let (given, wanted) = (&launch.arguments, &kernel.parameters);
    if given.len() != wanted.len() {
        return rejected(format!(
            "{place}: the plan passes {} arguments, the kernel takes {}",
            given.len(),
            wanted.len()
        ));
    }
    for (position, (argument, &bytes)) in given.iter().zip(wanted).enumerate() {
        if argument.bytes() != bytes as usize {
            return rejected(format!(
                "{place}: argument {} has {} bytes, the kernel's parameter has {bytes}",
                position + 1,
                argument.bytes()
            ));
        }
    }
    let registers = registers_of_block(kernel.registers, launch.threads());
    if registers > u64::from(limits.registers_per_block) {
        return over(
            "registers of a block",
            limits.registers_per_block,
            registers,
            &place,
        );
    }
    let shared = u64::from(kernel.static_shared_bytes) + u64::from(launch.shared_bytes);
    if shared > u64::from(limits.shared_per_block_optin) {
        return over(
            "shared memory of a block",
            limits.shared_per_block_optin,
            shared,
            &place,
        );
    }
    if kernel.stack_bytes > MOST_STACK_BYTES {
        return rejected(format!(
            "{place}: the stack of a thread would be {} bytes, {MOST_STACK_BYTES} are allowed; keep \
             large arrays in a workspace of the plan",
            kernel.stack_bytes
        ));
    }
    None
}

fn rejected(reason: String) -> Option<Verdict> {
    Some(Verdict::LaunchRejected { reason })
}

fn over(resource: &str, limit: u32, found: u64, place: &str) -> Option<Verdict> {
    rejected(format!(
        "{place}: {resource} would be {found}, the device's limit is {limit}"
    ))
}
