//! Constants that a candidate's code defines and its launch plan mentions: `#define BLOCK 256`,
//! `constexpr int BLOCK = 256;`.

use std::collections::{BTreeMap, BTreeSet};

use crate::expr::Expr;
use crate::plan::{Argument, LaunchPlan, Number, Step};

/// The constants of `code` that the plan's expressions mention and that are no tunables. A name that is
/// defined in several ways is none of them.
pub(super) fn find(plan: &LaunchPlan, code: &str) -> BTreeMap<String, i64> {
    let wanted: BTreeSet<&str> = expressions(plan)
        .flat_map(Expr::names)
        .filter(|name| !plan.tunables.contains_key(*name))
        .collect();
    let mut found: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    if wanted.is_empty() {
        return BTreeMap::new();
    }
    for (name, text) in code.lines().filter_map(definition) {
        if wanted.contains(name) {
            let value = Expr::parse(text).ok();
            let value = value.and_then(|value| value.integer(&BTreeMap::new()).ok());
            // A definition that is no number makes the name ambiguous as well.
            let values = found.entry(name.to_owned()).or_default();
            values.extend(value);
            values.extend(value.is_none().then_some(i64::MIN));
        }
    }
    let single = found
        .into_iter()
        .filter_map(|(name, values)| match values.as_slice() {
            [value] if *value != i64::MIN => Some((name, *value)),
            _ => None,
        });
    single.collect()
}

fn expressions(plan: &LaunchPlan) -> impl Iterator<Item = &Expr> {
    let of_steps = plan.steps.iter().flat_map(|step| match step {
        Step::Memset { .. } => Vec::new(),
        Step::Kernel(kernel) => {
            let arguments = kernel
                .arguments
                .iter()
                .filter_map(|argument| match argument {
                    Argument::Number(Number::Whole { value, .. }) => Some(value),
                    _ => None,
                });
            let extents = kernel.grid.iter().chain(&kernel.block);
            let window = kernel.l2_persist.iter().flat_map(|window| &window.bytes);
            let extents = extents.chain([&kernel.shared]).chain(window);
            extents.chain(arguments).collect()
        }
    });
    let shapes = plan
        .workspaces
        .values()
        .flat_map(|workspace| &workspace.shape);
    of_steps.chain(shapes)
}

/// The name and the value of a line that defines a constant.
fn definition(line: &str) -> Option<(&str, &str)> {
    let line = line.split("//").next().unwrap_or_default();
    let line = line.split("/*").next().unwrap_or_default().trim();
    if let Some(rest) = line.strip_prefix('#') {
        let rest = rest.trim_start().strip_prefix("define")?.trim_start();
        let (name, value) = rest.split_once([' ', '\t'])?;
        return Some((name, value.trim()));
    }
    let (left, value) = line.split_once('=')?;
    let mut words = left.split_whitespace().collect::<Vec<_>>();
    let name = words.pop()?;
    let is_constant = words
        .iter()
        .any(|word| matches!(*word, "constexpr" | "const"));
    is_constant.then(|| (name, value.trim().trim_end_matches(';').trim()))
}
