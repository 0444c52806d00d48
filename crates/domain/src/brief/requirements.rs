//! The requirements of a task in words and numbers: reference, dims, tolerance, inputs, policy, targets.

use crate::brief::Target;
use crate::cleaning;
use crate::policy::{Feature, Policy, Rule, TABLE_BYTES};
use crate::role::Distribution;
use crate::task::{Allclose, Range, Role, Task, Values};

/// The longest reference that is shown, bytes.
const MAX_REFERENCE: usize = 8 << 10;
/// Folders of a task whose files no prompt shows, with a description of such a file.
const FOLDERS: &[(&str, &str)] = &[
    ("playbook/", "a known kernel"),
    ("broken/", "a known wrong kernel"),
    ("baselines/", "another solution"),
];

/// The reference's code, without its plan.
pub(super) fn reference(task: &Task) -> String {
    let code = cleaning::clean_text(task.reference.body());
    if code.len() <= MAX_REFERENCE {
        code.trim().to_owned()
    } else {
        String::new()
    }
}

/// A text without the names of the task's files, because its reader cannot open them.
pub(super) fn without_files(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for (index, part) in text.split('`').enumerate() {
        let file = FOLDERS
            .iter()
            .find(|(folder, _)| index % 2 == 1 && part.starts_with(folder) && part.contains('.'));
        match file {
            Some((_, words)) => {
                kept.pop();
                kept.push_str(words);
            }
            None => {
                kept.push_str(part);
                kept.push('`');
            }
        }
    }
    // The split leaves one mark too many, or one that a file's name had.
    let marks = kept.matches('`').count();
    if marks % 2 == 1 {
        kept.pop();
    }
    kept
}

/// The values that a dim may have.
pub(super) fn range(range: &Range) -> String {
    let mut words = format!("dim, {} to {}", range.least, range.most);
    if range.multiple > 1 {
        words.push_str(&format!(", a multiple of {}", range.multiple));
    }
    words
}

/// The limits of an output's error.
pub(super) fn tolerance(task: &Task) -> Vec<String> {
    let tolerance = &task.tolerance;
    let mut limits = vec![format!(
        "each output as a whole: relative L2 error at most {:e}",
        tolerance.relative_l2
    )];
    // Without a declared scale no element has a limit of its own.
    if !task.contract.error_scale.is_empty() {
        limits.push(format!(
            "every element: |error| at most {} * ({:.1e} * (|r| + S) + {:.1e} * sqrt(n) * S), where r is \
             the right value, n the number of terms that are summed for it, and S the same sum over \
             absolute values",
            tolerance.element_factor, tolerance.output_roundoff, tolerance.accumulation_roundoff
        ));
    }
    if let Some(Allclose { atol, rtol }) = tolerance.allclose {
        limits.push(format!(
            "every element on normal inputs, besides: |error| at most {atol:e} + {rtol:e} * |r|"
        ));
    }
    limits
}

/// The kinds of values that the checks give to the inputs.
pub(super) fn inputs(task: &Task) -> Vec<String> {
    let ordinary = task
        .tensors
        .iter()
        .filter(|tensor| tensor.role != Role::Out)
        .map(|tensor| {
            let values = match tensor.values {
                Values::Normal => Distribution::Normal,
                Values::Uniform => Distribution::Uniform,
            };
            format!("{}: {}", tensor.name, values.describe())
        });
    let further = Distribution::beyond_normal()
        .filter(|kind| kind.applies(task))
        .map(|kind| format!("{}: {}", kind.as_str(), kind.describe()));
    ordinary.chain(further).collect()
}

/// The denied features, with what to use in their place.
pub(super) fn denied(policy: &Policy) -> Vec<String> {
    let denied = Feature::ALL
        .into_iter()
        .filter(|feature| policy.rule(*feature) == Rule::Deny);
    denied.filter_map(instead).collect()
}

fn instead(feature: Feature) -> Option<String> {
    let words = match feature {
        Feature::ModuleState => {
            "`__device__` or `static` variables that a kernel writes: a counter or flag between blocks \
             goes into a workspace of u32 that a `memset` step sets to 0 first"
        }
        Feature::ManagedMemory => "`__managed__` variables: use a workspace",
        Feature::LargeTables => {
            return Some(format!(
                "constant tables of more than {TABLE_BYTES} bytes in all: compute the values"
            ));
        }
        Feature::DeviceOutput => "`printf`",
        Feature::DeviceHeap => {
            "`malloc`, `new` and `free` in kernels: use a workspace or shared memory"
        }
        Feature::DeviceLaunch => "launches from kernels: add a `[[launch]]`",
        Feature::TensorOperations => {
            "matrix instructions (`mma`, `wmma`): they round the operands of this task"
        }
        Feature::ProgrammaticLaunch => {
            "launches that begin before the one before them has ended (`griddepcontrol`)"
        }
        Feature::Assertions => "`assert`",
        Feature::SpareEntries => "kernels that the plan does not launch",
        Feature::ClockReads => "clocks and performance counters",
        Feature::PlacementReads => "reads of the multiprocessor's number",
        Feature::CacheHints => "cache hints and prefetches",
        Feature::Sleep => "`__nanosleep`",
        Feature::Breakpoints => "breakpoints (`__brkpt`, `__trap` for a debugger)",
        Feature::ForeignSymbols => return None,
    };
    Some(words.to_owned())
}

/// Every target of the task, the smallest first.
pub(super) fn targets(task: &Task) -> Vec<Target> {
    let whole = task.objective.target_speedup.map(|speedup| Target {
        speedup,
        name: "the target of the task".to_owned(),
    });
    let tiers = task.phases.iter().flat_map(|phase| {
        phase.targets.iter().map(|(tier, speedup)| Target {
            speedup: *speedup,
            name: format!("{tier} in phase {}", phase.name),
        })
    });
    let mut targets: Vec<_> = whole.into_iter().chain(tiers).collect();
    targets.sort_by(|one, other| one.speedup.total_cmp(&other.speedup));
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_become_words() {
        let table = [
            (
                "Shown: `playbook/03-kv-split.cu` leaves `v` (`broken/late.cu`).",
                "Shown: a known kernel leaves `v` (a known wrong kernel).",
            ),
            ("`playbook/a.cu`", "a known kernel"),
            ("use `mma` and `wmma`", "use `mma` and `wmma`"),
            ("nothing", "nothing"),
            ("", ""),
        ];
        for (text, expected) in table {
            assert_eq!(without_files(text), expected);
        }
    }
}
