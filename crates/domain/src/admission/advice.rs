//! Advice on a task that is no rule: what its author may have forgotten to state.

use crate::task::{Case, CasePurpose, Task};

/// Sentences on the cases and dims of a task, each with what to add. The cases include those that an
/// evaluation adds at the edges of warps and tiles. `small_elements` is the most elements of a case that
/// the cheap stages use.
pub fn advise(task: &Task, small_elements: u64) -> Vec<String> {
    let shown = |case: &&Case| case.is_for(CasePurpose::Check) || case.is_for(CasePurpose::Score);
    let cases = task.cases.iter().filter(shown).collect::<Vec<_>>();
    let mut advice = Vec::new();
    let sizes = cases.iter().map(|case| elements(task, case));
    let least = sizes.min().unwrap_or_default();
    if least > small_elements {
        advice.push(format!(
            "the smallest case has {least} elements: with none of at most {small_elements}, each \
             execution is slow, and shapes at the edges of tiles are left out; add one with \
             use = [\"check\"]"
        ));
    }
    let is_edge = |case: &Case| case.uses.is_empty();
    if !task.free_dims.is_empty() && !task.cases.iter().any(is_edge) {
        advice.push(
            "no shape at the edges of warps and tiles can be added, because of the bounds in [dims]: a \
             kernel that is wrong between the listed cases may be accepted; widen the bounds, or list such \
             cases with use = [\"check\"]"
                .to_owned(),
        );
    }
    let mut unlimited = Vec::new();
    for (dim, range) in &task.free_dims {
        if range.most == i64::from(i32::MAX) {
            unlimited.push(dim.as_str());
        }
        let common = cases.iter().map(|case| case.dims[dim]);
        let common = common.reduce(greatest_common_divisor).unwrap_or(1);
        if cases.len() > 1 && common > range.multiple {
            advice.push(format!(
                "every case has a multiple of {common} as {dim}: state multiple = {common} in [dims] if \
                 kernels may rely on it, else add a case between"
            ));
        }
    }
    if !unlimited.is_empty() {
        advice.push(format!(
            "no largest value is stated for {}: candidates must be right up to {}; state max in [dims] where \
             there is one",
            unlimited.join(", "),
            i32::MAX
        ));
    }
    advice
}

fn elements(task: &Task, case: &Case) -> u64 {
    let sizes = task.tensors.iter().map(|tensor| {
        let extents = task.extents(tensor, case).unwrap_or_default();
        extents.into_iter().fold(1, u64::saturating_mul)
    });
    sizes.fold(0, u64::saturating_add)
}

fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}
