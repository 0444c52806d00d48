//! Sizes of tensors in bytes and elements, and the smallest shape of a task whose indices do not fit
//! 32 bits, with the memory that it needs.

use std::collections::BTreeMap;

use domain::dtype::Dtype;
use domain::plan::ResolvedPlan;
use domain::problem::Problem;
use domain::task::{Case, CasePurpose, Role, Task};

use super::passes::elements;

/// Elements that a signed 32-bit index reaches. A tensor of more elements needs a wider index.
pub const MORE_THAN_INT32: u64 = 1 << 31;
/// The factor by which memory must exceed what an execution needs: the device also holds the copies
/// around the buffers, and the host the original inputs, the outputs and the reference's answer.
const TIMES: u64 = 3;

/// The memory of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Device memory, bytes.
    pub device: u64,
    /// Memory of the host that is free, bytes.
    pub host: u64,
    /// The largest file of an answer, bytes.
    pub file: u64,
}

/// The smallest shape in which some tensor has more than `beyond` elements; none if the task allows
/// none. It grows from the smallest case that the task lists, one dim alone, two together, or all.
///
/// # Errors
/// A [`Problem`] of the task: an extent without a value.
pub fn smallest_case_beyond(task: &Task, beyond: u64) -> Result<Option<Case>, Problem> {
    let shown = |case: &&Case| case.is_for(CasePurpose::Check) || case.is_for(CasePurpose::Score);
    let mut base = None;
    for case in task.cases.iter().filter(shown) {
        let size = elements(task, case)?;
        if base.is_none_or(|(least, _)| size < least) {
            base = Some((size, case));
        }
    }
    let Some((_, base)) = base else {
        return Ok(None);
    };
    let mut best: Option<(u64, Case)> = None;
    for growing in growths(task) {
        let Some(found) = grown(task, base, &growing, beyond)? else {
            continue;
        };
        let bytes = tensor_bytes(task, &found, Dtype::bytes)?;
        if best.as_ref().is_none_or(|(least, _)| bytes < *least) {
            best = Some((bytes, found));
        }
    }
    Ok(best.map(|(_, case)| case))
}

/// The reason why a shape does not fit this machine; none if it does. `plans` are those of the candidate and of
/// the reference, for their workspaces.
///
/// # Errors
/// A [`Problem`] of the task.
pub fn find_obstacle(
    task: &Task,
    case: &Case,
    plans: [&ResolvedPlan; 2],
    room: Room,
) -> Result<Option<String>, Problem> {
    let workspaces = plans.map(ResolvedPlan::workspace_bytes);
    let own = tensor_bytes(task, case, Dtype::bytes)?.saturating_add(workspaces[0]);
    let answered = tensor_bytes(task, case, |_| Dtype::F64.bytes())?.saturating_add(workspaces[1]);
    let needed = own.max(answered).saturating_mul(TIMES);
    let mut largest = 0;
    for tensor in task.tensors.iter().filter(|tensor| tensor.role != Role::In) {
        let extents = task.extents(tensor, case)?;
        let elements = extents
            .iter()
            .fold(1, |all: u64, &one| all.saturating_mul(one));
        largest = largest.max(elements.saturating_mul(Dtype::F64.bytes()));
    }
    let name = &case.name;
    Ok([
        (needed, room.device, "of the device's memory"),
        (needed, room.host, "of the host's free memory"),
        (largest, room.file, "for one answer's file"),
    ]
    .into_iter()
    .find(|(needed, there, _)| needed > there)
    .map(|(needed, there, what)| {
        format!("memory: {name} takes {needed} bytes {what}, {there} are there")
    }))
}

/// Memory of the host that is free; none where the system does not say.
pub fn free_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The groups of free dims that grow together.
fn growths(task: &Task) -> Vec<Vec<&str>> {
    let dims = task
        .free_dims
        .keys()
        .map(String::as_str)
        .collect::<Vec<_>>();
    let mut growths = dims.iter().map(|dim| vec![*dim]).collect::<Vec<_>>();
    for (number, one) in dims.iter().enumerate() {
        growths.extend(dims[number + 1..].iter().map(|other| vec![*one, *other]));
    }
    if dims.len() > 2 {
        growths.push(dims);
    }
    growths
}

/// The base with some dims multiplied by the least factor that suffices.
fn grown(task: &Task, base: &Case, growing: &[&str], beyond: u64) -> Result<Option<Case>, Problem> {
    let suffices = |factor: i64| -> Result<Option<Case>, Problem> {
        let case = multiplied(task, base, growing, factor);
        for tensor in &task.tensors {
            let extents = task.extents(tensor, &case)?;
            let elements = extents
                .iter()
                .fold(1, |all: u64, &one| all.saturating_mul(one));
            if elements > beyond {
                return Ok(Some(case));
            }
        }
        Ok(None)
    };
    let (mut too_few, mut enough) = (1, i64::from(i32::MAX));
    let Some(mut found) = suffices(enough)? else {
        return Ok(None);
    };
    // The number of elements does not decrease when a dim grows.
    while too_few + 1 < enough {
        let middle = too_few.midpoint(enough);
        match suffices(middle)? {
            Some(case) => (enough, found) = (middle, case),
            None => too_few = middle,
        }
    }
    Ok(Some(found))
}

/// The base with some dims multiplied, as far as the task allows; arguments have 32 bits.
fn multiplied(task: &Task, base: &Case, growing: &[&str], factor: i64) -> Case {
    let mut dims = base.dims.clone();
    for dim in growing {
        let range = task.free_dims[*dim];
        let most = range.most.min(i64::from(i32::MAX));
        let wanted = dims[*dim].saturating_mul(factor).min(most);
        dims.insert((*dim).to_owned(), wanted - wanted % range.multiple);
    }
    Case {
        name: name(task, &dims),
        dims,
        uses: Vec::new(),
    }
}

fn name(task: &Task, dims: &BTreeMap<String, i64>) -> String {
    let free = dims
        .iter()
        .filter(|(dim, _)| task.free_dims.contains_key(*dim));
    let words = free.map(|(dim, value)| format!("{dim}={value}"));
    words.collect::<Vec<_>>().join(" ")
}

/// The bytes of all tensors of a case; `written` gives the width of an element of an output.
///
/// # Errors
/// A [`Problem`] of the task.
pub(super) fn tensor_bytes(
    task: &Task,
    case: &Case,
    written: impl Fn(Dtype) -> u64,
) -> Result<u64, Problem> {
    let mut sum = 0_u64;
    for tensor in &task.tensors {
        let width = match tensor.role {
            Role::In => tensor.dtype.bytes(),
            Role::Out | Role::Inout => written(tensor.dtype),
        };
        let extents = task.extents(tensor, case)?;
        let elements = extents
            .iter()
            .fold(1, |all: u64, &one| all.saturating_mul(one));
        sum = sum.saturating_add(elements.saturating_mul(width));
    }
    Ok(sum)
}
