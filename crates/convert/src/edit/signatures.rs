//! Edits of a kernel's signature: launch bounds, and `__restrict__` on its pointers.

use domain::expr::Expr;
use domain::plan::Step;

use super::{Change, Subject};

/// Blocks of a multiprocessor that launch bounds ask for; none leaves it to the compiler.
const BLOCKS: [Option<u32>; 3] = [None, Some(2), Some(4)];

/// States the threads of a kernel's blocks, alone and with blocks of a multiprocessor.
pub(super) fn bound_launches(subject: &Subject<'_>) -> Vec<Change> {
    let mut changes = Vec::new();
    for kernel in subject.tree.kernels() {
        let head = kernel.node.start_byte()..kernel.body.start_byte();
        if subject.tree.text[head].contains("__launch_bounds__") {
            continue;
        }
        let (Some(threads), Some(declarator)) = (
            threads(subject, &kernel.name),
            kernel.node.child_by_field_name("declarator"),
        ) else {
            continue;
        };
        let at = declarator.start_byte();
        for blocks in BLOCKS {
            let (bounds, more) = match blocks {
                None => (threads.clone(), String::new()),
                Some(blocks) => (
                    format!("{threads}, {blocks}"),
                    format!(" and {blocks} blocks of a multiprocessor"),
                ),
            };
            changes.push(Change::new(
                format!("bound the launch of {} to its threads{more}", kernel.name),
                vec![(at..at, format!("__launch_bounds__({bounds}) "))],
            ));
        }
    }
    changes
}

/// The threads of a kernel's block as the code can say it: numbers and tunables.
fn threads(subject: &Subject<'_>, kernel: &str) -> Option<String> {
    let plan = subject.source.plan();
    let mut launches = plan.steps.iter().filter_map(|step| match step {
        Step::Kernel(step) if step.kernel == kernel => Some(&step.block),
        _ => None,
    });
    let block = launches.next()?;
    let is_said = |extent: &Expr| {
        let text = extent.text();
        let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let mut names = extent.names().into_iter();
        is_plain && names.all(|name| plan.tunables.contains_key(name))
    };
    if launches.any(|other| other != block) || !block.iter().all(is_said) {
        return None;
    }
    let extents = block.iter().map(Expr::text).filter(|text| *text != "1");
    let product = extents.collect::<Vec<_>>().join(" * ");
    (!product.is_empty()).then_some(product)
}

/// Promises that the pointers of a kernel have no aliases.
pub(super) fn restrict_pointers(subject: &Subject<'_>) -> Vec<Change> {
    let mut changes = Vec::new();
    for kernel in subject.tree.kernels() {
        let pointers = kernel.parameters.iter().filter(|one| one.is_pointer);
        let places = pointers.filter_map(|pointer| {
            let text = subject.tree.of(pointer.node);
            let at = pointer.node.start_byte() + text.rfind('*')? + 1;
            (!text.contains("__restrict__")).then(|| (at..at, " __restrict__ ".to_owned()))
        });
        let places: Vec<_> = places.collect();
        if !places.is_empty() {
            let name = format!(
                "promise that the pointers of {} have no aliases",
                kernel.name
            );
            changes.push(Change::new(name, places));
        }
    }
    changes
}
